"""Numbers in figures, terminals and pages, against texts written by hand."""

import math
from importlib.resources import files

import pytest

from regard.views.numbers import decimal, in_cell, significant

WRITTEN = [  # value, two decimals, three decimals, in a cell, three significant digits
    (1.0, "1.00", "1.000", "1.00", "1"),
    (-0.25, "−0.25", "−0.250", "−.25", "−0.25"),
    (10.25, "10.25", "10.250", "10.25", "10.2"),
    (1e-7, "0.00", "0.000", "", "1e-7"),
    (-1e-7, "0.00", "0.000", "", "−1e-7"),
    (math.nan, "NaN", "NaN", "NaN", "NaN"),
    (-math.inf, "−∞", "−∞", "−∞", "−∞"),
    (0.0, "0.00", "0.000", "", "0"),
    (-1.0, "−1.00", "−1.000", "−1.00", "−1"),
    (100.0, "100.00", "100.000", "100.00", "100"),
    (0.999, "1.00", "0.999", "1.00", "0.999"),
    (0.125, "0.13", "0.125", ".13", "0.125"),
    (-0.375, "−0.38", "−0.375", "−.38", "−0.375"),
    (20.5, "20.50", "20.500", "20.50", "20.5"),
    (0.005, "0.01", "0.005", ".01", "0.005"),
    (1.5e21, "1.5e+21", "1.5e+21", "1.5e+21", "1.5e21"),
]


def test_numbers_are_written_one_way():
    for value, two, three, cell, few in WRITTEN:
        assert (decimal(value), decimal(value, 3)) == (two, three), value
        assert (in_cell(value), significant(value)) == (cell, few), value


@pytest.mark.timeout(120)
def test_pages_write_numbers_as_python_does(chromium):
    script = (files("regard.viewer") / "page" / "numbers.js").read_text("utf-8")
    script = f"const {{ abs }} = Math; {script}"
    values = [*(row[0] for row in WRITTEN), *(i / 64 for i in range(-70, 70)), 0.15, 2.675, 1e20]
    page = chromium.new_page()
    found = page.evaluate(
        f"(vs) => {{ {script}; return vs.map((v) => [decimal(v), decimal(v, 3), inCell(v)]); }}",
        values,
    )
    shares = page.evaluate(f"(vs) => {{ {script}; return vs.map(percent); }}", [0, 1, 0.0123, -0.5])
    page.close()
    assert found == [[decimal(v), decimal(v, 3), in_cell(v)] for v in values]
    assert shares == ["0 %", "100 %", "1.2 %", "−50 %"]
