"""One file divided into train, dev and test."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from regard import tasks
from regard.datasets.dividing import shared_out
from regard.errors import RequestError
from tests.tasks.labeled import fitted

SHARES = [0.8, 0.1, 0.1]


def table(path, rows, heading=("text", "label", "who")):
    path.write_text("".join(";".join(map(str, row)) + "\n" for row in [heading, *rows]))
    return path


def texts_of(path, **more):
    config = {"path": str(path), "split": SHARES, "tokenizer": {"kind": "words"}, **more}
    data = tasks.load("classification")().data(config)
    return {name: getattr(data, name).texts for name in ("train", "dev", "test")}, data


@pytest.fixture
def rows():
    draw = random.Random(3)
    made = [(f"text {i}", draw.choice("aaabbc"), f"p{i % 37}") for i in range(399)]
    return [*made, ("text 1", made[1][1], "p1")]  # the same text again


def test_labels_are_in_their_share_and_equal_texts_stay_together(rows, tmp_path):
    found, data = texts_of(table(tmp_path / "a.csv", rows))
    every = [text for texts in found.values() for text in texts]
    assert sorted(every) == sorted(text for text, _, _ in rows)
    label = {text: name for text, name, _ in rows}
    counts = Counter(label[text] for text in every)
    for share, texts in zip(SHARES, found.values(), strict=True):
        mine = Counter(label[text] for text in texts)
        assert all(abs(mine[name] - share * counts[name]) <= 2 for name in counts), (share, mine)
        assert abs(len(texts) - share * len(rows)) <= 1
    assert len({*found["train"]} | {*found["dev"]} | {*found["test"]}) == 399
    assert not {*found["train"]} & {*found["test"]}
    assert texts_of(tmp_path / "a.csv")[0] == found
    other, _ = texts_of(tmp_path / "a.csv", split={"shares": SHARES, "seed": 2})
    assert other != found
    assert data.noted["csv"] == {"delimiter": ";", "quote": '"', "escape": ""}


def test_groups_are_never_divided(rows, tmp_path):
    path = table(tmp_path / "a.csv", rows)
    found, _ = texts_of(path, split={"shares": SHARES, "by": "who"})
    who = {text: name for text, _, name in rows}
    groups = [{who[text] for text in texts} for texts in found.values()]
    assert all(not a & b for a, b in pairwise([*groups, groups[0]]))
    assert [round(len(texts) / 400, 1) for texts in found.values()] == SHARES


def test_the_folder_keeps_the_split_and_refuses_other_rows(rows, tmp_path):
    path = table(tmp_path / "a.csv", rows)
    found, data = texts_of(path)
    config = {"path": str(path), **data.noted}
    task = tasks.load("classification")()
    again = task.data(config, data.fields, splits=("test",)).test
    assert again.texts == found["test"]
    table(path, rows[:-9])
    said = r"other rows than in the training \(391 now, 400 then\)"
    with pytest.raises(RequestError, match=said):
        task.data(config, data.fields, splits=("test",))


def test_a_finished_training_is_not_another_one_for_what_its_files_told(rows, tmp_path):
    """Cells and rows are divided as the folder notes; the recipe is the one that was asked for."""
    path = table(tmp_path / "a.csv", rows)
    model = {"name": "bag-of-ngrams"}
    made = fitted(tmp_path, path, model, {"name": "classification"}, 1, split=SHARES)
    assert fitted(tmp_path, path, model, {"name": "classification"}, 1, split=SHARES) == made


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"split": [0.8, 0.3]}, "which add up to 1"),
        ({"split": {"shares": SHARES, "bye": "x"}}, "did you mean 'by'"),
        ({"split": {"shares": SHARES, "by": "whom"}}, "did you mean 'who'"),
        ({"dev": "x.csv"}, r"leave data\.dev or data\.split out"),
        ({"store": "x"}, r"leave data\.store or data\.split out"),
    ],
)
def test_what_makes_no_sense_is_refused(more, said, rows, tmp_path):
    with pytest.raises(RequestError, match=said):
        texts_of(table(tmp_path / "a.csv", rows), **more)


def test_too_few_rows_and_a_file_alone_are_said(rows, tmp_path, caplog):
    path = table(tmp_path / "a.csv", rows[:3])
    with pytest.raises(RequestError, match="has too few rows or groups for its shares"):
        texts_of(path)
    path = table(tmp_path / "b.csv", rows)
    tasks.load("classification")().data({"path": str(path)})
    assert "nothing will be scored; data.split: [0.8, 0.1, 0.1]" in caplog.text


def test_rare_strata_and_large_groups_leave_no_split_empty():
    for seed in range(20):
        draw = random.Random(seed)
        units = [(draw.choice("abcdefgh"), draw.choice([1, 1, 1, 2, 9])) for _ in range(120)]
        of, total = shared_out(units, SHARES, seed), sum(size for _, size in units)
        for i, share in enumerate(SHARES):
            size = sum(n for (_, n), at in zip(units, of, strict=True) if at == i)
            assert abs(size - share * total) <= 9
