"""How long an exported model may write: what its page computes is what regard allows."""

import math

import pytest
import tokenizers

import regard
from regard.convert import export
from regard.convert._ctranslate2 import _limit
from regard.convert._readme import longest
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RequestError
from regard.folder import writing
from tests.convert.folders import make
from tests.folder import toy


@pytest.mark.parametrize("form", ["plain", "no end"])
def test_ctranslate2_is_told_the_limit_of_each_source(tmp_path, form):
    from tests.convert.folders import FORMS

    loaded = make(tmp_path / "own", form if form in FORMS else next(iter(FORMS)))
    said = _limit(loaded, longest(loaded))
    end = bool(getattr(loaded.model, "reads_end", True))
    for words in (1, 7, 300):
        pieces = ["x"] * (words + end)
        allowed = eval(said, {"math": math, "min": min, "len": len, "pieces": pieces})
        assert allowed + 1 == loaded.decoder.limit(words + 1)  # with the end, which is no piece
        assert 0 < allowed < longest(loaded)


def test_a_segmenter_that_cuts_no_token_does_not_matter_in_onnx(tmp_path):
    words = Tokenizer.train(toy.GERMAN, "bpe", 60, segmenter="letters")
    both, plan = {"source": words, "target": words}, toy.recipe("transformer")
    model = toy.model_of("transformer", both, seed=4)
    writing.save_pretrained(
        tmp_path / "own", model, task=plan["task"], fields=both, recipe=plan,
    )  # fmt: skip
    export(tmp_path / "own", "onnx", tmp_path / "out")
    read = tokenizers.Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    assert read.encode(toy.GERMAN[0]).ids == words.encode(toy.GERMAN[0]).ids


@pytest.mark.parametrize("target", ["huggingface", "ctranslate2", "onnx"])
def test_tokenizers_with_a_segmenter_are_refused_and_rounded_ones_keep_it(target, tmp_path):
    words = Tokenizer.train(["我们去", "你们来"] * 5, "bpe", 40, segmenter="letters")
    both, plan = {"source": words, "target": words}, toy.recipe("transformer")
    model = toy.model_of("transformer", both, seed=4)
    writing.save_pretrained(
        tmp_path / "own", model, task=plan["task"], fields=both, recipe=plan,
    )  # fmt: skip
    with pytest.raises(RequestError, match=f"{target}: its tokenizers do not cut words without"):
        export(tmp_path / "own", target, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    if target == "huggingface":
        export(tmp_path / "own", "regard", tmp_path / "small", quantization="float16")
        assert regard.load(tmp_path / "small").tokenizers["source"].segmenter == words.segmenter
