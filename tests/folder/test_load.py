"""What is read: exactly what was saved, or one sentence that names the file and what is wrong."""

import pickle
import re
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard import catalog, loading
from regard.catalog.building import undrawn
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.folder import places, reading
from regard.settings.check import given_by_data
from tests.folder import toy


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return toy.make(tmp_path_factory.mktemp("models") / "toy", "rnnsearch")


@pytest.fixture(scope="module")
def loaded(folder):
    return loading.load(folder)


class Trap:
    """A pickle that writes a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.write_text, (self.path, "opened")


# -- folders that are wrong


def unsound(folder, **kept):
    """Weights changed by `kept` and vouched for, so that only their fit is wrong."""
    tensors = load_file(folder / "model.safetensors")
    tensors.update({k.replace("__", "."): v for k, v in kept.items() if v is not None})
    for key in [k.replace("__", ".") for k, v in kept.items() if v is None]:
        del tensors[key]
    save_file(tensors, folder / "model.safetensors")
    toy.vouch(folder)


def truncate(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    toy.vouch(folder)


def flip(folder):
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))


def only_a_pickle(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(folder / "opened")))


def a_pickle_in_disguise(folder):
    (folder / "model.safetensors").write_bytes(pickle.dumps(Trap(folder / "opened")))
    toy.vouch(folder)


WRONG = {
    "no config": (lambda f: (f / "config.json").unlink(), "has no config.json"),
    "not JSON": (lambda f: (f / "config.json").write_text("{"), "config.json is not JSON"),
    "a list": (lambda f: (f / "config.json").write_text("[]"), "expected an object, got list"),
    "newer": (lambda f: toy.edit(f, format=99, regard="7.0"), "format 99, made by regard 7.0"),
    "no model": (lambda f: toy.edit(f, model=None), "expected an object under 'model'"),
    "no task name": (lambda f: toy.edit(f, task__name=None), "task.name is missing"),
    "unknown model": (
        lambda f: toy.edit(f, model__name="rnnserch"),
        "no model 'rnnserch'; did you mean 'rnnsearch'?",
    ),
    "unknown argument": (
        lambda f: toy.edit(f, model__hiden=3),
        "model.hiden is no argument of rnnsearch; did you mean 'hidden'?",
    ),
    "missing argument": (
        lambda f: toy.edit(f, model__target_vocab_size=None),
        "cannot build rnnsearch",
    ),
    "unknown task": (lambda f: toy.edit(f, task__name="translatio"), "did you mean 'translation'?"),
    "unknown task setting": (lambda f: toy.edit(f, task__smoth=1), "smoth"),
    "unknown decoder": (lambda f: toy.edit(f, decode__name="beem"), "did you mean 'beam'?"),
    "an unknown dtype": (
        lambda f: toy.edit(f, weights__dtype="int4"),
        "weights.dtype is 'int4', expected one of float32, float16, int8, int7, int6;",
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
    "only a pickle": (only_a_pickle, "pytorch_model.bin there is a pickle, which is never read"),
    "a pickle in disguise": (a_pickle_in_disguise, "is not a whole safetensors file"),
    "truncated": (truncate, "is not a whole safetensors file"),
    "one bit flipped": (flip, "damaged or belongs to another config.json"),
    "a weight missing": (lambda f: unsound(f, initial__bias=None), "initial.bias is missing"),
    "a weight too many": (
        lambda f: unsound(f, initial__bia=torch.ones(3)),
        "initial.bia is not one of the model's weights; did you mean 'initial.bias'?",
    ),
    "a wrong shape": (
        lambda f: unsound(f, initial__bias=torch.ones(5)),
        "initial.bias has shape (5,), expected (12,)",
    ),
    "no tokenizer": (lambda f: (f / "tokenizer.target.json").unlink(), "tokenizer.target.json"),
    "a broken tokenizer": (
        lambda f: (f / "tokenizer.source.json").write_text('{"model": 1}'),
        "tokenizer.source.json is not a tokenizer",
    ),
}


BYTES = {
    "no steps": ("into__weight:steps", None, "into.weight:steps is missing"),
    "too many steps": ("into__weight:steps", torch.ones(2), "into.weight:steps has 2 values, exp"),
    "no bytes": ("into__weight", None, "into.weight is missing"),
}


@pytest.mark.parametrize("case", BYTES)
def test_bytes_and_their_steps_belong_together(case, tmp_path):
    folder = toy.make(tmp_path / "toy", dtype="int8")
    loading.load(folder)
    name, value, said = BYTES[case]
    unsound(folder, **{f"encoder__0__feedforward__{name}": value})
    with pytest.raises(RequestError, match=re.escape(said)):
        loading.load(folder)


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_folder_is_refused_in_one_sentence(case, folder, tmp_path):
    break_it, said = WRONG[case]
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    loading.load(copy)
    break_it(copy)
    with pytest.raises(RequestError, match=re.escape(said)) as caught:
        loading.load(copy)
    assert "\n" not in str(caught.value)
    assert not (copy / "opened").exists()


def test_a_pickle_beside_the_weights_is_not_opened(folder, tmp_path):
    pickle.loads(pickle.dumps(Trap(tmp_path / "proof")))
    assert (tmp_path / "proof").exists()  # the trap works
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for name in ("model.pt", "tokenizer.pkl", "optimizer.bin"):
        (tmp_path / name).write_bytes(pickle.dumps(Trap(tmp_path / "opened")))
    loading.load(tmp_path)
    assert not (tmp_path / "opened").exists()


# -- names


def test_a_name_is_a_shipped_model_and_a_folder_comes_first(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(places, "SHIPPED", folder.parent)
    monkeypatch.chdir(tmp_path)
    assert places.shipped() == ["toy"]
    assert loading.load("toy").folder == folder
    toy.make(tmp_path / "toy", "luong")
    assert loading.load("toy").config["model"]["name"] == "luong"


@pytest.mark.parametrize("name", ["toi", "../toi", "/nowhere", ""])
def test_an_unknown_name_gets_the_nearest(name, folder, monkeypatch, tmp_path):
    monkeypatch.setattr(places, "SHIPPED", folder.parent)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError):
        loading.load(name)
    with pytest.raises(RequestError, match="did you mean 'toy'"):
        loading.load("toi")


def test_a_name_cannot_leave_the_folder_of_shipped_models(folder, tmp_path, monkeypatch):
    (folder.parent / "inner").mkdir(exist_ok=True)
    monkeypatch.setattr(places, "SHIPPED", folder.parent / "inner")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match="no model folder"):
        loading.load("../toy")


def test_a_file_is_not_a_folder(folder):
    with pytest.raises(RequestError, match="is a file; expected the folder"):
        loading.load(folder / "config.json")


# -- what was loaded


def test_loading_moves_no_random_numbers(folder):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    loading.load(folder)
    assert torch.equal(torch.rand(3), expected)


def test_predictions_are_in_order_and_empty_stays_empty(loaded):
    texts = ["die Datei wird", "", "ein Hund läuft über die Straße .", " "]
    found = loaded.predict(texts)
    assert [p.input for p in found] == texts
    assert [bool(p.tokens) for p in found] == [True, False, True, False]
    alone = [loaded.predict([text])[0].output for text in texts]
    assert [p.output for p in found] == alone


def test_translate_takes_a_text_or_a_list(loaded):
    one, two = "die Datei wird", "ein Hund läuft"
    outputs = [p.output for p in loaded.predict([one, two])]
    assert loaded.translate(one) == outputs[0]
    assert loaded.translate([one, two]) == outputs
    assert loaded([one, two]) == outputs
    assert loaded(one) == outputs[0]
    assert loaded.translate([]) == []


def test_the_best_of_one_is_the_first_of_three(loaded):
    text = ["die Datei wird gespeichert ."]
    [one], [three] = loaded.predict(text), loaded.predict(text, n_best=3)
    assert three.tokens == one.tokens
    assert len(three.alternatives) == 2
    scores = [p.score for p in (three, *three.alternatives)]
    assert scores == sorted(scores, reverse=True)


def test_overrides_hold_for_one_call(loaded):
    text = ["die Datei wird gespeichert ."]
    longest = loaded.predict(text, max_length=3, min_length=3)[0].tokens
    assert len(longest) == 3
    assert loaded.decoder == reading.decode.build(toy.DECODE)
    greedy = loaded.predict(text, name="greedy", max_length=8)[0]
    assert greedy.tokens == loaded.predict(text, beam_size=1)[0].tokens
    with pytest.raises(RequestError, match="did you mean 'length_penalty'"):
        loaded.predict(text, lenght_penalty=1)
    with pytest.raises(RequestError, match="n_best: expected 1 or more, got 0"):
        loaded.predict(text, n_best=0)


def test_a_prefix_is_kept(loaded):
    for prediction in loaded.predict(["die Datei", "ein Hund"], prefix="the file"):
        assert prediction.output.startswith("the file")
    given = [p.output for p in loaded.predict(["die Datei", "ein Hund"], prefix=["the", "a dog"])]
    assert given[0].startswith("the")
    assert given[1].startswith("a dog")


def test_one_text_is_not_a_list(loaded):
    with pytest.raises(RequestError, match=r"write \[text\]"):
        loaded.predict("die Datei")


# -- sizes that are lies


def _lie(**changes):
    return lambda f: toy.edit(f, **changes)


LIES = {
    "layers": (_lie(model__layers=10**9), "model.layers: expected a number from 1 to 1,000, got"),
    "layers as 1e9": (_lie(model__layers=1e9), "model.layers: expected a whole number, got 1"),
    "a width": (_lie(model__ffn_dim=900_000), "has shape"),
    "a text": (_lie(model__ffn_dim="wide"), "model.ffn_dim: expected a whole number, got 'wide'"),
    "a beam": (
        _lie(decode__beam_size=10**9),
        "decode.beam_size: expected a number from 1 to 1,000, got 1",
    ),
    "a ratio": (_lie(decode__max_ratio=1e18), "decode.max_ratio: expected a number from 0 to 100"),
    "a length": (_lie(decode__max_length=10**12), "decode.max_length: expected a number from 1 t"),
    "smoothing": (_lie(task__smoothing=1e9), "task.smoothing: expected a number from 0 to below"),
    "no sha256": (_lie(weights__sha256=None), "notes no weights.sha256"),
    "a null": (lambda f: toy.edit(f, weights={"dtype": "float32", "sha256": 5}), "notes no weigh"),
    "deep": (
        lambda f: (f / "config.json").write_text("[" * 100_000 + "]" * 100_000),
        "config.json is not JSON: lists and objects inside each other",
    ),
    "another vocabulary": (
        lambda f: Tokenizer.train(
            [" ".join(f"w{i}" for i in range(200))], kind="words", vocab_size=300
        ).save(f / "tokenizer.json"),
        "its tokenizers need a model with source_vocab_size: 204, and config.json",
    ),
}


@pytest.mark.parametrize("case", LIES)
def test_sizes_are_checked_before_anything_is_built(case, tmp_path, monkeypatch):
    break_it, said = LIES[case]
    copy = toy.make(tmp_path / "copy")  # a transformer
    loading.load(copy)
    break_it(copy)

    def real(module):  # a weight that takes memory
        raise AssertionError(f"{type(module).__name__} was built")

    def reset(module):
        if module.weight.device.type != "meta":
            real(module)

    monkeypatch.setattr(torch.nn.Linear, "reset_parameters", reset)
    if case == "another vocabulary":  # that is seen when the model is there
        monkeypatch.undo()
    began = time.monotonic()
    with pytest.raises(RequestError, match=re.escape(said)) as caught:
        loading.load(copy)
    assert str(caught.value).startswith(str(copy))
    assert time.monotonic() - began < 5


def test_swapped_weights_are_noticed_also_without_a_sum_to_compare_with(tmp_path):
    folder = toy.make(tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    a, b = [n for n, t in tensors.items() if t.shape == (16,) and n.endswith("weight")][:2]
    save_file({**tensors, a: tensors[b] + 1, b: tensors[a]}, folder / "model.safetensors")
    with pytest.raises(RequestError, match="its SHA-256 is not the one"):
        loading.load(folder)
    toy.edit(folder, weights__sha256=None)
    with pytest.raises(RequestError, match="notes no weights"):
        loading.load(folder)


@pytest.mark.parametrize("name", ["transformer", "rnnsearch", "ram", "gat"])
def test_what_is_filled_later_is_not_drawn(name):
    """Drawn weights are zeros; what is computed, and the caller's random numbers, stay."""
    made, before = catalog.load(name), torch.get_rng_state()
    arguments = {**dict.fromkeys(given_by_data(made), 12), **catalog.entry(name).tiny}
    empty = undrawn(made, arguments)
    assert torch.equal(torch.get_rng_state(), before)
    whole = made(**arguments)
    assert not torch.equal(torch.get_rng_state(), before)
    drawn = 0
    for (where, found), (_, wanted) in zip(
        [*empty.named_parameters(), *empty.named_buffers()],
        [*whole.named_parameters(), *whole.named_buffers()],
        strict=True,
    ):
        assert found.shape == wanted.shape
        assert found.requires_grad == wanted.requires_grad
        zeros = not found.any()
        drawn += zeros and bool(wanted.any())
        assert zeros or torch.equal(found, wanted), where
    assert drawn
