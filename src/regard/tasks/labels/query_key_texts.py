"""Which text an attention's queries and keys are words of, as the model declares it."""

from torch import nn

from regard.attention import Record
from regard.protocols import DeclaresTexts

__all__ = ["ITSELF", "query_key_texts"]

ITSELF = ("encoder", "self", "word", "sentence", "character", "representation")
"""Roles of a text that is looked at by itself, or by a vector that was learned."""
_LEARNED = ("word", "sentence")
"""Roles whose queries are no words: a text looks at its words by what was learned."""


def query_key_texts(
    model: nn.Module, record: Record, texts: int
) -> tuple[tuple[int | None, int | None], ...]:
    """Of queries and keys the number of the text that they are words of, for each of its calls.

    Nothing follows from lengths. What the nearest module above an attention declares counts
    (`DeclaresTexts`), in whatever model it stands. Without that an attention of a text to itself is
    called as often for each text, in their order, and words are keys alone where the queries were
    learned; one that looks across several texts has no words.

    Args:
        model: the one that was watched.
        texts: how many the task reads.

    Returns:
        (query, key) of one text after the other, or one pair where all calls have the same; None
        where they are no words.
    """
    modules, path = dict(model.named_modules()), record.name
    while path:
        path = path.rpartition(".")[0]
        module = modules.get(path)
        if isinstance(module, DeclaresTexts):
            own = record.name[len(path) + 1 if path else 0 :]
            if own in module.query_key_texts:
                return (module.query_key_texts[own],)
    if record.role in _LEARNED:
        return tuple((None, text) for text in range(texts))
    if record.role in ITSELF or texts == 1:
        return tuple((text, text) for text in range(texts))
    return ((None, None),)
