"""Generation from sources that are no text: the pair has the column, the model gets `Inputs`."""

import numpy as np
import pytest
import torch
from torch import nn

from regard import decode
from regard.data.batch import collate
from regard.data.ragged import RaggedIds
from regard.data.text.tokenizer import Tokenizer
from regard.fields import Bad, Field, TextField
from regard.protocols import BOS, EOS, Decoding, Encoded, Inputs, Output, unpacked
from regard.tasks.generation.base import Generation
from regard.tasks.generation.pairs import PairDataset

WORDS = Tokenizer.train(["one two three four five"], kind="words")
GREEDY = decode.build({"name": "greedy"})


class Sounds:
    """A column of sounds: each some frames of two numbers."""

    def __init__(self, sounds):
        self.sounds = sounds
        self.sizes = self.counts = np.array([len(sound) for sound in sounds], np.int64)

    def __len__(self):
        return len(self.sounds)

    def take(self, indices):
        return Sounds([self.sounds[i] for i in indices])

    def collate(self, indices):
        chosen = [torch.tensor(self.sounds[i], dtype=torch.float32).view(-1, 2) for i in indices]
        values = nn.utils.rnn.pad_sequence(chosen, batch_first=True)
        return Inputs(values, torch.tensor([len(sound) for sound in chosen]))


class SoundField(Field):
    """Frames as `1,2 3,4`."""

    kind = "sound"
    saved = False

    def read(self, cell, row):
        try:
            return [tuple(map(float, frame.split(","))) for frame in cell.split()]
        except ValueError:
            raise Bad("no sound", cell) from None

    def written(self, value):
        return f"{len(value)} frames"

    def encode(self, values, report, fields, rows=None):
        return Sounds(values)

    def arguments(self):
        return {"features": 2}


class Naming(Generation):
    """Says how many frames a sound has."""

    name = "naming"
    metric = "none"

    def fields(self):
        return {"source": SoundField(), "target": TextField("words", target=True)}

    def pairs(self, source, target, *, training):
        return [(source, target)], [target]

    def score(self, predictions, examples):
        return {}


class Counter(nn.Module):
    """Writes the word of the number of frames, and ends."""

    normalized = False

    def encode(self, source, lengths=None):
        values, lengths = unpacked(source, lengths)
        assert values.dim() == 3
        return Encoded(values, lengths)

    def forward(self, source, target_in, lengths=None):
        decoding, logits = self.start(self.encode(source, lengths)), []
        for token in target_in.unbind(1):
            one, decoding = self.step(token[:, None], decoding)
            logits.append(one)
        return Output(torch.cat(logits, 1))

    def start(self, encoded):
        return Decoding({"lengths": encoded.lengths})

    def step(self, tokens, decoding):
        logits = torch.zeros(*tokens.shape, len(WORDS))
        word = (decoding.memories["lengths"] + 3)[:, None].expand_as(tokens)
        chosen = torch.where(tokens == BOS, word, EOS)
        return logits.scatter(-1, chosen[..., None], 9.0), decoding.advance()


@pytest.fixture
def data():
    source = Sounds([[(1, 2)], [(1, 2), (3, 4), (5, 6)], [(1, 0), (0, 1)]])
    target = RaggedIds.rows([[4], [5, 6, 7], [8]])
    return PairDataset(source, target, ["a", "b", "c"], [["one"], ["two"], ["five"]])


def test_sizes_and_batches_are_those_of_the_column(data):
    assert data.sizes.tolist() == [[1, 2], [3, 4], [2, 2]]
    assert data.filled.tolist() == [True, True, True]
    batch = data.collate([2, 1])
    assert isinstance(batch.source, Inputs)
    assert batch.source.values.shape == (2, 3, 2)
    assert batch.source_lengths.tolist() == [2, 3]
    assert batch.target_out.tolist() == [[8, EOS, 0, 0], [5, 6, 7, EOS]]
    assert batch.count == 6
    assert data.subset([1]).collate([0]).source.values.shape == (1, 3, 2)


def test_a_column_without_lengths_is_all_real():
    class Pictures(Sounds):
        def collate(self, indices):
            return Inputs(super().collate(indices).values)

    pictures = Pictures([[(1, 2), (3, 4)], [(1, 2), (3, 4)]])
    batch = collate(pictures, RaggedIds.rows([[4], [5]]), [0, 1])
    assert batch.source_lengths.tolist() == [2, 2]


def test_what_is_asked_is_read_by_the_field_and_what_it_cannot_read_is_refused():
    fields = {"source": SoundField(), "target": WORDS}
    texts = ["1,2 3,4", "nonsense", "1,2", ""]
    found = Naming().predict(Counter(), texts, GREEDY, fields)
    assert [p.output for p in found] == [WORDS.decode([5]), "", WORDS.decode([4]), ""]
    assert found[1].refused == "no sound (nonsense)"
    assert not found[3].refused
    assert next(Naming().stream(Counter(), "nonsense", GREEDY, fields)).refused
    assert list(Naming().stream(Counter(), "1,2", GREEDY, fields))[-1].output == WORDS.decode([4])


def test_a_loss_and_what_the_constructor_is_told(data):
    total, count = Naming().loss(Counter(), data.collate([0, 1, 2]))
    assert count == 8
    assert float(total) > 0
    told = Naming().model_arguments({"source": SoundField(), "target": WORDS})
    assert told == {"features": 2, "target_vocab_size": len(WORDS)}


def test_too_many_frames_are_refused(data):
    found = Naming(max_source=2).predict(Counter(), data, GREEDY, {"target": WORDS})
    assert found[1].refused == "too long: 3 tokens, at most 2"
    assert found[0].output == WORDS.decode([4])
