"""Copying from text to text: what is learned, written, asked for, scored and seen."""

import json

import pytest
import torch

from regard import decode, tasks
from regard.data.text.copied_words import OwnWords
from regard.errors import RequestError
from regard.models.pointer_generator import PointerGenerator
from regard.models.rnnsearch import RNNsearch
from regard.protocols import EOS, UNK
from regard.tasks.generation.summarization import Summarization, copies

ROWS = [
    ("Foozle is a tool. It runs.", "tool: Foozle"),
    ("A tool for tool files runs.", "tool for files"),
    ("It runs the tool Barzap 3.11 for Barzap files.", "Barzap 3.11 runs files"),
]
GREEDY = decode.build({"name": "greedy", "max_length": 8})
BEAM = decode.build({"name": "beam", "beam_size": 3, "n_best": 2, "max_length": 8})


def rows_of(folder, rows=ROWS):
    file = folder / "train.jsonl"
    told = [json.dumps({"source": s, "target": t}) for s, t in rows]
    file.write_text("\n".join(told) + "\n", encoding="utf-8")
    return {"train": str(file), "tokenizer": {"min_count": 4, "lowercase": True}}


@pytest.fixture
def task():
    return Summarization()


@pytest.fixture
def data(task, tmp_path):
    return task.data(rows_of(tmp_path), splits=["train"])


def model_of(task, data, **changes):
    torch.manual_seed(1)
    sizes = task.model_arguments(data.fields)
    return PointerGenerator(**sizes, **{"embed": 8, "hidden": 8, "align": 8, **changes}).eval()


@pytest.fixture
def copier(task, data):
    """A model that copies and does nothing else."""
    model = model_of(task, data)
    with torch.no_grad():
        model.switch.bias.fill_(-30.0)
    return model


def test_targets_have_the_ids_of_the_examples_own_words(task, data):
    size = len(data.tokenizers["target"])
    batch = data.train.collate([0, 2])
    assert int(batch.source.extras["copies"].max()) >= size
    assert batch.source.extras["copies"].shape == batch.source.values.shape
    assert (batch.source.extras["copies"] == EOS).sum(1).tolist() == [1, 1]
    for row, index in enumerate([0, 2]):
        spelling = task.spelling(ROWS[index][0], data.fields)
        assert isinstance(spelling, OwnWords)
        copied = batch.source.extras["copies"][row].tolist()
        assert UNK not in copied
        assert spelling.decode(copied).lower() == ROWS[index][0].lower()
        assert UNK not in batch.target_out[row].tolist() or ":" in ROWS[index][1]
    assert task.spelling(ROWS[2][0], data.fields).decode(
        batch.target_out[1].tolist()) == "Barzap 3.11 runs files"  # fmt: skip
    assert batch.target_out.max() >= size


def test_a_vocabulary_that_knows_no_word_still_writes_the_text(task, data, copier):
    text = "Quux-7 🙂 中文, naïve (GNU/Linux)!"
    found, other = task.predict(copier, [text, "tool"], GREEDY, data.fields)
    places = task.spelling(text, data.fields)
    assert all(i > UNK for i in found.ids if i != EOS)
    assert found.copied == [i >= len(places.tokenizer) for i in found.ids]
    pieces = {"Quux-7", "🙂", "中文", "naïve", "(", "GNU/Linux", ")", "!", ","}
    assert set(places.tokens(found.ids)) - {"</s>"} <= pieces | {f"▁{word}" for word in pieces}
    assert found.output == places.decode(found.ids) != ""
    assert other.copied == [False] * len(other.ids)


def test_one_input_is_decoded_as_among_others_and_step_by_step(task, data, copier):
    texts = [row[0] for row in ROWS]
    together = task.predict(copier, texts, BEAM, data.fields)
    for text, found in zip(texts, together, strict=True):
        (alone,) = task.predict(copier, [text], BEAM, data.fields)
        *_, last = task.stream(copier, text, BEAM, data.fields)
        for one in (alone, last):
            assert (one.output, one.ids, one.copied) == (found.output, found.ids, found.copied)
            assert one.score == pytest.approx(found.score)
        assert len(found.alternatives[0].copied) == len(found.alternatives[0].ids)


def test_what_is_asked_may_have_words_of_the_text(task, data, copier):
    texts = [ROWS[2][0], ROWS[0][0]]
    asked = {"prefix": ["barzap", None], "force_words": [["3.11"], []]}
    found = task.predict(copier, texts, BEAM, data.fields, **asked)
    assert found[0].output.startswith("Barzap")
    assert "3.11" in found[0].output
    (free,) = task.predict(copier, texts[:1], GREEDY, data.fields)
    word = free.output.split()[0]
    (kept,) = task.predict(copier, texts[:1], GREEDY, data.fields, bad_words=[[word]])
    assert word not in kept.output.split()
    with pytest.raises(RequestError, match="cannot write 'quux'"):
        task.predict(copier, texts, BEAM, data.fields, force_words=[["quux"], []])
    several = decode.build({"name": "greedy", "max_length": 9, "no_repeat_ngram": 1})
    (once,) = task.predict(copier, texts[:1], several, data.fields)
    words = [i for i in once.ids if i != EOS]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("name", ["greedy", "beam", "sample"])
def test_odd_documents(task, data, copier, name):
    decoder = decode.build({"name": name, "max_length": 12})
    texts = ["", "   ", "x", "x" * 50_000, "🙂🙃 👩‍👩‍👧 עברית ไทย", "\x00\x01", "tool " * 300]
    found = task.predict(copier, texts, decoder, data.fields)
    assert [p.input for p in found] == texts
    assert found[0].output == found[1].output == ""
    assert found[3].output.replace(" ", "") in {"", *("x" * 50_000 * n for n in range(1, 13))}
    assert not any(p.refused for p in found)
    for one in found:
        for word in one.output.split():
            assert word in one.input.lower() or word in one.input


def test_a_summary_longer_than_its_document_is_learned_from(task, tmp_path):
    rows = [("Short.", "a summary that is longer than Short. " * 5), ("x y", "x")]
    data = task.data(rows_of(tmp_path, rows), splits=["train"])
    assert len(data.train) == 2
    total, count = task.loss(model_of(task, data), data.train.collate([0, 1]), 0)
    assert count == int(data.train.sizes[:, 1].sum())
    assert torch.isfinite(total)
    total.backward()


def test_only_so_much_of_a_text_is_read(data, tmp_path):
    task = Summarization(read_source=3, max_source=4)
    cut = task.data(rows_of(tmp_path), splits=["train"])
    assert cut.train.sizes[:, 0].tolist() == [4, 4, 4]
    model = model_of(task, cut)
    one, two = task.predict(model, ["tool for files runs", "tool for files"], GREEDY, cut.fields)
    assert one.ids == two.ids
    assert not one.refused
    refused = Summarization(max_source=3).predict(model, ["tool for files"], GREEDY, cut.fields)
    assert "too long" in refused[0].refused


def test_models_that_cannot_copy_are_told_apart(task, data, tmp_path):
    sizes = task.model_arguments(data.fields)
    plain = RNNsearch(**sizes, embed=8, hidden=8, align=8, maxout=4)
    assert copies(model_of(task, data))
    assert not copies(plain)
    with pytest.raises(RequestError, match="copying=false"):
        task.prepare(plain, data)
    task.prepare(model_of(task, data), data)
    other = Summarization(copying=False, read_source=5)
    known = other.data(rows_of(tmp_path), splits=["train"])
    other.prepare(plain, known)
    batch = known.train.collate([0, 1, 2])
    assert batch.target_out.max() < sizes["target_vocab_size"]
    assert torch.isfinite(other.loss(plain, batch, 0)[0])
    found = other.predict(plain, [ROWS[0][0]], GREEDY, known.fields)
    assert found[0].copied == []


def test_coverage_begins_after_a_phase(data):
    task = Summarization(coverage_after=1.5)
    model = model_of(task, data)
    (phase,) = task.phases(model)
    assert phase.epochs == 1.5
    phase.mode(model, True)
    assert not model.covers
    phase.mode(model, False)
    assert model.covers
    assert Summarization().phases(model) == ()
    with pytest.raises(RequestError, match="has no coverage"):
        task.phases(RNNsearch(9, 9, embed=4, hidden=4, align=4, maxout=4))


def test_scores_have_lead_and_oracle_beside_them(task, data, copier):
    found = task.predict(copier, data.train, GREEDY, data.fields)
    scores = Summarization(lead_words=3, lead_sentences=1, oracle_sentences=1).score(
        found, data.train
    )
    assert list(scores)[:4] == ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    assert "lead 1 sentences, 3 words" in scores["lead_rouge1"].signature
    assert scores["oracle_rouge1"].value >= 40
    best = [f"{t}" for _, t in ROWS]
    right = task.score([tasks.Prediction(s, t) for (s, _), t in zip(ROWS, best, strict=True)],
                       data.train)  # fmt: skip
    assert right["rougeLsum"].value == pytest.approx(100)
    assert right["copied_names"].value == pytest.approx(100)
    assert right["length_ratio"].value == pytest.approx(100)
