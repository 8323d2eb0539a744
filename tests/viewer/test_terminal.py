"""The picture in the terminal, read back from its characters."""

import torch
from rich.cells import cell_len

from regard.viewer.palette import shade
from regard.viewer.picture import Picture
from regard.viewer.terminal import SHADES, draw


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


def test_values_are_hundredths():
    text = draw(Picture(["a"], ["b", "c"], torch.tensor([[0.07, 0.93]])), colour=False, values=True)
    assert text.plain.split("\n")[-1].split() == ["a", "7", "93"]


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
