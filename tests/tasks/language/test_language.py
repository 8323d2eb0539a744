"""The task language: from a text to a trained folder, against a slow reading of the definition."""

import json
import math
import random

import numpy as np
import pytest
import torch

import regard
from regard import recipe, tasks, train
from regard.data.batch import plan
from regard.errors import RequestError
from regard.evaluation import scoring
from regard.models.memn2n_lm import MemN2NLM
from regard.protocols import EOS, PAD, UNK
from regard.tasks.language.language import Language, ScoredText
from tests.cli.run import run

NAMES = ("ann", "bob", "cy", "dee")


def text(draw, lines):
    """Of every line, the third word is the first again: the memory tells it, and nothing else."""
    made = []
    for _ in range(lines):
        name = draw.choice(NAMES)
        made.append(f"{name} said {name} {draw.choice(('went', 'came'))} .")
    return "".join(line + "\n" for line in made)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    draw, path = random.Random(1), tmp_path_factory.mktemp("texts")
    for split, lines in (("train", 300), ("dev", 12), ("test", 40)):
        (path / f"{split}.txt").write_text(text(draw, lines))
    return path


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("lm") / "model"
    asked = [
        f"data.path={data}", "task.context=8", "task.block=16", "model.memory=8", "model.dim=16",
        "model.hops=2", "train.epochs=20", "train.batch.tokens=128", "train.validate.every=100",
        "train.optimizer.lr=0.02", "model.scale=0.3", "train.schedule.warmup=0",
    ]  # fmt: skip
    train.fit(recipe.load("memory/memn2n-lm", asked), path, progress=False)
    return path


def model_of(made, task, **settings):
    torch.manual_seed(1)
    sizes = task.model_arguments(made.tokenizers)
    return MemN2NLM(**sizes, dim=8, hops=2, scale=0.5, **settings).double().eval()


def slow(model, ids):
    """The log-probability of each id behind the first: one prefix after the other."""
    found = []
    for t in range(1, len(ids)):
        with torch.no_grad():
            logits = model(torch.tensor(np.array([ids[:t]]))).logits[0, -1].numpy()
        found.append(logits[ids[t]] - math.log(np.exp(logits - logits.max()).sum()) - logits.max())
    return found


def test_blocks_hold_every_token_once_with_what_goes_before(data):
    task = Language(context=5, block=7)
    made = task.data({"path": str(data)})
    ids, blocks = made.train.ids, made.train
    assert blocks.sizes[:, 0].sum() == len(ids) - 1 == 300 * 6
    assert set(blocks.sizes[:-1, 0].tolist()) == {7}
    batch = blocks.collate([0, 3, len(blocks) - 1])
    assert batch.tokens.shape == (3, 5 + 7 - 1)
    assert batch.tokens[0].tolist() == [PAD] * 4 + ids[:7].tolist()
    assert batch.target[0].tolist() == ids[1:8].tolist()
    assert batch.tokens[1].tolist() == ids[22 - 5 : 28].tolist()
    assert batch.target[1].tolist() == ids[22:29].tolist()
    rest = len(ids) - 1 - 7 * (len(blocks) - 1)
    assert batch.target[2].tolist() == ids[-rest:].tolist() + [PAD] * (7 - rest)
    assert batch.count == 14 + rest


@pytest.mark.parametrize(
    ("context", "block"),
    [
        (6, 64),
        pytest.param(9, 3, marks=pytest.mark.slow),
        pytest.param(6, 1, marks=pytest.mark.slow),
    ],
)
def test_loss_and_perplexity_are_those_of_every_prefix(data, context, block):
    task = Language(context, block)
    made = task.data({"path": str(data)})
    model, dev = model_of(made, task, memory=6), made.dev
    expected = slow(model, dev.ids.tolist())
    total, count, _ = task.judge(model, dev, None, None, {}, tokens=50, device=torch.device("cpu"))
    assert count == len(expected)
    assert total == pytest.approx(-sum(expected), rel=1e-6)
    found = task.predict(model, dev, None, made.tokenizers, tokens=50)
    assert [s for p in found for s in p.token_scores] == pytest.approx(expected, rel=1e-4)
    score = task.score(found, dev)["perplexity"]
    assert score.value == pytest.approx(math.exp(-sum(expected) / len(expected)), rel=1e-5)
    blocks = [made.train.collate(i) for i in plan(made.train.sizes, tokens=200, shuffle=False)]
    with torch.no_grad():
        losses = [task.loss(model, batch) for batch in blocks]
    assert sum(n for _, n in losses) == 1800
    with torch.no_grad():
        first = task.loss(model, made.train.collate(range(-(-98 // block))))
    assert first[1] > 96
    assert float(first[0]) == pytest.approx(-sum(slow(model, made.train.ids[: first[1] + 1])))


def test_texts_know_nothing_of_each_other_and_come_with_what_is_next(folder):
    loaded = regard.load(folder)
    one, blank, other, again = loaded.predict(["ann said", " ", "zzz said ann", "ann said"])
    assert (blank.output, blank.refused, blank.tokens) == ("", "", [])
    assert isinstance(one, ScoredText)
    assert one.as_json() == again.as_json()
    assert one.tokens == ["ann", "said", "</s>"]
    assert other.ids[0] == UNK
    ids = [EOS, *one.ids]
    expected = slow(loaded.model, ids)
    assert one.token_scores == pytest.approx(expected, rel=1e-4)
    assert float(one.output) == pytest.approx(sum(expected), abs=1e-4)
    assert one.perplexity == pytest.approx(math.exp(-sum(expected) / 3), rel=1e-4)
    assert one.following[0][0] == "ann"  # the name again, out of memory
    assert one.following[0][1] > 0.5
    assert [p for _, p in one.following] == sorted((p for _, p in one.following), reverse=True)


def test_a_trained_folder_has_learned_what_memory_tells(folder, data):
    noted = json.loads((folder / "metrics.json").read_text())
    # Four names, two verbs and nothing else to guess: 8 ^ (1 / 6).
    assert 8 ** (1 / 6) - 0.01 < noted["metrics"]["perplexity"] < 1.7
    assert noted["examples"] == 40
    found = scoring.scored(regard.load(folder), data / "dev.txt", split="dev")
    assert found.scores["perplexity"].value == pytest.approx(noted["dev"]["perplexity"], rel=1e-4)
    assert len(found.examples.references) == 12


def test_words_are_counted_and_not_pieces(data):
    task = Language(context=8)
    made = task.data({"path": str(data), "tokenizer": {"kind": "characters", "vocab_size": 40}})
    model = model_of(made, task, memory=8)
    found = task.predict(model, made.test, None, made.tokenizers)
    total = sum(sum(p.token_scores) for p in found)
    words = sum(len(line.split()) + 1 for line in made.test.texts)
    assert words == 240
    score = task.score(found, made.test)["perplexity"]
    assert score.value == pytest.approx(math.exp(-total / words))


def test_a_subset_keeps_what_goes_before(data):
    task = Language(context=20)
    made = task.data({"path": str(data)})
    some = made.dev.subset([7, 3])
    assert some.texts == [made.dev.texts[7], made.dev.texts[3]]
    assert torch.equal(some.collate([0, 1]).tokens, made.dev.collate([7, 3]).tokens)
    assert some.words.tolist() == [5, 5]


def test_what_the_section_data_does_not_have_is_said(tmp_path, data):
    for config, words in (
        ({"path": str(data), "max_length": 3}, "data has no key 'max_length'"),
        ({"path": str(data), "columns": {"txt": 1}}, r"data\.columns has no key 'txt'.*text"),
        ({"path": str(data), "tokenizer": {"knd": 1}}, "no key 'knd'.*kind"),
        (
            {"path": str(data), "tokenizer": {"min_count": "x"}},
            "min_count: expected a whole number, got 'x'",
        ),
        ({"path": str(data), "tokenizer": {"min_count": 999}}, r"txt: no word .* 999 times"),
        ({"train": "-"}, "read twice: give a file, not '-'"),
        ({}, "data.path is not given"),
        ({"dev": str(data / "dev.txt")}, "no training file to learn the vocabulary from"),
    ):
        with pytest.raises(RequestError, match=words):
            Language().data(config)
    for blank, words in ((b"\n \n\x1c", "$"), (b"", "$"), (b"\xff\n", ": {'not UTF-8': 1}")):
        (tmp_path / "train.txt").write_bytes(blank)
        with pytest.raises(RequestError, match=r"train\.txt has no line of text" + words):
            Language().data({"path": str(tmp_path)})
    for settings in ({"context": 0}, {"block": 0}):
        with pytest.raises(RequestError, match="must be 1 or more"):
            Language(**settings)
    with pytest.raises(RequestError, match=r"task\.context is 5.*the last 9 words"):
        Language(context=5).prepare(
            MemN2NLM(9, dim=4, memory=9), Language(5).data({"path": str(data)})
        )


def test_lines_that_are_not_text_are_told_and_left_out(tmp_path, caplog):
    (tmp_path / "train.txt").write_bytes(b"a b\n\xff\na c\n")
    made = Language().data({"path": str(tmp_path)})
    assert made.problems.counts == {"not UTF-8": 1}
    assert caplog.text.count("train.txt:2: not UTF-8") == 1  # though it is read twice
    assert made.train.sizes[:, 0].sum() == 6


def test_the_catalogue_of_tasks_has_it():
    assert tasks.load("language") is Language


def test_the_command_line_judges_and_looks(folder, tmp_path, capsys):
    said = run(capsys, "predict", str(folder), "ann said ann came .", "")
    first, second = said.out.splitlines()
    assert -9 < float(first) < 0
    assert second == ""
    seen = run(capsys, "look", str(folder), "ann said", "--json").result
    assert seen["read"] == ["</s>", "ann", "said"]
    assert [a["attention"] for a in seen["attentions"]] == ["hop 1", "hop 2"]
    for one in seen["attentions"]:
        weights = np.array(one["weights"])
        assert weights.sum(1) == pytest.approx(1, abs=1e-4)
        assert not np.triu(weights, 1).any()
    shown = run(capsys, "look", str(folder), "ann said").out
    assert "hop 2" in shown
    assert "next\n" in shown
    for name in ("page.html", "look.png", "look.seen"):
        assert run(capsys, "look", str(folder), "ann said", "-o", str(tmp_path / name)).code == 0
        assert (tmp_path / name).stat().st_size > 300
    assert "nothing to look at" in run(capsys, "look", str(folder), " ").err
    done = run(capsys, "evaluate", str(folder), "--json").result
    assert done["examples"] == 40
