"""The task: trees in, linearized pairs, predictions as trees of the input's words, EVALB."""

from dataclasses import replace

import pytest
import torch

import regard
from regard import decode, tasks
from regard.data.annotations.linearized_trees import rebuilt
from regard.data.annotations.trees import Tree
from regard.decode.hypothesis import Hypothesis
from regard.errors import RequestError
from regard.models.transformer import Transformer
from regard.protocols import EOS
from regard.tasks import Prediction

TREES = """(TOP (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ runs)) (. .)))
(TOP (S (NP (PRP It)) (VP (VBZ runs) (PRT (RP away)) (SBAR (-NONE- 0))) (. .)))
(TOP (NP (NN Yes) (-LRB- -LRB-) (UH ok) (-RRB- -RRB-)))
"""


@pytest.fixture
def folder(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.trees").write_text(TREES)
    return tmp_path


def read(folder, **settings):
    task = tasks.load("parsing")(**settings)
    return task, task.data({"path": str(folder)})


def writing(tokenizers, *texts):
    """A decoder that gives each sentence the same hypotheses, and notes the rules it was given."""
    target = tokenizers["target"]

    def decoder(model, source, lengths, rules=()):
        decoder.rules = rules
        hypotheses = []
        for text in texts:
            ids = [*target.encode(text).ids, EOS]
            scores = [0.0] * len(ids)
            hypotheses.append(Hypothesis(ids, 0.0, 0.0, scores, torch.zeros(len(ids), 2)))
        return [hypotheses] * len(source)

    decoder.limit = lambda length: 5 * length
    return decoder


def test_what_is_learned(folder):
    _, data = read(folder)
    written = [data.tokenizers["target"].decode(ids.tolist()) for ids in data.train.target]
    assert written == [
        "(S (NP XX XX )NP (VP XX )VP . )S",
        "(S (NP XX )NP (VP XX (PRT XX )PRT )VP . )S",
        "(NP XX XX XX XX )NP",
    ]
    assert data.train.texts[2] == "Yes -LRB- ok -RRB-"
    assert data.test.references[0] == [TREES.splitlines()[0].replace("-SBJ", "")]
    _, tagged = read(folder, tags=True)
    assert "(NP NN -LRB- UH -RRB- )NP" in {
        tagged.tokenizers["target"].decode(ids.tolist()) for ids in tagged.train.target
    }
    _, numbered = read(folder, numbers=2)
    first = numbered.tokenizers["target"].decode(numbered.train.target[0].tolist())
    assert first == "(S (NP XX0 XX1 )NP (VP XX0 )VP . )S"


def test_the_treebank_scores_100_and_another_tree_less(folder):
    task, data = read(folder, tags=True)
    gold = [Prediction(t, r[0]) for t, r in zip(data.test.texts, data.test.references, strict=True)]
    scores = task.score(gold, data.test)
    assert {name: scores[name].value for name in ("f1", "tagging", "complete", "f1_40")} == {
        "f1": 100, "tagging": 100, "complete": 100, "f1_40": 100
    }  # fmt: skip
    gold[0] = replace(gold[0], output="(TOP (S (NP (XX The)) (VP (XX dog) (XX runs)) (XX .)))")
    gold[2] = replace(gold[2], output="")  # refused
    found = task.score(gold, data.test)["f1"]
    assert found.parts["match"] == 1 + 4  # S; all of the second
    assert (found.parts["gold"], found.parts["test"]) == (3 + 4 + 1, 3 + 4)
    assert "crossing" in task.lower_is_better


def test_predictions_have_the_words_of_the_input(folder):
    task, data = read(folder)
    model = Transformer(**task.model_arguments(data.tokenizers), dim=8, heads=2, layers=1,
                        ffn_dim=8, tied="none")  # fmt: skip
    decoder = writing(data.tokenizers, "(NP XX )NP", "(S (NP XX XX )NP (VP XX XX")
    texts = ["Yes  (ok)\u00a0 !", "", "It\x1cruns"]
    found = task.predict(model, texts, decoder, data.tokenizers)
    assert [p.input for p in found] == texts
    assert found[0].output == "(TOP (NP (XX Yes) (XX -LRB-ok-RRB-) (XX !)))"
    assert found[0].alternatives[0].output == (
        "(TOP (S (NP (XX Yes) (XX -LRB-ok-RRB-)) (VP (XX !))))"
    )
    assert found[0].tokens == ["(NP", "XX", ")NP", "</s>"]
    assert (found[1].output, found[1].tokens) == ("", [])
    assert Tree.parse(found[2].output).words() == ["It", "runs"]
    assert len(decoder.rules) == 1
    tasks.load("parsing")(constrained=False).predict(model, texts, decoder, data.tokenizers)
    assert decoder.rules == ()


def test_a_shipped_parser_reads_sentences_as_people_write_them():
    loaded = regard.load("parser-small")
    cut, raw = loaded.predict(["The dog didn't see the cat .", "The dog didn't see the cat."])
    assert raw.input == "The dog did n't see the cat ."
    assert Tree.parse(raw.output).words() == raw.input.split()
    assert (
        Tree.parse(cut.output).words()
        == cut.input.split()
        == ["The", "dog", "didn't", "see", "the", "cat", "."]
    )
    assert raw.output.startswith("(TOP (S (NP (XX The) (XX dog)) (VP ")
    view = loaded.task.view(loaded, ["The dog slept."])
    assert view.runs[0].input == "The dog slept ."


@pytest.mark.parametrize("name", ["greedy", "beam", "sample"])
def test_an_untrained_model_writes_trees(folder, name):
    torch.manual_seed(2)
    task, data = read(folder)
    model = Transformer(**task.model_arguments(data.tokenizers), dim=8, heads=2, layers=1,
                        ffn_dim=8, tied="none")  # fmt: skip
    decoder = decode.build({"name": name, "max_ratio": 4.0, "max_extra": 4})
    texts = ["The ☃ dog's unheard-of re-run !", "x", "yes " * 20]
    for one in task.predict(model, texts, decoder, data.tokenizers):
        tree, whole = rebuilt(one.tokens[:-1], one.input.split())
        assert whole
        assert one.tokens[-1] == "</s>"
        assert str(tree) == one.output
        assert len(one.token_scores) == len(one.tokens)


def test_long_inputs_are_refused_and_settings_checked(folder):
    task, data = read(folder, max_source=5)
    decoder = writing(data.tokenizers, "(NP XX )NP")
    model = Transformer(**task.model_arguments(data.tokenizers), dim=8, heads=2, layers=1,
                        ffn_dim=8, tied="none")  # fmt: skip
    found = task.predict(model, ["dog " * 9], decoder, data.tokenizers)[0]
    assert found.refused.startswith("too long")
    with pytest.raises(RequestError, match="numbers is -1"):
        tasks.load("parsing")(numbers=-1)
