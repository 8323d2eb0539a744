"""BRAN against its equations in NumPy, float64, one pair and one place at a time."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.errors import RequestError
from regard.layers.segments import POOLS
from regard.models.bran import BRAN, without_concepts
from regard.protocols import UNK, Inputs

SMALL = {"dim": 8, "heads": 2, "blocks": 2, "max_length": 30}
SILENT = dict.fromkeys(
    ("word_dropout", "embed_dropout", "dropout", "attention_dropout", "output_dropout"), 0.0
)
IDS = torch.tensor([[4, 9, 7, 5, 5, 11, 6], [8, 4, 10, 6, 0, 0, 0], [3, 0, 0, 0, 0, 0, 0]])
LENGTHS = torch.tensor([7, 4, 1])
PLACES = torch.tensor([[5, 0, 1, 3, 1], [2, 0, 3, -1, -1], [-1, -1, -1, -1, -1]])
ENTITIES = torch.tensor([[1, 0, 0, 2, 2], [0, 1, 0, -1, -1], [-1, -1, -1, -1, -1]])
PAIRS = torch.tensor([[[0, 1], [2, 1], [0, 2]], [[1, 0], [-1, -1], [-1, -1]], [[-1, -1]] * 3])


def given(**changes):
    extras = {"places": PLACES, "entities": ENTITIES, "pairs": PAIRS, **changes}
    return Inputs(IDS, LENGTHS, extras)


def made(seed=3, **settings):
    torch.manual_seed(seed)
    model = BRAN(12, 3, 5, **{**SMALL, **SILENT, **settings}).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def plain(model):
    return {name: p.detach().numpy() for name, p in model.named_parameters()}


def affine(p, name, x):
    return x @ p[f"{name}.weight"].T + p.get(f"{name}.bias", 0.0)


def norm(p, name, x):
    centered = x - x.mean(-1, keepdims=True)
    scaled = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * p[f"{name}.weight"] + p[f"{name}.bias"]


def attended(p, at, x, heads, rectified):
    act = (lambda v: np.maximum(v, 0)) if rectified else (lambda v: v)
    q, k, v = (act(affine(p, f"{at}.{part}", x)) for part in ("query", "key", "value"))
    size, out = x.shape[1] // heads, []
    for h in range(heads):
        own = slice(h * size, (h + 1) * size)
        scores = np.exp(q[:, own] @ k[:, own].T / math.sqrt(size))
        out.append(scores / scores.sum(1, keepdims=True) @ v[:, own])
    joined = np.concatenate(out, 1)
    return joined if rectified else affine(p, f"{at}.out", joined)


def convolved(p, at, x, widths):
    for number, width in enumerate(widths):
        weight, bias = p[f"{at}.{number}.weight"], p[f"{at}.{number}.bias"]
        rows = []
        for t in range(len(x)):
            total = bias.copy()
            for k in range(width):
                place = t + k - (width - 1) // 2
                if 0 <= place < len(x):
                    size = x.shape[1]
                    total = total + weight[:, k * size : (k + 1) * size] @ x[place]
            rows.append(np.maximum(total, 0))
        x = np.array(rows)
    return x


def states_of(model, ids, settings):
    p = plain(model)
    x = p["embed.weight"][ids] * math.sqrt(model.embed.weight.shape[1])
    x = x + p["position.table"][: len(ids)]
    for b in range(2):
        at = f"blocks.{b}"
        kind = settings.get("attention", "rectified")
        if kind != "none":
            found = attended(p, f"{at}.attention", x, 2, kind == "rectified")
            x = norm(p, f"{at}.attention_norm", x + found)
        found = convolved(p, f"{at}.convolutions.layers", x, settings.get("widths", (1, 5, 1)))
        x = norm(p, f"{at}.norm", found if settings.get("connection") == "none" else x + found)
    return x


def mlp(p, name, x):
    return affine(p, f"{name}.2", np.maximum(affine(p, f"{name}.0", x), 0))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"attention": "multihead"},
        {"attention": "none"},
        {"widths": (1, 1, 1)},
        {"widths": (2, 3, 1), "connection": "none"},
        {"pool": "max"},
        {"pool": "mean"},
    ],
    ids=str,
)
def test_it_is_its_equations(settings):
    model = made(**settings)
    output = model(given())
    p, expected = plain(model), []
    for row, size in enumerate(LENGTHS.tolist()):
        b = states_of(model, IDS[row, :size].numpy(), settings)
        names = affine(p, "names", b)
        assert np.allclose(output.extra["names"][row, :size].detach().numpy(), names, atol=1e-10)
        head, tail = mlp(p, "head", b), mlp(p, "tail", b)
        for h, t in PAIRS[row].tolist():
            if h < 0:
                continue
            cells = [
                [
                    np.append(head[i], 1.0) @ p["biaffine"][:, r] @ np.append(tail[j], 1.0)
                    for r in range(3)
                ]
                for i, one in zip(PLACES[row].tolist(), ENTITIES[row].tolist(), strict=True)
                for j, other in zip(PLACES[row].tolist(), ENTITIES[row].tolist(), strict=True)
                if i >= 0 and j >= 0 and one == h and other == t
            ]
            pools = {"max": np.max, "mean": np.mean}
            pool = pools.get(settings.get("pool"), lambda x, axis: np.log(np.exp(x).sum(axis)))
            expected.append(pool(np.array(cells), axis=0))
    assert output.logits.shape == (4, 3)
    assert np.allclose(output.logits.detach().numpy(), np.array(expected), atol=1e-10)


def test_what_is_said_of_a_pair_is_added_to_its_scores():
    """Features through a layer, cues by a table, distances inside of the sum over mentions."""
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(3, 3, 4, generator=generator, dtype=torch.float64)
    cues = torch.tensor([[[0, 3, 6], [2, -1, -1], [-1, -1, -1]], [[6, 5, -1]] * 3, [[1, 1, 1]] * 3])
    own = {"num_features": 4, "feature": 6, "num_cues": 7, "distances": 2, "embed": 6}
    model = made(**own)
    with torch.no_grad():
        model.cues.weight.normal_(generator=generator)
        model.distances.normal_(generator=generator)
    found = model(given(features=features, cues=cues)).logits.detach().numpy()
    p, expected = plain(model), []
    for row, size in enumerate(LENGTHS.tolist()):
        states = model.encode(IDS[row : row + 1, :size], LENGTHS[row : row + 1])[0]
        head, tail = (
            mlp(p, "head", states.detach().numpy()),
            mlp(p, "tail", states.detach().numpy()),
        )
        places = list(zip(PLACES[row].tolist(), ENTITIES[row].tolist(), strict=True))
        for pair, (h, t) in enumerate(PAIRS[row].tolist()):
            if h < 0:
                continue
            cells = []
            for i in (i for i, one in places if i >= 0 and one == h):
                for j in (j for j, one in places if j >= 0 and one == t):
                    left, right = np.append(head[i], 1.0), np.append(tail[j], 1.0)
                    score = np.einsum("a,arb,b->r", left, p["biaffine"], right)
                    near = min(int(math.log2(1 + abs(i - j))), 2) * np.sign(i - j)
                    cells.append(score + p["distances"][2 + near])
            hidden = np.maximum(affine(p, "features.0", features[row, pair].numpy()), 0)
            said = p["cues.weight"][[c for c in cues[row, pair].tolist() if c >= 0]].sum(0)
            pooled = np.log(np.exp(np.array(cells)).sum(0))
            expected.append(pooled + affine(p, "features.2", hidden) + said)
    assert np.allclose(found, np.array(expected), atol=1e-10)


def test_vectors_of_another_size_are_brought_to_the_states():
    model = made(embed=6)
    with torch.no_grad():
        model.position.table.zero_()
        rows = model.embed.weight[4] * math.sqrt(6)
        block = model.blocks[0]
        model.blocks = torch.nn.ModuleList()
        found = model.encode(torch.tensor([[4]]), torch.tensor([1]))
    assert torch.allclose(found[0, 0], model.project.weight @ rows)
    assert block.norm.weight.shape == (8,)


def test_mentions_of_a_concept_are_hidden_together():
    extras = {
        "places": torch.tensor([[0, 1, 3, 5, -1]]),
        "entities": torch.tensor([[0, 0, 1, 0, -1]]),
    }
    ids = torch.tensor([[4, 5, 6, 7, 8, 9]])
    torch.manual_seed(1)
    seen = {tuple(without_concepts(ids, extras, 0.5)[0].tolist()) for _ in range(60)}
    one, other = (UNK, UNK, 6, 7, 8, UNK), (4, 5, 6, UNK, 8, 9)
    assert seen == {tuple(ids[0].tolist()), one, other, (UNK, UNK, 6, UNK, 8, UNK)}
    assert torch.equal(without_concepts(ids, extras, 0.0), ids)
    assert torch.equal(without_concepts(ids, {}, 0.9), ids)


def test_cues_are_left_out_in_training_alone():
    model = made(num_cues=50, cue_dropout=0.5)
    with torch.no_grad():
        model.cues.weight.fill_(1.0)
    cues = torch.arange(50).expand(2, -1)
    assert model.cued(cues).tolist() == [[50.0] * 3] * 2
    model.train()
    torch.manual_seed(1)
    kept = torch.stack([model.cued(cues) for _ in range(100)]).detach()
    assert 46 < float(kept.mean()) < 54
    assert kept.unique().numel() > 5


def test_parameters_are_those_of_the_sheet():
    model = BRAN(10, 2, 5)
    count = lambda m: sum(p.numel() for p in m.parameters())  # noqa: E731
    block = model.blocks[0]
    assert count(block.attention) == 12_480
    assert count(block.convolutions) == 361_024
    assert count(model.blocks) == 747_520
    assert count(model.head) + count(model.tail) == 16_640
    assert model.biaffine.numel() == 8_450
    wide = BRAN(10, 15, 5, dim=128)
    assert count(wide.blocks) == 2_985_984
    assert wide.biaffine.numel() == 249_615


def test_mentions_that_are_said_again_shift_all_relations_alike():
    model = made()
    once = model(given()).logits
    again = model(given(
        places=torch.cat([PLACES, PLACES], 1), entities=torch.cat([ENTITIES, ENTITIES], 1)
    )).logits  # fmt: skip
    assert torch.allclose(again - once, torch.full_like(once, math.log(4)), atol=1e-10)


def test_a_concept_without_a_place_speaks_for_no_relation():
    model = made()
    pairs = torch.tensor([[[0, 1], [0, 4]], [[-1, -1]] * 2, [[0, 1], [-1, -1]]])
    logits = model(given(pairs=pairs)).logits
    assert logits.shape == (3, 3)
    assert not logits[1:].any()
    assert torch.equal(logits[0], model(given()).logits[0])


def test_without_pairs_there_are_names_alone():
    model = made()
    output = model(IDS)
    assert output.logits.shape == (0, 3)
    assert torch.allclose(output.extra["names"][:2, :4], model(given()).extra["names"][:2, :4])
    empty = given(places=PLACES[:, :0], entities=ENTITIES[:, :0], pairs=PAIRS[:, :0])
    assert model(empty).logits.shape == (0, 3)


def test_words_are_dropped_in_training_alone():
    model = made(word_dropout=0.5)
    assert torch.equal(model(given()).logits, model(given()).logits)
    model.train()
    assert not torch.equal(model(given()).logits, model(given()).logits)


@pytest.mark.parametrize("name", ["attention", "connection", "pool"])
def test_unknown_parts_are_refused(name):
    with pytest.raises(RequestError, match=f"no {name} is called 'x'"):
        BRAN(12, 2, 3, **{name: "x"})


@pytest.mark.parametrize("pool", POOLS)
def test_segments_are_pooled_as_rows_are(pool):
    torch.manual_seed(1)
    x = torch.randn(40, 3, dtype=torch.float64, requires_grad=True) * 20
    segments = torch.randint(0, 6, (40,))
    segments[segments == 4] = 5
    plain = {"logsumexp": torch.logsumexp, "mean": torch.mean, "max": torch.amax}[pool]
    found = POOLS[pool](x, segments, 6)
    for s in range(6):
        own = x[segments == s]
        assert torch.allclose(found[s], plain(own, 0) if len(own) else torch.zeros(3).double())
    wanted = torch.autograd.grad(found.sum(), x, retain_graph=True)[0]
    parts = [plain(x[segments == s], 0).sum() for s in segments.unique()]
    assert torch.allclose(wanted, torch.autograd.grad(torch.stack(parts).sum(), x)[0])


# -- the small check of our fact sheet: what pooling over all mentions is for


def triggers(count, generator):
    """Documents of 40 tokens, 3 mentions of either concept; related where both have a trigger."""
    ids = torch.randint(6, 40, (count, 40), generator=generator)
    places = torch.stack([torch.randperm(12, generator=generator)[:6] * 3 for _ in range(count)])
    ids.scatter_(1, places, torch.tensor([4, 4, 4, 5, 5, 5]).expand(count, -1))
    flags = torch.rand(count, 6, generator=generator) < 0.27
    words = torch.where(flags, torch.tensor([50] * 3 + [51] * 3), torch.tensor(52))
    ids.scatter_(1, places + 2, words)
    labels = (flags[:, :3].any(1) & flags[:, 3:].any(1)).long()
    return ids, places, labels


def learned(mentions=3, **settings):
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(1)
    model = BRAN(
        60, 2, 2, **{"dim": 32, "heads": 4, "blocks": 1, "max_length": 40, **SILENT, **settings}
    )
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    kept = [*range(mentions), *range(3, 3 + mentions)]
    entities = torch.tensor([0] * mentions + [1] * mentions)

    def logits(ids, places):
        extras = {
            "places": places[:, kept], "entities": entities.expand(len(ids), -1),
            "pairs": torch.tensor([[0, 1]]).expand(len(ids), -1, 2),
        }  # fmt: skip
        return model(Inputs(ids, None, extras)).logits

    ids, places, labels = triggers(3000, generator)
    for _ in range(12):
        for at in torch.randperm(3000, generator=generator).split(50):
            optimizer.zero_grad()
            F.cross_entropy(logits(ids[at], places[at]), labels[at]).backward()
            optimizer.step()
    ids, places, labels = triggers(1000, generator)
    with torch.no_grad():
        right = logits(ids, places).argmax(1) == labels
    return float(right.float().mean()), max(
        float(labels.float().mean()), 1 - float(labels.float().mean())
    )


CHECKS = {
    "all mentions": ({}, 0.98, 1.0),
    "max": ({"pool": "max"}, 0.98, 1.0),
    "mean": ({"pool": "mean"}, 0.95, 1.0),
    # With attention the first mention can learn what the others say; by itself it cannot.
    "first mention alone": ({"mentions": 1, "attention": "none"}, 0.0, 0.92),
    "convolutions alone": ({"attention": "none"}, 0.98, 1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "least", "most"), CHECKS.values(), ids=CHECKS.keys())
def test_all_mentions_are_needed(settings, least, most):
    assert least <= learned(**settings)[0] <= most


@pytest.mark.slow
def test_without_attention_and_width_nothing_is_found():
    right, majority = learned(attention="none", widths=(1, 1, 1))
    assert right < majority + 0.03
