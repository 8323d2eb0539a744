"""The picture in the terminal, read back from its characters."""

import torch
from rich.cells import cell_len

from regard.viewer.palette import shade
from regard.viewer.terminal.matrix import SHADES, draw
from regard.views.picture import Picture


def read(text, rows, columns, cell):
    """The shades of the cells, as places in SHADES, from lines that begin with the rows' words."""
    lines = text.plain.split("\n")
    label = max(map(cell_len, rows)) + 2
    found = []
    for word in rows:
        line = next(x for x in lines if x[: label - 2].strip() == word and "│" not in x)
        body = line[label:].ljust(cell * len(columns))
        found.append([SHADES.index(body[j * cell]) for j in range(len(columns))])
    return found


def test_cells_are_where_the_weights_are():
    rows, columns = ["the", "window", "closes"], ["das", "Fenster", "schließt", "."]
    weights = torch.tensor([[0.9, 0.1, 0, 0], [0, 1, 0, 0], [0, 0, 0.26, 0.74]])
    text = draw(Picture(rows, columns, weights), colour=False, width=100)
    assert read(text, rows, columns, 3) == [[4, 0, 0, 0], [0, 4, 0, 0], [0, 0, 1, 3]]
    header = text.plain.split("\n")[:4]
    for i, (line, word) in enumerate(zip(header, columns, strict=True)):
        assert line.index(word) == len("window") + 2 + 3 * i  # above its cells
        assert line.count("│") == i


def test_colours_are_those_of_the_figures():
    weights = torch.tensor([[0.25, 0.75]])
    text = draw(Picture(["a"], ["b", "c"], weights), colour=True)
    used = [
        span.style.bgcolor.get_truecolor()
        for span in text.spans
        if getattr(span.style, "bgcolor", 0)
    ]
    assert [tuple(c) for c in used] == [shade(0.25), shade(0.75)]


def test_small_weights_are_scaled_and_that_is_said():
    text = draw(Picture(["a"], ["b", "c"], torch.tensor([[0.1, 0.05]])), colour=False).plain
    assert "darkest = 0.1" in text
    assert "██ ▒▒" in text
    assert "darkest" not in draw(Picture(["a"], ["b"], torch.ones(1, 1)), colour=False).plain


def test_values_are_written_as_in_figures():
    weights = torch.tensor([[0.07, 0.93, 1.0, -0.25, 10.25, 1e-7]])
    for colour in (False, True):
        text = draw(Picture(["a"], list("bcdefg"), weights), colour=colour, values=True)
        line = next(one for one in text.plain.split("\n") if one.startswith("a"))
        assert line.split() == ["a", ".07", ".93", "1.00", "−.25", "10.25"]


def test_nothing_is_wider_than_the_terminal_and_no_column_is_lost():
    rows = [f"row{i}" for i in range(5)]
    columns = [f"Donaudampfschifffahrt{i}" for i in range(40)]
    weights = torch.zeros(5, 40)
    weights[torch.arange(5), torch.tensor([0, 9, 17, 30, 39])] = 1.0
    for width in (24, 60, 200):
        lines = draw(Picture(rows, columns, weights), colour=False, width=width).plain.split("\n")
        assert max(map(cell_len, lines)) <= width
        body = [line for line in lines if line.strip().startswith("row")]
        assert sum(line.count("█") for line in body) == 2 * 5
        heads = [line for line in lines if line and "█" not in line and "row" not in line]
        assert len([line for line in heads if "Don" in line or "D…" in line or "…" in line]) == 40


def test_words_of_double_width_keep_the_columns_straight():
    rows = ["你好", "a"]
    text = draw(Picture(rows, ["x"], torch.ones(2, 1)), colour=False).plain.split("\n")
    places = [cell_len(line[: line.index("█")]) for line in text if "█" in line]
    assert places == [6, 6]


def test_words_cannot_steer_the_terminal():
    text = draw(Picture(["a\x1b[2J"], ["b\r\n\x07"], torch.ones(1, 1)), colour=False).plain
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert text.count("\n") == 1


def test_one_by_one_and_a_title():
    text = draw(Picture(["a"], ["b"], torch.ones(1, 1)), colour=False, title="model · score −1")
    assert text.plain == "model · score −1\n\n   b\na  ██"


def halves(text):
    """Colours of the upper and of the lower halves, line by line."""
    found = []
    for line in text.split("\n"):
        spans = [s for s in line.spans if getattr(s.style, "color", None) and "▀" in line.plain]
        if spans:
            both = [(s.style.color, s.style.bgcolor) for s in spans]
            found.append([tuple(c and tuple(c.get_truecolor()) for c in pair) for pair in both])
    return found


def test_what_does_not_fit_is_drawn_in_half_blocks():
    rows, columns = ["the", "window", "closes"], [f"Wort{i:02}" for i in range(40)]
    weights = torch.zeros(3, 40)
    weights[[0, 1, 2], [3, 20, 39]] = torch.tensor([1.0, 0.5, 0.25])
    text = draw(Picture(rows, columns, weights), width=60)
    lines = text.plain.split("\n")
    assert max(map(cell_len, lines)) <= 60
    assert [lines[i][12 : 12 + 40] for i in range(3)] == ["W" * 40, "o" * 40, "r" * 40]
    assert lines[5][12:] == "".join(f"{i % 10}" for i in range(40))
    assert [line.split("▀")[0].split() for line in lines[6:]] == [["the", "window"], ["closes"]]
    first, second = halves(text)
    assert [upper for upper, _ in first] == [shade(float(w)) for w in weights[0]]
    assert [lower for _, lower in first] == [shade(float(w)) for w in weights[1]]
    assert [upper for upper, _ in second] == [shade(float(w)) for w in weights[2]]
    assert {lower for _, lower in second} == {None}
    for whole in ({"colour": False}, {"values": True}, {"width": 120}):
        assert "▀" not in draw(Picture(rows, columns, weights), **{"width": 60} | whole).plain


def test_half_blocks_continue_below_and_follow_the_letters():
    columns = ["你好", "é", "Donaudampfschifffahrt"] * 20
    weights = torch.rand(4, 60)
    text = draw(Picture(list("abcd"), columns, weights), width=50)
    lines = text.plain.split("\n")
    assert max(map(cell_len, lines)) <= 50
    assert sum(line.count("▀▀") for line in lines) == 2 * 60
    drawn = halves(text)
    upper = [cell for line in drawn[::2] for cell, _ in line]
    assert upper == [shade(float(w), float(weights.max().mul(20).ceil() / 20)) for w in weights[0]]
    assert "你好é" not in text.plain
    assert sum(line.count("é") for line in lines) == 20
    assert sum(line.count("⋮") for line in lines) == 20


def test_weights_below_zero_have_a_sign_or_a_hue():
    signed = Picture(["a"], ["b", "c", "d"], torch.tensor([[1.0, -1.0, -0.01]]))
    plain = draw(signed, colour=False).plain
    assert plain.splitlines()[-2].rstrip() == "a  ██ -█"
    assert plain.splitlines()[-1].strip() == "- : below zero"
    styles = [span.style for span in draw(signed).spans]
    grounds = [tuple(s.bgcolor.get_truecolor()) for s in styles if getattr(s, "bgcolor", 0)]
    assert grounds[:2] == [shade(1.0), shade(-1.0)]
    assert grounds[0] != grounds[1]
