"""How tags are scored, by name."""

from collections.abc import Callable, Mapping, Sequence

from regard.metrics import Score, macro_f1
from regard.metrics.roles import Proposition, srl_eval
from regard.metrics.spans import conlleval, seqeval_strict

__all__ = ["SCORERS"]

Tags = Sequence[Sequence[str]]


def _spans(said: Tags, right: Tags, scheme: str) -> dict[str, Score]:
    return conlleval(said, right)


def _strict(said: Tags, right: Tags, scheme: str) -> dict[str, Score]:
    return seqeval_strict(said, right, scheme)


def _roles(said: Tags, right: Tags, scheme: str) -> dict[str, Score]:
    """Each text is one proposition."""
    outputs, references = ([[Proposition.of(own)] for own in side] for side in (said, right))
    return srl_eval(outputs, references)


def _words(said: Tags, right: Tags, scheme: str) -> dict[str, Score]:
    flat = [tag for own in right for tag in own]
    guessed = [tag for own in said for tag in own]
    return {"macro_f1": macro_f1(guessed, flat)}


SCORERS: Mapping[str, Callable[[Tags, Tags, str], dict[str, Score]]] = {
    "spans": _spans,
    "strict": _strict,
    "roles": _roles,
    "words": _words,
}
"""`spans` is conlleval's rule, `strict` seqeval's, `roles` srl-eval's, `words` macro-F1 over tags.

All take the tags that were given, the right ones, and the scheme of both.
"""
