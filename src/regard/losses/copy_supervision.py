r"""Pointing: a generator is taught when to copy a word and when to write it.

    loss = cross-entropy - w Σ_t [c_t log u_t + v (1 - c_t) log(1 - u_t)]

u_t is the model's probability of copying at place t. c_t is 1 where the target is a word that the
vocabulary lacks and the source has, or a name that the source has; Paulus, Xiong and Socher (2018),
2.3, find names with a program. Here a name is a word with a capital letter or a digit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from regard.errors import RequestError
from regard.protocols import PAD, Inputs

__all__ = ["Pointing"]


@dataclass(frozen=True)
class Pointing:
    """Settings of `task.pointing`.

    Args:
        weight: w.
        others: v, what places count where nothing is to be copied; 0 leaves the switch free there.
        capitals: words with a capital letter are copied.
        numbers: words with a digit are copied.
    """

    weight: float = 1.0
    others: float = 1.0
    capitals: bool = True
    numbers: bool = True

    def __post_init__(self) -> None:
        for key in ("weight", "others"):
            if not getattr(self, key) >= 0:
                raise RequestError(
                    f"task.pointing.{key} is {getattr(self, key)}; it must be 0 or more"
                )

    def names(self, spelled: Sequence[str]) -> Bool[Tensor, " vocab"]:
        """Which words of a vocabulary are copied where the source has them.

        Example:
            >>> Pointing().names(["", "Debian", "of", "mp3", "an"]).int().tolist()
            [0, 1, 0, 1, 0]
        """
        return torch.tensor([any(map(self._told, word)) for word in spelled], dtype=torch.bool)

    def wanted(
        self,
        target: Int[Tensor, "batch time"],
        copies: Int[Tensor, "batch source"],
        names: Bool[Tensor, " vocab"],
    ) -> Bool[Tensor, "batch time"]:
        """Where words are to be copied: c.

        Args:
            target: what is to be written, in ids.
            copies: the id of each source word.
            names: of the vocabulary, by id.
        """
        here = (target[..., None] == copies[:, None]).any(-1) & (target != PAD)
        own = target >= len(names)
        return here & (own | names[target.masked_fill(own, PAD)])

    def loss(
        self,
        copying: Float[Tensor, "batch time"],
        wanted: Bool[Tensor, "batch time"],
        target: Int[Tensor, "batch time"],
    ) -> Float[Tensor, ""]:
        """What the switch is charged: a sum over real places.

        Args:
            copying: the log-odds of copying.
            wanted: see `wanted`.
            target: what is to be written; padding counts nothing.
        """
        odds = copying.to(torch.promote_types(copying.dtype, torch.float32))
        charged = torch.where(wanted, -logsigmoid(odds), -self.others * logsigmoid(-odds))
        return self.weight * charged.masked_fill(target == PAD, 0.0).sum()

    def of(
        self,
        source: Tensor | Inputs,
        target: Tensor,
        copying: Tensor | None,
        names: Tensor,
    ) -> Tensor:
        """What one batch is charged.

        Raises:
            RequestError: the model does not say when it copies, or the sources not what.
        """
        copies = source.extras.get("copies") if isinstance(source, Inputs) else None
        if copies is None or copying is None:
            raise RequestError(
                "task.pointing teaches a model when to copy, and this "
                + ("model does not copy" if copies is not None else "task gives nothing to copy")
                + "; leave task.pointing out"
            )
        return self.loss(copying, self.wanted(target, copies, names.to(target.device)), target)

    def _told(self, letter: str) -> bool:
        return (self.capitals and letter.isupper()) or (self.numbers and letter.isdigit())
