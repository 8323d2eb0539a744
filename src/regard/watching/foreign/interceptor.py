"""The mode that sees what reaches a device, and writes it into a recorder."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention.axes import Axes
from regard.attention.declaring import Declaring
from regard.attention.record import Facts
from regard.errors import RegardError, RequestError
from regard.watching.foreign.edges import by_node, edge_softmax
from regard.watching.foreign.flexible import flexible, is_flexible
from regard.watching.foreign.fused import FUSED, Fused
from regard.watching.foreign.generating import Generating
from regard.watching.foreign.meaning import batches, meaning, placed, sequence_first
from regard.watching.foreign.products import LazyProducts, Products, spread
from regard.watching.foreign.running_modules import Places, Running
from regard.watching.foreign.softmax_pattern import Met, Pattern
from regard.watching.foreign.unfollowed import unfollowed

__all__ = [
    "Interceptor",
    "Looked",
    "intercepting",
    "is_foreign",
    "refuse_compiled",
    "unpacked",
    "with_heads",
]


class Looked(NamedTuple):
    """One attention that ran, in one form whatever ran it.

    Args:
        output: the very tensor that the operation gave.
        swapped: it has values before queries: (*batch, V, Q).
        projection: of an operation that goes on with it, W^O (D, H · V).

    Shapes:
        weights (*batch, Q, K), values (*batch, K, V), output (*batch, Q, V)
    """

    weights: Tensor
    values: Tensor
    output: Tensor
    swapped: bool = False
    projection: Tensor | None = None


def is_foreign(model: nn.Module | None) -> bool:
    """Whether a model has attention of others: it has none of ours, or has modules named for it."""
    if model is None or type(model).__module__.startswith("regard."):
        return False
    modules = [m for m in model.modules() if not type(m).__module__.startswith("regard.")]
    if any("attention" in type(m).__name__.lower() for m in modules):
        return True
    return not any(isinstance(m, Declaring) for m in model.modules())


@contextmanager
def intercepting(seen: Any, model: nn.Module) -> Iterator[None]:
    """See a model's attention while the block runs.

    Raises:
        RequestError: the model is compiled; or it ran, and nothing that looks like attention did.
    """
    refuse_compiled(model)
    failed: dict[str, Exception] = {}

    def note(path: str, error: Exception) -> None:
        failed.setdefault(path, error)

    places = Places(model, note)
    make: type[Interceptor] = Interceptor if seen.intercepts is None else seen.intercepts
    mode = make(seen, places, [*model.parameters(), *model.buffers()])
    mode.failed, mode.sequence_first = failed, sequence_first(model)
    mode.generating = Generating(model, partial(note, ""))
    places.on_leave(mode.leave)
    try:
        with mode.generating.following(), mode:
            yield
    finally:
        places.close()
    mode.finish()


def refuse_compiled(model: nn.Module) -> None:
    """Refuse a model that has a compiled part."""
    for path, module in model.named_modules():
        compiled = getattr(module, "_compiled_call_impl", None) is not None
        if compiled or type(module).__name__ == "OptimizedModule":
            raise RequestError(
                f"{path or 'the model'} is compiled, and a compiled graph has no watchers in it; "
                "watch the model itself, before torch.compile"
            )


_KNOWN = ("aten", "prim", "prims", "profiler", "higher_order")
"""Namespaces of operations that are PyTorch's own."""


class _Beside(threading.local):
    """Whether what runs is this module's own, so that no other watcher takes it for the model's."""

    busy = False


_beside = _Beside()


class Interceptor(TorchDispatchMode):
    """Sees every operation below autograd, runs it as it is, and looks at a few of them.

    In inference mode operations come whole (`scaled_dot_product_attention`, `matmul`), otherwise
    in the parts that PyTorch takes them apart into; both are in the tables.
    """

    supports_higher_order_operators = True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """FlexAttention compiles itself; it would refuse to beside other modes."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else the first operation imports the whole compiler: 140 MB and seconds."""
        return False

    @classmethod
    def is_infra_mode(cls) -> bool:
        """As above: this mode changes nothing that a compiler could miss."""
        return True

    def __init__(self, seen: Any, places: Places, parameters: Sequence[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen, self._places = seen, places
        self._pattern = Pattern(parameters)
        self._exponents: dict[int, Tensor] = {}
        self._ran = False
        self._found = 0
        self._turns: dict[str, list[int]] = {}
        self._kernels: dict[str, str] = {}
        self.failed: dict[str, Exception] = {}
        self.generating: Generating | None = None
        self.sequence_first = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        whole = isinstance(func, torch._ops.OpOverload) or is_flexible(func)
        if not whole or _beside.busy or torch._C._current_graph_task_id() != -1:
            return func(*args, **kwargs)  # a backward pass looks at nothing again
        here = None
        try:
            here = self._before(func, args)
        except Exception as error:
            self._guard("", error)
        result = func(*args, **kwargs)
        if here is None:
            return result
        _beside.busy = True
        try:
            return self.look(here, func, args, kwargs, result)
        except Exception as error:
            self._guard(here.path, error)
        finally:
            _beside.busy = False
        return result

    def _guard(self, path: str, error: Exception) -> None:
        """Whatever failed beside the model, its own run must not end of it."""
        if self.changes:
            raise error
        self.failed.setdefault(path, error)

    def _before(self, func: Any, args: Sequence[Any]) -> Running | None:
        """The module that is about to run an operation; None where nobody looks."""
        self._places.use(args)
        here = self._places.here()
        if here is None or any(isinstance(p.module, Declaring) for p in self._places.running):
            return None  # what is ours is seen at its own operation
        self._ran = True
        if func not in FUSED and not is_flexible(func):
            self._pattern.before(func, args)
        return here

    changes = False
    """Whether it changes what a model computes; one that cannot do so ends the model's run."""

    def look(self, here: Running, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        """Shown an operation and what it gave; gives what the model goes on with."""
        if func in FUSED:
            kernel = func._schema.name.removeprefix("aten::")
            self._fused(here, kernel, FUSED[func](func, args, kwargs, result))
        elif is_flexible(func):
            self._fused(here, "flex_attention", flexible(args, result))
        else:
            self._pattern.path = here.path
            read = self._pattern.after(func, args, kwargs, result)
            if read is not None:
                self._eager(here, read)
            elif func.namespace not in _KNOWN:
                self._kernels.setdefault(here.path, func._schema.name)
            elif hasattr(here.module, "propagate"):
                edge_softmax(here, func, args, result, self._exponents)
        return result

    def _fused(self, here: Running, kernel: str, fused: Fused) -> None:
        """A fused operation: weights are computed again, beside it."""
        products = fused.products
        if fused.parameter is not None:
            self._places.use([fused.parameter])
            here = self._places.here() or here
        name = self._seen.name_of(here.path)
        if name is None:
            self._found += 1
            return
        given = fused.output
        products, fused = unpacked(here, fused)
        steps: Any
        compared = fused.output is not None and not fused.dropout
        if self._seen.tiles:
            steps, empty = LazyProducts(products), -1
            plain = compared and fused.finish is None
            error = products.sampled_error(fused.output) if plain else float("nan")  # type: ignore[arg-type]
            causal: bool | None = products.causal or None
        else:
            steps = products.weights()
            empty, error = _empty(steps) if products.hides else 0, float("nan")
            if compared and fused.finish is None:
                assert fused.output is not None
                error = products.error(steps, fused.output)
            elif compared:
                assert fused.output is not None
                assert fused.finish is not None
                context = products.read(steps).to(fused.output.dtype)
                error = float((fused.finish(context) - fused.output).abs().max())
            causal = products.causal or _is_causal(steps)
        facts = Facts(kernel, False, causal, fused.dropout > 0, empty, error)
        looked = None
        if isinstance(steps, Tensor) and given is not None:
            values = spread(products.value, products.query)
            looked = Looked(steps, values, given, projection=fused.projection)
        self.write(name, here, steps, facts, looked)

    def _eager(self, here: Running, read: Met) -> None:
        """A softmax that met its values: its result is the weights."""
        name = self._seen.name_of(here.path)
        if name is None:
            self._found += 1
            return
        weights = read.weights.detach().nan_to_num(0.0)  # a copy: what follows may overwrite it
        facts = Facts(
            "softmax and product",
            True,
            _is_causal(weights),
            read.dropped,
            _empty(weights),
            read.error,
        )
        looked = None
        same = read.operand.numel() == weights.numel()
        if read.known and same:
            values = read.values if read.left else read.values.mT
            looked = Looked(weights, values, read.result, not read.left)
        self.write(name, here, weights, facts, looked)

    def write(
        self, name: str, here: Running, weights: Any, facts: Facts, looked: Looked | None
    ) -> None:
        """Write one call down; `looked` is None where only its weights are known."""
        bare, fused = self._places.is_bare(here), not facts.by_pattern
        given = self._batches(weights.shape)
        if not bare:
            here.parts += 1
        shape, axes = meaning(here, self._places.running, tuple(weights.shape), given, fused=fused)
        if isinstance(weights, Tensor):
            weights = weights.reshape(shape)
        elif len(shape) != len(weights.shape):
            reason = "examples and heads are one axis where tiles are kept; watch without tiles"
            axes = replace(axes, batch=("block",), heads=False, reason=reason)
        role = self._places.role(here)
        axes = placed(axes, here, role, shape, self.generating)
        self._found += 1
        self._turns.setdefault(name, []).append(self._places.turn(name))
        self._seen.add_foreign(name, weights, facts, axes=axes, role=role)

    def _batches(self, shape: Sequence[int]) -> frozenset[int]:
        """The sizes that may be the batch: of the call of the model that goes on."""
        if not self._places.running:  # a fused layer alone, whose inputs no hook has seen
            return frozenset({int(shape[0])} if len(shape) == 4 else ())
        run = None if self.generating is None else self.generating.run
        if run is None or self.generating is None:
            return batches(*self._places.given, self.sequence_first)
        number = self.generating.reading
        if number >= 0:
            return frozenset({len(run.readings[number].ids)})
        return batches(*self._places.given, self.sequence_first) | {run.batch}

    def leave(self, place: Running) -> None:
        """A module has run; that of a graph has its edges and their weights by now."""
        if place.edges is not None and place.by_edge is None and not place.edges.shape[-1]:
            place.by_edge = torch.zeros(0, max(place.heads, 1))  # a graph without edges
        if place.by_edge is None or place.edges is None:
            return
        name = self._seen.name_of(place.path)
        self._found += 1
        if name is None:
            return
        edges, weights, sources = by_node(place)
        self._exponents.clear()
        facts = Facts("softmax by node", True, None, False, 0, float("nan"))
        self._turns.setdefault(name, []).append(self._places.turn(name))
        axes = Axes((), weights.dim() == 2)
        self._seen.add_foreign(
            name, weights, facts, axes=axes, role="edge", edges=edges, sources=sources
        )

    def finish(self) -> None:
        """The block has ended: say which of several calls each was, or that nothing was seen.

        What failed beside the model is noted in `seen.unseen`, and an error where nothing else was
        seen; the model itself has run to its end.
        """
        for path, error in self.failed.items():
            if not len(self._seen):
                raise RegardError(
                    f"watching {path or 'the model'} failed, the model itself has run: {error!r}; "
                    "watch other modules by their names"
                ) from error
            self._seen.unseen[path] = f"watching it failed: {error!r}"
        for name, turns in self._turns.items():
            if name in self._seen:
                self._seen.number(name, turns)
        if len(self._seen):
            for path, why in unfollowed(self._places, self._pattern, self._kernels, self._seen):
                self._seen.unseen.setdefault(path, why)
        if self._ran and not self._found and not len(self._seen):
            raise RequestError(
                "the model ran but no attention was seen: no fused operation of PyTorch, no "
                "softmax whose result multiplies values, no softmax over the edges of a graph; "
                "it may be compiled, have a kernel of its own (Triton, CUDA, TorchScript), or none"
            )


def with_heads(weights: Tensor, heads: int) -> Tensor:
    """(B · H, Q, K), as `nn.MultiheadAttention` has them, to (B, H, Q, K); (Q, K) to (1, Q, K)."""
    if weights.dim() == 3 and heads > 1 and weights.shape[0] % heads == 0:
        headed: Tensor = weights.unflatten(0, (-1, heads))
        return headed
    return weights[None] if weights.dim() == 2 else weights


def unpacked(here: Running, fused: Fused) -> tuple[Products, Fused]:
    """Each head with rows of its own, where one token is new and heads stand in for rows."""
    products, query = fused.products, fused.products.query
    if query.dim() == 4 and here.packs(query.shape[1], query.shape[2]):
        products = replace(products, query=query.flatten(1, 2).unsqueeze(2))
        if fused.output is not None:
            fused = fused._replace(output=fused.output.flatten(1, 2).unsqueeze(2))
    return products, fused


@torch.no_grad()
def _is_causal(weights: Tensor) -> bool | None:
    """Whether no query looks at what comes after it; None of a single query."""
    rows, columns = weights.shape[-2:]
    if rows < 2 or columns < rows or not weights.numel():
        return None
    if bool(weights[..., 0, columns - rows + 1 :].any()):  # seldom has a first row to be told more
        return False
    return not bool(weights.triu(columns - rows + 1).any())


def _empty(weights: Tensor) -> int:
    """How many rows look at nothing."""
    return int((weights == 0).all(-1).sum())
