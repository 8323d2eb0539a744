"""Guided alignment: what it charges, what it reads, and that attention learns to align by it."""

import math

import numpy as np
import pytest
import torch

from regard import catalog, loading, tasks, watch
from regard.data.batch import PairBatch
from regard.errors import RequestError
from regard.folder import writing
from regard.losses.guided_alignment import guiding_loss, piece_links
from regard.metrics import aer
from regard.metrics.alignment import hard_alignment
from regard.models.rnnsearch import RNNsearch
from regard.watching.source_attention import looked, looking, of_source
from tests.contract.battery import attentions, build, mixed
from tests.folder import toy
from tests.papers import recurrent_toys as toys
from tests.tasks.echo import write

SYMBOLS = 8


def reversing(count, size, generator):
    """Strings turned round, with the links of every symbol."""
    sizes = torch.full((count,), size)
    source, lengths, _, _ = toys.strings(sizes, SYMBOLS, generator)
    out = torch.cat([source[:, :size].flip(1), source[:, size:]], 1)
    into = torch.cat([torch.ones_like(out[:, :1]), out[:, :-1]], 1)
    links = [(row, size - 1 - t, t) for row in range(count) for t in range(size)]
    total = count * (size + 1)
    return PairBatch(source, lengths, into, out, list(range(count)), total, torch.tensor(links))


def trained(task, updates=40):
    """RNNsearch on strings turned round; its alignment error rate on others."""
    torch.manual_seed(1)
    size = SYMBOLS + 4
    model = RNNsearch(size, size, embed=16, hidden=24, align=24, maxout=16, scale=None)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    generator = torch.Generator().manual_seed(1)
    for update in range(updates):
        total, count = task.loss(model, reversing(32, 8, generator), update)
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
    batch = reversing(50, 8, generator)
    with watch(model) as seen, torch.no_grad():
        model(batch.source, batch.target_in, batch.source_lengths)
    weights = torch.cat(seen["attention"].steps, 1)[:, :8, :8]
    found = [hard_alignment(w) for w in weights]
    return aer(found, [{(7 - t, t) for t in range(8)}] * 50).value


@pytest.mark.slow
def test_attention_aligns_by_it_long_before_it_does_by_itself():
    of = tasks.load("translation")
    without = trained(of())
    guided = trained(of(guided={"alignments": "none", "weight": 1.0}))
    assert without > 50.0  # measured: 70.2 without, 16.2 with
    assert guided < 30.0


def test_the_loss_is_the_papers_sum():
    generator = torch.Generator().manual_seed(2)
    weights = torch.rand(2, 4, 5, generator=generator).double().softmax(-1)
    links = [(0, 0, 0), (0, 1, 0), (0, 4, 2), (1, 3, 1), (1, 2, 3), (1, 3, 3), (1, 4, 3)]
    wanted = np.zeros((2, 4, 5))
    for row, s, t in links:
        wanted[row, t, s] = 1
    total = 0.0
    for row in range(2):
        for t in range(4):
            for s in range(5):
                if wanted[row, t].any():
                    share = wanted[row, t, s] / wanted[row, t].sum()
                    total -= share * math.log(weights[row, t, s])
    assert float(guiding_loss(weights, torch.tensor(links))) == pytest.approx(total, rel=1e-5)
    none = torch.zeros(0, 3, dtype=torch.int64)
    assert float(guiding_loss(weights, none)) == 0.0


def test_links_of_words_are_links_of_all_their_pieces():
    found = piece_links({(0, 1), (2, 0)}, [0, 0, 1, 2], [0, 1, 1])
    assert sorted(map(tuple, found)) == [(0, 1), (0, 2), (1, 1), (1, 2), (3, 0)]
    assert piece_links([], [0], [0]).shape == (0, 2)
    with pytest.raises(IndexError, match="0-2 names a target word that is not there"):
        piece_links([(0, 2)], [0, 0], [0, 1])


@pytest.mark.parametrize("name", catalog.names(task="translation"))
def test_every_models_attention_can_be_taught(name):
    model, batch = build(name).train(), mixed()
    names = of_source(model)
    assert set(names) <= set(attentions(model))
    if not attentions(model):
        assert names == []
        return
    with looking(model, names, gradient=True) as seen:
        model(batch.source, batch.target_in, batch.lengths)
    weights = looked(seen)
    assert weights.shape == (*batch.target_in.shape, batch.source.shape[1])
    links = torch.tensor([(0, 5, 0), (0, 0, 2), (1, 2, 1)])
    guiding_loss(weights, links).backward()
    for path in names:
        layer = attentions(model)[path]
        touched = [p.grad for p in layer.parameters() if p.grad is not None]
        if list(layer.parameters()):
            assert any(g.any() for g in touched), path


@pytest.fixture
def folder(tmp_path):
    rows = [("das Haus ist alt", "the house is old"), ("ja", "yes"), ("", "x"), ("der Hund", "dog")]
    write(tmp_path / "data", train=rows * 3, dev=rows[:1])
    lines = ["0-0 1-1 2-2 3-3", "0-0", "", "1-0"] * 3
    (tmp_path / "links").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def read(folder, links):
    task = tasks.load("translation")(guided={"alignments": str(links)})
    return task.data({"path": str(folder / "data"), "columns": {"source": "de", "target": "en"}})


def test_links_go_with_their_rows_whatever_is_left_out(folder):
    data = read(folder, folder / "links")
    train, (source, target) = data.train, (data.tokenizers[s] for s in ("source", "target"))
    assert len(train) == 9  # the rows without a source are not there
    assert data.dev.links is None
    expected = {0: "0-0 1-1 2-2 3-3", 1: "0-0", 2: "1-0"}
    for i in range(9):
        heard, said = (
            source.encode(train.texts[i]).words,
            target.encode(train.references[i][0]).words,
        )
        words = {(heard[s], said[t]) for s, t in train.links[i]}
        assert words == {tuple(map(int, one.split("-"))) for one in expected[i % 3].split()}
    batch = train.collate([1, 0]).to("cpu")
    for row, s, t in batch.links.tolist():
        assert (s, t) in {tuple(x) for x in train.links[[1, 0][row]].tolist()}
    assert len(batch.links) == len(train.links[0]) + len(train.links[1])
    assert train.subset([3]).links[0].tolist() == train.links[3].tolist()


def test_a_file_that_does_not_fit_is_told_by_its_line(folder):
    short = folder / "short"
    short.write_text("0-0\n")
    with pytest.raises(RequestError, match="short has 1 lines, but the training file has 12 rows"):
        read(folder, short)
    wrong = folder / "wrong"
    wrong.write_text("0-0\n" * 11 + "0-7\n")
    with pytest.raises(RequestError, match=r"wrong:12: 0-7 names a target word"):
        read(folder, wrong)
    wrong.write_text("0-0\n0:0\n")
    with pytest.raises(RequestError, match="wrong:2: expected links"):
        read(folder, wrong)
    with pytest.raises(RequestError, match=r"guided.weight|weight"):
        tasks.load("translation")(guided={"alignments": "x", "weight": -1.0})
    with pytest.raises(RequestError, match="no setting 'wieght'"):
        tasks.load("translation")(guided={"alignments": "x", "wieght": 1.0})


def test_a_trained_folder_does_not_need_the_links(tmp_path):
    words = toy.tokenizers(shared=False)
    model = toy.model_of("rnnsearch", words)
    recipe = toy.recipe("rnnsearch")
    recipe["task"] |= {"guided": {"alignments": "gone"}}
    writing.save_pretrained(tmp_path / "m", model, task=recipe["task"], fields=words, recipe=recipe)
    assert loading.load(tmp_path / "m").translate("ein Hund") is not None
