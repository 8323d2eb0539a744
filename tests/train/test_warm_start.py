"""Training on from the weights of a folder."""

import pytest
import torch

from regard import loading, train
from regard import recipe as recipes
from regard.errors import RequestError
from tests.train.runs import recipe

pytestmark = pytest.mark.usefixtures("steps_by_pytorch")

QUICK = ["decode.name=greedy", "decode.max_length=4"]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    path = recipe(folder, steps=3, validate=0)
    train.fit(recipes.load(path, QUICK), folder / "run", progress=False)
    return folder / "run"


def built(path, *settings):
    from regard.train.building import build

    return build(recipes.load(path, overrides=list(settings)).plan())


def test_weights_and_tokenizers_are_those_of_the_folder(first, tmp_path):
    path = recipe(tmp_path, steps=3, validate=0)
    mine = built(path, f"train.start={first}", "train.seed=5", "data.tokenizer.vocab_size=300")
    there = loading.load(first)
    for name, tensor in there.model.state_dict().items():
        assert torch.equal(mine.model.state_dict()[name], tensor), name
    assert len(mine.data.tokenizers["source"]) == len(there.tokenizers["source"])
    other = built(path, "train.seed=5")
    output = other.model.state_dict()["output.weight"]
    assert not torch.equal(output, there.model.state_dict()["output.weight"])


def test_it_learns_on_and_its_folder_continues_by_itself(first, tmp_path):
    path = recipe(tmp_path, steps=6, validate=0)
    asked = recipes.load(path, [f"train.start={first}", *QUICK])
    train.fit(asked, tmp_path / "run", progress=False)
    theirs, mine = loading.load(first), loading.load(tmp_path / "run")
    moved = [
        not torch.equal(tensor, theirs.model.state_dict()[name])
        for name, tensor in mine.model.state_dict().items()
    ]
    assert all(moved)
    assert asked.resolved()["train"]["start"] == str(first)
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    train.fit(asked, tmp_path / "run", progress=False)  # it is finished
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_another_model_and_no_folder_are_refused_with_the_place(first, tmp_path):
    path = recipe(tmp_path, steps=3, validate=0)
    with pytest.raises(RequestError, match=r"same kind and sizes, and .* is \(8,\) in the"):
        built(path, f"train.start={first}", "model.hidden=8")
    with pytest.raises(RequestError, match=r"same kind and sizes.* in the recipe and nothing in"):
        built(recipe(tmp_path, model="rnnsearch"), f"train.start={first}")
    with pytest.raises(RequestError, match=r"train\.start: no model folder 'nowhere'"):
        built(path, "train.start=nowhere")
    said = r"train\.start: .* is a model for classification, and the recipe's task is translation"
    with pytest.raises(RequestError, match=said):
        built(path, "train.start=movie-reviews-small")
