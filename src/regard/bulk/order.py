"""What is asked of a model, as plain values that every process and machine can be told."""

import hashlib
from dataclasses import asdict, dataclass, fields
from typing import Any

from regard.data.files.lines import CHUNK
from regard.decode.request import DecodingRequest
from regard.errors import RequestError

__all__ = ["Order"]


@dataclass(frozen=True)
class Order:
    """A model, and what is wanted of it; the words are those of `regard predict`.

    Args:
        folder: a trained folder, or a shipped name.
        others: folders of models that answer together with it.
        changes: `KEY=VALUE` for its decoder, or `task.KEY=VALUE`.
        graph: whose nodes the inputs name.
        n_best: alternatives to give in JSON.
        prefix, force_words, bad_words: what every output must begin with, have, and not have.
        align, replace_unknown, lexicon, attention, head: see `regard.inference.alignment`.
        as_json: shards of text lines become JSON lines.
        columns: which key or column of JSON lines and TSV an input is.
        output_column: which key or column the output takes, in place of what is there.
        threads: CPU threads of each process.
        device: `cpu`, `cuda` or `auto`; processes of one machine share its GPU.
    """

    folder: str
    others: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    graph: str | None = None
    n_best: int = 1
    prefix: str | None = None
    force_words: tuple[str, ...] = ()
    bad_words: tuple[str, ...] = ()
    align: bool = False
    replace_unknown: bool = False
    lexicon: str | None = None
    attention: str | None = None
    head: int | None = None
    as_json: bool = False
    columns: tuple[tuple[str, str | int], ...] = ()
    output_column: str | None = None
    threads: int = 1
    device: str = "cpu"

    @property
    def request(self) -> DecodingRequest:
        """What every output must be."""
        told = ("prefix", "force_words", "bad_words")
        return DecodingRequest.of({name: getattr(self, name) for name in told})

    def plain(self) -> dict[str, Any]:
        """As JSON can hold it; `Order.of` reads it."""
        return asdict(self)

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "Order":
        """The order that was written as these values."""
        made: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in plain.items()}
        made["columns"] = tuple((name, column) for name, column in plain.get("columns", ()))
        return cls(**made)

    def settings(self) -> dict[str, Any]:
        """What makes another output, but for the models: a setting that is not the default's.

        A file counts by its content.

        Raises:
            RequestError: it cannot be read.
        """
        plain = self.plain()
        told: dict[str, Any] = {"chunk": CHUNK}
        for one in fields(self):
            apart = one.name in ("folder", "others", "threads", "device")
            if apart or plain[one.name] == one.default:
                continue
            value = plain[one.name]
            told[one.name] = _digest(value) if one.name in ("lexicon", "graph") else value
        return told


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise RequestError(f"{path}: could not be read: {said}") from None
