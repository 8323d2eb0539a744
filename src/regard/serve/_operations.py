"""What is done to texts in the thread that computes: predict, align, score, look."""

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from regard.data.addresses import URL, only_bytes
from regard.decode.decoder import ASKING
from regard.decode.request import DecodingRequest, by_name
from regard.decode.search_batch import Waiting, ending_when, waiting
from regard.errors import RequestError
from regard.inference import alignment as words
from regard.inference.continuous_texts import RunningTexts, running_texts
from regard.inference.likelihood import likelihoods
from regard.inference.placeholders import keeping
from regard.serve._job import Job
from regard.serve._models import Served
from regard.serve.settings import Limits
from regard.tasks import Prediction
from regard.views import ViewOptions

__all__ = ["Looking", "Predicting", "Scoring", "check_decode", "plain", "shown_input"]

Settings = tuple[tuple[str, Any], ...]
_COUNT = itertools.count()


def check_decode(served: Served, n_best: int, decode: Mapping[str, Any], limits: Limits) -> None:
    """Refuse settings of a decoder that a request may not have, before anything waits.

    Raises:
        RequestError: an unknown one, one that asks for too much, or the task writes no text.
    """
    limits.check_decode(n_best, decode)
    served.loaded.with_decoder(n_best, **decode)


@dataclass(frozen=True)
class Predicting:
    """Texts answered as `loaded.predict` answers them, and perhaps their words aligned.

    A job's `own` is the `DecodingRequest` of its text.
    """

    served: Served
    n_best: int = 1
    decode: Settings = ()
    wishes: frozenset[str] = frozenset()
    align: bool = False
    attention: str | None = None
    head: int | None = None
    tokens: int = 4096
    keep: tuple[str, ...] = ()

    @property
    def alone(self) -> bool:
        """What is drawn at random must not depend on what else is in the batch."""
        name = dict(self.decode).get(
            "name", self.served.loaded.config.get("decode", {}).get("name")
        )
        return bool(name == "sample")

    def running(self, sample: str) -> "_Running | None":
        """What decodes such texts while others come; None where something else is asked."""
        if self.align or self.keep or self.wishes or self.alone:
            return None
        loaded = self.served.loaded
        decoder = loaded.with_decoder(self.n_best, **dict(self.decode)).decoder
        found = running_texts(loaded.task, loaded.model, decoder, loaded.fields, sample)
        return None if found is None else _Running(self.served, found)

    def __call__(self, jobs: Sequence[Job], over: Callable[[], bool]) -> list[dict[str, Any]]:
        """As `Prediction.as_json` gives them."""
        loaded = self.served.loaded
        decoder = loaded.with_decoder(self.n_best, **dict(self.decode)).decoder
        asked = by_name([job.own or DecodingRequest() for job in jobs])
        with only_bytes(), waiting(self._waiting(jobs, over)):
            predict = partial(
                loaded.task.predict,
                loaded.model,
                decoder=decoder,
                fields=loaded.fields,
                tokens=self.tokens,
            )
            texts = [job.text for job in jobs]
            if self.keep:
                found = keeping(loaded, texts, self.keep, predict, **asked)
            else:
                found = predict(texts, **asked)
        if self.align:
            found = aligned(self.served, found, self.attention, self.head)
        return [plain(self.served, one, self.align) for one in found]

    def _waiting(self, jobs: Sequence[Job], over: Callable[[], bool]) -> Waiting:
        """Each job by itself, where what is decoded is its text and nothing comes after."""
        if self.keep:  # decodes parts of texts, and some of them twice
            return Waiting(over)

        def done(number: int, found: Prediction) -> None:
            jobs[number].finish(plain(self.served, found))

        def left(number: int) -> bool:
            return jobs[number].over()

        return Waiting(over, left) if self.align else Waiting(over, left, done)


@dataclass(frozen=True)
class _Running:
    """Texts under way, answered as JSON."""

    served: Served
    texts: RunningTexts

    @property
    def width(self) -> int:
        return self.texts.width

    def add(self, names: Sequence[int], texts: Sequence[str]) -> dict[int, Any]:
        with only_bytes():
            return self._plain(self.texts.add(names, texts))

    def drop(self, names: Sequence[int]) -> None:
        self.texts.drop(names)

    @property
    def steps(self) -> int:
        return self.texts.steps

    def step(self) -> dict[int, Any]:
        return self._plain(self.texts.step(ASKING))

    def _plain(self, found: Mapping[int, Prediction]) -> dict[int, Any]:
        return {name: plain(self.served, one) for name, one in found.items()}


"""What a text asks for that asks for nothing."""


@dataclass(frozen=True)
class Scoring:
    """Given outputs judged, and perhaps aligned; a job's `own` is the output."""

    served: Served
    align: bool = False
    attention: str | None = None
    head: int | None = None
    tokens: int = 4096

    @property
    def alone(self) -> bool:
        """Texts are judged together."""
        return False

    def running(self, sample: str) -> None:
        """A batch at a time."""

    def __call__(self, jobs: Sequence[Job], over: Callable[[], bool]) -> list[dict[str, Any]]:
        """Input, output, score, log_prob, tokens; alignment where it is asked for."""
        loaded = self.served.loaded
        with only_bytes():
            found = likelihoods(
                loaded.task,
                loaded.model,
                [(job.text, job.own) for job in jobs],
                loaded.decoder,
                loaded.fields,
                tokens=self.tokens,
            )
        if self.align:
            found = aligned(self.served, found, self.attention, self.head)
        made = [plain(self.served, one, self.align) for one in found]
        for one in made:
            one.pop("alternatives", None)
            if one["log_prob"] is None and not self.served.writes:
                one["log_prob"] = one["score"]
        return made


@dataclass(frozen=True)
class Looking:
    """One input looked at; the answer is a content type and bytes, or plain values."""

    served: Served
    format: str = "json"
    hypothesis: int = 1
    show: str = ""
    kind: str = ""
    layer: str = ""
    head: str = "mean"
    step: int | None = None
    target: str | None = None
    measure: str = "weights"
    words: bool = True
    number: int = field(default_factory=lambda: next(_COUNT))

    @property
    def alone(self) -> bool:
        """What is recorded is of one input."""
        return True

    def running(self, sample: str) -> None:
        """One at a time."""

    def __call__(self, jobs: Sequence[Job], over: Callable[[], bool]) -> list[Any]:
        """The picture of the only job."""
        from regard.viewer import drawable
        from regard.viewer.selection import MEAN, choose, run_of, values_of

        loaded, page = self.served.loaded, self.format == "html"
        every = page or bool(self.show)
        options = ViewOptions(
            self.target, self.measure, None if every else self.hypothesis, False, self.served.name
        )
        with only_bytes(), ending_when(over):
            view = drawable(loaded.task.view(loaded, [jobs[0].text], options))
        if page:
            return [view.html().encode()]
        run = run_of(view, self.hypothesis)
        panels = choose(
            view,
            run,
            show=self.show,
            kind=self.kind,
            layer=self.layer,
            head=self.head,
            row=self.step,
        )
        if self.format == "svg":
            return [_svg(view, run, panels, self.words)]
        wanted = bool(self.show or self.kind or self.layer or self.step or self.head != MEAN)
        found = values_of(view, view.runs[run], panels, words=self.words, weights=wanted)
        maps = [view.maps[m] for m in view.runs[run].maps]
        runs = [
            {"input": r.input, "output": r.output, "score": r.score, "number": r.number, "of": r.of}
            for r in view.runs
        ]
        attentions = [
            {"name": m.name, "kind": m.kind, "layer": m.layer, "heads": m.shape[0]} for m in maps
        ]
        return [_shortened({"runs": runs, "attentions": attentions, "look": found})]


def _svg(view: Any, run: int, panels: Any, whole: bool) -> bytes:
    from regard.viewer.drawing import draw

    with tempfile.TemporaryDirectory(prefix="regard-look-") as folder:
        path = Path(folder) / "look.svg"
        draw(view, view.runs[run], panels, path, words=whole)
        return path.read_bytes()


def aligned(
    served: Served, found: Sequence[Prediction], attention: str | None, head: int | None
) -> list[Prediction]:
    """With links from input words to output words.

    Raises:
        RequestError: the task has no words on both sides.
    """
    loaded = served.loaded
    if not served.writes or "source" not in loaded.tokenizers:
        raise RequestError(
            f"align: the task {loaded.task.name} has no words on both sides to align"
        )
    return words.align(
        loaded.model, found, loaded.tokenizers, attention=attention, head=head, tokens=4096
    )


def plain(served: Served, one: Prediction, align: bool = False) -> dict[str, Any]:
    """A prediction as JSON, without the bytes of a file that came in."""
    found = one.as_json()
    found["input"] = shown_input(one.input)
    if one.refused:
        found["refused"] = one.refused
    if align:
        known = served.loaded.tokenizers
        found["input_words"] = words.split_words(known["source"], one.input)
        found["output_words"] = words.split_words(known["target"], one.output)
    return found


def shown_input(text: str) -> str:
    """An input as answers repeat it: of a file its kind and its size."""
    if not text.startswith(URL) or len(text) <= 100:
        return text
    kind, _, content = text.partition(",")
    size = len(content) * 3 // 4 - content[-2:].count("=")
    return f"{kind[:60]},… ({size:,} bytes)"


def _shortened(value: Any) -> Any:
    """The same without the bytes of files."""
    if isinstance(value, str):
        return shown_input(value)
    if isinstance(value, Mapping):
        return {key: _shortened(own) for key, own in value.items()}
    return [_shortened(own) for own in value] if isinstance(value, list | tuple) else value
