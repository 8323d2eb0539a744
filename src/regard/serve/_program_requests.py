"""What a request asks of a program: the body of `/predict`, read without pydantic."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.errors import nearest
from regard.serve._content import check_writable
from regard.serve._errors import Refusal
from regard.serve._program_models import ServedProgram
from regard.serve.settings import Limits

__all__ = ["ProgramRequest", "asked_in", "needs_torch", "object_of"]

OTHERS: Mapping[str, Any] = {
    "prefix": None,
    "force_words": [],
    "bad_words": [],
    "align": False,
    "keep": [],
}
"""What PyTorch alone can do, with what asks for nothing."""


def needs_torch(what: str) -> Refusal:
    """501: this server lacks what it needs."""
    return Refusal(
        501, f"{what} needs PyTorch, which is not installed here: pip install torch, then restart"
    )


@dataclass(frozen=True)
class ProgramRequest:
    """Texts to answer."""

    model: str | None
    texts: list[str]
    n_best: int = 1
    decode: Mapping[str, Any] = field(default_factory=dict)

    def program(self, served: ServedProgram, limits: Limits) -> Any:
        """The program with these settings.

        Raises:
            Refusal: 501, they need PyTorch.
            RequestError: they ask for too much, or the task writes no text.
        """
        limits.check_decode(self.n_best, self.decode)
        changes = {**self.decode, **({"n_best": self.n_best} if self.n_best != 1 else {})}
        if changes and not served.program.writes:
            task = served.config["task"]["name"]
            raise Refusal(422, f"{next(iter(changes))}: the task {task} writes no text")
        found = served.program.changed(changes) if changes else served.program
        if found is None:
            raise needs_torch(f"{', '.join(changes)}, or such a value of it,")
        return found


def object_of(content: bytes) -> Any:
    """A value in JSON.

    Raises:
        Refusal: 422, it is not JSON.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        said = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refusal(422, f"the body is no JSON: {said}") from None


def asked_in(value: Any, key: str) -> ProgramRequest:
    """What an object asks.

    Args:
        key: of the texts: "inputs", a text or a list, or "input", a text.

    Raises:
        Refusal: 422, it has another shape; 501, it asks for what needs PyTorch.
    """
    if not isinstance(value, dict):
        raise Refusal(422, "the body: expected an object")
    known = ("model", key, "n_best", "decode", *OTHERS)
    for name in value:
        if name not in known:
            raise Refusal(422, f"there is no key {name[:80]!r}: {nearest(name, known)}")
    if key not in value:
        raise Refusal(422, f"{key} is missing")
    given, model = value[key], value.get("model")
    texts = given if isinstance(given, list) and key == "inputs" else [given]
    if not all(isinstance(text, str) for text in texts):
        kinds = "a text or a list of texts" if key == "inputs" else "a text"
        raise Refusal(422, f"{key}: expected {kinds}")
    for number, text in enumerate(texts):
        check_writable(text, f"{key}[{number}]" if len(texts) > 1 else key)
    if model is not None and not isinstance(model, str):
        raise Refusal(422, "model: expected a name of /models")
    n_best, decode = value.get("n_best", 1), value.get("decode", {})
    if isinstance(n_best, bool) or not isinstance(n_best, int) or n_best < 1:
        raise Refusal(422, f"n_best: expected a whole number of 1 or more, got {n_best!r:.60}")
    if not isinstance(decode, dict):
        raise Refusal(422, "decode: expected an object")
    for name, nothing in OTHERS.items():
        if value.get(name, nothing) not in (nothing, None):
            raise needs_torch(name)
    return ProgramRequest(model, texts, n_best, decode)
