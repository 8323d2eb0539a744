"""A model folder brings every model back."""

import pytest
import torch

from regard import catalog, loading
from regard.data.text.tokenizer import Tokenizer
from regard.folder import writing
from regard.settings.check import given_by_data
from tests.contract.battery import SIZE, build, mixed


def test_save_and_load(name, tmp_path):
    model, batch = build(name, dtype=torch.float32), mixed()
    words = Tokenizer.train(["a b c d e f g h i"], kind="words", vocab_size=SIZE)
    assert len(words) == SIZE
    writing.save_pretrained(
        tmp_path / "folder",
        model,
        task={"name": "translation"},
        fields={"source": words, "target": words},
        recipe={
            "model": {"name": name, **catalog.entry(name).tiny},
            "task": {"name": "translation"},
        },
    )
    loaded = loading.load(tmp_path / "folder").model
    assert type(loaded) is catalog.load(name)
    expected = model(batch.source, batch.target_in, batch.lengths).logits
    assert torch.equal(loaded(batch.source, batch.target_in, batch.lengths).logits, expected)
    assert not loaded.training


@pytest.mark.parametrize("kind", catalog.names())
def test_a_model_says_all_sizes_that_the_data_gave_it(kind):
    """A model folder keeps them by these names, and builds the model from them again."""
    made = catalog.load(kind)
    sizes = dict.fromkeys(given_by_data(made), 16)
    with torch.device("meta"):
        model = made(**sizes, **catalog.entry(kind).tiny)
    assert {name: getattr(model, name, None) for name in sizes} == sizes
