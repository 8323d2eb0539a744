"""Which module runs, what it is called with, and what it therefore looks at."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

__all__ = ["Places", "Running"]

_HEADS = (
    "num_heads",
    "num_attention_heads",
    "n_heads",
    "n_head",
    "nhead",
    "heads",
    "n_local_heads",
)
_PAIRS = (
    ("query", "key"),
    ("query_tensor", "key_tensor"),
    ("from_tensor", "to_tensor"),
    ("q", "k"),
)
_LATENTS = ("hidden_states", "inputs")
"""Both at once, as Perceiver has them: the first looks at the second."""
_OTHER_SIDE = (
    "key_value_states",
    "encoder_hidden_states",
    "encoder_hidden_state",
    "context",
    "memory",
)
_OWN_SIDE = (
    "hidden_states",
    "hidden_state",
    "x",
    "input",
    "inputs",
    "src",
    "input_tensor",
    "query_states",
)


@dataclass
class Running:
    """A module that is running.

    Args:
        edges, size: of a graph, what `propagate` was called with.
        by_edge: of a graph, the weight of each edge.
        parts: how many attentions it has computed by itself since it was called.
    """

    path: str
    module: nn.Module
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    edges: Tensor | None = None
    size: Sequence[Any] | None = None
    by_edge: Tensor | None = None
    parts: int = 0

    @property
    def heads(self) -> int:
        """The number of heads that the module declares, or 0."""
        for name in _HEADS:
            found = getattr(self.module, name, None)
            if isinstance(found, int):
                return found
        return 0

    def looks(self) -> str:
        """Whether it looks at itself: "self", "cross", or "" where this cannot be told."""
        given = self._given()
        for first, second in _PAIRS:
            query, key = given.get(first), given.get(second)
            if isinstance(query, Tensor) and isinstance(key, Tensor):
                place = (query.data_ptr(), query.shape) == (key.data_ptr(), key.shape)
                return "self" if query is key or place else "cross"
        latents, inputs = (given.get(name) for name in _LATENTS)
        if isinstance(latents, Tensor) and isinstance(inputs, Tensor) and latents is not inputs:
            return "cross"
        if any(isinstance(given.get(name), Tensor) for name in _OTHER_SIDE):
            return "cross"
        if getattr(self.module, "is_cross_attention", False) is True:
            return "cross"
        return "self" if any(isinstance(given.get(name), Tensor) for name in _OWN_SIDE) else ""

    def packs(self, groups: int, rows: int) -> bool:
        """Whether the queries of one group of heads stand in for rows, as where one token is new.

        transformers folds (B, G · R, 1, D) to (B, G, R, D) before it asks for grouped queries.
        """
        config = getattr(self.module, "config", None)
        heads = getattr(config, "num_attention_heads", None)
        own = getattr(config, "num_key_value_heads", None)
        hidden = self._given().get("hidden_states")
        one = isinstance(hidden, Tensor) and hidden.dim() == 3 and hidden.shape[1] == 1
        return one and rows > 1 and own == groups and heads == groups * rows

    def _given(self) -> dict[str, Any]:
        try:
            bound = inspect.signature(self.module.forward).bind_partial(*self.args, **self.kwargs)
        except (TypeError, ValueError):
            return dict(self.kwargs)
        given = dict(bound.arguments)
        return {**given.pop("kwargs", {}), **given}


class Places:
    """The modules that are running, kept by hooks that `close` takes away.

    `nn.TransformerEncoderLayer` goes without: one hook on it or inside of it, and PyTorch takes
    its fused form out of use. Which layer runs is told by the parameters that are used.

    Args:
        failed: told of what went wrong in a hook, which never ends the model's run.
    """

    def __init__(
        self, model: nn.Module, failed: Callable[[str, Exception], None] | None = None
    ) -> None:
        self._failed = failed
        self.running: list[Running] = []
        self.entered: dict[str, Running] = {}
        self.given: tuple[Sequence[Any], Mapping[str, Any]] = ((), {})
        self.calls = 0
        self.counts: dict[str, int] = {}
        self._handles: list[Any] = []
        self._finished: list[Any] = []
        self._model = model
        self._reads, self._writes = _sides(model)
        self._layers: dict[int, Running] = {}
        self._layer: Running | None = None
        bare: tuple[str, ...] = ()
        for path, module in model.named_modules():
            if isinstance(module, nn.TransformerEncoderLayer):
                dot = f"{path}." if path else ""
                bare = (*bare, dot)
                inner = Running(f"{dot}self_attn", module.self_attn)
                for name, parameter in module.self_attn.named_parameters():
                    if name.startswith(("in_proj_weight", "q_proj")):
                        self._layers[int(parameter.untyped_storage()._cdata)] = inner
            elif not path.startswith(bare or ("\0",)) and not _is_plain(module):
                self._hook(path, module)

    def _hook(self, path: str, module: nn.Module) -> None:
        def enter(own: nn.Module, args: Any, kwargs: Any) -> None:
            self._guarded(path, self._enter, path, own, args, kwargs)

        def leave(own: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            self._guarded(path, self._leave, own)

        def propagate(own: nn.Module, inputs: Any) -> None:
            self._guarded(path, self._propagate, own, inputs)

        enter.observes = leave.observes = True  # type: ignore[attr-defined]  # `attention.plain`
        self._handles.append(module.register_forward_pre_hook(enter, with_kwargs=True))
        self._handles.append(
            module.register_forward_hook(leave, with_kwargs=True, always_call=True)
        )
        hook: Any = getattr(module, "register_propagate_forward_pre_hook", None)
        if hook is not None:  # PyTorch Geometric's own
            self._handles.append(hook(propagate))

    def _guarded(self, path: str, act: Callable[..., None], *given: Any) -> None:
        """Whatever goes wrong beside the model, its own run must not end of it."""
        try:
            act(*given)
        except Exception as error:
            if self._failed is None:
                raise
            self._failed(path, error)

    def _enter(self, path: str, own: nn.Module, args: Any, kwargs: Any) -> None:
        if not self.running:
            self.calls += 1
            self.counts.clear()
            self.given = (args, kwargs)
        self._layer = None
        place = Running(path, own, args, kwargs)
        self.running.append(place)
        self.entered[path] = place

    def _leave(self, own: nn.Module) -> None:
        self._layer = None
        if not any(place.module is own for place in self.running):
            return
        while self.running:
            place = self.running.pop()
            if place.module is own:
                for finish in self._finished:
                    self._guarded(place.path, finish, place)
                self.entered[place.path] = Running(place.path, own)  # holds no inputs
                if not self.running:
                    self.given = ((), {})
                return

    def on_leave(self, finish: Any) -> None:
        """Have a function called with every place that is left."""
        self._finished.append(finish)

    def _propagate(self, module: nn.Module, inputs: Any) -> None:
        for place in reversed(self.running):
            if place.module is module:
                place.edges = inputs[0] if isinstance(inputs[0], Tensor) else None
                place.size = inputs[1] if isinstance(inputs[1], list | tuple) else None
                return

    def use(self, tensors: Sequence[Any]) -> None:
        """Shown what an operation was given, where layers go without hooks."""
        if not self._layers:
            return
        for tensor in tensors[:6]:
            if isinstance(tensor, Tensor) and not tensor.is_nested:
                layer = self._layers.get(int(tensor.untyped_storage()._cdata))
                if layer is not None:
                    self._layer = layer
                    return

    def here(self) -> Running | None:
        """The innermost module that runs."""
        if self._layer is not None:
            return self._layer
        return self.running[-1] if self.running else None

    def is_bare(self, place: Running) -> bool:
        """Whether it is a layer without hooks, of which no more than its parameters is known."""
        return place is self._layer

    def turn(self, path: str) -> int:
        """How often this module attended since the whole model was last called, from 1."""
        self.counts[path] = self.counts.get(path, 0) + 1
        return self.counts[path]

    def role(self, place: Running) -> str:
        """A key of `ROLES`."""
        looks = "self" if place is self._layer else place.looks()
        if looks != "self":
            return looks
        if place.path.startswith(self._writes or ("\0",)):
            return "decoder"
        if place.path.startswith(self._reads or ("\0",)):
            return "encoder"
        return "self"

    def close(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()


def _is_plain(module: nn.Module) -> bool:
    """Whether it is a part of PyTorch's that has no attention inside."""
    own = type(module).__module__.startswith("torch.nn.modules")
    return own and not isinstance(module, nn.MultiheadAttention) and not list(module.children())


def _sides(model: nn.Module) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Paths of what reads and of what writes, of a model that declares that it does both."""
    paths = {id(m): p for p, m in model.named_modules()}
    reads: list[nn.Module] = []
    writes: list[nn.Module] = []
    for module in model.modules():
        if isinstance(module, nn.TransformerDecoder):
            writes.append(module)
    if writes:
        reads = [m for m in model.modules() if isinstance(m, nn.TransformerEncoder)]
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False) is True:
        for side, name in ((reads, "get_encoder"), (writes, "get_decoder")):
            get = getattr(model, name, None)
            found = get() if callable(get) else None
            if isinstance(found, nn.Module):
                side.append(found)
    known = [[f"{paths[id(m)]}." for m in side if paths.get(id(m))] for side in (reads, writes)]
    return tuple(known[0]), tuple(known[1])
