"""Memory networks: the equations in NumPy, both printed encodings, times, noise, linear start."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard import catalog, watch
from regard.errors import RequestError
from regard.layers.sentence_bags import Sentences, position, position_released
from regard.models.memn2n import MemN2N, shifted_times
from regard.models.memn2n_lm import MemN2NLM
from regard.protocols import LanguageModel, Reader, StartsLinear
from tests.models.slow import softmax

V = 13


def tiny(**changes):
    torch.manual_seed(3)
    settings = {**catalog.entry("memn2n").tiny, **changes}
    return MemN2N(V, V, **settings).double().eval()


def stories(seed=1):
    """Four stories of 5, 1, 0 and 3 facts; sentences of 1 to 4 words."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([5, 1, 0, 3])
    facts = torch.randint(4, V, (4, 5, 4), generator=generator)
    for b in range(4):
        facts[b, lengths[b] :] = 0
        for s in range(5):
            facts[b, s, 1 + (b + s) % 4 :] = 0
    question = torch.randint(4, V, (4, 3), generator=generator)
    question[1, 2:] = 0
    return facts, question, lengths


# -- encodings


def test_both_position_encodings_as_tabulated():
    words = torch.tensor([[5, 6, 7]])
    printed = position(words, 4, 99, torch.float64)[0].numpy()
    right = [
        [0.5833, 0.5, 0.4167, 0.3333],
        [0.4167, 0.5, 0.5833, 0.6667],
        [0.25, 0.5, 0.75, 1.0],
    ]
    assert np.allclose(printed, right, atol=5e-5)
    released = position_released(words, 4, 3, torch.float64).numpy()
    right = [[1.5, 1.1667, 0.8333, 0.5], [1, 1, 1, 1], [0.5, 0.8333, 1.1667, 1.5]]
    assert np.allclose(released, right, atol=5e-5)


def sentence(words, table, encoding, d):
    """Σ_j l_j ∘ A x_j, a dimension and a word at a time."""
    words = [w for w in words if w]
    total, count = np.zeros(d), len(words)
    for j, word in enumerate(words, 1):
        for k in range(1, d + 1):
            weight = {
                "bag-of-words": 1.0,
                "position": (1 - j / count) - (k / d) * (1 - 2 * j / count),
                "position-released": 1 + 4 / (d * 11) * (k - (d + 1) / 2) * (j - 12 / 2),
            }[encoding]
            total[k - 1] += weight * (table[word][k - 1] if word > 3 else 0.0)
    return total


def by_hand(model, facts, question, *, layer_wise, encoding, relu=False, linear=False):
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    d, hops = model.dim, len(model.hops)
    words = np.split(p["words"], p["words"].shape[1] // d, 1)
    times = np.split(p["times"], p["times"].shape[1] // d, 1)
    a = [0] * hops if layer_wise else list(range(hops))
    c = [1] * hops if layer_wise else [k + 1 for k in range(hops)]
    u = sentence(question, words[2 if layer_wise else 0], encoding, d)
    facts = [fact for fact in facts if any(fact)]
    for k in range(hops):
        scores, values = [], []
        for i, fact in enumerate(facts):
            back = min(len(facts) - 1 - i, len(p["times"]) - 1)
            scores.append(u @ (sentence(fact, words[a[k]], encoding, d) + times[a[k]][back]))
            values.append(sentence(fact, words[c[k]], encoding, d) + times[c[k]][back])
        weights = np.array(scores) if linear or not scores else softmax(np.array(scores))
        o = sum((w * v for w, v in zip(weights, values, strict=True)), np.zeros(d))
        u = (p["between.weight"] @ u if layer_wise else u) + o
        u = np.maximum(u, 0) if relu else u
    if layer_wise:
        return p["out.weight"] @ u, u
    return np.array([words[-1][w] @ u if w > 3 else 0.0 for w in range(V)]), u


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize(
    ("tying", "encoding", "activation"),
    [
        ("adjacent", "position", "linear"),
        ("adjacent", "position-released", "relu"),
        ("layer-wise", "bag-of-words", "linear"),
        ("layer-wise", "position", "relu"),
    ],
)
def test_it_is_the_papers(tying, encoding, activation, linear):
    model = tiny(tying=tying, encoding=encoding, activation=activation, hops=3, memory=4)
    model.linear_start(linear)
    facts, question, _ = stories()
    logits = model(facts, question).logits.detach().numpy()
    for b in range(4):
        right, _ = by_hand(
            model, facts[b].tolist(), question[b].tolist(), layer_wise=tying == "layer-wise",
            encoding=encoding, relu=activation == "relu", linear=linear,
        )  # fmt: skip
        assert np.allclose(logits[b], right, atol=1e-10)


def test_match_gives_named_answers_a_vector_of_their_own():
    model = tiny(match=True)
    facts, question, _ = stories()
    found = model(facts, question).logits.detach().numpy()
    features = model.match.features.detach().numpy()
    for b in range(4):
        right, u = by_hand(
            model, facts[b].tolist(), question[b].tolist(), layer_wise=False, encoding="position"
        )
        for a in range(4, V):
            right[a] += (a in facts[b]) * (features[0] @ u) + (a in question[b]) * (features[1] @ u)
        assert np.allclose(found[b], right, atol=1e-10)


def test_adjacent_tying_has_one_table_more_than_hops():
    model = MemN2N(50, 50, dim=20, hops=3, memory=10)
    assert {n: tuple(p.shape) for n, p in model.named_parameters()} == {
        "words": (50, 4 * 20),
        "times": (10, 4 * 20),
    }
    shared = MemN2N(50, 40, dim=20, hops=7, memory=10, tying="layer-wise")
    count = sum(p.numel() for p in shared.parameters())
    assert count == 3 * 50 * 20 + 2 * 10 * 20 + 20 * 20 + 40 * 20


# -- times


def test_noise_strews_blanks_among_the_times_and_keeps_their_order():
    torch.manual_seed(0)
    lengths = torch.tensor([12, 3, 0, 1])
    found = torch.stack([shifted_times(lengths, 12, 0.1) for _ in range(300)])
    for b, n in enumerate(lengths.tolist()):
        times = found[:, b, :n]
        assert (times.diff(dim=1) < 0).all()
        if n:
            assert (int(times.min()), int(times.max())) == (0, n - 1 + int(np.ceil(0.1 * n)))


def test_noise_is_as_likely_as_it_is_written():
    """Two facts, at most one blank: {0, 1} in 1/2 + 1/2 · 1/3, the others in 1/2 · 1/3 each."""
    torch.manual_seed(0)
    found = shifted_times(torch.full((20_000,), 2), 2, 0.5).tolist()
    shares = {tuple(t): found.count(t) / len(found) for t in ([1, 0], [2, 0], [2, 1])}
    assert shares == pytest.approx({(1, 0): 2 / 3, (2, 0): 1 / 6, (2, 1): 1 / 6}, abs=0.02)


def test_noise_is_of_the_training_alone():
    model = tiny(noise=1.0)
    facts, question, _ = stories()
    state = torch.get_rng_state()
    calm = [model(facts, question).logits for _ in range(2)]
    assert torch.equal(*calm)
    assert torch.equal(torch.get_rng_state(), state)
    model.train()
    assert not torch.equal(model(facts, question).logits, calm[0])


def test_the_latest_fact_is_the_first_time_however_long_the_story():
    model = tiny(memory=3)
    facts, question, _ = stories()
    with torch.no_grad():
        model.words.zero_()
        model.times.zero_()
        model.times[0] = 1.0
    model.linear_start(True)
    with watch(model) as seen:  # u = 0 at the first hop; at the second it is what was read: nothing
        model(facts, question)
    assert not seen["hops.0"].weights.any()
    with torch.no_grad():
        model.words[4:] = 1.0
    with watch(model) as seen:
        model(facts[:1], question[:1], torch.tensor([5]))
    weights = seen["hops.0"].of(0)[0, 0]
    u = sentence(question[0].tolist(), np.ones((V, 16)), "position", 16).sum()
    bare = [
        sum(
            sentence(question[0].tolist(), np.ones((V, 16)), "position", 16)
            * sentence(fact, np.ones((V, 16)), "position", 16)
        )
        for fact in facts[0].tolist()
    ]
    assert np.allclose(weights.numpy() - bare, [0, 0, 0, 0, u])


# -- bookkeeping: as the contract battery asks of generators


def test_it_keeps_the_protocols():
    assert isinstance(tiny(), Reader)
    assert isinstance(tiny(), StartsLinear)
    assert isinstance(language(), LanguageModel)
    assert isinstance(language(), StartsLinear)


@pytest.mark.parametrize("match", [False, True])
def test_padding_batches_and_repeats_change_nothing(match):
    model = tiny(match=match)
    facts, question, lengths = stories()
    logits = model(facts, question).logits
    wide = F.pad(facts, (0, 2, 0, 3))
    assert torch.allclose(model(wide, F.pad(question, (0, 2)), lengths).logits, logits)
    rubbish = question.clone()
    rubbish[1, 2] = 9
    cut = model(facts, rubbish, lengths, torch.tensor([3, 2, 3, 3])).logits
    assert torch.allclose(cut, logits)
    for b, n in enumerate(lengths.tolist()):
        one = model(facts[b : b + 1, :n], question[b : b + 1])
        assert torch.allclose(one.logits[0], logits[b])
    whole, places = torch.unique(
        torch.cat([facts.new_zeros(1, 4), facts.flatten(0, 1)]), dim=0, return_inverse=True
    )
    once = Sentences(whole, places[1:].view(4, 5))
    assert torch.allclose(model(once, question, lengths).logits, logits)


def test_facts_behind_the_lengths_are_never_read():
    model = tiny()
    facts, question, lengths = stories()
    rubbish = facts.clone()
    rubbish[1, 3] = 7
    short = model(rubbish, question, lengths).logits
    assert torch.allclose(short, model(facts, question, lengths).logits)


def test_gradients_reach_every_parameter_but_the_null_words():
    model = tiny(tying="layer-wise", match=True).train()
    facts, question, lengths = stories()
    F.cross_entropy(model(facts, question, lengths).logits, torch.tensor([4, 5, 6, 7])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name
    assert not model.words.grad[:4].any()


def test_an_unknown_word_says_nothing_and_an_empty_story_reads_nothing():
    model = tiny(encoding="bag-of-words")
    facts, question, lengths = stories()
    other = facts.clone()
    other[0, 0, 1:] = 3  # unknown words behind the first
    with_unknown = model(other, question, lengths).logits[0]
    other[0, 0, 1:] = 0
    assert torch.allclose(with_unknown, model(other, question, lengths).logits[0])
    nothing = model(facts[2:3, :0], question[2:3]).logits
    assert torch.allclose(nothing, model(facts, question).logits[2:3])


def test_every_hop_is_seen_and_adds_up():
    model = tiny(hops=3)
    facts, question, lengths = stories()
    with watch(model) as seen:
        watched = model(facts, question, lengths).logits
    assert list(seen) == ["hops.0", "hops.1", "hops.2"]
    for record in seen.values():
        (weights,) = record.steps
        assert torch.allclose(weights.sum(-1), (lengths > 0).double()[:, None])
        assert not weights[1, 0, 1:].any()
    assert torch.equal(watched, model(facts, question, lengths).logits)


def test_copies_keep_their_hops_and_bf16_works():
    model = tiny().float()
    facts, question, lengths = stories()
    exact = model(facts, question, lengths).logits
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(facts, question, lengths).logits, exact)
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(facts, question, lengths).logits
    assert (rough.float() - exact).abs().max() < 0.1 * exact.std() + 0.05


def test_it_learns_eight_stories_by_heart():
    torch.manual_seed(0)
    model = MemN2N(V, V, dim=16, hops=2, noise=0.0)
    generator = torch.Generator().manual_seed(2)
    facts = torch.randint(4, V, (8, 4, 3), generator=generator)
    question, answer = (torch.randint(4, V, shape, generator=generator) for shape in ((8, 3), (8,)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(300):
        model.linear_start(step < 50)
        loss = F.cross_entropy(model(facts, question).logits, answer)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_what_does_not_fit_is_refused():
    with pytest.raises(RequestError, match=r"no encoding 'positon'.*position"):
        MemN2N(V, V, encoding="positon")
    with pytest.raises(RequestError, match="both need one vocabulary, got 13 words and 5"):
        MemN2N(V, 5)
    with pytest.raises(RequestError, match="match needs one vocabulary"):
        MemN2N(V, 5, tying="layer-wise", match=True)
    with pytest.raises(RequestError, match="a hop and a memory"):
        MemN2N(V, V, hops=0)
    with pytest.raises(RequestError, match="0 to 4 linear units"):
        MemN2NLM(V, dim=4, linear=5)


# -- the language model


def language(**changes):
    torch.manual_seed(4)
    settings = {**catalog.entry("memn2n-lm").tiny, **changes}
    return MemN2NLM(V, **settings).double().eval()


def test_the_language_model_is_as_large_as_the_papers():
    assert sum(p.numel() for p in MemN2NLM(10_000).parameters()) == 4_552_500


@pytest.mark.parametrize("linear", [False, True])
def test_the_language_model_is_the_papers(linear):
    model = language(hops=3)
    model.linear_start(linear)
    tokens = torch.randint(1, V, (2, 8), generator=torch.Generator().manual_seed(1))
    logits = model(tokens).logits.detach().numpy()
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    for b in range(2):
        for t in range(8):
            last = tokens[b, max(0, t - 4) : t + 1].tolist()[::-1]  # the latest first
            keys = [
                p["keys.weight"][w] + p["attention.position.table"][i] for i, w in enumerate(last)
            ]
            values = [
                p["values.weight"][w] + p["attention.read.table"][i] for i, w in enumerate(last)
            ]
            u = np.full(8, 0.1)
            for _ in range(3):
                scores = np.array([u @ k for k in keys])
                weights = scores if linear else softmax(scores)
                u = p["between.weight"] @ u + sum(
                    w * v for w, v in zip(weights, values, strict=True)
                )
                u[4:] = np.maximum(u[4:], 0)  # the second half
            assert np.allclose(logits[b, t], p["out.weight"] @ u, atol=1e-10)


def test_the_language_model_step_by_step_and_under_beams():
    model = language()
    tokens = torch.randint(1, V, (3, 9), generator=torch.Generator().manual_seed(5))
    logits, decoding = model(tokens).logits, model.start(3)
    for t in range(9):
        step, decoding = model.step(tokens[:, t : t + 1], decoding)
        assert torch.allclose(step[:, 0], logits[:, t])
        assert decoding.step == t + 1
    wide = decoding.select(torch.zeros(3, 2, dtype=torch.long))
    step, _ = model.step(torch.tensor([[5, 6], [7, 8], [9, 10]]), wide)
    for b, (x, y) in enumerate([(5, 6), (7, 8), (9, 10)]):
        for slot, word in enumerate((x, y)):
            whole = torch.cat([tokens[b], torch.tensor([word])])[None]
            assert torch.allclose(step[b, slot], model(whole).logits[0, -1])


def test_the_language_models_hops_are_seen_and_its_gradients_reach_all():
    model = language(hops=3).train()
    tokens = torch.randint(1, V, (2, 7), generator=torch.Generator().manual_seed(6))
    with watch(model) as seen:
        loss = F.cross_entropy(model(tokens).logits.flatten(0, 1), tokens.roll(-1, 1).flatten())
    loss.backward()
    record = seen["attention"]
    assert [scope["hop"] for scope in record.scopes] == [0, 1, 2]
    for weights in record.steps:
        assert torch.allclose(weights.sum(-1), torch.ones(()).double())
    for name, parameter in model.named_parameters():
        assert parameter.grad.any(), name


# -- what it learns


def two_facts(count, generator):
    """Ten sentences (person, verb, place or object); the question is an object, the answer where
    its holder was last. Ids: people 4-6, went 7, took 8, places 9-13, objects 14-16."""
    people = torch.randint(3, (count, 10), generator=generator)
    where = torch.randint(5, (count, 10), generator=generator)
    facts = torch.stack([people + 4, torch.full_like(people, 7), where + 9], -1)
    order = torch.rand(count, 9, generator=generator).argsort(1)[:, :3]
    rows = torch.arange(count)
    last = torch.zeros(count, 3, dtype=torch.long)
    took = torch.zeros(count, 10, dtype=torch.bool)
    for thing in range(3):
        facts[rows, order[:, thing], 1] = 8
        facts[rows, order[:, thing], 2] = 14 + thing
        took[rows, order[:, thing]] = True
    asked = torch.randint(3, (count,), generator=generator)
    holder = people[rows, order[rows, asked]]
    moves = (people == holder[:, None]) & ~took
    last = (moves * torch.arange(1, 11)).amax(1)
    good = last > 0
    answer = facts[rows, last - 1, 2]
    return facts[good], (asked + 14)[good, None], answer[good]


@pytest.mark.slow
def test_two_supporting_facts_need_several_hops():
    found = {}
    for hops in (1, 3):
        torch.manual_seed(1)
        generator = torch.Generator().manual_seed(1)
        model = MemN2N(17, 17, dim=32, hops=hops, noise=0.0)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(2000):
            model.linear_start(step < 500)
            facts, question, answer = two_facts(64, generator)
            loss = F.cross_entropy(model(facts, question).logits, answer)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        facts, question, answer = two_facts(2000, generator)
        with torch.no_grad():
            said = model(facts, question).logits.argmax(1)
        found[hops] = float((said == answer).float().mean())
    assert found[1] < 0.6
    assert found[3] > 0.9
