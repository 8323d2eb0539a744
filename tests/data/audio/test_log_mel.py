"""Log-mel frames and their differences against their formulas in NumPy."""

import math

import numpy as np
import pytest
import torch

from regard.data.audio.log_mel import differences, frame_count, log_mel, triangles


def by_hand(values, rate, filters):
    """Frame by frame, bin by bin."""
    size, hop = round(0.025 * rate), round(0.010 * rate)
    points = 1
    while points < size:
        points *= 2
    count = frame_count(len(values), rate)
    x = np.concatenate([values, np.zeros((count - 1) * hop + size - len(values))])
    loud = np.concatenate([x[:1], x[1:] - 0.97 * x[:-1]])
    window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(size) / (size - 1))
    mel = np.linspace(0, 2595 * math.log10(1 + rate / 2 / 700), filters + 2)
    corners = 700 * (10 ** (mel / 2595) - 1)
    rows = []
    for n in range(count):
        at = slice(n * hop, n * hop + size)
        power = np.abs(np.fft.rfft(loud[at] * window, points)) ** 2 / size
        row = []
        for left, middle, right in zip(corners, corners[1:], corners[2:], strict=False):
            total = 0.0
            for k, p in enumerate(power):
                f = k * rate / points
                if left < f <= middle:
                    total += p * (f - left) / (middle - left)
                elif middle < f < right:
                    total += p * (right - f) / (right - middle)
            row.append(total)
        rows.append(np.log(np.array([*row, np.mean(x[at] ** 2)]) + 1e-10))
    return np.stack(rows)


@pytest.mark.parametrize("rate", [8_000, 16_000])
def test_frames_are_those_of_the_formulas(rate):
    values = np.random.default_rng(1).normal(0, 0.1, rate // 10)
    found = log_mel(values.astype(np.float32), rate, 12)
    np.testing.assert_allclose(found.numpy(), by_hand(values, rate, 12), atol=2e-3)


@pytest.mark.parametrize(("size", "count"), [(1, 1), (400, 1), (401, 2), (560, 2), (561, 3)])
def test_every_sample_is_in_a_frame(size, count):
    assert frame_count(size, 16_000) == count
    assert len(log_mel(np.ones(size, np.float32), 16_000)) == count


def test_a_tone_is_loudest_in_its_filter():
    t = np.arange(8_000) / 16_000
    frames = log_mel(np.sin(2 * np.pi * 1_000 * t).astype(np.float32), 16_000)
    weights = triangles(40, 512, 16_000)[:, 1_000 * 512 // 16_000]
    assert (frames[3:-3, :40].argmax(1) == weights.argmax()).all()


def test_silence_is_finite():
    assert log_mel(np.zeros(800, np.float32), 16_000).isfinite().all()


def test_differences_are_the_regression_of_the_formula():
    x = torch.randn(7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def slow(x):
        out = np.zeros_like(x)
        for t in range(len(x)):
            for n in (1, 2):
                after, before = x[min(t + n, len(x) - 1)], x[max(t - n, 0)]
                out[t] += n * (after - before) / 10
        return out

    first = slow(x.numpy())
    expected = np.concatenate([x.numpy(), first, slow(first)], 1)
    np.testing.assert_allclose(differences(x).numpy(), expected, atol=1e-12)
    assert differences(x[:1]).shape == (1, 6)  # one frame has no differences
    assert not differences(x[:1])[:, 2:].any()
