"""Texts that a task answers while others come and go: `decode.continuous_batching` for texts."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch import nn

from regard.decode.beam import Beam
from regard.decode.continuous_batching import RunningBeam, unsupported_reason
from regard.errors import RequestError
from regard.fields.sets import as_fields
from regard.system.devices import device_of
from regard.tasks.base import Task
from regard.tasks.generation.base import Generation
from regard.tasks.inputs import Asked
from regard.tasks.prediction import Prediction

__all__ = ["RunningTexts", "running_texts"]

SHORT = 40
"""Outputs of fewer tokens are short."""


def running_texts(
    task: Task, model: nn.Module, decoder: Any, fields: Mapping[str, Any], sample: str
) -> "RunningTexts | None":
    """Texts that are answered while others come; None: a batch at a time is all that can be.

    A task with rules of its own, a model whose steps are PyTorch's and a decoder that counts the
    steps of a batch have none. Texts with short outputs that PyTorch encodes are not joined either:
    encoding one by one takes longer than what they would wait for.

    Args:
        sample: a text, with which the model is recorded.
    """
    if not isinstance(task, Generation) or type(task).rules is not Generation.rules:
        return None
    if unsupported_reason(decoder, model) is not None:
        return None
    texts = RunningTexts(task, model, decoder, fields)
    try:
        longest = texts.begin(sample)
    except RequestError:
        return None
    return texts if longest >= SHORT or texts.encodes_in_c else None


class RunningTexts:
    """Texts under way, each with a name of the caller's.

    Args:
        task: without rules of its own.
        model, decoder: that `decode.continuous_batching` can do.
        fields: `source` and `target`.
    """

    def __init__(
        self, task: Generation, model: nn.Module, decoder: Beam, fields: Mapping[str, Any]
    ) -> None:
        self.task, self.width = task, decoder.beam_size
        self._fields = as_fields(fields, task.fields())
        self._device = device_of(model)
        self._search = RunningBeam(decoder, model)  # type: ignore[arg-type]
        self._names: dict[int, tuple[Any, str]] = {}

    def __len__(self) -> int:
        """How many are being decoded."""
        return len(self._search)

    def add(self, names: Sequence[Any], texts: Sequence[str]) -> dict[Any, Prediction]:
        """Take texts in; give the predictions of those that need no decoding.

        Those are empty, or refused as `predict` refuses them.
        """
        given, decoded = self._asked(texts)
        if decoded:
            numbers = self._search.add(*self._sources(given, decoded))
            for number, row in zip(numbers, decoded, strict=True):
                place = given.places[row]
                self._names[number] = names[place], given.dataset.texts[row]
        under_way = {given.places[row] for row in decoded}
        return {
            name: given.refused[place] for place, name in enumerate(names) if place not in under_way
        }

    @property
    def encodes_in_c(self) -> bool:
        """As of `RunningBeam`."""
        return self._search.encodes_in_c

    def begin(self, text: str) -> int:
        """Make what decodes ready with a text, which is not decoded; the most tokens of its output.

        Raises:
            RequestError: texts cannot join those under way.
        """
        given, decoded = self._asked([text])
        if not decoded:
            return 0
        source, lengths = self._sources(given, decoded)
        self._search.begin(source, lengths)
        return self._search.beam.limit(int(lengths[0]))

    def _asked(self, texts: Sequence[str]) -> tuple[Asked, list[int]]:
        """The texts as the task reads them, and which rows of them are decoded."""
        given = self.task.asked(list(texts), self._fields)
        if given.dataset is None or not len(given.dataset):
            return given, []
        batches = self.task.batches(given.dataset, 1 << 20)
        return given, sorted(row for batch in batches for row in batch)

    def _sources(self, given: Asked, rows: Sequence[int]) -> tuple[Any, Any]:
        source, lengths = given.dataset.sources(rows)
        return source.to(self._device), lengths.to(self._device)

    def drop(self, names: Collection[Any]) -> None:
        """Decode these no further."""
        numbers = [number for number, (name, _) in self._names.items() if name in names]
        self._search.drop(numbers)
        for number in numbers:
            del self._names[number]

    @property
    def steps(self) -> int:
        """How many steps of the decoder were made so far."""
        return self._search.steps

    def step(self, most: int = 1) -> dict[Any, Prediction]:
        """Go one step, or up to `most` in C; give the predictions of those that are finished."""
        found = {}
        for number, hypotheses in self._search.step(most).items():
            name, text = self._names.pop(number)
            target = self.task.spelling(text, self._fields)
            found[name] = self.task.prediction(text, hypotheses, target)
        return found
