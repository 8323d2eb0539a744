"""Labels through an encoder: its layers in the view, and which words matter in them."""

import numpy as np
import pytest
import torch

import regard
from regard.errors import RequestError
from regard.fields.contextual import opened
from regard.tasks.labels.encoder_view import relevance
from regard.views import ViewOptions
from tests.encoders.tiny import HEADS, LAYERS, tiny_encoder
from tests.tasks.labeled import fitted, write

TEXT = "The film is dull. We saw it."


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    place = tmp_path_factory.mktemp("through")
    encoder = tiny_encoder(place / "tiny")
    vectors = {"encoder": str(encoder), "layers": [-1, 1], "store": str(place / "states")}
    model = {"name": "bilstm", "embed": 8, "hidden": 6, "ffn_dim": 8}
    data = write(place / "data", (60, 20, 20))
    fitted(place, data, model, {"name": "classification"}, epochs=3, vectors=vectors)
    return regard.load(place / "run")


def pieces_of(loaded):
    encoder = opened(loaded.fields["text"].contextual)
    read = encoder.tokenizer.encode(TEXT, add_special_tokens=False)
    return encoder, read, [*encoder.before, *read.ids, *encoder.behind]


@torch.no_grad()
def test_every_layer_is_shown_with_all_heads_over_the_words_of_the_task(loaded):
    made = loaded.task.view(loaded, [TEXT])
    maps = {own.layer: own for own in made.maps if own.kind == "pretrained"}
    assert list(maps) == [*range(1, LAYERS + 1)]
    encoder, _, ids = pieces_of(loaded)
    axis = made.axes[maps[1].rows]
    assert axis.texts == ["[CLS]", *TEXT.replace(".", " .").split(), "[SEP]"]
    assert (len(axis.pieces), axis.special) == (len(ids), [0, len(ids) - 1])
    x = encoder.stack.first(torch.tensor(ids), torch.tensor([len(ids)]))
    for number, layer in enumerate(encoder.stack.layers, 1):
        query, key, _ = layer.read(x).view(len(x), 3, HEADS, -1).unbind(1)
        scores = torch.einsum("qhd,khd->hqk", query, key) / query.shape[-1] ** 0.5
        shown = np.stack([maps[number].weights[head] for head in range(HEADS)])
        np.testing.assert_allclose(shown, scores.softmax(-1), atol=1e-5)
        x = layer(x, torch.tensor([0, len(ids)]), "")


def test_a_word_in_a_layer_matters_as_the_score_changes_with_its_state(loaded):
    encoder, read, ids = pieces_of(loaded)
    (found,) = relevance(loaded, TEXT, "neg")
    assert found.words == loaded.tokenizers["text"].words_of(TEXT)
    assert found.values.shape == (LAYERS + 1, len(found.words))
    batch = loaded.task.asked([TEXT], loaded.fields).dataset.collate([0])
    label = loaded.fields["label"].names.index("neg")
    spans = loaded.fields["text"].to_encoder(TEXT)[1]
    owner = [next(w for w, (a, b) in enumerate(spans) if a <= at < b) for at, _ in read.offsets]
    counts = np.bincount(owner)

    @torch.no_grad()
    def score(layer, word, factor):
        x = encoder.stack.first(torch.tensor(ids), torch.tensor([len(ids)]))
        states = []
        for number in range(LAYERS + 1):
            if number:
                x = encoder.stack.layers[number - 1](x, torch.tensor([0, len(ids)]), "")
            if number == layer:
                x = x.clone()
                x[1:-1][torch.tensor(owner) == word] *= factor
            states.append(x[1:-1])
        means = torch.zeros(len(counts), 2, x.shape[1])
        for piece, own in enumerate(owner):
            means[own] += torch.stack([states[-1][piece], states[1][piece]]) / counts[own]
        batch["text"].extras["states"][0] = means
        (logits,) = loaded.model(batch["text"]).logits
        return float(logits[label] - logits.mean())

    for layer, word in ((0, 2), (1, 3), (2, 0), (3, 3)):
        change = (score(layer, word, 1.002) - score(layer, word, 0.998)) / 0.004
        assert found.values[layer, word] == pytest.approx(change, rel=0.05, abs=2e-4)
    assert np.abs(found.values).max() > 1e-3


def test_why_in_the_view_and_what_cannot_be_told(loaded, tmp_path):
    run = loaded.task.view(loaded, [TEXT], ViewOptions(why=True)).runs[0]
    table = next(panel for panel in run.panels if panel.title.startswith("gradient times state"))
    assert table.columns == ("word", "0", "1", "2", "3")
    (found,) = relevance(loaded, TEXT, run.output)
    assert run.result["why"] == [{"words": found.words, "layers": found.values.tolist()}]
    with pytest.raises(RequestError, match=r"reads 40 at once: look at a part of it"):
        relevance(loaded, TEXT * 4, "neg")
    data = write(tmp_path / "data", (20, 10, 10))
    model = {"name": "bilstm", "embed": 4, "hidden": 4, "ffn_dim": 4}
    fitted(tmp_path, data, model, {"name": "classification"}, epochs=1)
    plain = regard.load(tmp_path / "run")
    with pytest.raises(RequestError, match=r"why: .* and this model reads none; leave it out"):
        plain.task.view(plain, [TEXT], ViewOptions(why=True))


def test_a_text_read_in_windows_says_why_its_layers_are_not_drawn(loaded):
    long = f"{TEXT} " * 40
    made = loaded.task.view(loaded, [long])
    assert not [own for own in made.maps if own.kind == "pretrained"]
    (note,) = [panel for panel in made.runs[0].panels if panel.title == "the encoder below"]
    ((told, why),) = note.cells
    assert "windows" in told
    assert "look at a part" in why
    short = loaded.task.view(loaded, [TEXT])
    assert not [panel for panel in short.runs[0].panels if panel.title == "the encoder below"]
