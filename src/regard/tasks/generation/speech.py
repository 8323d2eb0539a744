"""Speech recognition: a sound to words, letters or phonemes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from regard.data.text.words import spoken
from regard.errors import RequestError, nearest
from regard.fields import Field, SoundField, TextField
from regard.metrics import Score, cer, per, word_error_rate
from regard.tasks.generation.base import Generation
from regard.tasks.prediction import Prediction

__all__ = ["SYMBOLS", "Speech"]

SYMBOLS = {"characters": "characters", "phonemes": "words", "words": "words"}
"""What is written, and the kind of its tokenizer."""
STRESS = re.compile(r"^[',]+")


class Speech(Generation):
    """Sounds to text, scored by error rates; the model is a `Generator` that reads frames.

    A file has a sound and its text in two columns, `file<tab>text`: a path beside the file, or a
    member of the tar archive of the file's name.

    Args:
        symbols: what the model writes: "characters", "words", or "phonemes", which stand in the
            text divided by blanks, or as espeak-ng writes them (`h_@_l_'oU|w_'3:_l_d`).
        plain: words are written in small letters without punctuation; of phonemes, marks of stress
            are left out.
        rate: samples a second, to which sounds are brought.
        filters: of the mel scale.
        smoothing: label smoothing ε of the training loss.
        max_source: sounds of more frames than this are refused; a frame is 10 ms.
        scheduled: see `Generation`.
    """

    name: ClassVar[str] = "speech"
    metric: ClassVar[str] = "wer"
    viewed: ClassVar[str] = "generation.speech_view"
    columns: ClassVar[Mapping[str, str | int]] = {"source": "file", "target": "text"}
    lower_is_better: ClassVar[frozenset[str]] = Generation.lower_is_better | {"cer", "ser"}
    max_length: ClassVar[int] = 3000
    options: ClassVar[frozenset[str]] = frozenset({"prefix"})
    reads_files: ClassVar[bool] = True

    def __init__(
        self,
        symbols: str = "characters",
        plain: bool = True,
        rate: int = 16_000,
        filters: int = 40,
        smoothing: float = 0.0,
        max_source: int = 100_000,
        scheduled: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(smoothing, max_source, None, scheduled, None)
        if symbols not in SYMBOLS:
            raise RequestError(f"task.symbols: {symbols!r}: {nearest(symbols, SYMBOLS)}")
        self.symbols, self.plain, self.rate, self.filters = symbols, plain, rate, filters

    def fields(self) -> dict[str, Field]:
        """A sound, and what is said in it."""
        target = TextField(SYMBOLS[self.symbols], 10_000, target=True)
        return {"source": SoundField(self.rate, self.filters), "target": target}

    def pairs(
        self, source: Any, target: str, *, training: bool
    ) -> tuple[list[tuple[Any, str]], list[str]]:
        """One row is one pair."""
        text = self.written(target)
        return [(source, text)], [text]

    def written(self, text: str) -> str:
        """A text as the model writes it.

        Example:
            >>> Speech().written("Agent -- already logged on.")
            'agent already logged on'
            >>> Speech("phonemes").written("w_'E_n|D_@")
            'w E n D @'
        """
        if self.symbols == "phonemes":
            marks = re.split(r"[\s_|]+", text)
            found = [STRESS.sub("", one) if self.plain else one for one in marks]
            return " ".join(one for one in found if one)
        return spoken(text) if self.plain else " ".join(text.split())

    def score(self, predictions: Sequence[Prediction], examples: Any) -> dict[str, Score]:
        """Phoneme error rate; or word and character error rates."""
        outputs, references = [p.output for p in predictions], examples.references
        if self.symbols == "phonemes":
            return {"per": per(outputs, references)}
        return {"wer": word_error_rate(outputs, references), "cer": cer(outputs, references)}
