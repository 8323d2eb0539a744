"""The scale: one hue, white at nothing, ever darker, readable text on it."""

import colorsys
import itertools

import pytest

from regard.viewer.palette import STOPS, ink_on, shade, top_of


def luminance(colour):
    """WCAG's relative luminance."""
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_white_to_dark_in_one_hue():
    colours = [shade(i / 100) for i in range(101)]
    assert colours[0] == (255, 255, 255)
    lightness = [luminance(c) for c in colours]
    assert all(a > b for a, b in itertools.pairwise(lightness))
    hues = [colorsys.rgb_to_hsv(*(v / 255 for v in c))[0] * 360 for c in colours[10:]]
    assert max(hues) - min(hues) < 20


def test_lightness_falls_evenly():
    """CIE L*: equal steps of weight are about equal steps to the eye."""
    steps = [116 * luminance(shade(i / 5)) ** (1 / 3) - 16 for i in range(6)]
    falls = [a - b for a, b in itertools.pairwise(steps)]
    assert max(falls) < 2 * min(falls)


@pytest.mark.parametrize("percent", range(-100, 101))
def test_text_on_a_cell_can_be_read(percent):
    ground = luminance(shade(percent / 100))
    ink = luminance(tuple(int(ink_on(percent / 100)[i : i + 2], 16) for i in (1, 3, 5)))
    contrast = (max(ground, ink) + 0.05) / (min(ground, ink) + 0.05)
    assert contrast >= 4.5  # WCAG AA


def test_the_ends_are_the_ends():
    assert shade(-2.0) == shade(-1.0) == (107, 44, 2)
    assert shade(-0.0) == shade(0.0) == (255, 255, 255)
    assert shade(2.0) == shade(1.0) == shade(0.5, top=0.5)
    assert len(STOPS) == 6


@pytest.mark.parametrize(
    ("largest", "top"),
    [([], 1.0), ([0.01], 0.05), ([0.05], 0.05), ([0.3, 0.2], 0.5), ([0.51], 1.0)],
)
def test_the_end_of_the_scale(largest, top):
    assert top_of(largest) == top
