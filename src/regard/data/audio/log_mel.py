r"""Log-mel frames of a sound, with the differences in time that speech recognition reads.

A frame every 10 ms is a window of 25 ms: pre-emphasis :math:`x_t - 0.97 x_{t-1}`, a Hamming window,
the power spectrum, triangles on the mel scale :math:`2595 \log_{10}(1 + f / 700)`, logarithms; and
the logarithm of the window's energy (Davis and Mermelstein 1980; Young et al., "The HTK Book").
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.images import images
from regard.errors import RequestError

__all__ = ["HOP", "differences", "frame_count", "log_mel", "spectrogram", "triangles"]

WINDOW, HOP = 0.025, 0.010
"""Seconds of a frame, and from one frame to the next."""
EMPHASIS = 0.97
LEAST = 1e-10
"""What is added to a power before its logarithm, of samples from -1 to 1."""


def log_mel(
    values: NDArray[np.float32], rate: int, filters: int = 40
) -> Float[Tensor, "frames numbers"]:
    """`filters` log-mel powers and the log-energy of each frame; silence fills the last one.

    Args:
        values: samples.
        rate: samples a second.

    Example:
        >>> log_mel(np.zeros(1600, np.float32), 16000).shape
        torch.Size([9, 41])
    """
    size, hop = round(WINDOW * rate), round(HOP * rate)
    count = frame_count(len(values), rate)
    x = torch.from_numpy(np.asarray(values, np.float32))
    x = torch.nn.functional.pad(x, (0, (count - 1) * hop + size - len(x)))
    energy = x.unfold(0, size, hop).square().mean(1)
    x = torch.cat([x[:1], x[1:] - EMPHASIS * x[:-1]])
    points = 1 << max(size - 1, 1).bit_length()
    frames = x.unfold(0, size, hop) * torch.hamming_window(size, periodic=False)
    power = torch.fft.rfft(frames, points).abs().square() / size
    mel = power @ triangles(filters, points, rate).T
    return torch.log(torch.cat([mel, energy[:, None]], 1) + LEAST)


def frame_count(size: int, rate: int) -> int:
    """Frames of `size` samples: every one that begins a whole hop before the end, at least one."""
    window, hop = round(WINDOW * rate), round(HOP * rate)
    return max(1 + math.ceil((size - window) / hop), 1)


def triangles(filters: int, points: int, rate: int) -> Float[Tensor, "filters bins"]:
    """Triangular filters whose corners lie evenly on the mel scale, from 0 to half of the rate.

    Args:
        filters: how many.
        points: of the Fourier transform; its `points // 2 + 1` bins are weighed.
        rate: samples a second.
    """
    top = 2595 * math.log10(1 + rate / 2 / 700)
    corners = 700 * (10 ** (torch.linspace(0, top, filters + 2, dtype=torch.float64) / 2595) - 1)
    bins = torch.arange(points // 2 + 1, dtype=torch.float64) * rate / points
    left, middle, right = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    found = torch.minimum((bins - left) / (middle - left), (right - bins) / (right - middle))
    return found.clamp(min=0).float()


def differences(
    frames: Float[Tensor, "*batch time dim"], orders: int = 2, reach: int = 2
) -> Float[Tensor, "*batch time wide"]:
    r"""Frames with their differences in time beside them, and the differences of these.

    .. math:: d_t = \frac{\sum_{n=1}^{N} n\,(x_{t+n} - x_{t-n})}{2 \sum_{n=1}^{N} n^2}

    The first and the last frame stand for those before and after.

    Args:
        orders: 0: the frames alone; 1: and their differences; 2: and the differences of those.
        reach: N.

    Example:
        >>> differences(torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0]]), orders=1)[2].tolist()
        [2.0, 1.0]
    """
    parts = [frames]
    scale = 2 * sum(n * n for n in range(1, reach + 1))
    time = frames.shape[-2]
    for _ in range(orders):
        x = parts[-1]
        first, last = x[..., :1, :], x[..., -1:, :]
        held = [reach if i == -2 else -1 for i in range(-x.dim(), 0)]
        x = torch.cat([first.expand(held), x, last.expand(held)], -2)
        total = torch.zeros_like(parts[-1])
        for n in range(1, reach + 1):
            after = x[..., reach + n : reach + n + time, :]
            before = x[..., reach - n : reach - n + time, :]
            total = total + n * (after - before)
        parts.append(total / scale)
    return torch.cat(parts, -1)


def spectrogram(mel: Float[Tensor, "filters frames"]) -> bytes | None:
    """Log-mel frames as a PNG's bytes, low tones at the bottom; None without Pillow."""
    levels = mel.flip(0).numpy()
    low, high = np.percentile(levels, [5, 99.5])
    gray = np.clip((levels - low) / max(high - low, 1e-6) * 255, 0, 255).astype(np.uint8)
    try:
        return images.png(gray[..., None])
    except RequestError:
        return None
