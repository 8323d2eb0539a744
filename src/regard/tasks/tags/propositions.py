"""Roles of plain texts: a prediction for each text from those of its predicates."""

from collections.abc import Sequence

from regard.data.annotations.predicate_texts import AskedText, asked_texts, merged_roles
from regard.fields import Field, PredicatesField
from regard.tasks.prediction import Prediction
from regard.tasks.tags.entities import RolesPrediction

__all__ = ["Propositions"]


class Propositions:
    """Inputs as a user wrote them, and the examples that they come to.

    Args:
        inputs: as they were written.
    """

    def __init__(self, inputs: Sequence[AskedText]) -> None:
        self.inputs = inputs

    @classmethod
    def of(cls, texts: Sequence[str], field: Field) -> "Propositions":
        """Find the predicates of each text that has no marks.

        Args:
            field: what finds them; where it learned nothing, plain texts are refused.
        """
        assert isinstance(field, PredicatesField)
        return cls(asked_texts(texts, field.finder))

    @property
    def marked(self) -> list[str]:
        """The examples, each a text with a mark."""
        return [one for own in self.inputs for one in own.examples]

    def merged(self, found: Sequence[Prediction], scheme: str) -> list[Prediction]:
        """A prediction for each input.

        Args:
            found: of each example.
            scheme: of their tags.
        """
        each, made = iter(found), list[Prediction]()
        for own in self.inputs:
            parts = [next(each) for _ in own.examples]
            whole = (
                merged_roles(own, parts, scheme, RolesPrediction, Prediction)
                if own.plain
                else parts[0]
            )
            assert isinstance(whole, Prediction)
            made.append(whole)
        return made
