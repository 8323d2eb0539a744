"""What taggers read: words, and what is known of each beside its form."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.errors import RequestError
from regard.layers.layout import PackedLayout
from regard.protocols import PAD, Inputs, ids_of, states_of

__all__ = ["WordBatch"]


@dataclass(frozen=True, eq=False)
class WordBatch:
    """A batch of sentences with a word or more in its width, and padding where a row has ended.

    Args:
        source: as it was given.
        ids: of words; padding behind each length, whatever was there.
        lengths: of the rows.

    Shapes:
        ids (B, T) with T of 1 or more, lengths (B,)
    """

    source: Inputs
    ids: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, source: Tensor | Inputs, lengths: Tensor | None = None) -> "WordBatch":
        """Those of a batch."""
        given = source if isinstance(source, Inputs) else Inputs(source)
        ids, lengths = ids_of(given, lengths)
        lengths = lengths.to(ids.device)
        ids = F.pad(ids, (0, max(0, 1 - ids.shape[1])))  # not one word in the whole batch
        real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        return cls(Inputs(given.values, lengths, given.extras), ids.where(real, PAD), lengths)

    @cached_property
    def real(self) -> Bool[Tensor, "batch time"]:
        """Which places have a word."""
        steps = torch.arange(self.ids.shape[1], device=self.ids.device)
        return steps < self.lengths[:, None]

    @cached_property
    def layout(self) -> PackedLayout:
        """The layout of the words for recurrences; where there are none, of one of padding."""
        real = self.real
        if not bool(real.any()):
            real = real.clone()
            real[:1, :1] = True
        return PackedLayout(real)

    @property
    def marks(self) -> Int[Tensor, "batch time"]:
        """1 at the predicate that is asked about, 0 at other words.

        Raises:
            RequestError: there are none, or of another shape.
        """
        given = self._column(
            "marks", 2, "the mark of a predicate", ", or build the model with marks=false"
        )
        return (given != 0).long() * self.real

    def features(self, columns: int) -> Int[Tensor, "batch time columns"]:
        """Ids of further columns.

        Raises:
            RequestError: there are none, or of another shape.
        """
        given = self._column("features", 3, f"{columns} further columns of each word")
        if given.shape[2] != columns:
            raise RequestError(
                f"this model reads {columns} further columns of each word, and got "
                f"{given.shape[2]} in extras['features']"
            )
        return given

    @cached_property
    def states(self) -> Float[Tensor, "batch time layers size"] | None:
        """What an encoder says of each word, where there is one."""
        return states_of(self.source, self.ids)

    @property
    def packed_states(self) -> Float[Tensor, "n layers size"] | None:
        """The same in the order of `layout`."""
        return None if self.states is None else self.layout.take(self.states)

    def cut(self, logits: Float[Tensor, "batch time tags"]) -> Float[Tensor, "batch width tags"]:
        """As wide as what was given."""
        return logits[:, : self.source.values.shape[1]]

    def _column(self, name: str, axes: int, what: str, instead: str = "") -> Tensor:
        """An extra with a row for each word, padded as the words are."""
        given, shape = self.source.extras.get(name), tuple(self.source.values.shape)
        if given is None or given.dim() != axes or tuple(given.shape[:2]) != shape:
            got = "none" if given is None else f"shape {tuple(given.shape)}"
            asked = f"extras['{name}'] of shape {shape}" + " and one axis more" * (axes - 2)
            raise RequestError(f"this model reads {what}, {asked}, and got {got}: give it{instead}")
        more = self.ids.shape[1] - given.shape[1]
        return F.pad(given, (0, 0) * (axes - 2) + (0, more)) if more else given
