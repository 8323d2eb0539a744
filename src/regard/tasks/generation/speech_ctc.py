"""Speech recognition without attention: a symbol or a blank for each frame, and their text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batch import PairBatch
from regard.decode.ctc import Spelled, best_path, prefix_search
from regard.errors import RequestError
from regard.fields import Field
from regard.fields.sets import tokenizers_of
from regard.protocols import EOS, PAD
from regard.system.devices import device_of
from regard.tasks.base import Task
from regard.tasks.generation.speech import Speech
from regard.tasks.prediction import Prediction

__all__ = ["SpeechCTC"]


class SpeechCTC(Speech):
    """Sounds to text by a `FrameClassifier`, with the CTC loss.

    Args:
        symbols, plain, rate, filters, max_source: see `Speech`.
        beam: prefixes that the search keeps; 1: the best path.
    """

    name: ClassVar[str] = "speech-ctc"
    options: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        symbols: str = "characters",
        plain: bool = True,
        rate: int = 16_000,
        filters: int = 40,
        max_source: int = 100_000,
        beam: int = 1,
    ) -> None:
        super().__init__(symbols, plain, rate, filters, max_source=max_source)
        if beam < 1:
            raise RequestError(f"task.beam is {beam}; it must be 1 or more")
        self.beam = beam

    def loss(
        self, model: nn.Module, batch: PairBatch, step: int | None = None
    ) -> tuple[Tensor, int]:
        """(The negative log-likelihoods of the texts, summed; their symbols).

        A text that is longer than its frames has none, and counts as zero.
        """
        output = model(batch.source, batch.source_lengths)
        logs = output.logits.float().log_softmax(-1).transpose(0, 1)
        target = batch.target_out.masked_fill(batch.target_out == EOS, PAD)
        sizes = (target != PAD).sum(1)
        total = F.ctc_loss(
            logs, target, output.extra["lengths"], sizes, PAD, "sum", zero_infinity=True
        )
        return total, batch.count

    def together(self, models: Sequence[nn.Module], tasks: Sequence[Task]) -> nn.Module:
        """Frames of several models are not of one time."""
        raise RequestError(f"models of the task {self.name} do not go together")

    def outputs(
        self,
        model: nn.Module,
        dataset: Any,
        indices: Sequence[int],
        decoder: Any,
        fields: Mapping[str, Field],
        **asked: Any,
    ) -> list[Prediction]:
        """The text of each sound; its score is the log-probability."""
        source, lengths = dataset.sources(indices)
        device = device_of(model)
        output = model(source.to(device), lengths.to(device))
        logs = output.logits.float().log_softmax(-1).cpu()
        short, target = output.extra["lengths"].tolist(), tokenizers_of(fields)["target"]
        made = []
        for i, row, size in zip(indices, logs, short, strict=True):
            every = self.spelled(row[:size])
            text = dataset.texts[i]
            best, *others = (
                Prediction(
                    text, target.decode(s.tokens), s.log_prob, target.tokens(s.tokens), ids=s.tokens
                )
                for s in every
            )
            best.alternatives.extend(others)
            made.append(best)
        return made

    def spelled(self, log_probs: Tensor) -> list[Spelled]:
        """The texts of the frames of one sound (T', V), best first."""
        if self.beam == 1:
            return [best_path(log_probs)]
        return prefix_search(log_probs, self.beam)

    def stream(
        self, model: nn.Module, text: str, decoder: Any, fields: Mapping[str, Any], **asked: Any
    ) -> Iterator[Prediction]:
        """It is written at once.

        Raises:
            RequestError: always.
        """
        raise RequestError("stream: the task speech-ctc cannot use it: it writes all at once")
