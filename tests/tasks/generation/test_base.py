import logging

import numpy as np
import pytest
import torch

from regard import catalog, decode, tasks
from regard.data.ragged import RaggedIds
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.tasks import PairDataset, Prediction
from tests.tasks.echo import Echo

TEXTS = ["das ist ein langer Satz mit Punkt .", "kurz", "", "noch ein Satz !", "   ", "ja ja"]
TOKENIZER = Tokenizer.train([*TEXTS, *TEXTS], vocab_size=60)
BOTH = {"source": TOKENIZER, "target": TOKENIZER}
GREEDY = decode.build({"name": "greedy"})


@pytest.fixture
def task():
    return tasks.load("translation")(max_source=100)


@pytest.fixture
def echo():
    return Echo(len(TOKENIZER), len(TOKENIZER))


@pytest.mark.parametrize("tokens", [10, 10_000])
def test_outputs_come_in_input_order_and_empty_stays_empty(task, echo, tokens):
    found = task.predict(echo, TEXTS, GREEDY, BOTH, tokens=tokens)
    assert [p.input for p in found] == TEXTS
    assert [p.output for p in found] == [" ".join(text.split()) for text in TEXTS]
    assert found[2].tokens == []
    assert found[2].score is None
    assert not any(p.refused for p in found)
    decoded = [length for call in echo.calls for length in call]
    assert sorted(decoded) == sorted(len(TOKENIZER.encode(t).ids) + 1 for t in TEXTS if t.strip())
    if tokens == 10:
        for call in echo.calls:
            assert len(call) * max(call) <= 10 or len(call) == 1
    else:
        assert len(echo.calls) == 1


def test_nothing_in_nothing_out(task, echo):
    assert task.predict(echo, [], GREEDY, BOTH) == []
    assert [p.output for p in task.predict(echo, ["", " "], GREEDY, BOTH)] == ["", ""]


def test_an_input_too_long_is_refused_and_the_rest_is_done(echo, caplog):
    task = tasks.load("translation")(max_source=5)
    with caplog.at_level(logging.WARNING):
        found = task.predict(echo, ["ja ja", TEXTS[0]], GREEDY, BOTH)
    assert found[0].output == "ja ja"
    assert found[1].output == ""
    size = len(TOKENIZER.encode(TEXTS[0]).ids) + 1
    assert found[1].refused == f"too long: {size} tokens, at most 5"
    assert "1 of 2 inputs have more than 5 tokens" in caplog.text


def test_hypotheses_with_tokens_scores_and_trail(task, echo):
    beam = decode.build({"name": "beam", "beam_size": 3, "n_best": 3})
    (found,) = task.predict(echo, ["kurz"], beam, BOTH)
    assert len(found.alternatives) == 2
    assert found.score >= found.alternatives[0].score >= found.alternatives[1].score
    assert found.output == "kurz"
    assert found.tokens == [*TOKENIZER.encode("kurz").tokens, "</s>"]
    assert len(found.token_scores) == len(found.tokens) == len(found.ids) == len(found.trail)
    assert all(score <= 0 for score in found.token_scores)
    json = found.as_json()
    assert list(json) == ["input", "output", "score", "log_prob", "tokens", "alternatives"]
    assert [t["token"] for t in json["tokens"]] == found.tokens
    assert json["alternatives"][0]["output"] == found.alternatives[0].output


def test_a_prefix_for_each_input(task, echo):
    found = task.predict(echo, ["kurz", "ja ja", "ja"], GREEDY, BOTH, prefix=["noch", None, ""])
    assert found[0].output.startswith("noch")
    assert [p.output for p in found[1:]] == ["ja ja", "ja"]
    with pytest.raises(RequestError, match="prefix for each of 2 inputs, got 1"):
        task.predict(echo, ["a", "b"], GREEDY, BOTH, prefix=["x"])


def test_what_each_output_must_and_must_not_have(task, echo):
    beam = decode.build({"beam_size": 8})
    texts = ["a b c", "", "b c d"]
    found = task.predict(
        echo, texts, beam, BOTH, force_words=[["d"], [], []], bad_words=[[], [], ["c"]]
    )
    assert "d" in found[0].output.split()
    assert "c" not in found[2].output.split()
    with pytest.raises(RequestError, match="force_words for each of 3 inputs, got 1"):
        task.predict(echo, texts, beam, BOTH, force_words=[["d"]])
    none = task.predict(echo, ["a b"], lambda *_, **__: [[]], BOTH)
    assert none[0].output == ""
    assert "fits what is asked" in none[0].refused
    with pytest.raises(RequestError, match="cannot write 'Ω'"):
        task.predict(echo, ["a"], beam, BOTH, bad_words=[["Ω"]])
    for unwritable in ("Ω", "a Ω", " "):
        with pytest.raises(RequestError, match=f"prefix: the model cannot write '{unwritable}'"):
            task.predict(echo, ["a", "b"], beam, BOTH, prefix=[None, unwritable])
    free = task.predict(echo, ["a b"], beam, BOTH)[0].output
    assert task.predict(echo, ["a b"], beam, BOTH, prefix=[""])[0].output == free


def test_examples_are_predicted_from_their_tokens(task, echo):
    packed = TOKENIZER.encode_all(TEXTS[:2])
    examples = PairDataset(packed, packed, TEXTS[:2], [[t] for t in TEXTS[:2]])
    found = task.predict(echo, examples, GREEDY, BOTH)
    assert [p.output for p in found] == TEXTS[:2]
    assert task.score(found, examples)["chrf"].value == pytest.approx(100.0)


@pytest.mark.parametrize("name", ["rnnsearch", "transformer"])
def test_many_at_once_are_as_one_by_one(task, name):
    size = len(TOKENIZER)
    model = catalog.load(name)(size, size, **catalog.entry(name).tiny).eval()
    beam = decode.build({"name": "beam", "beam_size": 2, "max_extra": 2, "max_ratio": 1.0})
    together = task.predict(model, TEXTS, beam, BOTH)
    for text, found in zip(TEXTS, together, strict=True):
        (alone,) = task.predict(model, [text], beam, BOTH)
        assert alone.ids == found.ids
        assert alone.token_scores == pytest.approx(found.token_scores, abs=1e-4)


def test_the_loss_is_summed_over_real_tokens_in_any_batch():
    task = tasks.load("translation")(smoothing=0.1)
    rows = RaggedIds.rows([[5, 6, 7], [8], [9, 10]])
    examples = PairDataset(rows, rows, ["", "", ""], [[""]] * 3)
    model = Echo(12, 12, sure=3.0)
    whole, count = task.loss(model, examples.collate([0, 1, 2]))
    parts = [task.loss(model, examples.collate([i])) for i in range(3)]
    assert count == 9 == sum(c for _, c in parts)
    torch.testing.assert_close(whole, sum(x for x, _ in parts))
    # Every row has e^3 at the gold word and 1 elsewhere.
    norm = np.log(np.exp(3) + 11)
    assert whole.item() == pytest.approx(9 * (0.9 * (norm - 3) + 0.1 * norm), rel=1e-5)
    whole.backward()
    assert float(model.sure.grad) < 0


def test_models_that_give_log_probabilities(task):
    rows = RaggedIds.rows([[5, 6, 7]])
    batch = PairDataset(rows, rows, [""], [[""]]).collate([0])
    model = Echo(12, 12, sure=3.0)
    plain, _ = task.loss(model, batch)
    forward = model.forward
    model.forward = lambda *a: forward(*a)._replace(logits=forward(*a).logits.log_softmax(-1))
    model.normalized = True
    torch.testing.assert_close(task.loss(model, batch)[0], plain)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"smoothing": 1.0}, "smoothing is 1.0"), ({"max_source": 0}, "max_source is 0")],
)
def test_wrong_settings(arguments, message):
    with pytest.raises(RequestError, match=message):
        tasks.load("translation")(**arguments)


def test_translation_scores_with_the_settings_in_the_signature():
    task = tasks.load("translation")(lowercase=True, tokenize="intl")
    rows = RaggedIds.rows([[5]])
    examples = PairDataset(rows, rows, ["x"], [["The Cat sat on the mat"]])
    scores = task.score([Prediction("x", "the cat sat on the mat")], examples)
    assert scores["bleu"].value == pytest.approx(100.0)
    assert "case:lc" in scores["bleu"].signature
    assert "tok:intl" in scores["bleu"].signature
