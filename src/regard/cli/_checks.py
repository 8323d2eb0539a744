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

from regard import native
from regard.attention import (
    Additive,
    ALiBi,
    Attention,
    Causal,
    Cosine,
    Directional,
    Dot,
    Edges,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    General,
    InverseEuclidean,
    Lengths,
    LocalPredictive,
    Location,
    LocationAware,
    NegativeSquaredEuclidean,
    PreviousWeights,
    RelativeKeys,
    RelativeValues,
    ScaledDot,
    SplitLinear,
    Window,
    explain,
    kernels,
)
from regard.attention._kernels.dispatch import table
from regard.cli._levels import levels
from regard.errors import RequestError
from regard.system.extras import install

__all__ = ["EXTRAS", "check_kernels", "compiled", "of_folder", "report"]

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
    "serve": ("fastapi", "uvicorn", "prometheus_client", "python_multipart", "httpx"),
    "speech": ("soundfile",),
    "vision": ("PIL",),
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
    "location-aware": lambda: Attention(
        LocationAware(DIM, DIM, hidden=16, filters=2, width=5), carry=PreviousWeights()
    ),
    "relative (Shaw)": lambda: Attention(RelativeKeys(DIM, 4), read=RelativeValues(DIM, 4)),
    "ALiBi, one head": lambda: Attention(ScaledDot(), position=ALiBi(1)),
    "negative squared Euclidean": lambda: Attention(NegativeSquaredEuclidean()),
    "inverse Euclidean": lambda: Attention(InverseEuclidean()),
    "local-p": lambda: Attention(ScaledDot(), select=LocalPredictive(DIM, 8, reach=3)),
    "feature-wise": lambda: _features(),
    "feature-wise, directional": lambda: _features(mask=Directional("forward")),
    "edges of a graph": lambda: Attention(SplitLinear(DIM, DIM), mask=_graph()),
}
"""The kinds of attention that are explained and checked."""


def _features(mask: Directional | None = None) -> Attention:
    score = FeatureAdditive(DIM, DIM, DIM)
    return Attention(score, mask=mask, select=FeatureSoftmax(), read=FeatureSum())


def _graph() -> Edges:
    """Three edges for each query but the last, which has none."""
    sources = torch.arange(3 * (QUERIES - 1)) * 7 % KEYS
    targets = torch.arange(QUERIES - 1).repeat_interleave(3)
    return Edges.of(torch.stack([sources, targets]), QUERIES, keys=KEYS)


def report() -> dict[str, Any]:
    """Everything, as plain values."""
    return {
        "versions": {"python": platform.python_version(), **dict(_versions())},
        "machine": _machine(),
        "extras": {name: _extra(name) for name in EXTRAS},
        "compiled": compiled(),
        "levels": levels(),
        "kernels": {name: str(explain(make())[""]) for name, make in KINDS.items()},
        "models": {f.name: _size(f) for f in sorted((SHIPPED / "models").glob("*"))},
        "data": _data(),
        "checks": list(check_kernels()),
    }


def compiled() -> dict[str, str]:
    """What kernels are made of here: the library in C, Triton, FlexAttention; and why not."""
    return {"C": _library(), "Triton": _triton(), "FlexAttention": _flex()}


def _library() -> str:
    found = native.library()
    if found is None:
        return f"none ({native.missing()}); blocks of PyTorch instead"
    path = Path(found._name)
    origin = "shipped with the package" if path.parent == native.FOLDER else "built on this machine"
    note = f"; {native.missing()}" if native.missing() else ""
    return f"{native.level()}, {origin}: {path}{note}"


def _triton() -> str:
    if not torch.cuda.is_available():
        return "not used: there is no CUDA device"
    if find_spec("triton") is None:
        return "not used: triton is not installed"
    return f"{metadata.version('triton')}, for {torch.cuda.get_device_name()}"


def _flex() -> str:
    if not torch.cuda.is_available():
        return "not used: on a CPU it has no backward pass"
    return f"of torch {torch.__version__}"


def of_folder(model: torch.nn.Module) -> dict[str, Any]:
    """Which kernel each attention of a model takes, and why each faster one was not taken."""
    return {
        path or "(the model)": {
            "kernel": one.kernel,
            "passed_over": dict(one.passed_over),
            "text": str(one),
        }
        for path, one in explain(model).items()
    }


def _versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        try:  # torch's own has its build, too: 2.15.0+cu132
            yield package, torch.__version__ if package == "torch" else metadata.version(package)
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
    return f"lacks {', '.join(missing)}: {install(name)}" if missing else "installed"


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
        # a graph says by itself which keys there are
        graph = isinstance(layer.mask, Edges)
        lengths = None if graph else Lengths(torch.tensor([KEYS, KEYS - 7]))
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


def _outputs(layer: Attention, x: list[Tensor], lengths: Lengths | None) -> list[Tensor]:
    """The context and the gradients of its squared sum: queries', keys', values', parameters'."""
    inputs = [t.detach().requires_grad_() for t in x]
    context = layer(*inputs, mask=lengths).context
    wanted = [*inputs, *layer.parameters()]
    gradients = torch.autograd.grad(
        context.square().sum(), wanted, allow_unused=True, materialize_grads=True
    )
    return [context.detach(), *gradients]
