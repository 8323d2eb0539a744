"""The best sequence of tags under constraints between words far apart.

`runtime.role_search` has the equation, the search and its sources.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.runtime.role_search import RoleSearch, TagPath

__all__ = ["TagPath", "TagSearch"]


class TagSearch(RoleSearch):
    """The best sequence of BIO tags under the constraints of semantic roles.

    Args:
        tags: "O", "B-X" and "I-X", in the order of the scores.
        unique: the penalty of each further span of a core role (A0 to A5, AA; ARG0 to ARG5, ARGA).
        continuation: of each span C-X without an earlier X.
        reference: of each span R-X in a sentence without X.
        limit: how many prefixes may be taken up.

    Penalties are infinite by default, which forbids. 0 switches a constraint off.

    Raises:
        RequestError: for other tags, a negative penalty, and a limit below 1.

    Example:
        >>> search = TagSearch(["O", "B-A0", "I-A0"])
        >>> p = torch.tensor([[0.3, 0.6, 0.1], [0.2, 0.7, 0.1]])
        >>> search(p.log()).tags  # A0 comes once
        [0, 1]
    """

    def __call__(self, log_probs: Float[Tensor, "time tag"]) -> TagPath:
        """The best sequence of one sentence.

        Shapes:
            log_probs (T, C)

        Raises:
            RequestError: for another number of tags.
        """
        return self.best(log_probs.detach().to("cpu", torch.float64).numpy())
