"""Which parts can be combined: other combinations are an error that names both parts.

Parts declare their properties in class attributes, in properties, or in `__init__`; nothing here
names a class. All declarations are optional; a part without them is not checked.

    per_feature   score, select, read: works on (*batch, Q, K, D), one number per feature
    one_hot       select: its weights choose one key; read: it needs such weights
    log_space     read: it needs the select's `log_weights`
    sums          select: "over queries" mixes queries, which a carry keeps apart
    turns         score: depends on angles and distances only; position: it turns queries and keys
    biases        position: False if it does not change scores (kernels then ignore it)
    feature_dim   carry: how many features of its state a score may see; score: how many it needs
    aligns        select: continues from the previous stop; carry: stores that stop
    heads         score, position, read: heads with own parameters; None or 1: all share them
    alone         score: `as_dot` depends on all keys, so ragged sequences are computed one by one
"""

from functools import cache
from types import NoneType
from typing import Any

from regard.errors import RequestError

__all__ = ["check", "check_heads", "heads_of", "takes_features", "turns_once", "turns_only"]

_TURN = ("turn", "before")
_OWN = "regard.attention."
_SAID = ("per_feature", "one_hot", "log_space", "turns", "feature_dim", "aligns")


def check(score: Any, select: Any, read: Any, position: Any, carry: Any) -> None:
    """Refuse parts that cannot be combined.

    Raises:
        RequestError: names both parts and suggests another one.
    """
    if not _asks((type(score), type(select), type(read), type(position), type(carry))):
        return
    for problem in (
        _features(score, select, read),
        _reads(select, read),
        _positions(score, position),
        _carries(score, select, carry),
    ):
        if problem is not None:
            raise RequestError(problem)


def check_heads(heads: int, score: Any, position: Any, read: Any) -> None:
    """Refuse reads that heads cannot concatenate, and parts for another number of heads.

    Raises:
        RequestError: for a read whose context is not a vector of values, or a part with another
            number of heads.
    """
    for part in (score, position, read):
        own = heads_of(part)
        if own is not None and own != heads:
            raise RequestError(
                f"MultiHead of {heads} heads expected parts for as many, got {_name(part)} with "
                f"heads={own}; build it for {heads}"
            )
    if _says(read, "log_space"):
        raise RequestError(
            f"MultiHead concatenates the values of its heads, but {_name(read)} reads no values; "
            f"use Attention(..., read={_name(read)}()) with your own projections"
        )


def heads_of(part: Any) -> int | None:
    """The number of heads with their own parameters in a part; None where all share them."""
    heads = getattr(part, "heads", None)
    return heads if isinstance(heads, int) and heads > 1 else None


def turns_only(position: Any) -> bool:
    """Whether a position changes queries and keys but not scores, so kernels can ignore it."""
    kind = type(position)
    if hasattr(kind, "biases"):
        return not position.biases
    return not getattr(position, "__dict__", {}).get("biases", True)


def turns_once(position: Any) -> bool:
    """Whether keys may be turned when they enter a memory: by a `turn` that `before` agrees with.

    A class that overrides `before` alone has said something else than the `turn` that it inherits.
    """
    kind: Any = type(position)
    return turns_only(position) and _turns(kind) and not vars(position).keys() & _TURN


@cache
def _turns(kind: type) -> bool:
    owners = [next((own for own in kind.__mro__ if name in vars(own)), None) for name in _TURN]
    return owners[0] is not None and owners[0] is owners[1]


def takes_features(score: Any) -> bool:
    """Whether a score looks at features of a carry."""
    return bool(_says(score, "feature_dim"))


def _features(score: Any, select: Any, read: Any) -> str | None:
    """Score, select and read must agree on one number per pair or one per feature."""
    wide = [part for part in (score, select, read) if _says(part, "per_feature")]
    narrow = [part for part in (score, select, read) if not _says(part, "per_feature")]
    if not wide or not narrow:
        return None
    return (
        f"{_name(wide[0])} works with one number a feature but {_name(narrow[0])} with one a pair; "
        "a feature-wise score goes with FeatureSoftmax and FeatureSum"
    )


def _reads(select: Any, read: Any) -> str | None:
    """What a read requires of the weights."""
    if _says(read, "one_hot") and not _says(select, "one_hot"):
        return (
            f"{_name(read)} takes the value of one chosen key but {_name(select)} gives weights to "
            "several; choose with Hard, or read with WeightedSum"
        )
    if _says(read, "log_space") and not hasattr(select, "log_weights"):
        return (
            f"{_name(read)} gives log-weights but those of {_name(select)} have no logarithm of "
            "their own; select with Softmax, Smooth or TopK"
        )
    return None


def _positions(score: Any, position: Any) -> str | None:
    """What a position does to the score."""
    if position is None:
        return None
    if _says(position, "turns") and not _says(score, "turns"):
        return (
            f"{_name(position)} turns queries and keys but {_name(score)} depends on more than "
            "their angle and distance; take Dot, ScaledDot or Cosine, or a position that changes "
            "scores, such as RelativeBias"
        )
    if not turns_only(position) and _says(score, "per_feature"):
        return (
            f"{_name(position)} adds one number a pair but {_name(score)} gives one a feature; "
            "leave the position out, or say direction by a mask"
        )
    return None


def _carries(score: Any, select: Any, carry: Any) -> str | None:
    """What passes between steps."""
    needs = _says(score, "feature_dim")
    if carry is None:
        if needs:
            return (
                f"{_name(score)} looks at features of a carry but there is none; give "
                "carry=Coverage() or PreviousWeights(), or build the score without features"
            )
        return None
    if _says(select, "aligns") != _says(carry, "aligns"):
        alone, other = (select, carry) if _says(select, "aligns") else (carry, select)
        return (
            f"{_name(alone)} goes on from an alignment but {_name(other)} has none; take Monotonic "
            "or MonotonicChunkwise with carry=Alignment()"
        )
    if _says(score, "per_feature"):
        return (
            f"{_name(carry)} carries one number a pair but {_name(score)} gives one a feature; "
            "leave the carry out, or take a score such as Additive"
        )
    if _says(select, "sums") == "over queries":
        return (
            f"{_name(carry)} keeps the hypotheses of one step apart but {_name(select)} shares "
            "weights out between them; leave the carry out, or select over keys"
        )
    shown = _says(carry, "feature_dim", None)
    if needs and shown is not None and shown != needs:
        return (
            f"{_name(score)} looks at {needs} feature(s) of a carry but {_name(carry)} shows "
            f"{shown}; build the score with features={shown}, or take Coverage or PreviousWeights"
        )
    return None


@cache
def _asks(kinds: tuple[type, ...]) -> bool:
    """Whether parts of these classes may declare anything; cached, because most do not.

    Those of this package declare in their classes; others may do it in `__init__` as well.
    """
    for kind in kinds:  # PyTorch 2.11 compiles neither the module of NoneType nor several prefixes
        own = kind is NoneType or kind.__module__.startswith(_OWN)
        if not (own or kind.__module__ == "builtins"):  # what is no part is refused later
            return True
    score, *others = kinds
    if hasattr(score, "per_feature") or hasattr(score, "feature_dim"):
        return True
    return any(
        any(hasattr(kind, name) for name in _SAID) or getattr(kind, "sums", None) == "over queries"
        for kind in others
    )


def _says(part: Any, name: str, otherwise: Any = False) -> Any:
    """What a part declares, in its class or in `__init__`."""
    if hasattr(type(part), name):
        return getattr(part, name)
    return getattr(part, "__dict__", {}).get(name, otherwise)


def _name(part: Any) -> str:
    return type(part).__name__
