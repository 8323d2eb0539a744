"""The task reading: what is learned from, what is answered, and what is got without reading."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard import watch
from regard.data.passages.questions import Question, question
from regard.data.passages.reader_vocabulary import ReaderVocabulary
from regard.data.text.count_vectors import count_vectors
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.folder.reading import Loaded
from regard.models.aoa import AoA
from regard.tasks import Prediction, baselines
from regard.tasks.reading.questions import QuestionDataset
from regard.tasks.reading.reading import Reading
from regard.tasks.reading.rerank import Reranker, global_model

CBT = "1 Alice met Bob .\n2 Bob met Alice and Bob .\n21 {} ran\t{}\t\tAlice|Bob|Eve\n\n"


class Given(torch.nn.Module):
    """A reader that gives what it is told, the same for every question."""

    normalized = True

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.as_tensor(logits, dtype=torch.float32)

    def forward(self, document, query, lengths=None, query_lengths=None):
        batch = (len(document),) + (1,) * self.logits.dim()
        return SimpleNamespace(logits=self.logits[..., : document.shape[1]].repeat(batch))


def cloze(words="a b a c", query="XXXXX d", answer="a", candidates=("a", "b", "z")):
    given = {"document": words, "query": query, "answer": answer, "candidates": list(candidates)}
    return question(given, tokenized=True)


def tokenizer(words="a b c d XXXXX", **more):
    return Tokenizer.train([words], "words", 50, **more)


def examples(*questions, pointers=1, known="a b c d XXXXX"):
    return QuestionDataset(questions, ReaderVocabulary(tokenizer(known), 8), pointers)


@pytest.fixture
def files(tmp_path):
    for split, answers in (("train", ["Alice", "Bob", "Eve"]), ("dev", ["Bob"]), ("test", ["Eve"])):
        text = "".join(CBT.format("XXXXX", answer) for answer in answers)
        (tmp_path / f"{split}.txt").write_text(text)
    return tmp_path


def test_the_loss_is_the_sum_over_the_places_of_the_answer():
    s = torch.tensor([0.1, 0.2, 0.3, 0.4])
    made = examples(cloze(), cloze(answer="c"), cloze(answer="z"))
    total, count = Reading().loss(Given(s.log()), made.collate([0, 1, 2]))
    assert count == 2 == made.count([0, 1, 2])  # z is not in the document
    assert float(total) == pytest.approx(-math.log(0.1 + 0.3) - math.log(0.4))
    assert made.absent.tolist() == [2]
    among, _ = Reading(among="candidates").loss(Given(s.log()), made.collate([0, 1, 2]))
    # a among a and b; c among a, b and itself
    assert float(among) == pytest.approx(-math.log(0.4 / 0.6) - math.log(0.4 / 1.0))
    nothing, none = Reading().loss(Given(s.log()), made.collate([2]))
    assert (float(nothing), none) == (0.0, 0)


def test_the_sum_over_mentions_decides():
    """The largest single weight is on c, but a has more in all."""
    s = torch.tensor([0.3, 0.0, 0.3, 0.4])
    found = Reading().predict(Given(s.log()), examples(cloze(candidates="abc")), None, {})
    assert [p.output for p in (found[0], *found[0].alternatives)] == ["a", "c", "b"]
    assert found[0].score == pytest.approx(math.log(0.6), abs=1e-6)
    assert found[0].alternatives[-1].score is None  # no place at all
    free = Reading().predict(Given(s.log()), examples(cloze(candidates=())), None, {})
    assert free[0].output == "a"


def test_the_loss_and_the_best_span_by_all_pairs():
    generator = np.random.default_rng(3)
    task = Reading(answer="span", longest=3)
    for _ in range(20):
        s = generator.dirichlet(np.ones(7), 2)
        given = {"document": "t u v w x y z", "query": "q", "answers": ["v w"], "starts": [4]}
        made = examples(question(given), pointers=2)
        assert made.gold == [(2, 3)]
        total, _ = task.loss(Given(np.log(s)), made.collate([0]))
        assert float(total) == pytest.approx(-np.log(s[0, 2]) - np.log(s[1, 3]), abs=1e-5)
        legal = {(a, b): s[0, a] * s[1, b] for a in range(7) for b in range(a, min(a + 3, 7))}
        a, b = max(legal, key=legal.get)
        (found,) = task.predict(Given(np.log(s)), made, None, {})
        assert found.output == " ".join("tuvwxyz"[a : b + 1])
        assert found.score == pytest.approx(math.log(legal[a, b]), abs=1e-5)


def test_unknown_words_keep_apart_within_their_document():
    words = ReaderVocabulary(tokenizer("a XXXXX"), anonymous=3)
    document, query = words.ids(["x", "a", "y", "x"], ["y", "XXXXX", "w", "v"])
    size = words.size
    assert document == [size, words.known["a"], size + 1, size]
    assert query == [size + 1, words.known["XXXXX"], size + 2, size]  # and round again
    lower = ReaderVocabulary(tokenizer("a b", lowercase=True), 3)
    assert lower.ids(["A"], ["B"]) == ([lower.known["a"]], [lower.known["b"]])


def test_answers_that_no_vocabulary_has_are_answered():
    made = examples(cloze("Zyx Wvu .", "XXXXX", "Wvu", ("Zyx", "Wvu")), known="XXXXX .")
    s = torch.tensor([0.2, 0.7, 0.1])
    (found,) = Reading().predict(Given(s.log()), made, None, {})
    assert found.output == "Wvu"


def test_data(files, caplog):
    data = Reading().data({"path": str(files)})
    assert (len(data.train), len(data.dev), len(data.test)) == (2, 1, 1)
    assert dict(data.problems.counts) == {"answer not in the document": 1}
    assert "train.txt:11: answer not in the document ('Eve')" in caplog.text
    assert "test: 1 of 1 answers are not in their document" in caplog.text
    assert data.sizes == {
        "vocab_size": len(data.tokenizers["document"]) + 256, "num_pointers": 1,
    }  # fmt: skip
    pooled = {"train": [str(files / "train.txt"), {"file": str(files / "dev.txt"), "only": [1, 1]}]}
    assert len(Reading().data(pooled).train) == 3
    left = {"train": {"file": str(files / "train.txt"), "without": [2, 3]}}
    assert len(Reading().data(left).train) == 1
    cut = Reading().data({"path": str(files), "last_words": 5})
    assert [len(row) for row in cut.train.document] == [5, 5]
    assert len(cut.dev.document[0]) == 10


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"pth": "x"}, "data has no key 'pth'.*path"),
        ({"train": {"file": "train.txt", "onyl": [1, 2]}}, "data.train has no key 'onyl'.*only"),
        ({"train": {"file": "train.txt", "only": 3}}, "only: expected two numbers"),
        ({"train": {"file": "train.txt", "only": ["a", "b"]}}, "only: expected two numbers"),
        ({"train": {"file": "train.txt", "only": [90, 99]}}, "the train split has no usable"),
        ({"train": "no.txt"}, "there is no data at 'no.txt'"),
        ({"train": "train.txt", "tokenizer": {"kind": "bpe"}}, "points at words, not at 'bpe'"),
        ({"train": "train.txt", "format": "cbd"}, "no 'cbd' for reading.*cbt"),
        ({"train": {"file": "train.txt", "only": [3, 3]}}, "no training question has its answer"),
        ({}, "data names no train or dev or test file"),
    ],
)
def test_wrong_requests(files, monkeypatch, config, said):
    monkeypatch.chdir(files)
    with pytest.raises(RequestError, match=said):
        Reading().data(config)


def test_wrong_settings():
    with pytest.raises(RequestError, match=r"task.answer: there is no 'words'.*word"):
        Reading(answer="words")
    with pytest.raises(RequestError, match=r"task\.longest is 0"):
        Reading(longest=0)


def test_single_inputs_and_what_is_refused():
    task, tokenizers = Reading(max_document=10), {"document": tokenizer()}
    s = torch.full((11,), 0.1)
    texts = [
        "a b a ||| XXXXX ||| a|b", "", "a b ||| no blank", "what",
        " ".join("abcdefghijk") + "|||XXXXX",
        json.dumps({"document": "b b a", "query": "XXXXX"}), CBT.format("XXXXX", ""),
    ]  # fmt: skip
    found = task.predict(Given(s.log()), texts, None, tokenizers)
    assert [p.output for p in found] == ["a", "", "", "", "", "b", "Bob"]
    said = [p.refused for p in found]
    assert said[2] == "the query has no XXXXX"
    assert said[3].startswith("expected a JSON object with document and query")
    assert said[4] == "too long: 11 words, at most 10"
    assert not said[0] + said[1] + said[5]
    assert json.dumps([p.as_json() for p in found], allow_nan=False)


def test_what_is_got_without_reading():
    asked = [cloze(), cloze("b a b", answer="a", candidates="ab"), cloze(candidates=["z", "a"])]
    assert [baselines.frequent(one) for one in asked] == ["a", "b", "a"]
    assert baselines.frequent(cloze(candidates=["y", "z"])) == "y"
    found = baselines.of_words(asked)
    assert found["frequent"].value == pytest.approx(200 / 3)
    assert found["random"].value == pytest.approx(100 * (1 / 3 + 1 / 2 + 1 / 2) / 3)


def test_the_sliding_window():
    text = "Tom had a dog. The old farmer had seven sons and one daughter. They were lazy."
    one = question({"document": text, "query": "Who had seven sons?"})
    assert baselines.window(one) == "The old farmer"  # the first of two runs of three
    one = question({"document": "sons", "query": "sons"})
    assert baselines.window(one) == "sons"
    scores = Reading(answer="span").score(
        [Prediction("", "the farmer")],
        examples(
            question({"document": text, "query": "Who?", "answers": ["old farmer"]}), pointers=2
        ),
    )
    assert set(scores) == {"em", "f1", "window_em", "window_f1"}
    assert (scores["em"].value, scores["f1"].value) == (0.0, pytest.approx(200 / 3))


def test_vectors_of_words_that_stand_alike_are_near():
    rows = [np.array([4, 5, 6]), np.array([4, 7, 6]), np.array([8, 9, 10]), np.array([11, 9, 8])]
    made = count_vectors([row.astype(np.int32) for row in rows * 3], 13, 6)
    assert made.shape == (13, 6)
    assert not made[12].any()
    assert float(made[5] @ made[7]) > 0.99
    assert abs(float(made[5] @ made[9])) < 0.01
    assert torch.equal(made, count_vectors([row.astype(np.int32) for row in rows * 3], 13, 6))


def test_a_model_is_prepared(files):
    task = Reading(vectors=0.1)
    data = task.data({"path": str(files)})
    model = AoA(**data.sizes, embed=4, hidden=3)
    task.prepare(model, data)
    size = len(data.tokenizers["document"])
    lengths = model.embed.weight[4:size].norm(dim=1)
    assert torch.allclose(lengths[lengths > 0], torch.tensor(0.2))
    assert not model.embed.weight[0].any()


def test_re_ranking_takes_what_the_document_says():
    text = "the dog ran . the dog ran . the cat sat . a cat sat ."
    one = cloze(text, "the XXXXX ran", "dog", ("cat", "dog"))
    s = torch.full((16,), 0.01)
    s[[9, 13]] = 0.3
    found = Reading().predict(Given(s.log()), examples(one), None, {})
    assert found[0].output == "cat"
    reranker = Reranker(global_model([one])).fit([one], found)
    assert reranker.weights != (0.0, 0.0)
    (again,) = reranker([one], found)
    assert (again.output, again.alternatives[0].output) == ("dog", "cat")
    assert Reranker(global_model([one]))([one], found)[0].output == "cat"


def test_what_is_looked_at(files):
    from regard.tasks.reading.view import ANSWER
    from regard.viewer import drawable

    data = Reading().data({"path": str(files)})
    model = AoA(**data.sizes, embed=4, hidden=3).eval()
    config = {"model": {"name": "aoa"}}
    loaded = Loaded(model, Reading(), data.fields, None, config, files)
    text = CBT.format("XXXXX", "").strip()
    view = drawable(loaded.task.view(loaded, [text, text]))
    assert len(view.runs) == 2
    made = data.test.collate([0])
    with watch(model) as records:
        model(made.document, made.query, made.lengths, made.query_lengths)
    first = view.runs[0]
    found = {view.maps[m].name: view.maps[m] for m in first.maps}
    assert set(found) == set(records)
    assert {m.kind for m in found.values()} == {"document", "query", "answer"}
    pointer = records["pointers.0.attended"].weights[0, 0]
    assert found["pointers.0.attended"].weights[0, 0] == pytest.approx(pointer.numpy())
    (question,) = (p for p in first.panels if p.title == "the question")
    assert sum(question.values) == pytest.approx(1, abs=1e-5)
    assert first.output in ("Alice", "Bob")
    assert "Alice" in view.text(colour=False).plain
    matrices = [p for p in first.panels if p.kind == "matrix"]
    assert view.axes[found["pointers.0.attended"].rows].pieces == [ANSWER]
    best = pointer.topk(len(matrices[0].columns)).indices.sort().values
    assert matrices[0].columns == tuple(best.tolist())
    assert json.dumps(first.result, allow_nan=False)
    with pytest.raises(RequestError, match="the query has no XXXXX"):
        loaded.task.view(loaded, ["a ||| b"])


def test_questions_are_questions():
    assert isinstance(examples(cloze()).subset([0]).questions[0], Question)
