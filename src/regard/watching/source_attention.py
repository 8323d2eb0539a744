"""What a `Generator` looks at in its source while it writes, whichever attention does it."""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.recomputed_weights import weights_with_gradient
from regard.attention.recording import Record, Seen, watching
from regard.decode.eval_mode import frozen
from regard.errors import RequestError, nearest
from regard.protocols import BOS, EOS
from regard.watching.watcher import watch

__all__ = ["chosen", "looked", "looking", "of_source"]

_known: "weakref.WeakKeyDictionary[nn.Module, list[str]]" = weakref.WeakKeyDictionary()


def of_source(model: nn.Module) -> list[str]:
    """The names of the attentions whose keys are the source, told from one step of decoding.

    Decoders' attentions to what they have written have a past for each hypothesis.
    """
    if model not in _known:
        device = next(model.parameters()).device
        source = torch.tensor([[EOS]], device=device)
        generator: Any = model
        with frozen(generator), torch.no_grad():
            decoding = generator.start(generator.encode(source))
            with watch(model) as seen:
                generator.step(source.new_full((1, 1), BOS), decoding)
        _known[model] = [name for name, record in seen.items() if record.shared]
    return _known[model]


def chosen(model: nn.Module, attention: str | None = None) -> list[str]:
    """Those of `of_source` that a name or a pattern stands for; all where none is given.

    Raises:
        RequestError: the model looks at no source, or has no such attention.
    """
    there = of_source(model)
    if not there:
        raise RequestError(
            "this model looks at no source while it writes: nothing says what its words come from"
        )
    found = [name for name in there if attention is None or fnmatch(name, attention)]
    if not found:
        raise RequestError(
            f"no attention to the source is called {attention!r}; {nearest(str(attention), there)}"
        )
    return found


@contextmanager
def looking(model: nn.Module, names: Sequence[str], *, gradient: bool = False) -> Iterator[Seen]:
    """Watch some attentions alone; with `gradient`, weights can be trained."""
    kind = _Trained if gradient else _Chosen
    with watching(kind(model, frozenset(names))) as seen:
        yield seen


def looked(seen: Seen, head: int | None = None) -> Float[Tensor, "batch target source"]:
    """The mean over heads and attentions of what teacher-forced queries looked at.

    Args:
        seen: of one `forward`.
        head: this head of each attention alone, counted from 1.
    """
    return torch.stack([_one(record, head) for record in seen.values()]).mean(0)


def _one(record: Record, head: int | None) -> Tensor:
    axis = -3 if record.features else -2
    weights = torch.cat(record.steps, axis)  # (B, [head,] T, S[, F])
    weights = weights.mean(-1) if record.features else weights
    count = weights.shape[1] if record.heads else 1
    if head is not None and not 1 <= head <= count:
        raise RequestError(f"{record.name} has heads 1 to {count}; there is no head {head}")
    if not record.heads:
        return weights
    return weights.mean(1) if head is None else weights[:, head - 1]


class _Chosen(Seen):
    """A watcher of named attentions."""

    def __init__(self, model: nn.Module, names: frozenset[str]) -> None:
        super().__init__(model, None)
        self._names = names

    def name_of(self, owner: object) -> str | None:
        name = super().name_of(owner)
        return name if name in self._names else None


class _Trained(_Chosen):
    """The same; its weights can be trained."""

    def meet(self, name: str, call: Any, weights: Tensor, owner: object) -> None:
        super().meet(name, call, weights, owner)
        self[name].kept[-1] = weights_with_gradient(call)  # what a watcher is shown has none
