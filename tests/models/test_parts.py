"""Parts by a setting: every score and selection in every model that has a choice."""

import itertools

import pytest
import torch
from torch import nn

import regard.attention
from regard import catalog, recipe
from regard.attention import Attention, Coverage, Dot
from regard.catalog.parts import PARTS, chosen, part
from regard.decode import Beam
from regard.errors import RequestError
from regard.protocols import BOS

WORDS = {"source_vocab_size": 11, "target_vocab_size": 12}
PICTURE = {"in_channels": 3, "target_vocab_size": 12}
CLASSES = {"vocab_size": 11, "num_classes": 3}
MODELS = {
    "rnnsearch": WORDS, "conditional-gru": WORDS, "luong": WORDS, "gnmt": WORDS,
    "deep-att": WORDS, "lstm-a": WORDS, "show-attend-tell": PICTURE, "temporal": PICTURE,
    "att-blstm": CLASSES,
}  # fmt: skip
SETTINGS = {
    "topk": {"k": 2}, "local-m": {"reach": 1, "clamp": True}, "local-p": {"reach": 2},
    "location": {"max_length": 30},
}  # fmt: skip
BELONG = {
    "InverseEuclidean": "of ABCNN: 1 / (1 + distance), for a select that sums to anything",
    "FeatureAdditive": "one score for each feature", "FeaturePerceptron": "of each feature",
    "SourceToToken": "of each feature, without a query",
    "LocationAware": "reads the weights of the step before",
    "RelativeKeys": "queries and keys of one sequence", "RelativeSinusoid": "of one sequence",
    "SplitLinear": "of graph attention: a vector over a query and a key",
    "FeatureSoftmax": "weights of each feature",
    "Hard": "needs a reward in the loss; straight-through does not",
    "Identity": "weights without a sum", "OverQueries": "normalizes over queries",
    "Monotonic": "carries an alignment",
    "TalkingHeads": "needs an axis of heads: `attention: {talking: true}` of a Transformer",
    "MonotonicChunkwise": "carries an alignment", "TemporalSoftmax": "carries scores",
}  # fmt: skip
"""Parts that no setting names, and why."""
ALIKE = {"luong", "gnmt", "att-blstm"}
STEPS = {"luong"}


def told(name):
    return {"name": name, **SETTINGS[name]} if name in SETTINGS else name


def attentions(model):
    return [one for one in model.modules() if type(one) is Attention]


def made(name, **parts):
    settings = {**catalog.entry(name).tiny, "attention": parts}
    return catalog.build(name, MODELS[name], settings)


@pytest.mark.parametrize("name", MODELS)
def test_every_part_fits(name):
    """Teacher forced and step by step give the same, and every parameter learns."""
    torch.manual_seed(0)
    every = [*itertools.product(PARTS["score"], ["softmax"])]
    every += itertools.product(["general"], [one for one in PARTS["select"] if one != "softmax"])
    for score, select in every:
        if PARTS["score"][score].alike and name not in ALIKE:
            with pytest.raises(RequestError, match=rf"model\.attention\.score: {score} compares"):
                made(name, score=score)
            continue
        if PARTS["select"][select].steps and name not in STEPS:
            with pytest.raises(RequestError, match=rf"select: {select} must know the number of"):
                made(name, select=told(select))
            continue
        model = made(name, score=told(score), select=told(select)).eval()
        (own,) = attentions(model)
        assert type(own.score) is getattr(regard.attention, PARTS["score"][score].target)
        assert type(own.select) is getattr(regard.attention, PARTS["select"][select].target)
        if MODELS[name] is not WORDS:
            continue
        source, target = torch.randint(4, 11, (2, 5)), torch.randint(4, 12, (2, 4))
        target[:, 0] = BOS
        lengths = torch.tensor([5, 4])
        forced = model(source, target, lengths).logits
        decoding, steps = model.start(model.encode(source, lengths)), []
        for token in target.split(1, 1):
            logits, decoding = model.step(token, decoding)
            steps.append(logits[:, 0])
        found = torch.stack(steps, 1)
        torch.testing.assert_close(found, forced, atol=1e-6, rtol=1e-5)
        forced.square().sum().backward()
        if select in ("softmax", "smooth", "chain", "local-p", "straight-through"):
            assert all(one.grad is not None for one in own.parameters())


def test_local_m_by_a_setting_is_luongs_own():
    """The same weights, the same outputs, teacher forced and for the hypotheses of a beam."""
    settings = {**catalog.entry("luong").tiny, "reach": 1, "attention": "local-m"}
    own = catalog.build("luong", WORDS, settings).eval()
    named = made("luong", select=told("local-m"), score="general").eval()
    named.load_state_dict(own.state_dict())
    source, target = torch.randint(4, 11, (2, 6)), torch.randint(4, 12, (2, 4))
    lengths = torch.tensor([6, 4])
    assert torch.equal(named(source, target, lengths).logits, own(source, target, lengths).logits)
    beams = [Beam(3, max_length=5)(model, source, lengths) for model in (own, named)]
    assert [[h.tokens for h in row] for row in beams[0]] == [
        [h.tokens for h in row] for row in beams[1]
    ]


def test_no_part_is_forgotten():
    """Every score and selection that is exported is in the table, or is said why it is not."""
    exported = {
        name
        for kind in ("score", "select")
        for name in regard.attention.__all__
        if isinstance(one := getattr(regard.attention, name), type)
        and one.__module__.startswith(f"regard.attention.{kind}.")
        and not getattr(one, "_is_protocol", False)
    }
    listed = {row.target for rows in PARTS.values() for row in rows.values()}
    assert exported - listed == {*BELONG}
    assert listed <= exported


def test_the_papers_own_parts_are_the_default():
    torch.manual_seed(3)
    without = catalog.build("rnnsearch", WORDS, dict(catalog.entry("rnnsearch").tiny))
    torch.manual_seed(3)
    empty = made("rnnsearch")
    for one, other in zip(without.parameters(), empty.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"score": "aditive"}, r"model\.attention\.score: there is no score 'aditive'.*additive"),
        ({"scores": "dot"}, r"model\.attention: there is no part 'scores'.*score"),
        ({"select": {"name": "topk"}}, r"needs a value for model\.attention\.select\.k"),
        ({"select": {"name": "topk", "k": 2, "n": 1}}, r"has no setting 'n'"),
        ({"score": "location"}, r"model\.attention\.score: location needs max_length"),
    ],
)
def test_what_is_refused(wrong, said):
    with pytest.raises(RequestError, match=said):
        made("rnnsearch", **wrong)


def test_a_score_that_reads_a_carry_stays():
    own = Attention(Dot(), carry=Coverage())
    with pytest.raises(RequestError, match="reads what Coverage carries"):
        chosen(own, {"score": "dot"}, query=4, key=4)
    assert isinstance(part("score", "general", {"query": 2, "key": 3}), nn.Module)


def test_a_recipe_names_them_and_is_told_where(tmp_path):
    path = tmp_path / "recipe.yaml"
    text = "model:\n  name: rnnsearch\n  attention: {select: {name: topk, k: 3}, score: %s}\n"
    rest = "task: {name: translation}\ndata: {path: x}\n"
    path.write_text(text % "general" + rest)
    recipe.load(path).check()
    path.write_text(text % "dot" + rest)
    with pytest.raises(RequestError, match=r"yaml:3: model\.attention\.score: dot compares"):
        recipe.load(path).check()
