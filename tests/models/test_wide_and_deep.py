"""The wide branch beside a model: its sum, its rate, and what the constructor refuses."""

from types import SimpleNamespace

import pytest
import torch

from regard import catalog
from regard.errors import RequestError
from regard.models.bag_of_ngrams import BagOfNgrams, BagOfNgramsPair
from regard.models.han import HAN
from regard.models.wide_and_deep import WideAndDeep
from regard.optim.optimizers import for_model
from regard.protocols import Inputs
from regard.tasks.starting_vectors import read_states
from tests.models.slow import ragged

SIZES = {"vocab_size": 12, "num_classes": 5}
SMALL = {"embed": 8, "hidden": 6, "ffn_dim": 12}


def test_its_scores_are_the_sum_of_both_branches_for_texts_and_for_pairs():
    source, lengths, _ = ragged()
    net = catalog.build("bilstm", SIZES, {**SMALL, "beside": "bag-of-ngrams"})
    assert isinstance(net, WideAndDeep)
    assert isinstance(net.wide, BagOfNgrams)
    apart = [one(source, lengths).logits for one in net.branches.values()]
    torch.testing.assert_close(net(source, lengths).logits, apart[0] + apart[1])
    beside = {"name": "bag-of-ngrams", "ngrams": 2, "buckets": 50}
    net = catalog.build("bilstm-pair", {**SIZES, "num_features": 2}, {**SMALL, "beside": beside})
    assert isinstance(net.wide, BagOfNgramsPair)
    assert net.wide.bags.rows == 12 + 50
    pair = Inputs(source, lengths, {"features": torch.randn(len(source), 2)}), source.flip(0)
    apart = [one(*pair, None, lengths.flip(0)).logits for one in net.branches.values()]
    found = net(*pair, None, lengths.flip(0)).logits
    torch.testing.assert_close(found, apart[0] + apart[1])
    assert (net.vocab_size, net.num_classes, net.num_features) == (12, 5, 2)
    assert catalog.constructor("rnnsearch") is catalog.load("rnnsearch")  # it labels nothing


def test_of_a_document_ngrams_stay_within_sentences():
    bag = BagOfNgrams(12, 3, ngrams=2, buckets=64)
    words = torch.tensor([[[5, 6, 7], [8, 9, 0]], [[5, 6, 0], [0, 0, 0]]])
    document = Inputs(words, torch.tensor([2, 1]), {"words": torch.tensor([[3, 2], [2, 0]])})
    keys = bag.bags.distinct(words.flatten(0, 1), torch.tensor([3, 2, 2, 0]), 2)
    one, two = (set(keys[keys // bag.bags.rows == i].tolist()) for i in range(2))
    assert (len(one), len(two)) == (5 + 3, 2 + 1)  # 7 8 is no pair of words
    torch.testing.assert_close(bag(document).logits[1:], bag(torch.tensor([[5, 6]])).logits)


def test_the_parts_of_ngrams_add_up_to_the_score():
    bag = BagOfNgrams(12, 3, ngrams=3, buckets=1000).double()
    ids = torch.tensor([[5, 6, 5, 7], [6, 5, 0, 0]])
    document = Inputs(ids[None], torch.tensor([2]), {"words": torch.tensor([[4, 2]])})
    found = bag.parts(ids, torch.tensor([4, 2]))
    assert {where[:3] for where in found} == {
        *((0, i, 1) for i in (0, 1, 3)),  # 5 is there twice
        *((0, i, 2) for i in (0, 1, 2)),  # 6 5 is in both sentences
        *((0, i, 3) for i in (0, 1)),
    }
    total = bag.bias + sum(part for *_, part in found)
    torch.testing.assert_close(total, bag(document).logits[0])


def test_the_wide_branch_learns_at_its_own_rate_also_after_a_pause():
    torch.manual_seed(1)
    deep = HAN(12, 2, embed=4, hidden=3, context=4)
    net = WideAndDeep(deep, {"wide": BagOfNgrams(12, 2)}, {"wide": 7.0})
    section = {"name": "sgd", "lr": 0.5}
    optimizer = for_model(section, net)
    before = {name: one.detach().clone() for name, one in net.named_parameters()}
    for one in net.parameters():
        one.grad = torch.ones_like(one)
    optimizer.step()
    for name, one in net.named_parameters():
        step = 3.5 if name.startswith("wide.") else 0.5
        torch.testing.assert_close(before[name] - one, torch.full_like(one, step))
    slow = BagOfNgrams(12, 2, bias_rate=0.5)
    assert slow.rates == {"bias": 0.5}
    slow = WideAndDeep(deep, {"wide": slow}, {"wide": 7.0})
    assert [*slow.rates.items()] == [("wide.bias", 3.5), ("wide.", 7.0)]
    again = for_model(section, net)
    again.load_state_dict(optimizer.state_dict())
    assert [group["lr"] for group in again.param_groups] == [0.5, 3.5]


def test_two_branches_stand_beside_a_model_and_each_reads_the_states_of_an_encoder():
    source, lengths, _ = ragged()
    beside = ["bag-of-ngrams", {"name": "swem", "pool": "max", "rate": 0.5}]
    net = catalog.build("bilstm", SIZES, {**SMALL, "beside": beside})
    assert [*net.branches] == ["deep", "wide", "pooled"]
    assert net.rates == {"wide.": 20.0, "pooled.": 0.5}
    assert net.pooled.embed.weight.shape == (12, 8)  # as wide as the words of the model beside it
    apart = [one(source, lengths).logits for one in net.branches.values()]
    torch.testing.assert_close(net(source, lengths).logits, sum(apart))
    read_states(net, SimpleNamespace(layers=(-1,), known={"size": 6}, words=True))
    states = torch.randn(*source.shape, 1, 6)
    found = net(Inputs(source, lengths, {"states": states})).logits
    found.sum().backward()
    for branch in (net.deep, net.pooled):
        assert branch.embed.states.project.weight.grad.any()


def test_some_training_texts_are_scored_by_one_branch_alone():
    source, lengths, _ = ragged()
    source, lengths = source.repeat(500, 1), lengths.repeat(500)
    beside = [
        {"name": "bag-of-ngrams", "alone": 0.2},
        {"name": "swem", "alone": 0.3},
    ]
    net = catalog.build("bilstm", SIZES, {**SMALL, "dropout": 0.0, "beside": beside})
    with torch.no_grad():
        net.wide.bags.weight.mul_(30)
        apart = torch.stack([one(source, lengths).logits for one in net.branches.values()])
        torch.manual_seed(3)
        found = net.train()(source, lengths).logits
        again = net(source, lengths).logits
        whole = net.eval()(source, lengths).logits
    every = torch.cat([apart, apart.sum(0, keepdim=True)])
    who = (every - found).abs().amax(2).argmin(0)
    torch.testing.assert_close(every[who, torch.arange(len(who))], found)
    share = who.bincount(minlength=4) / len(who)
    torch.testing.assert_close(share, torch.tensor([0.3, 0.2, 0.3, 0.2]), atol=0.05, rtol=0)
    assert not found.equal(again)  # other texts each time
    torch.testing.assert_close(whole, apart.sum(0))


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("bag-of-word", "model.beside: 'bag-of-word': did you mean 'bag-of-ngrams'"),
        ({"name": "bag-of-ngrams", "ngram": 2}, r"no setting 'ngram' \(model.beside\).*'ngrams'"),
        (["swem", {"name": "swem-pair"}], "model.beside: 'swem' is there twice; leave one out"),
        ({"rate": 0}, "model.beside.rate: expected a number above 0, got 0"),
        ({"alone": 0.6}, "model.beside.alone: expected a share from 0 to 0.5, got 0.6"),
        (["bag-of-ngrams", {"name": "swem", "alone": -1}], "a share from 0 to 0.5, got -1"),
        (
            [{"name": "bag-of-ngrams", "alone": 0.4}, {"name": "swem", "alone": 0.4}],
            "as much as the largest, 0.5 at most for one branch; with it they are 1.2 of all",
        ),
    ],
)
def test_what_is_no_branch_is_refused(beside, said):
    with pytest.raises(RequestError, match=said):
        catalog.build("bilstm", SIZES, {**SMALL, "beside": beside})
