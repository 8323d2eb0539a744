"""Folders of ours written again with smaller weights."""

import zlib

import pytest
import torch

from regard import loading
from regard.convert import export
from regard.errors import RequestError
from regard.folder import reading
from regard.folder.programs import open_program
from tests.folder import toy

TEXTS = ["Das Fenster wird geschlossen.", "Klicken Sie auf die Datei, um sie zu speichern."]


@pytest.mark.parametrize("dtype", ["float16", "int8", "int6"])
def test_a_folder_is_written_again_with_smaller_weights(tmp_path, dtype):
    first = toy.make(tmp_path / "first", metrics={"metrics": {"bleu": 12.5}})
    (first / "log.jsonl").write_text("{}\n")
    (first / "notes.txt").write_text("mine")
    files = export(first, "regard", tmp_path / "second", quantization=dtype)
    second = tmp_path / "second"
    assert set(files) == {p.name for p in first.iterdir()} - {"notes.txt"}
    for name in set(files) - {"model.safetensors", "config.json", "README.md"}:
        assert (second / name).read_bytes() == (first / name).read_bytes()
    loaded, model = loading.load(second), loading.load(first).model
    assert loaded.config["weights"]["dtype"] == dtype
    reading.weights.round_as(model, dtype)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], tensor)
    assert (second / "model.safetensors").stat().st_size < (
        first / "model.safetensors"
    ).stat().st_size


def test_bytes_of_six_bits_are_smaller_in_an_archive(tmp_path):
    sizes = {}
    for dtype in "int8", "int7", "int6":
        export("cloze-small", "regard", tmp_path / dtype, quantization=dtype)
        sizes[dtype] = len(zlib.compress((tmp_path / dtype / "model.safetensors").read_bytes()))
    assert sizes["int7"] < 0.91 * sizes["int8"]
    assert sizes["int6"] < 0.82 * sizes["int8"]


def test_a_program_comes_along_and_belongs_to_the_new_files(tmp_path):
    export("pronunciation-small", "regard", tmp_path / "small", quantization="int6")
    program = open_program(tmp_path / "small")
    assert program is not None
    words = ["window", "attention", "pronounce"]
    answers = [one.output for one in program.predict(words)]
    assert answers == [one.output for one in loading.load(tmp_path / "small").predict(words)]
    toy_folder = toy.make(tmp_path / "toy")
    assert "program.json" not in export(toy_folder, "regard", tmp_path / "again")


def test_the_card_says_what_was_rounded_and_when(tmp_path):
    first = toy.make(tmp_path / "first", metrics={"metrics": {"bleu": 12.5}})
    export(first, "regard", tmp_path / "second", quantization="int8")
    card = (tmp_path / "second" / "README.md").read_text()
    assert card.startswith("# second\n\nThe weights were rounded from float32 to int8 by")
    assert 'regard.load("second")' in card
    assert "saved as int8" in card
    assert "first" not in card
    export(tmp_path / "second", "regard", tmp_path / "third", quantization="int8")
    assert (tmp_path / "third" / "README.md").read_text() == card.replace("second", "third")


def test_twice_to_bytes_is_once(tmp_path):
    first = toy.make(tmp_path / "first")
    for source, out in (first, "second"), (tmp_path / "second", "third"):
        export(source, "regard", tmp_path / out)  # int8 unless told otherwise
    second, third = (
        loading.load(tmp_path / name).model.state_dict() for name in ("second", "third")
    )
    for name in second:
        torch.testing.assert_close(second[name], third[name], rtol=1e-6, atol=0)


def test_what_is_stored_as_bytes_decodes_in_int8_as_before(tmp_path):
    export("de-en-small", "regard", tmp_path / "small", quantization="int8")
    plain, small = loading.load("de-en-small"), loading.load(tmp_path / "small")
    assert small.translate(TEXTS, precision="int8") == plain.translate(TEXTS, precision="int8")


def test_what_cannot_be_is_refused(tmp_path):
    first = toy.make(tmp_path / "first")
    with pytest.raises(RequestError, match="did you mean 'int8'"):
        export(first, "regard", tmp_path / "second", quantization="int4")
    assert not (tmp_path / "second").exists()
    with pytest.raises(RequestError, match="exists; --force writes over it"):
        export(first, "regard", first)
    export("de-en-small", "huggingface", tmp_path / "theirs")
    with pytest.raises(RequestError, match="a folder of another program; `regard convert`"):
        export(tmp_path / "theirs", "regard", tmp_path / "ours")
