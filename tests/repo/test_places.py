"""The files that thirty questions ask for are there; readers of the list of files found them."""

import csv

from tests.repo.tree import TOP

TABLE = TOP / "tests" / "repo" / "places.tsv"


def test_the_places_are_there():
    """Who renames one names it here too; better, asks a stranger again (docs/house.md)."""
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(lines, delimiter="\t"))
    assert len(rows) == 30
    for row in rows:
        guesses = [one.partition(": ")[2] for one in row["missed"].split("; ") if one]
        for place in (row["file"], *guesses):
            assert (TOP / place).is_file(), f"{row['question']}: {place}"
