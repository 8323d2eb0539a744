"""Tagging: data to tags, chains and words, marks, windows, weights, confidences, together."""

import gzip
import itertools
import json
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import regard
from regard import tasks
from regard.errors import RequestError
from regard.fields.tags import IGNORED
from regard.layers.crf import Chain, constrained, marginals
from regard.losses.tags import tag_loss
from regard.protocols import Inputs, Output
from regard.tasks.ensembles import TagVote
from regard.tasks.tags.decoding import decode_tags
from regard.tasks.windows import TagsInWindows
from tests.cli.run import run
from tests.tasks.labeled import fitted

CRF = {
    "name": "bilstm-crf", "embed": 12, "hidden": 12, "character": 6, "character_hidden": 6,
    "ffn_dim": None, "dropout": 0.0,
}  # fmt: skip
ROLES = {
    "name": "deepatt", "embed": 12, "mark": 4, "layers": 2, "heads": 2, "ffn_dim": 24,
    "dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0,
}  # fmt: skip


def names(count, seed=1):
    """Sentences in which a title and the name behind it are a span; some names stand alone."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        words, tags = [], []
        for _ in range(int(random.integers(2, 5))):
            who = str(random.choice(["Ann", "Bo", "Cy", "Di"]))
            if random.integers(2):
                words += ["Dr", who]
                tags += ["B-PER", "I-PER"]
            words.append(str(random.choice(["saw", "met", who.lower(), "and"])))
            tags.append("O")
        found.append(
            {"text": words, "tags": tags, "pos": ["X" if w == "Dr" else "Y" for w in words]}
        )
    return found


def write(place, rows):
    for split, seed in (("train", 1), ("dev", 2), ("test", 3)):
        own = rows({"train": 80, "dev": 20, "test": 30}[split], seed)
        (place / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    return place


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    data = write(tmp_path_factory.mktemp("names"), names)
    place = tmp_path_factory.mktemp("tagger")
    task = {
        "name": "tagging", "characters": True, "learned_as": "iobes", "constraints": "scheme",
        "features": ["pos"], "tune_outside": True,
    }  # fmt: skip
    return fitted(place, data, CRF, task, epochs=8), place / "run", data


def test_a_tagger_is_trained_scored_saved_and_used(trained):
    metrics, folder, _ = trained
    assert metrics["metrics"]["f1"] > 95
    assert set(metrics["metrics"]) == {"f1", "precision", "recall", "accuracy", "ece"}
    loaded = regard.load(folder)
    found, empty, short = loaded.predict(["Dr Bo met and ||| X Y Y Y", " ", "saw ||| Y"])
    assert (found.output, empty.output, short.output) == ("B-PER I-PER O O", "", "O")
    assert found.tokens == found.output.split()
    assert (found.line, empty.line, short.line) == ("[PER Dr Bo] met and", "", "saw")
    assert found.as_json()["entities"] == [{"start": 0, "end": 5, "label": "PER", "text": "Dr Bo"}]
    (wide,) = loaded.predict(["saw  Dr \u3000Bo ||| Y X Y"])
    assert [(e["start"], e["end"]) for e in wide.as_json()["entities"]] == [(5, 11)]
    assert len(found.token_scores) == 4
    assert -0.5 < found.score <= 0  # of the whole path
    assert all(score <= 1e-6 for score in found.token_scores)
    names_learned = loaded.fields["tags"].names
    assert {"S-PER", "E-PER"} & set(names_learned) == {"E-PER"}


def test_what_does_not_fit_is_refused_in_one_sentence(trained):
    loaded = regard.load(trained[1])
    (found,) = loaded.predict(["Dr Bo met ||| X Y"])
    assert found.refused == "features and words differ (2 features for 3 words)"


def test_a_data_file_comes_back_with_predicted_tags(trained, tmp_path, capsys):
    folder = str(trained[1])
    source, target = tmp_path / "in.conll", tmp_path / "out.conll"
    source.write_text("Dr X O\nBo Y O\nmet Y O\n\nsaw Y O\n")
    given = ["--columns", "text=1,pos=2,tags=3"]
    run(capsys, "predict", folder, "-i", str(source), "--into", str(target), *given)
    assert target.read_text() == "Dr X B-PER\nBo Y I-PER\nmet Y O\n\nsaw Y O\n"
    (tmp_path / "in.txt").write_text("Dr Bo met\n")
    ran = run(capsys, "predict", folder, "-i", str(source), *given)
    assert ran.out == "[PER Dr Bo] met\nsaw\n"
    for wrong, said in (
        (["-i", "-", "--into", str(target)], "expected --input with the data file"),
        (["-i", str(tmp_path / "in.txt"), *given], "expected --into"),
    ):
        done = run(capsys, "predict", folder, *wrong)
        assert done.code == 2
        assert said in done.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scheme": "bo"}, "unknown scheme of tags 'bo'"),
        ({"scheme": "", "constraints": "scheme"}, "task.constraints: it is of tags with a scheme"),
        ({"scorer": "span"}, "did you mean 'spans'"),
        ({"constraints": "rules"}, "task.constraints: 'rules'"),
        ({"weights": "balance"}, "task.weights: 'balance'"),
        ({"auxiliary": "opinion"}, "task.auxiliary: 'opinion'"),
        ({"temperature": 0.0}, "must be above 0"),
        ({"window": 1}, "task.window is 1"),
        ({"scheme": "iobes", "constraints": "roles"}, "roles are tagged with scheme bio"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given, said):
    with pytest.raises(RequestError, match=said):
        tasks.load("tagging")(**given)


SRL = """Ann  NN  -    -   (A0*) (A1*)
saw  VBD see  01  (V*)  *
Bo   NN  -    -   (A1*) *
fall VB  fall 01  *     (V*)

Bo   NN  -    -   (A0*)
met  VBD meet 01  (V*)
Ann  NN  -    -   (A1*)

"""


@pytest.fixture(scope="module")
def roles(tmp_path_factory):
    data = tmp_path_factory.mktemp("roles")
    for split in ("train", "dev", "test"):
        with gzip.open(data / f"{split}.conll.gz", "wt") as file:
            file.write(SRL * (24 if split == "train" else 2))
    place = tmp_path_factory.mktemp("roles-run")
    task = {"name": "tagging", "scorer": "roles", "marks": True, "constraints": "roles"}
    metrics = fitted(place, data, ROLES, task, epochs=20, format="conll2005")
    return metrics, place / "run", data


def test_each_predicate_is_an_example_and_has_roles_of_its_own(roles):
    metrics, folder, data = roles
    assert metrics["metrics"]["f1"] == metrics["metrics"]["complete"] == 100
    loaded = regard.load(folder)
    text = "Ann saw Bo fall"
    found = [one.output for one in loaded.predict([f"{text} ||| 1", f"{text} ||| 3"])]
    assert found == ["B-A0 B-V B-A1 O", "B-A1 O O B-V"]
    (bad,) = loaded.predict([f"{text} ||| 4"])
    assert bad.refused == "no such word (4 of 4 words, counted from 0)"
    only = tasks.load("tagging")(scorer="roles", marks=True).data(
        {"path": str(data), "format": "conll2005", "where": {"predicate_pos": "VB"}}
    )
    assert [text.rpartition(" ||| ")[2] for text in only.test.texts] == ["3", "3"]


def emissions(seed=0, shape=(3, 5, 4)):
    generator = torch.Generator().manual_seed(seed)
    chain = Chain(*(torch.randn(s, generator=generator) for s in ((4, 4), (4,), (4,))))
    return torch.randn(shape, generator=generator), chain


TAGS = ["B-X", "I-X", "I-Y", "O"]
LENGTHS = torch.tensor([5, 3, 1])


def total(logits, chain, row, keep):
    """log of the sum over all paths that `keep` allows, by brute force."""
    size = int(LENGTHS[row])
    scores = []
    for path in itertools.product(range(4), repeat=size):
        if not keep(path):
            continue
        score = chain.start[path[0]] + chain.end[path[-1]]
        score = score + sum(logits[row, t, tag] for t, tag in enumerate(path))
        score = score + sum(chain.transitions[a, b] for a, b in itertools.pairwise(path))
        scores.append(float(score))
    return math.log(math.fsum(map(math.exp, scores)))


def test_the_loss_of_a_chain_leaves_unknown_tags_open():
    logits, chain = emissions()
    target = torch.full((3, 5), IGNORED)
    target[0], target[1, :3], target[2, 0] = torch.tensor([0, 1, 3, 3, 0]), 3, 2
    expected = 0.0
    for row in range(3):
        right = target[row, : LENGTHS[row]].tolist()
        expected += total(logits, chain, row, lambda path: True)
        expected -= total(logits, chain, row, lambda path, right=right: list(path) == right)
    assert tag_loss(logits, chain, target, LENGTHS).item() == pytest.approx(expected, rel=1e-5)
    target[0, 2] = IGNORED
    row = target[0].tolist()
    fewer = expected
    fewer += total(logits, chain, 0, lambda p: list(p) == [0, 1, 3, 3, 0])
    fewer -= total(logits, chain, 0, lambda p: [*p[:2], *p[3:]] == [*row[:2], *row[3:]])
    assert tag_loss(logits, chain, target, LENGTHS).item() == pytest.approx(fewer, rel=1e-5)


def test_the_loss_of_words_is_weighted_and_smoothed():
    logits, _ = emissions()
    target = torch.full((3, 5), IGNORED)
    target[0], target[1, :3] = torch.tensor([0, 1, 3, 3, 0]), 3
    known = target != IGNORED
    plain = F.cross_entropy(logits[known], target[known], reduction="none")
    assert torch.allclose(tag_loss(logits, None, target, LENGTHS), plain.sum())
    weights = torch.rand(3, 5)
    found = tag_loss(logits, None, target, LENGTHS, weights)
    assert torch.allclose(found, (plain * weights[known]).sum())
    aim = torch.full((int(known.sum()), 4), 0.1 / 3)
    aim.scatter_(1, target[known][:, None], 0.9)
    soft = -(aim * logits[known].log_softmax(-1)).sum()
    assert torch.allclose(tag_loss(logits, None, target, LENGTHS, smoothing=0.1), soft)


def test_weights_of_a_chain_raise_every_wrong_tag():
    logits, chain = emissions()
    target = torch.zeros(3, 5, dtype=torch.long)
    weights = torch.rand(3, 5) + 0.5
    cost = weights.log()[..., None] * (1 - F.one_hot(target, 4))
    raised = logits + cost
    expected = tag_loss(raised, chain, target, LENGTHS)
    assert torch.allclose(tag_loss(logits, chain, target, LENGTHS, weights), expected)
    assert not torch.allclose(tag_loss(logits, chain, target, LENGTHS), expected)


def test_paths_are_the_best_of_all_that_are_allowed():
    logits, chain = emissions(4)
    legal = {("B-X", "I-X"), ("I-X", "I-X"), ("I-Y", "I-Y")}

    def allowed(path):
        tags = ["O", *(TAGS[tag] for tag in path)]
        return all(b[0] != "I" or (a, b) in legal for a, b in itertools.pairwise(tags))

    for own, constraints in itertools.product((None, chain), ("", "scheme")):
        free = Chain(torch.zeros(4, 4), torch.zeros(4), torch.zeros(4)) if own is None else own
        scores = logits.log_softmax(-1) if own is None else logits
        each = decode_tags(logits, own, LENGTHS, TAGS, "bio", constraints)
        for row, found in enumerate(each):
            paths = itertools.product(range(4), repeat=int(LENGTHS[row]))
            kept = [p for p in paths if not constraints or allowed(p)]
            values = {
                p: float(
                    sum(scores[row, t, tag] for t, tag in enumerate(p))
                    + sum(free.transitions[a, b] for a, b in itertools.pairwise(p))
                    + free.start[p[0]] + free.end[p[-1]]
                )
                for p in kept
            }  # fmt: skip
            best = max(values, key=lambda p: values[p])
            assert tuple(found.tags) == best
            whole = 0.0 if own is None else total(logits, free, row, lambda path: True)
            assert found.score == pytest.approx(values[best] - whole, abs=1e-4)
        sure = scores.exp() if own is None else marginals(logits, chain, LENGTHS)
        for row, found in enumerate(each):
            expected = [float(sure[row, t, tag]) for t, tag in enumerate(found.tags)]
            assert found.confidences == pytest.approx(expected, abs=1e-5)


def test_a_batch_without_words_has_no_tags():
    found = decode_tags(torch.zeros(2, 0, 4), None, torch.tensor([0, 0]), TAGS, "bio", "scheme")
    assert [(one.tags, one.score) for one in found] == [([], 0.0), ([], 0.0)]


class Echo(torch.nn.Module):
    """Its logits say each word, where it stands in the window, and how long that is."""

    normalized = False

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, source, lengths=None):
        sizes = (source.values != 0).sum(1)
        self.seen.extend(sizes.tolist())
        places = torch.arange(source.values.shape[1]).expand_as(source.values)
        words = torch.stack([source.values, places, sizes[:, None].expand_as(places)], -1)
        return Output(words.float(), {"auxiliary": words.float()})


@pytest.mark.parametrize("length", [1, 4, 5, 7, 8, 9, 23])
def test_windows_give_each_word_the_scores_from_the_window_around_it(length):
    ids = torch.zeros(2, 23, dtype=torch.long)
    ids[0, :length], ids[1, :3] = torch.arange(1, length + 1), torch.tensor([7, 8, 9])
    lengths = torch.tensor([length, 3])
    reader = Echo()
    output = TagsInWindows(reader, 8)(Inputs(ids[:, : max(length, 3)], lengths))
    assert max(reader.seen) <= 8
    found = output.logits[0, :length]
    assert found[:, 0].tolist() == list(range(1, length + 1))
    assert torch.equal(output.extra["auxiliary"], output.logits)
    assert output.logits[1, :3, 0].tolist() == [7, 8, 9]
    place, size = found[:, 1], found[:, 2]
    word = torch.arange(length)
    begin = word - place
    before = torch.where(begin == 0, 99, place)  # at the beginning of a text nothing is missing
    behind = torch.where(begin + size == length, 99, size - 1 - place)
    assert (torch.minimum(before, behind) >= 1.5).all() or length <= 8  # stride 4: 2 words at least


def test_taggers_together_are_the_mean_of_distributions_or_of_chains():
    logits, chain = emissions()
    other, second = emissions(9)

    class Fixed(torch.nn.Module):
        normalized = False

        def __init__(self, logits, chain=None):
            super().__init__()
            self.output = Output(logits, {} if chain is None else chain._asdict())

        def forward(self, source, lengths=None):
            return self.output

    found = TagVote([Fixed(logits), Fixed(other)])(Inputs(torch.ones(3, 5).long()))
    mean = (logits.softmax(-1) + other.softmax(-1)) / 2
    assert torch.allclose(found.logits.exp(), mean.double(), atol=1e-6)
    both = TagVote([Fixed(logits, chain), Fixed(other, second)])(Inputs(torch.ones(3, 5).long()))
    assert torch.allclose(both.logits, (logits + other) / 2)
    assert torch.allclose(both.extra["start"], (chain.start + second.start) / 2)


def test_balanced_weights_count_every_tag_alike(trained):
    made = tasks.load("tagging")(weights="balanced").data({"path": str(trained[2])})
    batch = made.train.collate(range(len(made.train)))
    weight, tags = batch["weight"].values, batch["tags"].values
    sums = [float(weight[tags == tag].sum()) for tag in range(3)]
    assert sums == pytest.approx([sums[0]] * 3, rel=1e-4)
    assert not weight[tags == IGNORED].any()
    assert sum(sums) == pytest.approx(int((tags != IGNORED).sum()), rel=1e-4)


def test_words_of_opinion_are_tagged_by_the_list_that_comes_along(trained):
    made = tasks.load("tagging")(auxiliary="opinions").data({"path": str(trained[2])})
    field = made.fields["auxiliary"]
    found = field.encode([[]], lambda *_: None, made.fields, {"text": ["An AWFUL good phone case"]})
    assert [field.names[i] for i in found.ids.flat] == ["O", "B", "B", "O", "O"]
    assert (
        tasks.load("tagging")(auxiliary="opinions").model_arguments(made.fields)["num_auxiliary"]
        == 2
    )


def test_a_constrained_chain_is_that_of_the_scheme():
    chain = Chain(torch.zeros(4, 4), torch.zeros(4), torch.zeros(4))
    from regard.data.annotations.tag_schemes import allowed

    rules = tuple(torch.from_numpy(one) for one in allowed(TAGS, "bio"))
    assert constrained(chain, rules).start.tolist()[1] < -1000
