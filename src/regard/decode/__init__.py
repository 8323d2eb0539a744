"""Decoding: from a `Generator` and a batch of sources to hypotheses, best first.

    decoder = build({"name": "beam", "beam_size": 5, "length_penalty": 1.0})
    hypotheses = decoder(model, source)        # one list a sentence
    for found in decoder.steps(model, source): # the same after each step, with what is found so far

`greedy` and `sample` follow hypotheses one by one (`single_path`), `beam` lets them compete; what
they share (limits, forced prefixes) is in `decoder` and `search_batch`; what may not come or must
come is in `rules/`; what a user asks of one output is a `request.DecodingRequest`. All speak to
`encode`, `start` and `step` alone, and an `Ensemble` of models is one model to them.
"""

import warnings
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from regard.decode.beam import Beam
from regard.decode.decoder import Decoder
from regard.decode.ensemble import Ensemble
from regard.decode.greedy import Greedy
from regard.decode.hypothesis import Hypothesis
from regard.decode.sample import Sample
from regard.errors import RequestError, nearest
from regard.runtime.penalties import PENALTIES, gnmt, power
from regard.settings import old_names
from regard.settings.ranges import within

__all__ = [
    "DECODERS",
    "PENALTIES",
    "Beam",
    "Decoder",
    "Ensemble",
    "Greedy",
    "Hypothesis",
    "Sample",
    "build",
    "gnmt",
    "power",
]

DECODERS: Mapping[str, type[Decoder]] = {"beam": Beam, "greedy": Greedy, "sample": Sample}


def build(config: Mapping[str, Any] | None = None, **overrides: Any) -> Decoder:
    """Make the decoder that a recipe's `decode:` section describes; a beam of 5 if it says nothing.

    Args:
        config: `name` and that decoder's own arguments.
        overrides: laid over `config`.

    Raises:
        RequestError: for an unknown name or key, or a value of the wrong kind.

    Example:
        >>> build({"name": "beam", "beam_size": 4}, length_penalty=0.6).beam_size
        4
    """
    given = old_names.renamed({**(config or {}), **overrides}, old_names.DECODER, _deprecated)
    name = given.pop("name", "beam")
    if name not in DECODERS:
        raise RequestError(f"decode.name: no decoder {name!r}; {nearest(str(name), DECODERS)}")
    kinds = {f.name: f.type for f in fields(DECODERS[name])}
    for key, value in given.items():
        if key not in kinds:
            raise RequestError(f"decode.{key}: {name!r} has no such key; {nearest(key, kinds)}")
        given[key] = _of_kind(key, value, kinds[key])
        within(f"decode.{key}", given[key])
    return DECODERS[name](**given)


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"decode.{old} is now called {new}", DeprecationWarning, stacklevel=4)


def _of_kind(key: str, value: Any, kind: Any) -> Any:
    kinds = getattr(kind, "__args__", (kind,))
    if type(value) is int and float in kinds:
        return float(value)
    if type(value) not in kinds:
        names = " or ".join(_NAMES[k] for k in kinds)
        raise RequestError(f"decode.{key}: expected {names}, got {value!r}")
    return value


_NAMES = {float: "a number", int: "a whole number", str: "a word", type(None): "nothing"}
