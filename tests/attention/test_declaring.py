"""What an attention says of itself, and what a recorder writes down of it."""

import inspect

import pytest
import torch
from torch import nn

from regard import catalog, watch
from regard.attention import (
    ROLES,
    Attention,
    Edges,
    FeatureAdditive,
    FeatureSoftmax,
    FeatureSum,
    MultiHead,
    attend,
    roles,
    rows_of,
)
from regard.errors import RequestError
from regard.protocols import BOS

X = torch.randn(2, 5, 8)


def seen_of(layer, *given):
    with watch(layer) as seen:
        layer(*given)
    return seen[""]


@pytest.mark.parametrize(
    ("layer", "given", "axes"),
    [
        (Attention(role="cross"), (X, X), ("example", "query", "key")),
        (MultiHead(8, 2, role="encoder"), (X, X), ("example", "head", "query", "key")),
        (
            MultiHead(8, 2, role="decoder"),
            (torch.randn(2, 3, 1, 8), torch.randn(2, 3, 4, 8)),
            ("example", "hypothesis", "head", "query", "key"),
        ),
        (
            Attention(
                FeatureAdditive(8, 8, 8), select=FeatureSoftmax(), read=FeatureSum(), role="self"
            ),
            (X, X),
            ("example", "query", "key", "feature"),
        ),
        (Attention(), (X[0], X[0]), ("query", "key")),
        (Attention(role="word"), (X[None], X[None]), ("example", "sentence", "query", "key")),
        (Attention(), (X[None], X[None]), ("example", "batch 2", "query", "key")),
    ],
    ids=["cross", "heads", "beam", "features", "no batch", "word", "undeclared"],
)
def test_axes_are_named(layer, given, axes):
    record = seen_of(layer, *given)
    assert record.axes == axes
    assert record.weights.dim() == len(axes)
    assert record.axis(axes[-1]) == len(axes) - 1
    with pytest.raises(RequestError, match="has no axis called 'hed'"):
        record.axis("hed")


def test_the_edges_of_a_graph_are_an_axis():
    edges = Edges.of(torch.tensor([[0, 1], [1, 2]]), 3, loops=True)
    layer = Attention(role="edge", batch_axes=("head",))
    heads = torch.randn(2, 3, 4)
    with watch(layer) as seen:
        layer(heads, heads, mask=edges)
    record = seen[""]
    assert record.axes == ("head", "edge")
    assert record.role == "edge"
    assert record.edges[0] is edges
    assert tuple(record.weights.shape) == (2, len(edges.sources))


def test_a_role_that_nobody_knows_is_refused():
    with pytest.raises(RequestError, match="did you mean 'cross'"):
        Attention(role="crosss")
    with pytest.raises(RequestError, match="no attention has the role 'up'"):
        MultiHead(8, 2, role="up")


def test_heads_take_the_role_of_what_is_inside():
    inner = Attention(role="encoder", batch_axes=("example", "window"))
    outer = MultiHead(8, 2, inner)
    assert (outer.role, outer.batch_axes) == ("encoder", ("example", "window"))
    assert roles(nn.ModuleDict({"a": outer, "b": Attention()})) == {"a": "encoder", "b": ""}


def test_what_declares_nothing_can_be_told():
    with watch() as seen:
        attend(X, X, name="mine")
    assert (seen["mine"].role, seen["mine"].axes) == ("", ("example", "query", "key"))
    assert seen.label("m*", role="self")["mine"].role == "self"
    with pytest.raises(RequestError, match="did you mean 'self'"):
        seen.label(role="selff")


def test_rows_belong_to_examples():
    """A batch that goes on with some of its examples: each is found, whichever row it has."""
    layer = Attention(role="cross")
    one, two = torch.randn(1, 1, 8), torch.randn(1, 1, 8)
    with watch(layer) as seen:
        layer(torch.cat([one, two]), X)
        with rows_of(example=torch.tensor([1])):
            layer(two, X[1:])
    record = seen[""]
    alone = seen_of(layer, two, X[1:]).weights[0]
    assert torch.allclose(record.of(1), torch.cat([alone, alone])[None])
    assert record.of(0).shape == (1, 1, 5)  # it was in the first call alone
    assert record.within({}).rows == record.rows


def test_a_beam_says_whose_row_is_whose():
    """Sentences leave the batch as they end; a record still knows which rows are left."""
    from regard import decode
    from tests.contract.battery import build, mixed

    model, batch = build("rnnsearch"), mixed()
    decoder = decode.build(name="greedy", max_length=6)
    with watch(model) as seen:
        found = decoder(model, batch.source, batch.lengths)
    record = seen["attention"]
    for t, step in enumerate(record.steps):
        left = [i for i, hypotheses in enumerate(found) if len(hypotheses[0].tokens) > t]
        assert record.rows[t]["example"].tolist() == left
        assert len(step) == len(left)
    for i, hypotheses in enumerate(found):
        own = record.of(i)
        assert own.shape[1] == len(hypotheses[0].tokens)
        assert torch.equal(own, record.along(hypotheses[0].trail))


def _made(name):
    """A small model, with twenty of whatever its constructor must be told."""
    kind = catalog.load(name)
    needed = [
        p.name for p in inspect.signature(kind).parameters.values()
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]  # fmt: skip
    return kind(**dict.fromkeys(needed, 20) | catalog.entry(name).tiny)


@pytest.mark.parametrize("name", catalog.names())
def test_every_model_declares_what_its_attentions_do(name):
    entry = catalog.entry(name)
    made = _made(name)
    declared = roles(made)
    assert "" not in declared.values()
    assert set(declared.values()) <= set(ROLES)
    assert bool(declared) == (entry.axes["score"] != "none")


def test_a_decoder_declares_what_its_ranks_show():
    """The rule that was guessed from ranks before: a past of its own has an axis more."""
    for name in catalog.names("translation"):
        made = _made(name).eval()
        source = torch.tensor([[5, 6, 7, 2]])
        with torch.no_grad(), watch(made) as reading:
            encoded = made.encode(source)
        with torch.no_grad(), watch(made) as writing:
            made.step(source.new_full((1, 1), BOS), made.start(encoded))
        told = dict.fromkeys(reading, "encoder")
        for path, record in writing.items():
            own = record.steps[0].dim() - 2 - record.heads == 2
            told.setdefault(path, "decoder" if own else "cross")
        assert roles(made) == told, name
