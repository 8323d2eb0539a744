"""Constraints on the output for one input: one value for CLI, HTTP, bulk and Python."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from regard.errors import RequestError

__all__ = ["DecodingRequest", "by_name", "each_of"]


@dataclass(frozen=True, kw_only=True)
class DecodingRequest:
    """What one output must be; settings of the search are a decoder's.

    Args:
        prefix: what it must begin with.
        force_words: words or phrases that it must have.
        bad_words: words or phrases that it must not have, in any tokenization.
        keep: what stays as it is in the input, each once: "urls", "placeholders", "tags", "all", or
            regular expressions; see `inference.placeholders`.
    """

    prefix: str = ""
    force_words: tuple[str, ...] = ()
    bad_words: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> "DecodingRequest":
        """The request of values by name, where None stands for nothing.

        Raises:
            RequestError: one word in the place of a list of words.
        """
        made: dict[str, Any] = {}
        for name, value in told.items():
            if name != "prefix" and isinstance(value, str):
                raise RequestError(f"{name}: expected a list, got one string: write [{value!r}]")
            made[name] = (value or "") if name == "prefix" else tuple(value or ())
        return cls(**made)

    @property
    def names(self) -> frozenset[str]:
        """The constraints that are set."""
        return frozenset(one.name for one in fields(self) if getattr(self, one.name))


def each_of(
    requests: DecodingRequest | Sequence[DecodingRequest] | None, count: int
) -> list[DecodingRequest]:
    """A request for each input; `count` is their number.

    Raises:
        RequestError: there are more or fewer.
    """
    if requests is None or isinstance(requests, DecodingRequest):
        return [requests or DecodingRequest()] * count
    if len(requests) != count:
        raise RequestError(f"expected a request for each of {count} inputs, got {len(requests)}")
    return list(requests)


def by_name(requests: Sequence[DecodingRequest]) -> dict[str, Any]:
    """The constraints that any output has, by name, a value for each; without `keep`.

    Decoders do not see `keep`: it is applied around them.

    Example:
        >>> by_name([DecodingRequest(prefix="A"), DecodingRequest(keep=("tags",))])
        {'prefix': ['A', '']}
    """
    names = frozenset().union(*(one.names for one in requests)) - {"keep"}
    order = [one.name for one in fields(DecodingRequest) if one.name in names]
    return {name: [getattr(one, name) for one in requests] for name in order}
