"""Trees: the constituents of a sentence, written as a sequence of brackets."""

from collections.abc import Mapping
from typing import Any, ClassVar

from regard.data.annotations import linearized_trees, trees
from regard.errors import RequestError
from regard.fields.base import Bad
from regard.fields.text import TextField

__all__ = ["TreeField"]


class TreeField(TextField):
    """A bracketed tree; its tokens are `(S (NP XX )NP … )S` (`annotations.linearized_trees`).

    Args:
        tags: the tag of every word, not XX.
        numbers: where not 0, XX is XX0, XX1, … by the place of its word, modulo this.
        settings: those of `TextField`.
    """

    kind: ClassVar[str] = "tree"

    def __init__(self, *, tags: bool = False, numbers: int = 0, **settings: Any) -> None:
        super().__init__(**{"tokenizer": "words", **settings})
        self.tags, self.numbers = tags, numbers

    def read(self, cell: str, row: Mapping[str, Any]) -> Any:
        """A tree without what EVALB does not count."""
        if not cell.strip():
            raise Bad("empty")
        try:
            return trees.cleaned(trees.Tree.parse(cell.strip()))
        except RequestError as error:
            raise Bad("not a tree", str(error).removeprefix("not a tree: ")) from None

    def written(self, value: Any) -> str:
        """A tree in tokens; what is in tokens already stays."""
        if isinstance(value, str):
            return value
        return " ".join(linearized_trees.linearized(value, tags=self.tags, numbers=self.numbers))
