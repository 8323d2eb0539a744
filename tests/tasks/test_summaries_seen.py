"""The view of a summary: attention, shares of copying, and where each copied word stands."""

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from regard import decode
from regard.errors import RequestError
from regard.models.pointer_generator import PointerGenerator
from regard.protocols import BOS, EOS, Inputs
from regard.tasks.generation.summarization import Summarization
from regard.tasks.generation.summarization_view import look
from regard.views import ViewOptions

TEXT = "Foozle 3.11 is a tool of Foozle, too."


@dataclass
class Holder:
    """What a view uses of a loaded model."""

    model: Any
    task: Any
    fields: Any
    decoder: Any
    tokenizers: Any
    config: Any

    def predict(self, texts, n_best=1):
        return self.task.predict(self.model, texts, self.decoder, self.fields)

    def with_decoder(self, n_best=1, **overrides):
        made = decode.build({"name": "beam", "max_length": 6, "n_best": n_best})
        return Holder(self.model, self.task, self.fields, made, self.tokenizers, self.config)


@pytest.fixture
def loaded(tmp_path):
    task = Summarization()
    file = tmp_path / "train.tsv"
    file.write_text("source\ttarget\na tool is a tool\ta tool\n", encoding="utf-8")
    data = task.data({"train": str(file), "tokenizer": {"lowercase": True}}, splits=["train"])
    torch.manual_seed(2)
    sizes = task.model_arguments(data.fields)
    model = PointerGenerator(**sizes, embed=6, hidden=6, align=6).eval()
    decoder = decode.build({"name": "beam", "max_length": 6})
    named = {"model": {"name": "pointer-generator"}}
    return Holder(model, task, data.fields, decoder, data.tokenizers, named)


def test_shares_are_parts_of_the_probability(loaded):
    (one,) = look(loaded, TEXT, target="foozle tool of a")
    assert one.source == ["Foozle", "3.11", "is", "a", "tool", "of", "Foozle", ",", "too", ".",
                          "</s>"]  # fmt: skip
    assert one.target == ["Foozle", "tool", "of", "a", "</s>"]
    spelling = loaded.task.spelling(TEXT, loaded.fields)
    ids = [*spelling.encode("foozle tool of a").ids, EOS]
    copies = torch.tensor([[*spelling.encode(TEXT.lower()).ids, EOS]])
    read = torch.tensor([[BOS, *ids[:-1]]])
    source = loaded.tokenizers["source"].encode(TEXT).ids
    given = Inputs(torch.tensor([[*source, EOS]]), torch.tensor([11]), {"copies": copies})
    with torch.no_grad():
        output = loaded.model(given, read)
    (weights,) = one.weights.values()
    for t, i in enumerate(ids):
        pointed = sum(float(weights[0, t, s]) for s in range(11) if copies[0, s] == i)
        share = pointed * float(output.extra["copying"][0, t].sigmoid())
        assert float(one.copied[t]) == pytest.approx(
            share / float(output.logits[0, t, i].exp()), abs=1e-4
        )
    assert float(one.copied[0]) == pytest.approx(1.0, abs=1e-5)  # in no vocabulary
    assert one.places[0] in (0, 6)
    assert one.places[2] == 5
    assert one.places[4] is None


def test_the_view_has_matrix_text_bars_and_pointer(loaded):
    made = loaded.task.view(loaded, [TEXT, "a tool"], ViewOptions(hypotheses=2))
    assert len(made.runs) == 4
    kinds = [panel.kind for panel in made.runs[0].panels]
    assert kinds == ["matrix", "spans", "bars", "pointer"]
    assert len(made.maps[0].extra["generate"]) == made.maps[0].shape[1]
    assert made.runs[0].result["words"][0].keys() == {"word", "copied", "from"}
    assert (made.runs[0].number, made.runs[0].of) == (1, 2)


def test_what_cannot_be_seen_is_refused(loaded):
    with pytest.raises(RequestError, match="empty"):
        loaded.task.view(loaded, [" "])
    with pytest.raises(RequestError, match="target is empty"):
        loaded.task.view(loaded, [TEXT], ViewOptions(target=" "))
    with pytest.raises(RequestError, match="why"):
        loaded.task.view(loaded, [TEXT], ViewOptions(why=True))


def test_what_is_not_read_is_said_and_the_end_is_no_word(loaded):
    spans = loaded.task.view(loaded, [TEXT], ViewOptions()).runs[0].panels[1]
    assert spans.words[-1] != "</s>"
    assert "were read" not in spans.note
    source = copy(loaded.fields["source"])
    source.most = 4
    short = replace(loaded, fields={**loaded.fields, "source": source})
    spans = loaded.task.view(short, [TEXT], ViewOptions()).runs[0].panels[1]
    assert len(spans.words) == 4
    assert spans.note.endswith("the first 4 words were read, 6 were not")
