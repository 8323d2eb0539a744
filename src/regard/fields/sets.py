"""Sets of fields: from a task's declaration, their tokenizers, their sides."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError, nearest
from regard.fields import Field, TextField
from regard.fields.text import with_vocabularies

__all__ = [
    "as_fields",
    "noted_encoder",
    "sides",
    "tokenizers_of",
    "with_states",
    "with_vectors",
]


def as_fields(given: Mapping[str, Any], declared: Mapping[str, Field]) -> dict[str, Field]:
    """The fields of a task where some are given; a `Tokenizer` stands for the text that has it.

    Args:
        declared: all fields of the task, for those that are not given; none: any name is good.

    Raises:
        RequestError: one is given that the task does not have.
    """
    found = dict(declared)
    for name, one in given.items():
        if declared and name not in declared:
            raise RequestError(f"there is no field {name!r}: {nearest(name, declared)}")
        if isinstance(one, Tokenizer):
            own = declared.get(name)
            plain = own if isinstance(own, TextField) else TextField()
            one = plain.sharing(TextField.with_tokenizer(one))
        found[name] = one
    return with_vocabularies(found)


def tokenizers_of(fields: Mapping[str, Field]) -> dict[str, Tokenizer]:
    """The tokenizers of the texts among some fields."""
    return {n: f.tokenizer for n, f in fields.items() if isinstance(f, TextField) and f.learned}


def sides(fields: Mapping[str, Field]) -> tuple[list[str], list[str]]:
    """The names of inputs, derived ones left out, and of targets."""
    return [n for n, f in fields.items() if not f.target and not f.derived], [
        n for n, f in fields.items() if f.target
    ]


def with_vectors(fields: Mapping[str, Field], told: Mapping[str, Field]) -> dict[str, Field]:
    """Fields of a trained model with the word vectors that a `data:` section names.

    A trained vocabulary stays, and no file of a model folder has the vectors: they are read again.

    Args:
        told: the fields as the section has them, whose texts say which vectors.
    """
    found = dict(fields)
    for name, own in fields.items():
        one = told.get(name)
        if isinstance(own, TextField) and isinstance(one, TextField) and own.pretrained is None:
            found[name] = own.trained_from(one.pretrained) if one.pretrained else own
    return found


def with_states(fields: Mapping[str, Field], told: Mapping[str, Field]) -> dict[str, Field]:
    """Fields whose texts have the states of the encoder that a `data:` section names, kept on disk.

    A trained model has the encoder that it was trained with, wherever the section says it is.

    Args:
        told: the fields as the section has them.
    """
    found = dict(fields)
    for name, own in fields.items():
        one = told.get(name)
        if not isinstance(own, TextField) or not isinstance(one, TextField):
            continue
        if (encoder := own.contextual or one.contextual) is not None:
            store = one.contextual.store if one.contextual is not None else encoder.store
            encoder = replace(encoder, store=store, kept=True)
            found[name] = own.in_context(encoder.checked())
    return found


def noted_encoder(fields: Mapping[str, Field]) -> dict[str, Any]:
    """The keys of `data.vectors` that say which encoder some texts have; {}: they have none."""
    for own in fields.values():
        if isinstance(own, TextField) and own.contextual is not None:
            return own.contextual.noted()
    return {}
