"""What every reader that points at a document keeps to."""

import copy
import inspect
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from regard import catalog, loading, tasks, watch
from regard.data.text.tokenizer import Tokenizer
from regard.folder import writing
from regard.protocols import Output, Reader
from tests.contract.battery import SIZE, attentions
from tests.contract.test_watch import check_sums
from tests.contract.whole import check_copies

CASES = [(reader, pointers) for reader in catalog.names(task="reading") for pointers in (1, 2)]
every = pytest.mark.parametrize(("reader", "pointers"), CASES)


class Asked(NamedTuple):
    document: Tensor
    query: Tensor
    lengths: Tensor
    query_lengths: Tensor


def build(reader, pointers, dtype=torch.float64, seed=1, **changes):
    torch.manual_seed(seed)
    tiny = {**catalog.entry(reader).tiny, **changes}
    return catalog.load(reader)(SIZE, pointers, **tiny).to(dtype).eval()


def asked(lengths=(9, 1, 4, 6), query_lengths=(3, 5, 1, 2), seed=4):
    generator = torch.Generator().manual_seed(seed)

    def rows(sizes):
        ids = torch.randint(4, SIZE, (len(sizes), max(sizes)), generator=generator)
        return ids * (torch.arange(max(sizes)) < torch.tensor(sizes)[:, None])

    made = rows(lengths), rows(query_lengths)
    return Asked(*made, torch.tensor(lengths), torch.tensor(query_lengths))


def loss_of(model, batch, gold):
    logits = model(*batch).logits.reshape(len(gold), -1, batch.document.shape[1]).float()
    return -logits.gather(2, gold[..., None]).sum()


@every
def test_it_is_a_reader_whose_constructor_is_its_configuration(reader, pointers):
    made, model, batch = catalog.load(reader), build(reader, pointers), asked()
    assert made.__doc__
    assert "Departs from the paper" in inspect.getmodule(made).__doc__
    assert list(inspect.signature(made).parameters)[:2] == ["vocab_size", "num_pointers"]
    assert isinstance(model, Reader)
    output = model(*batch)
    assert isinstance(output, Output)
    assert output.logits.shape == ((4, 9) if pointers == 1 else (4, 2, 9))
    assert model.normalized
    assert torch.allclose(output.logits.exp().sum(-1), torch.ones(()).double())
    assert torch.equal(model(batch.document, batch.query).logits, output.logits)
    assert set(model.state_dict()) <= {k for k, _ in model.named_parameters(remove_duplicate=False)}


@every
def test_gradients_reach_every_parameter(reader, pointers):
    model, batch = build(reader, pointers).train(), asked()
    loss_of(model, batch, torch.zeros(4, pointers, dtype=torch.int64)).backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.any(), path
        assert parameter.grad.isfinite().all(), path
    assert not model.embed.weight.grad[0].any()


@every
def test_padding_and_neighbors_change_nothing(reader, pointers):
    model, batch = build(reader, pointers), asked()
    logits = model(*batch).logits
    longer = [torch.nn.functional.pad(ids, (0, 3)) for ids in batch[:2]]
    wide = model(*longer, *batch[2:]).logits
    assert torch.allclose(wide[..., :9], logits, atol=1e-12, rtol=0)
    assert (wide[..., 9:] == -torch.inf).all()
    for row, (t, q) in enumerate(zip(*(x.tolist() for x in batch[2:]), strict=True)):
        alone = model(batch.document[row : row + 1, :t], batch.query[row : row + 1, :q]).logits
        assert torch.allclose(alone[0], logits[row, ..., :t], atol=1e-12, rtol=0)


@every
def test_it_overfits_eight_examples(reader, pointers):
    model = build(reader, pointers, torch.float32).train()
    batch = asked((5, 6, 7, 5, 6, 7, 5, 6), (3,) * 8)
    generator = torch.Generator().manual_seed(1)
    gold = torch.randint(5, (8, pointers), generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03, fused=True)
    for _ in range(300):
        loss = loss_of(model, batch, gold) / 8
        if loss.item() < 0.05:
            break
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert loss.item() < 0.05
    assert torch.equal(model.eval()(*batch).logits.argmax(-1).reshape(8, -1), gold)


@every
def test_every_attention_is_seen_and_adds_up(reader, pointers):
    model, batch = build(reader, pointers), asked()
    layers = attentions(model)
    with watch(model) as seen:
        model(*batch)
    assert set(seen) == set(layers)
    for path, record in seen.items():
        check_sums(record.weights, layers[path].select.sums)
        for row, length in enumerate(batch.lengths.tolist()):
            assert not record.weights[row, ..., length:].any(), path


@every
def test_watching_changes_nothing(reader, pointers):
    model, batch = build(reader, pointers, torch.float32, dropout=0.3), asked()
    gold, results = torch.zeros(4, pointers, dtype=torch.int64), []
    for watched in (False, True):
        own = copy.deepcopy(model).train()
        torch.manual_seed(7)
        if watched:
            with watch(own):
                loss = loss_of(own, batch, gold)
        else:
            loss = loss_of(own, batch, gold)
        loss.backward()
        results.append([loss.detach(), torch.get_rng_state(), *(p.grad for p in own.parameters())])
    for without, within in zip(*results, strict=True):
        assert torch.equal(without, within)


@every
def test_copies_are_whole_and_their_own(reader, pointers, tmp_path):
    batch = asked()

    def other():
        return build(reader, pointers, seed=2)

    check_copies(build(reader, pointers), other, lambda m: m(*batch).logits, tmp_path)


@every
def test_save_and_load(reader, pointers, tmp_path):
    words = Tokenizer.train(["a b c d e f g h i"], kind="words", vocab_size=SIZE)
    batch = asked()
    source = tasks.load("reading")().model_arguments({"document": words})["vocab_size"]
    model = catalog.load(reader)(source, pointers, **catalog.entry(reader).tiny).eval()
    writing.save_pretrained(
        tmp_path / "folder",
        model,
        task={"name": "reading"},
        fields={"document": words},
        recipe={
            "model": {"name": reader, **catalog.entry(reader).tiny},
            "task": {"name": "reading"},
        },
    )
    loaded = loading.load(tmp_path / "folder").model
    assert torch.equal(loaded(*batch).logits, model(*batch).logits)
    assert loaded.num_pointers == pointers


@every
def test_bf16(reader, pointers):
    model, batch = build(reader, pointers, torch.float32), asked()
    exact = model(*batch).logits
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(*batch).logits
        loss_of(model, batch, torch.zeros(4, pointers, dtype=torch.int64)).backward()
    real = exact.isfinite()
    assert torch.equal(rough.isfinite(), real)
    assert (rough.float() - exact)[real].abs().max() < 0.1
    assert all(p.grad.isfinite().all() for p in model.parameters())
    low = build(reader, pointers, torch.bfloat16)(*batch).logits
    assert (low.float() - exact)[real].abs().max() < 0.2
