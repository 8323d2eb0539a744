"""The states of an encoder as a field: kept on disk, joined to words, needed by the folder."""

import json
import shutil
import unicodedata

import numpy as np
import pytest

import regard
from regard import recipe, train
from regard.data.ragged import RaggedIds
from regard.encoders import Encoder, open_encoder, words_from
from regard.encoders.kept import KeptStates, key_of
from regard.errors import RequestError
from regard.fields import TextField
from regard.fields.contextual import EncoderStates, vectors_of
from regard.fields.marked_text import MarkedTextField
from tests.encoders.tiny import DIM, tiny_encoder
from tests.tasks import abstracts
from tests.tasks.labeled import fitted, pairs, write
from tests.tasks.taggers import data as roles

TEXTS = ["The cat sat on a mat.", "who is the dog?", "The cat sat on a mat.", "cat"]
EVERY = np.arange


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture
def read(monkeypatch):
    """The texts that encoders were given."""
    seen = []
    own = Encoder.states

    def states(self, texts, layers=(-1,)):
        seen.extend(texts)
        return own(self, texts, layers)

    monkeypatch.setattr(Encoder, "states", states)
    return seen


def contextual(tiny, **settings):
    return EncoderStates.of({"encoder": str(tiny), **settings}).checked()


@pytest.mark.parametrize("kind", [TextField, MarkedTextField])
def test_states_are_those_of_one_normal_form(kind, tiny, read):
    """An encoder whose tokenizer composes nothing has one state for "é", however it is written."""
    texts = ["the caf\xe9 is <e1>caf\xe9s</e1> <e2>a</e2>", "dog <e1>\xe9</e1> <e2>e</e2>"]
    apart = [unicodedata.normalize("NFD", text) for text in texts]
    field = kind("wordpunct", lowercase=True, end=False).learn(texts).in_context(contextual(tiny))
    first, second = field.states(texts), field.states(apart)
    each = [[rows[i] for i in range(len(texts))] for rows in (first, second)]
    for one, other, text in zip(*each, texts, strict=True):
        assert len(one) == len(field.cut(text).offsets)
        np.testing.assert_array_equal(one, other)
    assert all(text == unicodedata.normalize("NFC", text) for text in read)
    assert np.abs(each[0][0][1] - field.states([texts[0].replace("\xe9", "e")])[0][1]).max() > 1e-3


def test_a_second_run_encodes_nothing_and_a_cut_one_goes_on(tiny, tmp_path, read, monkeypatch):
    monkeypatch.setattr("regard.encoders.kept.SHARD", 1)
    monkeypatch.setattr("regard.encoders.kept.AT_ONCE", 2)
    field = TextField("wordpunct", lowercase=True, end=False).learn(TEXTS)
    made = contextual(tiny, layers=[-1, 1], store=str(tmp_path))
    settings = {**vars(made), "kept": True}
    field = field.in_context(EncoderStates(**settings))

    def column():
        return field.encode(TEXTS, None, {})

    first = column()
    assert sorted(read) == sorted(set(TEXTS))
    shards = sorted(tmp_path.glob("*/*.npz"))
    assert len(shards) == 2
    again = column()
    assert len(read) == 3
    shards[0].unlink()  # written behind its states: a run that was stopped lacks it
    third = column()
    assert 3 < len(read) < 6
    encoder = open_encoder(tiny)
    for other in (again, third):
        got = other.collate(EVERY(4)).extras["states"]
        assert got.equal(first.collate(EVERY(4)).extras["states"])
    for i, text in enumerate(TEXTS):
        (pieces,) = encoder.states([text], [-1, 1])
        wanted = words_from(pieces, np.array(field.cut(text).offsets), "mean")
        np.testing.assert_allclose(first.states[i], wanted, atol=2e-3)
        np.testing.assert_array_equal(first.take(EVERY(4)[::-1]).states[3 - i], first.states[i])
    shards[-1].write_bytes(b"half")
    with pytest.raises(RequestError, match=r"cannot be read .* remove the file, and they are"):
        column()
    shards[-1].unlink()
    with pytest.raises(RequestError, match=r"expected states of shape \(1, 8\), got \(2, 8\)"):
        KeptStates(shards[0].parent, (1, DIM))


def test_keys_tell_texts_and_words_apart():
    at = np.array([[0, 1], [2, 3]])
    keys = {key_of("a b", at), key_of("a c", at), key_of("a b", at[:1]), key_of("a b", at + 1)}
    assert len(keys) == 4


def test_marks_are_not_read_and_their_states_are_zero(tiny):
    field = MarkedTextField("wordpunct", lowercase=True, end=False)
    field = field.learn(["<e1>a</e1> <e2>b</e2>"]).in_context(contextual(tiny))
    marked = "the <e1>cat</e1> sat on <e2>a mat</e2>."
    text, places = field.to_encoder(marked)
    assert text == "the cat sat on a mat."
    tokens = [text[a:b] for a, b in places]
    assert tokens == ["the", "", "cat", "", "sat", "on", "", "a", "mat", "", "."]
    found = field.encode([marked], None, {}).collate(EVERY(1)).extras["states"][0]
    assert found.any(-1).any(-1).tolist() == [bool(token) for token in tokens]
    plain = TextField("wordpunct", end=False).learn([text]).in_context(contextual(tiny))
    wanted = plain.encode([text], None, {}).collate(EVERY(1)).extras["states"][0]
    assert found[[bool(token) for token in tokens]].equal(wanted)


def relation(count, seed=1):
    """The marked words and what stands between them are the relation."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        on = bool(random.integers(2))
        first, second = random.permutation(["cat", "dog", "mat"])[:2]
        verb = "sat on" if on else "is"
        rows.append({
            "text": f"The <e1>{first}</e1> {verb} a <e2>{second}</e2>.",
            "relation": "place" if on else "kind",
        })  # fmt: skip
    return rows


LSTM = {"name": "bilstm", "embed": 10, "hidden": 6, "ffn_dim": 6}
PAIR = {"name": "decomposable", "embed": 10, "dim": 8, "hidden": 8}
TAGGER = {"name": "bilstm-crf", "embed": 10, "hidden": 6, "marks": True}
ROLES = {"name": "tagging", "scorer": "roles", "marks": True, "constraints": "scheme"}
RELATION = {"name": "att-blstm", "embed": 10, "hidden": 6}
KINDS = {
    "labels": (LSTM, {"name": "classification"}, {}, None, "the film is fine"),
    "pairs": (
        PAIR,
        {"name": "entailment"},
        {"columns": {"premise": "a", "hypothesis": "b"}},
        pairs,
        "w1 w2 ||| w3",
    ),
    "relations": (
        RELATION,
        {"name": "relation-classification"},
        {},
        relation,
        "<e1>dog</e1> sat on <e2>mat</e2>",
    ),
    "roles": (TAGGER, ROLES, {"format": "conll2005"}, None, "Ann left ."),
}


WRONG = (
    (5, "data.vectors: expected keys with values, got 5"),
    ({"layers": "all"}, "config.json: .*layers"),
    ({"layers": [1]}, "does not fit config.json"),
    ({"known": {"size": 9}}, "does not fit config.json"),
    ({"known": {"size": -1}}, "config.json"),
)
"""Sections of a folder that was changed by hand, and what is said of them."""


@pytest.mark.parametrize("kind", [*KINDS])
def test_a_model_trains_on_states_and_its_folder_needs_the_encoder(kind, tiny, tmp_path, read):
    model, task, more, make, text = KINDS[kind]
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny, encoder)
    if kind == "roles":
        data = roles(tmp_path / "data", times=3)
    else:
        data = write(tmp_path / "data", (24, 8, 8), **({"make": make} if make else {}))
    vectors = {"encoder": str(encoder), "layers": [-1, 1], "store": str(tmp_path / "kept")}
    made = fitted(tmp_path, data, model, task, epochs=1, vectors=vectors, **more)
    assert fitted(tmp_path, data, model, task, epochs=1, vectors=vectors, **more) == made
    run = tmp_path / "run"
    told = json.loads((run / "config.json").read_text())["data"]["vectors"]
    assert told["known"] == {
        "name": "encoder",
        "stamp": open_encoder(tiny).stamp,
        "licence": "mit",
        "size": DIM,
    }
    del read[:]
    loaded = regard.load(run)
    (first,) = loaded.predict([text])
    assert len(read) == len(text.split("|||"))  # a single input is not kept
    (again,) = loaded.predict([text])
    assert len(read) == 2 * len(text.split("|||"))
    assert first.output == again.output
    assert loaded.predict([""])[0].output == ""
    path = run / "config.json"
    config = json.loads(path.read_text())
    for wrong, said in WRONG:
        vectors = wrong
        if isinstance(wrong, dict):
            vectors = {**told, **wrong, "known": {**told["known"], **wrong.get("known", {})}}
        path.write_text(json.dumps({**config, "data": {**config["data"], "vectors": vectors}}))
        with pytest.raises(RequestError, match=said):
            regard.load(run)
    path.write_text(json.dumps(config))
    (encoder / "config.json").write_text(
        (encoder / "config.json").read_text().replace("1e-12", "1e-5")
    )
    with pytest.raises(RequestError, match=r"states of an encoder, encoder \(stamp .*, licence mi"):
        regard.load(run)
    shutil.rmtree(encoder)
    with pytest.raises(RequestError, match=r"there is no data at .* put its folder there, or in"):
        regard.load(run)


def test_vectors_of_a_file_may_be_narrower_beside_an_encoder(tiny, tmp_path):
    data = write(tmp_path / "data", (24, 8, 8))
    own = tmp_path / "own.txt"
    own.write_text("".join(f"{word} 1 2 {i}\n" for i, word in enumerate(("the", "film", "is"))))
    task = {"name": "classification"}
    vectors = {"path": str(own), "tune": False, "encoder": str(tiny)}
    fitted(tmp_path, data, LSTM, task, epochs=1, vectors=vectors)
    loaded = regard.load(tmp_path / "run")
    row = loaded.model.embed.weight[loaded.tokenizers["text"].vocabulary.index("film")]
    assert row.tolist() == [1.0, 2.0, 1.0, *[0.0] * 7]
    with pytest.raises(RequestError, match=r"model.embed: expected 3, or more, .*own.txt, got 2"):
        fitted(tmp_path / "b", data, {**LSTM, "embed": 2}, task, epochs=1, vectors=vectors)
    alone = {"path": str(own)}
    with pytest.raises(RequestError, match=r"model.embed: expected 3, the size .*, got 10"):
        fitted(tmp_path / "c", data, LSTM, task, epochs=1, vectors=alone)


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"pool": "mean"}, "data.vectors.pool: it is of an encoder; expected its folder"),
        ({"encoder": "e", "pool": "max"}, "data.vectors.pool: 'max'"),
        ({"encoder": "e", "layers": []}, "data.vectors.layers: expected a number or more"),
        ({"encoder": "e", "most": 5}, "expected a path, the file of word vectors"),
        ({"tune": True}, "expected a path, the file of word vectors"),
    ],
)
def test_sections_that_say_no_encoder_are_refused(section, said):
    with pytest.raises(RequestError, match=said):
        vectors_of(section)


@pytest.mark.parametrize(
    ("model", "task", "more", "said"),
    [
        (
            {"name": "bag-of-ngrams"},
            {},
            {},
            "bag-of-ngrams does not read the states of an encoder",
        ),
        (LSTM, {}, {"store": "ids"}, "that is stored or streamed has no states of an encoder"),
        (
            LSTM,
            {"sentences": "lines"},
            {},
            "an encoder reads texts whole, and task.sentences cuts them",
        ),
    ],
)
def test_what_has_no_place_for_states_is_refused(model, task, more, said, tiny, tmp_path):
    data = write(tmp_path / "data", (12, 4, 4))
    more = {key: str(tmp_path / value) for key, value in more.items()}
    with pytest.raises(RequestError, match=said):
        fitted(
            tmp_path,
            data,
            model,
            {"name": "classification", **task},
            epochs=1,
            vectors={"encoder": str(tiny), "store": str(tmp_path / "kept")},
            **more,
        )


def test_models_with_and_without_an_encoder_answer_together(tiny, tmp_path):
    data = write(tmp_path / "data", (24, 8, 8))
    vectors = {"encoder": str(tiny), "store": str(tmp_path / "kept")}
    task = {"name": "classification"}
    fitted(tmp_path / "a", data, LSTM, task, epochs=1, vectors=vectors)
    fitted(tmp_path / "b", data, LSTM, task, epochs=1)
    one, other = regard.load(tmp_path / "a" / "run"), regard.load(tmp_path / "b" / "run")
    texts = ["the film is fine", "a dull plot"]
    for both in (one.together(other), other.together(one)):
        for text, found in zip(texts, both.predict(texts), strict=True):
            alone = [
                p.probability_of(found.output) for e in (one, other) for p in e.predict([text])
            ]
            assert found.probability == pytest.approx(np.mean(alone), rel=1e-5)


def test_states_follow_the_words_that_are_kept(tiny):
    field = TextField("words", end=True).learn(TEXTS).in_context(contextual(tiny))
    column = field.encode(TEXTS, None, {})
    assert isinstance(column.ids, RaggedIds)
    states = column.collate(EVERY(4)).extras["states"]
    assert states.shape == (4, 7, 1, DIM)
    assert not states[:, -1].any()  # EOS
    assert states[3, :1].any()
    assert not states[3, 1:].any()


def test_documents_are_read_with_states_and_hidden_concepts_without(tiny, tmp_path, read):
    data = abstracts.written(tmp_path / "data", (12, 4, 4))
    vectors = {"encoder": str(tiny), "store": str(tmp_path / "kept")}
    text = json.loads(abstracts.tiny({"path": str(data), "vectors": vectors}))
    text["train"]["epochs"] = 1
    (tmp_path / "own.yaml").write_text(json.dumps(text))
    train.fit(recipe.load(tmp_path / "own.yaml"), tmp_path / "run", progress=False)
    loaded = regard.load(tmp_path / "run")
    del read[:]
    (one,) = loaded.predict([abstracts.abstracts(1, 9)[0].text])
    assert one.refused == ""
    assert read
    model = loaded.model.train()
    model.word_dropout, model.concept_dropout = 0.0, 1.0
    column = loaded.fields["document"].encode(abstracts.abstracts(2, 5), None, loaded.fields)
    inputs, seen = column.collate(EVERY(2)), []
    assert inputs.extras["states"].shape == (*inputs.values.shape, 1, DIM)
    model.embed.register_forward_pre_hook(lambda _, given: seen.append(given))
    model(inputs)
    ((ids, states),) = seen
    hidden = ids != inputs.values
    assert hidden.any()
    assert not states[hidden].any()
    assert states[~hidden].equal(inputs.extras["states"][~hidden])
    model.concept_dropout, model.word_dropout = 0.0, 1.0
    model(inputs)
    assert not seen[-1][1].any()
