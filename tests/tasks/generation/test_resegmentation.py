"""BPE-dropout in training: what is read, what is counted, and what stays."""

import pytest
import torch

from regard import catalog, tasks
from regard.errors import RequestError
from regard.protocols import EOS, PAD, Inputs
from regard.tasks.generation.resegmentation import Recut

ROWS = "".join(
    f"{english}\t{german}\n"
    for english, german in [
        ("a dog in the house", "ein Hund im Haus"), ("the house", "das Haus"),
        ("dogs of the house", "Hunde des Hauses"), ("a house for a dog", "ein Haus, ein Hund"),
    ]
    * 4
)  # fmt: skip


def made(tmp_path, data=(), **settings):
    file = tmp_path / "train.tsv"
    file.write_text("en\tde\n" + ROWS, encoding="utf-8")
    task = tasks.load("translation")(**settings)
    told = {"path": str(file), "columns": {"source": "en", "target": "de"}, **dict(data)}
    return task, task.data({"tokenizer": {"vocab_size": 60}, **told}, splits=["train"])


def texts(ids, tokenizer):
    return [tokenizer.decode([i for i in row if i not in (EOS, PAD)]) for row in ids.tolist()]


def test_a_batch_keeps_its_texts_and_counts_its_new_pieces(tmp_path):
    _, data = made(tmp_path, bpe_dropout=0.5)
    batch = data.train.collate([0, 1, 2, 3])
    torch.manual_seed(1)
    found = Recut.of(0.5, data.tokenizers, 256)(batch)
    for side, before, after in [
        ("source", batch.source, found.source), ("target", batch.target_out, found.target_out),
    ]:  # fmt: skip
        assert texts(after, data.tokenizers[side]) == texts(before, data.tokenizers[side])
        assert (after != PAD).sum() > (before != PAD).sum()
    assert found.count == int((found.target_out != PAD).sum())
    assert found.source_lengths.tolist() == (found.source != PAD).sum(1).tolist()
    assert torch.equal(found.target_in[:, 1:][found.target_out[:, :-1] != EOS],
                       found.target_out[:, :-1][found.target_out[:, :-1] != EOS])  # fmt: skip
    assert found.index == batch.index


def test_training_reads_other_pieces_each_time_and_validation_the_usual_ones(tmp_path):
    task, data = made(tmp_path, bpe_dropout=0.5)
    plain, _ = made(tmp_path)
    torch.manual_seed(1)
    model = catalog.load("transformer")(60, 60, **catalog.entry("transformer").tiny).double().eval()
    batch = data.train.collate([0, 1, 2, 3])
    torch.manual_seed(1)
    one, count = task.loss(model, batch, 1)
    other, _ = task.loss(model, batch, 1)
    assert float(one.detach()) != float(other.detach())
    assert count == batch.count
    torch.manual_seed(1)
    own = Recut.of(0.5, data.tokenizers, 256)(batch)
    mean = plain.loss(model, own, 1)[0] / own.count
    assert float(one.detach() / count) == pytest.approx(float(mean.detach()), rel=1e-6)
    assert torch.equal(task.loss(model, batch)[0], plain.loss(model, batch)[0])


def test_a_task_that_has_read_no_data_says_so(tmp_path):
    _, data = made(tmp_path)
    model = catalog.load("transformer")(60, 60, **catalog.entry("transformer").tiny)
    bare = tasks.load("translation")(bpe_dropout=1.0)
    with pytest.raises(RequestError, match="the task has no tokenizers"):
        bare.loss(model, data.train.collate([0, 1]), 1)


def test_a_text_that_would_be_too_long_stays_as_it_is(tmp_path):
    _, data = made(tmp_path, bpe_dropout=1.0)
    batch = data.train.collate([0, 1])
    longest = int((batch.source != PAD).sum(1).max())
    found = Recut.of(1.0, data.tokenizers, longest)(batch)
    assert torch.equal(found.source[:, : batch.source.shape[1]][0], batch.source[0])
    # The other is in letters where these fit.
    fits = len("▁the▁house") + 1
    found = Recut.of(1.0, data.tokenizers, fits)(batch)
    assert (found.source[1] != PAD).sum() == fits
    assert (found.source[0] != PAD).sum() == (batch.source[0] != PAD).sum()
    found = Recut.of(1.0, data.tokenizers, fits - 1)(batch)
    assert (found.source[1] != PAD).sum() == (batch.source[1] != PAD).sum()


def test_sources_that_are_no_ids_stay(tmp_path):
    _, data = made(tmp_path, bpe_dropout=0.5)
    batch = data.train.collate([0, 1, 2, 3])
    read = Inputs(batch.source, batch.source_lengths)
    torch.manual_seed(1)
    found = Recut.of(0.5, data.tokenizers, 256)(
        type(batch)(read, batch.source_lengths, batch.target_in, batch.target_out, batch.index, 1)
    )
    assert found.source is read
    assert found.source_lengths is batch.source_lengths
    assert found.count > batch.count


def test_one_side_may_be_in_letters(tmp_path):
    kinds = {"tokenizer": {"source": {"kind": "characters"}, "target": {"vocab_size": 60}}}
    _, data = made(tmp_path, kinds, bpe_dropout=0.5)
    batch = data.train.collate([0, 1, 2, 3])
    found = Recut.of(0.5, data.tokenizers, 256)(batch)
    assert torch.equal(found.source, batch.source)
    assert found.count > batch.count


def test_what_makes_no_sense_is_refused(tmp_path):
    words = {"tokenizer": {"kind": "words"}}
    with pytest.raises(RequestError, match=r"is 0\.1 and data\.tokenizer\.kind is words: it must"):
        made(tmp_path, words, bpe_dropout=0.1)
    with pytest.raises(RequestError, match=r"leave out task\.bpe_dropout"):
        tasks.load("translation")(guided={"alignments": "x"}, bpe_dropout=0.1)
    with pytest.raises(RequestError, match=r"task\.bpe_dropout is 1\.5; it must be from 0 to 1"):
        tasks.load("translation")(bpe_dropout=1.5)
