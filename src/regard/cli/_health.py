"""What `regard doctor` finds out."""

import os
import platform
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention import (
    Additive,
    Attention,
    Causal,
    Cosine,
    Dot,
    General,
    Lengths,
    Location,
    ScaledDot,
    Window,
    explain,
    kernels,
)
from regard.attention._kernels.table import table
from regard.errors import RequestError

__all__ = ["EXTRAS", "check_kernels", "report"]

PACKAGES = (
    "regard",
    "torch",
    "numpy",
    "tokenizers",
    "safetensors",
    "pytorch-lightning",
    "sacrebleu",
    "typer",
)

EXTRAS = {
    "view": ("matplotlib",),
    "serve": ("fastapi", "uvicorn"),
    "speech": ("soundfile",),
    "vision": ("PIL",),
    "hub": ("huggingface_hub", "datasets"),
    "export": ("onnx", "onnxscript", "ctranslate2"),
}
"""What each extra brings, as modules."""

SHIPPED = Path(__file__).parents[1] / "shipped"
"""What comes with the package. Looked at, not loaded: a doctor works where other things do not."""

DIM, KEYS, QUERIES = 24, 41, 29
BOUND = 1e-5
"""The largest error a kernel may make in float32, relative to the largest value."""

KINDS: dict[str, Callable[[], Attention]] = {
    "dot": lambda: Attention(Dot()),
    "scaled dot": lambda: Attention(ScaledDot()),
    "scaled dot, causal": lambda: Attention(ScaledDot(), mask=Causal()),
    "scaled dot, window": lambda: Attention(ScaledDot(), mask=Window(5, 3)),
    "general": lambda: Attention(General(DIM, DIM)),
    "cosine": lambda: Attention(Cosine()),
    "additive": lambda: Attention(Additive(DIM, DIM, hidden=16)),
    "location": lambda: Attention(Location(DIM, max_length=KEYS)),
}
"""The kinds of attention that are explained and checked."""


def report() -> dict[str, Any]:
    """Everything, as plain values."""
    return {
        "versions": {"python": platform.python_version(), **dict(_versions())},
        "machine": _machine(),
        "extras": {name: _extra(name) for name in EXTRAS},
        "kernels": {name: str(explain(make())[""]) for name, make in KINDS.items()},
        "models": {f.name: _size(f) for f in sorted((SHIPPED / "models").glob("*"))},
        "data": _data(),
        "checks": list(check_kernels()),
    }


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield package, "not installed"


def _machine() -> dict[str, Any]:
    cuda = torch.version.cuda
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": f"{usable} cores to use, {torch.backends.cpu.get_cpu_capability()}",
        "threads": torch.get_num_threads(),
        "torch build": f"CUDA {cuda}" if cuda else "CPU",
        "devices": ", ".join(["cpu", *devices]),
    }


def _extra(name: str) -> str:
    missing = [m for m in EXTRAS[name] if find_spec(m) is None]
    return f"lacks {', '.join(missing)}: pip install 'regard[{name}]'" if missing else "installed"


def _size(folder: Path) -> str:
    size = sum(f.stat().st_size for f in folder.iterdir() if f.is_file())
    return f"{size / 2**20:.1f} MiB, {folder}"


def _data() -> dict[str, str]:
    named = os.environ.get("REGARD_DATA")
    found = "not set" if named is None else named if Path(named).is_dir() else f"{named} (missing)"
    return {
        "$REGARD_DATA": found,
        **{f.name: str(f) for f in sorted((SHIPPED / "data").glob("*"))},
    }


def check_kernels() -> Iterator[dict[str, Any]]:
    """Run each kernel on each kind of attention it takes, in float32, against float64 reference."""
    for kind, make in KINDS.items():
        torch_state = torch.random.get_rng_state()
        torch.manual_seed(1)
        layer = make()
        x = [torch.randn(2, n, DIM) for n in (QUERIES, KEYS, KEYS)]
        torch.random.set_rng_state(torch_state)
        lengths = Lengths(torch.tensor([KEYS, KEYS - 7]))
        with kernels("reference"):
            expected = _outputs(layer.double(), [t.double() for t in x], lengths)
        layer.float()
        for kernel in table():
            started = time.perf_counter()
            try:
                with kernels(kernel.name):
                    found = _outputs(layer, x, lengths)
            except RequestError:
                continue  # it says that it does not do this kind
            pairs = zip(found, expected, strict=True)
            error = max(
                float((f - e).abs().max() / e.abs().max().clamp_min(1e-30)) for f, e in pairs
            )
            yield {
                "name": f"{kernel.name}: {kind}",
                "good": error <= BOUND,
                "error": error,
                "seconds": time.perf_counter() - started,
                "note": f"output and gradients within {error:.0e} of float64",
            }


def _outputs(layer: Attention, x: list[Tensor], lengths: Lengths) -> list[Tensor]:
    """The context and the gradients of its squared sum: queries', keys', values', parameters'."""
    inputs = [t.detach().requires_grad_() for t in x]
    context = layer(*inputs, mask=lengths).context
    wanted = [*inputs, *layer.parameters()]
    gradients = torch.autograd.grad(
        context.square().sum(), wanted, allow_unused=True, materialize_grads=True
    )
    return [context.detach(), *gradients]
