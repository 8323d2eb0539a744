"""What ships is what it says, and none of it is in what the shipped translator learned from."""

import gzip
import os
import re
import unicodedata
from pathlib import Path

import pytest

from regard.data.sources import shipped

SAMPLES = ("mt-gnome-de", "mt-bible-de")
TRAINED_ON = Path(os.environ.get("REGARD_DATA", "")) / "mt" / "de-en" / "train.tsv.gz"


def rows(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n").split("\t") for line in file]


def bare(text: str) -> str:
    """Without case, punctuation and white space."""
    return " ".join(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def test_each_folder_says_its_licence():
    for name in ("pronunciation", *SAMPLES):
        assert (shipped() / name / "README.md").is_file()
    assert "Carnegie Mellon" in (shipped() / "pronunciation" / "LICENSE").read_text()
    assert "Attribution-ShareAlike 3.0" in (shipped() / "mt-gnome-de" / "LICENSE").read_text()
    assert "Public domain" in (shipped() / "mt-bible-de" / "README.md").read_text()


def test_the_samples_are_dev_and_test_only():
    files = {f.name for name in SAMPLES for f in (shipped() / name).glob("*.gz")}
    assert files == {"dev.tsv.gz", "test.tsv.gz"}
    counts = {
        n: [len(rows(shipped() / n / f"{s}.tsv.gz")) for s in ("dev", "test")] for n in SAMPLES
    }
    assert counts == {"mt-gnome-de": [46, 37], "mt-bible-de": [194, 314]}
    for name in SAMPLES:
        assert rows(shipped() / name / "test.tsv.gz")[0][1:] == ["en", "de"]


def test_words_are_in_one_split_of_the_dictionary():
    found = {s: [r[0] for r in rows(shipped() / "pronunciation" / f"{s}.tsv.gz")]
             for s in ("train", "dev", "test")}  # fmt: skip
    words = [word for split in found.values() for word in split]
    assert len(words) == len(set(words)) == 118_625


@pytest.mark.skipif(
    not TRAINED_ON.is_file(),
    reason="needs $REGARD_DATA with mt/de-en/train.tsv.gz, what de-en-small learned from",
)
def test_no_scored_sentence_was_trained_on():
    trained = rows(TRAINED_ON)[1:]
    english, german = ({bare(row[i]) for row in trained} for i in (2, 3))
    assert len(trained) > 200_000
    assert bare(trained[5][2]) in english
    for name in SAMPLES:
        for split in ("dev", "test"):
            for _, en, de in rows(shipped() / name / f"{split}.tsv.gz")[1:]:
                assert bare(en) not in english, en
                assert bare(de) not in german, de
