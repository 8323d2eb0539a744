"""Training on with other words, labels and tags: rows are found again by their names."""

import logging

import pytest
import torch

from regard import loading, train
from regard import recipe as recipes
from regard.errors import RequestError
from regard.train.building import build
from regard.train.row_transfer import rows_of
from tests.train.runs import recipe

pytestmark = pytest.mark.usefixtures("steps_by_pytorch")

QUICK = ["decode.name=greedy", "decode.max_length=4", "train.device=cpu", "train.threads=1"]
NEW = [
    ("Der Roboter liest xylographische Akten.", "The robot reads xylographic files."),
    ("Der Roboter öffnet die Ж-Akten.", "The robot opens the files."),
] * 3


def pairs(folder, rows=NEW):
    for split in ("train", "dev", "test"):
        text = "de\ten\n" + "".join(f"{a}\t{b}\n" for a, b in rows)
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")
    return f"data.path={folder}", f"data.train={folder / 'train.tsv'}"


def built(path, *settings):
    return build(recipes.load(path, overrides=[*QUICK, *settings]).plan())


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A Transformer with one vocabulary and tied weights."""
    folder = tmp_path_factory.mktemp("first")
    train.fit(recipes.load(recipe(folder, steps=3, validate=0), QUICK), folder / "run",
              progress=False)  # fmt: skip
    return folder / "run"


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """An RNNsearch with two vocabularies of words."""
    folder = tmp_path_factory.mktemp("apart")
    path = recipe(folder, model="rnnsearch", steps=3, validate=0)
    train.fit(recipes.load(path, [*QUICK, *WORDS]), folder / "run", progress=False)
    return folder / "run", path


WORDS = ["data.tokenizer.kind=words", "data.tokenizer.shared=false", "data.tokenizer.min_count=2"]


def logits(model, fields, source, target):
    """Of a translation, for the tokens named."""
    ids = [fields[side].tokenizer.vocabulary.index for side in ("source", "target")]
    read = torch.tensor([[ids[0](token) for token in source]])
    written = torch.tensor([[1, *(ids[1](token) for token in target)]])
    with torch.no_grad():
        return model.eval()(read, written, torch.tensor([len(source)])).logits[0]


@pytest.mark.parametrize("how", ["extend", "replace"])
def test_tokens_in_common_have_the_logits_they_had(first, tmp_path, how, caplog):
    old = loading.load(first)
    with caplog.at_level(logging.INFO, "regard.train"):
        new = built(
            recipe(tmp_path, steps=3, validate=0), f"train.start={first}",
            f"train.vocabulary={how}", *pairs(tmp_path),
        )  # fmt: skip
    before = old.fields["source"].tokenizer.vocabulary
    after = new.data.fields["source"].tokenizer.vocabulary
    common = sorted({*before[4:]} & {*after[4:]})
    assert len(common) >= 20
    assert {*after} - {*before}  # "xylo…", "ö", "Roboter"
    if how == "extend":
        assert after[: len(before)] == before
    words = common[:6], common[6:12]
    then = logits(old.model, old.fields, *words)
    now = logits(new.model, new.data.fields, *words)
    for token in [*common, "</s>"]:
        torch.testing.assert_close(now[:, after.index(token)], then[:, before.index(token)])
    assert new.model.output.weight is new.model.embed_target.weight  # they stay tied
    dropped = 0 if how == "extend" else len({*before} - {*after})
    new_ones = len({*after} - {*before})
    kept = len(before) - dropped
    assert f"source: {kept:,} kept, {new_ones:,} added" in caplog.text
    assert f"{dropped:,} dropped" in caplog.text


def test_new_rows_are_means_of_their_pieces(first, tmp_path):
    old = loading.load(first)
    new = built(
        recipe(tmp_path, steps=3, validate=0), f"train.start={first}", "train.vocabulary=extend",
        *pairs(tmp_path),
    )  # fmt: skip
    before = old.fields["source"].tokenizer.vocabulary
    after = new.data.fields["source"].tokenizer.vocabulary
    then, now = (one.embed_target.weight for one in (old.model, new.model))
    found = 0
    for token in after[len(before) :]:
        own = list(old.fields["source"].pieces([token])[0])
        rows = [before.index(piece) for piece in own] or range(4, len(before))
        assert not own or "".join(own) == token
        torch.testing.assert_close(now[after.index(token)], then[list(rows)].mean(0))
        found += bool(own)
    assert 0 < found < len(after) - len(before)  # "Ж" has no pieces


def test_two_vocabularies_of_words_each_by_its_own(apart, tmp_path):
    folder, path = apart
    old = loading.load(folder)
    settings = [*WORDS, "data.tokenizer.min_count=1", "data.tokenizer.vocab_size=3000",
                f"train.start={folder}", *pairs(tmp_path)]  # fmt: skip
    new = built(path, *settings, "train.vocabulary.source=extend")
    assert new.data.fields["target"].dump() == old.fields["target"].dump()  # kept
    assert "Roboter" in new.data.fields["source"].tokenizer.vocabulary
    words = ["Der", "die"], ["the"]
    then, now = logits(old.model, old.fields, *words), logits(new.model, new.data.fields, *words)
    torch.testing.assert_close(now, then)


def test_a_training_goes_on_and_continues_by_itself(first, tmp_path):
    asked = recipes.load(
        recipe(tmp_path, steps=4, validate=2),
        [*QUICK, f"train.start={first}", "train.vocabulary=extend", *pairs(tmp_path)],
    )
    train.fit(asked, tmp_path / "run", progress=False)
    there = loading.load(tmp_path / "run")
    again = build(asked.plan(), tmp_path / "run")  # as where it was interrupted: from its own files
    assert again.data.fields["source"].dump() == there.fields["source"].dump()
    assert len(there.fields["source"].tokenizer) > len(
        loading.load(first).fields["source"].tokenizer
    )
    assert there.predict(["Der Roboter"])[0].refused == ""


TAGGED = """
model: {name: bilstm-crf, embed: 8, hidden: 8, character: 4, character_hidden: 4}
task: {name: tagging, scheme: bio}
data: {path: FOLDER, columns: {text: 1, tags: 2}, tokenizer: {lowercase: true}}
train: {steps: 3, log: 0, threads: 1, device: cpu, validate: {every: 0}}
"""


def tagged(folder, *rows):
    folder.mkdir()
    lines = ["\n".join(f"{w}\t{t}" for w, t in row) + "\n\n" for row in rows]
    for split in ("train", "dev", "test"):
        (folder / f"{split}.conll").write_text("".join(lines) * 2)
    path = folder / "recipe.yaml"
    path.write_text(TAGGED.replace("FOLDER", str(folder)))
    return path


def test_taggers_go_on_with_new_tags_words_and_letters(tmp_path):
    one = tagged(tmp_path / "one", [("Anna", "B-PER"), ("sleeps", "O")], [("He", "O")])
    two = tagged(tmp_path / "two", [("Anna", "B-PER"), ("in", "O"), ("Žilina", "B-LOC")])
    train.fit(recipes.load(one), tmp_path / "run", progress=False)
    old = loading.load(tmp_path / "run")
    new = built(two, f"train.start={tmp_path / 'run'}", "train.vocabulary=extend")
    tags = new.data.fields["tags"].names
    assert tags == ["B-PER", "O", "B-LOC"]
    text = "anna sleeps"
    found = []
    for model, fields in ((old.model, old.fields), (new.model, new.data.fields)):
        rows = {"text": [text]}
        column = fields["text"].encode([text], lambda *_: None, fields, rows)
        with torch.no_grad():
            found.append(model.eval()(column.collate(torch.tensor([0]).numpy())))
    then, now = found
    torch.testing.assert_close(now.logits[..., :2], then.logits)
    for name in ("transitions", "start", "end"):
        cut = tuple(slice(0, 2) for _ in then.extra[name].shape)
        torch.testing.assert_close(now.extra[name][cut], then.extra[name])
        torch.testing.assert_close(now.extra[name][2].mean(), then.extra[name].mean())
    with pytest.raises(RequestError, match=r"no field 'tag'.*tags"):
        built(two, f"train.start={tmp_path / 'run'}", "train.vocabulary.tag=extend")


def test_what_cannot_be_done_is_one_sentence(first, apart, tmp_path):
    path = recipe(tmp_path, steps=3, validate=0)
    with pytest.raises(RequestError, match=r"expected a model there"):
        built(path, "train.vocabulary=extend")
    with pytest.raises(RequestError, match=r"do not share a vocabulary; expected"):
        built(
            apart[1], f"train.start={apart[0]}", "train.vocabulary=extend",
            "data.tokenizer.shared=true", *pairs(tmp_path),
        )  # fmt: skip
    with pytest.raises(RequestError, match=r"is \(8,\) in the recipe and \(32,\) in"):
        built(path, f"train.start={first}", "train.vocabulary=replace", "model.ffn_dim=8")
    two = tagged(tmp_path / "two", [("Anna", "B-PER"), ("in", "O")])
    with pytest.raises(RequestError, match=r"is a model for translation, and the recipe's task"):
        built(two, f"train.start={first}", "train.vocabulary=extend")


def test_rows_that_are_not_of_single_words_are_told():
    class Odd(torch.nn.Module):
        def __init__(self, vocab_size: int) -> None:
            super().__init__()
            self.plain = torch.nn.Parameter(torch.zeros(vocab_size, 3))
            self.twice = torch.nn.Parameter(torch.zeros(2 * vocab_size))

    assert rows_of(Odd, {"vocab_size": 5}, {}, ["vocab_size"]) == ({"plain": [0]}, ["twice"])
