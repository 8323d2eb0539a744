"""How much of the source a hypothesis has looked at, for the coverage penalty of beams.

    cp(X; Y) = beta * sum_i log min(sum_t p_ti, 1)     Wu et al. 2016, section 7, equation 14

p_ti is what step t looks at source position i (a word, a joined frame, a region of a picture): the
mean over the heads of the last attention whose memory is the source. A position that nothing looked
at counts as `LEAST`.
"""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.attention.mask import take
from regard.attention.recording import Seen, watching
from regard.decode.ensemble import Ensemble
from regard.decode.program.in_c import InC
from regard.errors import RequestError

if TYPE_CHECKING:
    from regard.decode.search_batch import SearchBatch

__all__ = ["LEAST", "Covered"]

LEAST = 1e-6
"""The least that a source position counts as looked at: its logarithm is finite."""


class Covered:
    """The attention that every hypothesis has spent on every source position so far.

    Shapes:
        spent (n, width, S), lengths (n,) of the states that attention looks at
    """

    def __init__(self, seen: "Seen", lengths: Tensor) -> None:
        self.seen, self.lengths = seen, lengths
        self.spent: Tensor | None = None

    @classmethod
    def of(cls, request: "SearchBatch") -> "Covered":
        """Nothing looked at so far."""
        # What a model in C looks at is told under the names of the model's own attentions.
        engine: Any = request.model
        model = engine.model if isinstance(engine, InC | Ensemble) else engine
        seen = Seen(model if isinstance(model, nn.Module) else None)
        return cls(seen, request.lengths if request.states is None else request.states)

    def watching(self) -> AbstractContextManager[Seen]:
        """See what a step looks at."""
        return watching(self.seen)

    def look(self, beta: float) -> list[list[float]]:
        """Add what the step looked at; give cp of every hypothesis as if it ended here."""
        weights = self._weights()
        self.spent = weights if self.spent is None else self.spent + weights
        places = torch.arange(self.spent.shape[-1], device=self.spent.device)
        inside = places < self.lengths.to(places)[:, None, None]  # (n, 1, S): no padding
        each = self.spent.clamp(LEAST, 1.0).log() * inside
        bonus: list[list[float]] = (beta * each.sum(-1)).tolist()
        return bonus

    def select(self, parents: Tensor) -> None:
        """Follow a re-ordering of the beam (n, width)."""
        self.spent = None if self.spent is None else take(self.spent, parents)

    def rows(self, index: Tensor) -> None:
        """Keep some sentences."""
        self.lengths = self.lengths[index]
        self.spent = None if self.spent is None else self.spent[index]

    def _weights(self) -> Tensor:
        """(n, width, S): what the last attention to the source saw in this step."""
        for name in reversed(list(self.seen)):
            record = self.seen[name]
            if record.shared:
                weights = record.steps[-1]
                weights = weights.mean(-1) if record.features else weights
                weights = weights.mean(1) if record.heads else weights
                self.seen.clear()
                return weights.float()
        raise RequestError(
            "decode.coverage_penalty: this model looks at no source while it writes; leave it at 0"
        )
