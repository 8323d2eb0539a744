"""The life of a layer: copied, emptied, computed again, used in two modes and at other lengths."""

import copy
import io
import pickle
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils.checkpoint import checkpoint

from regard.attention import kernels
from tests.attention.combine import N
from tests.attention.torch_cases import Case, MaskCase, Masked
from tests.attention.torch_checks import call, close, exact, gradients, learnt, output, weighing

SIZED = ("Lengths", "Documents", "Edges", "Dense")
"""Masks that are made for one number of keys."""


def resized(case: Case) -> None:
    """A second and a third length, with the graph made for any size at once or the second time.

    A part meets one of the two in each of its layers, half of the parts the other way round. What
    it is traced to runs as it is: to compile each part six times would take half an hour.
    """
    lengths = (N,) if isinstance(case, MaskCase) and case.part in SIZED else (N, N + 2, N + 4)
    layer = case.build()
    other = (zlib.crc32(case.part.encode()) + (case.layer == "MultiHead")) % 2
    run = torch.compile(
        lambda *x: call(layer, *x), fullgraph=True, backend="eager", dynamic=(None, True)[other]
    )
    try:
        for length in lengths:
            inputs = [x.requires_grad_() for x in case.inputs(length=length)]
            found = run(*inputs)
            with kernels("reference"):
                expected = call(layer, *inputs)
            close(found, expected)
            grads = gradients(expected, inputs, layer)
            close(gradients(found, inputs, layer), grads)
    finally:
        torch._dynamo.reset()


def checkpointed(case: Case) -> None:
    layer = case.build()
    learnt(case, layer, lambda *x: checkpoint(lambda *y: call(layer, *y), *x, use_reentrant=False))
    _, grads = exact(case)
    inputs = [x.requires_grad_() for x in case.inputs()]  # the older kind knows no autograd.grad
    found = checkpoint(lambda *y: call(layer, *y), *inputs, use_reentrant=True)
    (found * weighing(found)).sum().backward()
    wanted = [*inputs, *layer.parameters()]
    close([torch.zeros_like(x) if x.grad is None else x.grad for x in wanted], grads)


def copied(case: Case) -> None:
    layer = case.build()
    learnt(case, layer, lambda *x: call(layer, *x))
    expected = call(layer, *case.inputs())  # it was used before it is copied
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = case.build()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(torch.load(file, weights_only=True))
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other):
        assert torch.equal(call(twin, *case.inputs()), expected)
        for parameter in twin.parameters():
            assert all(parameter is not own for own in layer.parameters())


def emptied(case: Case) -> None:
    """Weights that are lost and loaded again: what is not loaded is computed anew."""
    layer = case.build()
    expected, saved = call(layer, *case.inputs()), layer.state_dict()
    assigned = case.build().to("meta")
    assigned.load_state_dict(saved, assign=True)
    assert torch.equal(call(assigned, *case.inputs()), expected)
    with _of_nothing():
        others = [
            case.build().to("meta").to_empty(device="cpu"),
            case.build().to_empty(device="cpu"),
        ]
    for other in others:
        other.load_state_dict(saved, strict=True)
        assert torch.equal(call(other, *case.inputs()), expected)


@contextmanager
def _of_nothing() -> Iterator[None]:
    """Memory that is allocated holds no old numbers by chance."""
    empty = torch.empty_like
    try:
        torch.empty_like = lambda *x, **more: empty(*x, **more).fill_(0.3)
        yield
    finally:
        torch.empty_like = empty


def inference(case: Case) -> None:
    """Inference mode, then training; and a memory that is begun in it and goes on outside."""
    layer = case.build()
    expected, _ = exact(case)
    with torch.inference_mode():
        close(call(layer, *case.inputs()), expected)
    learnt(case, layer, lambda *x: call(layer, *x))
    inner, mask = (layer.layer, layer.mask) if isinstance(layer, Masked) else (layer, None)
    query, key, value = case.inputs()
    with torch.inference_mode():
        memory = inner.remember(key[:, :2], value[:, :2])
        memory = inner.extend(memory, key[:, 2:3], value[:, 2:3])
    with torch.no_grad():
        memory = inner.extend(memory, key[:, 3:], value[:, 3:])
        close(output(inner(query, memory, mask=mask)), expected)
