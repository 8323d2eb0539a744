"""Networks in ONNX files, run by onnxruntime up to their last maps."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import RegardError, RequestError
from regard.system.extras import install

__all__ = ["onnx_maps"]

Features = NDArray[np.float32]
KINDS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


def onnx_maps(file: str, channels: int, output: str = "") -> Callable[[Features], Features]:
    """What gives the regions (L, D) of a picture (1, C, H, W).

    A tensor of (1, D, H', W') is maps, one of (1, L, D) regions as they are. Where an output of the
    network has such a form it is taken, else the last tensor within it that has maps.

    Args:
        output: the name of another tensor.

    Raises:
        RequestError: onnxruntime is not installed, the file is no network, it reads no pictures,
            or nothing in it has regions.
    """
    model = _loaded(file)
    names = [one.name for one in model.graph.output]
    inside = [name for node in model.graph.node for name in node.output]
    if output and output not in names + inside:
        raise RequestError(
            f"task.backbone.output: {file} has no tensor {output!r}; "
            f"its last ones are {', '.join((inside or names)[-3:])}"
        )
    wanted = output or _last_maps(model, names, file)
    if wanted not in names:
        import onnx

        model.graph.output.append(onnx.ValueInfoProto(name=wanted))
    session = _session(model, file)
    (given, *more) = session.get_inputs()
    shape = given.shape
    if more or given.type not in KINDS or len(shape) != 4:
        raise RequestError(
            f"task.backbone: {file}: expected one input (1, channels, height, width) of floats, "
            f"got {', '.join(f'{one.name} {one.type} {one.shape}' for one in session.get_inputs())}"
        )
    kind = KINDS[given.type]

    def maps(picture: Features) -> Features:
        if any(isinstance(n, int) and n != m for n, m in zip(shape, picture.shape, strict=True)):
            raise RequestError(
                f"task.backbone: {file} reads pictures {tuple(shape)} (batch, channels, height, "
                f"width), got {picture.shape}: set task.size and task.channels"
            )
        try:
            (found,) = session.run([wanted], {given.name: picture.astype(kind)})
        except Exception as error:
            raise RegardError(
                f"task.backbone: {file} failed on a picture: {_said(error)}"
            ) from None
        if not isinstance(found, np.ndarray) or found.ndim not in (3, 4) or len(found) != 1:
            raise RequestError(
                f"task.backbone.output: {wanted} of {file} has the shape {np.shape(found)}; "
                "expected maps (1, D, height, width) or regions (1, L, D)"
            )
        own = found[0] if found.ndim == 3 else found[0].reshape(found.shape[1], -1).T
        return np.ascontiguousarray(own, np.float32)

    return maps


def _loaded(file: str) -> Any:
    """The network as a message, its weights in it.

    Raises:
        RequestError: `onnx` is not installed, or the file is no network.
    """
    try:
        import onnx
    except ImportError:
        raise _missing() from None
    try:
        model = onnx.load(file)
    except Exception as error:  # the reader of messages has errors of many kinds
        raise RequestError(f"task.backbone: {file} is no ONNX file: {_said(error)}") from None
    if not model.graph.node:
        raise RequestError(f"task.backbone: {file} is no ONNX file: it has no network")
    return model


def _last_maps(model: Any, outputs: list[str], file: str) -> str:
    """The output that has regions, or the last tensor inside that has maps of several places."""
    from onnx import shape_inference

    try:
        known = shape_inference.infer_shapes(model).graph
    except Exception:  # what cannot be inferred cannot be looked for
        known = model.graph
    every = [*known.output, *known.value_info]
    sizes = {one.name: [d.dim_value for d in one.type.tensor_type.shape.dim] for one in every}
    for name in outputs:
        if len(sizes.get(name, ())) == 3 or _is_maps(sizes.get(name, [])):
            return name
    for node in reversed(model.graph.node):
        for name in node.output:
            if _is_maps(sizes.get(name, [])):
                return str(name)
    raise RequestError(
        f"task.backbone: {file} has no tensor with maps (1, D, height, width) that could be found; "
        "name one as task.backbone.output"
    )


def _is_maps(sizes: list[int]) -> bool:
    """Whether a tensor is maps of more than one place; a size of 0 is unknown."""
    return len(sizes) == 4 and 1 not in (sizes[2], sizes[3])


def _session(model: Any, file: str) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise _missing() from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # a class of its own for each thing that is wrong
        raise RequestError(f"task.backbone: {file} cannot be run: {_said(error)}") from None


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _missing() -> RequestError:
    return RequestError(
        "an ONNX backbone is read by onnx and onnxruntime, which are not installed: "
        f"{install('backbone')}"
    )
