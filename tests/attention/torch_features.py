"""What PyTorch can do with a layer: the columns of `docs/pytorch.md`.

A feature is a function of a case that raises where the case cannot do it. What it compares with is
the reference kernel in float64, or a difference quotient of it.
"""

import warnings
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, grad, jvp, vmap

from regard.attention import kernels
from tests.attention.torch_cases import CASES, Case
from tests.attention.torch_checks import call, close, exact, gradients, learnt, output, weighing
from tests.attention.torch_life import checkpointed, copied, emptied, inference, resized

# What PyTorch can do.


def _autocast(case: Case, low: torch.dtype) -> None:
    layer = case.build()
    expected, grads = exact(case)
    inputs = [x.requires_grad_() for x in case.inputs()]
    with torch.autocast("cpu", low):
        found = call(layer, *inputs)
    assert found.isfinite().all()
    close(found, expected, atol=6e-2, rtol=6e-2)
    close(gradients(found.float(), inputs, layer), grads, atol=0.15, rtol=0.1)


def autocast_bf16(case: Case) -> None:
    _autocast(case, torch.bfloat16)


def autocast_fp16(case: Case) -> None:
    _autocast(case, torch.float16)


def half(case: Case) -> None:
    layer = case.build().half()
    expected, grads = exact(case, torch.float16)
    inputs = [x.requires_grad_() for x in case.inputs(dtype=torch.float16)]
    found = call(layer, *inputs)
    assert found.dtype == torch.float16
    close(found, expected, atol=1e-2, rtol=1e-2)
    close(gradients(found, inputs, layer), grads, atol=3e-2, rtol=3e-2)


def compiled(case: Case) -> None:
    """With gradients; each second part also without, which is another compilation."""
    layer = case.build()
    run = torch.compile(lambda *x: call(layer, *x), fullgraph=True, backend="aot_eager")
    try:
        learnt(case, layer, run)
        if zlib.crc32(case.part.encode()) % 2:
            expected, _ = exact(case)
            with torch.no_grad():
                close(run(*case.inputs()), expected)
    finally:
        torch._dynamo.reset()


class _Outputs(nn.Module):
    """A layer that gives tensors alone, as an exporter takes it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return call(self.layer, query, key, value)


def exported(case: Case) -> None:
    program = torch.export.export(_Outputs(case.build()), case.inputs())
    found = program.module()(*case.inputs())
    close(found, exact(case)[0])


def vmapped(case: Case) -> None:
    """Without PyTorch's loop over rows for operators that have no batching rule."""
    torch._C._functorch._set_vmap_fallback_enabled(False)
    try:
        _vmapped(case)
    finally:
        torch._C._functorch._set_vmap_fallback_enabled(True)


def _vmapped(case: Case) -> None:
    layer, inputs = case.build(), case.inputs(2)
    expected = torch.stack([call(layer, *x) for x in zip(*inputs, strict=True)])
    close(vmap(lambda *x: call(layer, *x))(*inputs), expected)
    one = (inputs[0], *(x[0] for x in inputs[1:]))  # keys that all share
    expected = torch.stack([call(layer, q, *one[1:]) for q in inputs[0]])
    close(vmap(lambda *x: call(layer, *x), (0, None, None))(*one), expected)


def forward_mode(case: Case) -> None:
    expected = _quotient(case)
    for dtype, bound in ((torch.float64, 1e-6), (torch.float32, 1e-4)):
        layer = case.build().to(dtype)
        inputs, tangents = case.inputs(dtype=dtype), case.inputs(dtype=dtype, seed=6)
        _, found = jvp(lambda *x, layer=layer: call(layer, *x), inputs, tangents)
        close(found, expected, atol=bound)
        with torch.autograd.forward_ad.dual_level():
            make = torch.autograd.forward_ad.make_dual
            duals = [make(x, t) for x, t in zip(inputs, tangents, strict=True)]
            made = torch.autograd.forward_ad.unpack_dual(call(layer, *duals))
            assert made.tangent is not None
            close(made.tangent, expected, atol=bound)


def _by_backward(case: Case) -> Tensor:
    """The directional derivative J v of the reference, as the gradient by u of (J^T u) v."""
    layer = case.build().double()
    inputs = [x.requires_grad_() for x in case.inputs(dtype=torch.float64)]
    tangents = case.inputs(dtype=torch.float64, seed=6)
    with kernels("reference"):
        found = call(layer, *inputs)
    u = torch.zeros_like(found, requires_grad=True)
    slopes = torch.autograd.grad(found, inputs, u, create_graph=True)
    product = sum((s * t).sum() for s, t in zip(slopes, tangents, strict=True))
    return torch.autograd.grad(product, u)[0]


def _quotient(case: Case) -> Tensor:
    """The directional derivative of the reference, by central differences."""
    if case.part in SURROGATES:
        return _by_backward(case)
    layer, step = case.build().double(), 1e-6
    inputs = case.inputs(dtype=torch.float64)
    tangents = case.inputs(dtype=torch.float64, seed=6)
    ends = []
    with torch.no_grad(), kernels("reference"):
        for sign in (1, -1):
            moved = (x + sign * step * t for x, t in zip(inputs, tangents, strict=True))
            ends.append(call(layer, *moved))
    return (ends[0] - ends[1]) / (2 * step)


def functional(case: Case) -> None:
    layer, inputs = case.build(), case.inputs()
    _, expected = exact(case)
    parameters = dict(layer.named_parameters())

    def loss(parameters: dict[str, Tensor], *inputs: Tensor) -> Tensor:
        found = output(functional_call(layer, parameters, inputs))
        return (found * weighing(found)).sum()

    of_parameters, *of_inputs = grad(loss, (0, 1, 2, 3))(parameters, *inputs)
    close([*of_inputs, *of_parameters.values()], expected)
    rows = case.inputs(2)
    each = vmap(grad(loss), (None, 0, 0, 0))(parameters, *rows)  # per-example gradients
    for i in range(2):
        one = grad(loss)(parameters, *(x[i] for x in rows))
        close([g[i] for g in each.values()], list(one.values()))


def second(case: Case) -> None:
    expected = _second(case, torch.float64, "reference")
    close(_second(case, torch.float64), expected, atol=1e-8)
    close(_second(case, torch.float32), expected, atol=2e-4, rtol=1e-3)


def second_by_differences(case: Case) -> None:
    layer = case.build().double()
    inputs = [x.requires_grad_() for x in case.inputs(dtype=torch.float64)]
    names = [name for name, _ in layer.named_parameters()]

    def run(query: Tensor, key: Tensor, value: Tensor, *parameters: Tensor) -> Tensor:
        named = dict(zip(names, parameters, strict=True))
        return output(functional_call(layer, named, (query, key, value)))

    assert torch.autograd.gradgradcheck(run, [*inputs, *layer.parameters()], fast_mode=True)


def _second(case: Case, dtype: torch.dtype, kernel: str | None = None) -> list[Tensor]:
    """The gradient of a gradient's squares."""
    layer = case.build().to(dtype)
    inputs = [x.requires_grad_() for x in case.inputs(dtype=dtype)]
    wanted = [*inputs, *layer.parameters()]
    if kernel is None:
        found = call(layer, *inputs)
    else:
        with kernels(kernel):
            found = call(layer, *inputs)
    loss = (found * weighing(found)).sum()
    first = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
    squares = sum((g**2).sum() for g in first if g is not None) + (found**2).sum()
    grads = torch.autograd.grad(squares, wanted, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, grads, strict=True)]


def meta(case: Case) -> None:
    expected, _ = exact(case)
    layer = case.build().to("meta")
    inputs = [x.requires_grad_() for x in case.inputs()]
    found = call(layer, *(x.to("meta") for x in inputs))
    assert found.is_meta
    assert found.shape == expected.shape


def fake(case: Case) -> None:
    expected, _ = exact(case)
    layer = case.build()
    inputs = [x.requires_grad_() for x in case.inputs()]
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        found = call(layer, *(mode.from_tensor(x) for x in inputs))
        assert found.shape == expected.shape
        found.sum().backward()


def quantized(case: Case) -> None:
    expected, _ = exact(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao says that it moves to torchao
        layer = torch.ao.quantization.quantize_dynamic(case.build(), {nn.Linear}, dtype=torch.qint8)
        linear = [x for x in case.build().modules() if type(x) is nn.Linear]
        kind = torch.ao.nn.quantized.dynamic.Linear
        made = [x for x in layer.modules() if isinstance(x, kind)]
        assert len(made) == len(linear)
        found = call(layer, *case.inputs())
    far = (found - expected).abs() > 0.1 + 0.1 * expected.abs()
    assert far.double().mean() < 0.1  # a choice of keys may come out another way


FEATURES: dict[str, Callable[[Case], None]] = {
    "autocast bf16": autocast_bf16,
    "autocast fp16": autocast_fp16,
    "half": half,
    "compile": compiled,
    "lengths": resized,
    "export": exported,
    "vmap": vmapped,
    "jvp": forward_mode,
    "functional_call": functional,
    "double backward": second,
    "gradgradcheck": second_by_differences,
    "checkpoint": checkpointed,
    "meta": meta,
    "fake": fake,
    "copies": copied,
    "to_empty": emptied,
    "inference mode": inference,
    "quantized": quantized,
}
SURROGATES = {"StraightThrough"}
"""Parts with the gradient of another function, which no difference quotient of theirs gives."""
SLOW = {"compile", "lengths", "export", "gradgradcheck", "FSDP2"}


def sharded(rank: int, world: int, store: str, names: list[str], said: Any) -> None:
    """One process of FSDP2: each case is sharded over all of them and trained on their rows."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
    for case in CASES:
        if str(case) not in names:
            continue
        try:
            layer = case.build()
            fully_shard(layer, mesh=mesh)
            inputs = [x.requires_grad_() for x in case.inputs(seed=5 + rank)]
            found = call(layer, *inputs)
            (found * weighing(found)).sum().backward()
            whole = [None if p.grad is None else p.grad.full_tensor() for p in layer.parameters()]
            if rank == 0:
                said[str(case)] = (found.detach(), [x.grad for x in inputs], whole)
        except Exception as error:  # told to the test that waits for this case
            said[str(case)] = f"{type(error).__name__}: {error}"
            if rank == 0:
                raise
    dist.barrier()
    dist.destroy_process_group()


def compare_sharded(case: Case, said: Any, world: int) -> None:
    """What rank 0 found is what one process finds for its rows; gradients are the mean of all."""
    if isinstance(said, str):
        raise AssertionError(said)
    found, of_inputs, of_parameters = said
    shares = []
    for rank in range(world):
        layer = case.build().double()
        inputs = [x.requires_grad_() for x in case.inputs(dtype=torch.float64, seed=5 + rank)]
        with kernels("reference"):
            expected = call(layer, *inputs)
        grads = gradients(expected, inputs, layer)
        if rank == 0:
            close(found, expected.detach())
            given = [torch.zeros_like(x) if g is None else g
                     for x, g in zip(inputs, of_inputs, strict=True)]  # fmt: skip
            close(given, grads[:3])
        shares.append(grads[3:])
    for own, *each in zip(of_parameters, *shares, strict=True):
        mean = torch.stack(each).mean(0)
        close(torch.zeros_like(mean) if own is None else own, mean)


def inapplicable(part: str, feature: str) -> bool:
    """Whether the feature compares second derivatives with differences that the part has not."""
    return part in SURROGATES and feature == "gradgradcheck"


def table() -> str:
    """The table of the page: a row a part, a column a feature."""
    names = [*FEATURES, "FSDP2"]
    layers: dict[str, list[str]] = {}
    for case in CASES:
        layers.setdefault(case.part, []).append(case.layer)
    lines = ["| part | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for part, where in layers.items():
        cell = "yes" if len(where) == 2 else f"`{where[0]}`"
        cells = ["–" if inapplicable(part, name) else cell for name in names]
        lines.append(f"| `{part}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
