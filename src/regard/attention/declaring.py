"""What an attention says of itself: what looks at what (its role), and what its axes are.

A recorder writes this down with the weights, so that nothing has to be guessed from ranks, sizes or
the names of modules.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch import nn

from regard.errors import RequestError, nearest

__all__ = ["ROLES", "Declaring", "roles"]

ROLES: Mapping[str, str] = {
    "cross": "what is written looks at what was read",
    "encoder": "what is read looks at itself",
    "decoder": "what is written looks at itself",
    "self": "a text that is neither written nor translated looks at itself",
    "word": "a sentence looks at its words",
    "sentence": "a document looks at its sentences",
    "character": "a word looks at its characters",
    "representation": "a word looks at its several vectors",
    "hop": "a question looks at a memory, once each hop",
    "document": "the words of a question look at those of a document",
    "query": "the words of a document look at those of a question",
    "answer": "points at the answer in a document",
    "edge": "a node looks at its neighbors",
    "region": "looks at regions of an image",
    "frame": "looks at frames of sound",
    "": "not declared",
}
"""The roles that attentions may declare. A module that declares none has "", whatever it is called;
`Seen.label(role=...)` gives it one."""

_BATCH: Mapping[str, tuple[str, ...]] = {
    "decoder": ("example", "hypothesis"),  # each hypothesis of a beam has a past of its own
    "word": ("example", "sentence"),
    "character": ("example", "word"),
    "representation": ("example", "word"),
}


class Declaring(nn.Module):
    """A module that declares its role and its batch axes; `Attention` and `MultiHead` have them."""

    head_axis: ClassVar[bool] = False
    """Do weights have an axis of heads before that of the queries?"""
    role: str
    batch_axes: tuple[str, ...]

    def declare(self, role: str, batch_axes: Sequence[str] | None) -> None:
        """Note both.

        Args:
            role: a key of `ROLES`.
            batch_axes: names of the axes before heads and queries; a call that has fewer has the
                first of them. None takes the role's: an example each, in a decoder then its
                hypotheses.

        Raises:
            RequestError: there is no such role.
        """
        if role not in ROLES:
            raise RequestError(f"no attention has the role {role!r}; {nearest(role, ROLES)}")
        self.role = role
        usual = _BATCH.get(role, ("example",))
        self.batch_axes = usual if batch_axes is None else tuple(batch_axes)


def roles(model: nn.Module) -> dict[str, str]:
    """The role of every attention of a model, by module path; "" where it declares none.

    Example:
        >>> from regard.attention import Attention
        >>> roles(nn.ModuleDict({"a": Attention(role="cross"), "b": Attention()}))
        {'a': 'cross', 'b': ''}
    """
    found: dict[str, str] = {}
    inside: tuple[str, ...] = ()
    for path, module in model.named_modules():
        # The attention inside a MultiHead is called by it, and is not one of its own.
        if isinstance(module, Declaring) and not path.startswith(inside or ("\0",)):
            found[path] = module.role
            inside = (*inside, f"{path}." if path else "")
    return found
