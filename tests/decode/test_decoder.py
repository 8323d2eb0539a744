"""What every decoder keeps to: limits, prefixes, trails, modes, and a request that makes sense."""

import math

import pytest
import torch
from torch import nn

from regard import catalog, decode
from regard.decode import Beam, Greedy, Sample, gnmt, power
from regard.decode import decoder as decoder_module
from regard.decode.top import top
from regard.errors import RegardError, RequestError
from regard.protocols import BOS, EOS, PAD
from tests.decode.toy import Fixed, Markov, rescore

SOURCES = torch.tensor([[4, 3, 2, 0], [3, 2, 0, 0], [4, 4, 4, 2], [3, 3, 2, 0]])
DECODERS = [
    Greedy(),
    Beam(1),
    Beam(4, n_best=4),
    Beam(4, n_best=4, length_penalty=0.0),
    Beam(3, patience=1.0),
    Sample(),
    Sample(n_best=3, top_k=3, temperature=1.5),
]


def test_penalties_have_the_values_of_the_fact_sheet():
    assert gnmt(1, 0.6) == 1
    assert gnmt(10, 0.6) == pytest.approx(1.733, abs=5e-4)
    assert gnmt(20, 0.6) == pytest.approx(2.354, abs=5e-4)
    assert [gnmt(n, 0.0) for n in (1, 7)] == [1, 1]
    assert gnmt(7, 1.0) == 2
    assert power(7, 1.0) == 7
    assert power(4, 0.5) == 2


@pytest.mark.parametrize("decoder", DECODERS)
def test_the_trail_leads_to_what_the_model_had_read(decoder):
    # sentences of different limits leave the batch at different steps, and beams are re-ordered
    model = Markov(7, seed=1)
    moved = False
    prefix = [[], [5], [], [3, 4]]
    for starts in (None, prefix):
        model.seen.clear()
        found = decoder(model, SOURCES, prefix=starts)
        for sentence, hypotheses in enumerate(found):
            for h in hypotheses:
                assert h.trail.shape == (len(h.tokens), 2)
                assert h.trail.dtype == torch.int64
                read = [BOS, *h.tokens]
                for t, (row, slot) in enumerate(h.trail.tolist()):
                    assert model.seen[t][row, slot].tolist() == read[: t + 1]
                moved |= bool((h.trail != torch.tensor([sentence, 0])).any())
    assert moved  # else the test would have shown little


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_prefix_is_kept_and_its_tokens_count(decoder):
    model = Markov(7, seed=3)
    prefix = [[5, 6, 3], [], [4], [3, 3, 3, 3]]
    for source, start, found in zip(
        SOURCES, prefix, decoder(model, SOURCES, prefix=prefix), strict=True
    ):
        for h in found:
            assert h.tokens[: len(start)] == start
            assert h.token_scores == pytest.approx(rescore(model, source, h.tokens), abs=1e-5)
            assert len(h.tokens) > len(start)


def test_a_prefix_that_all_share_is_read_one_beam_wide():
    model = Markov(7, seed=3)
    Beam(4)(model, SOURCES, prefix=[[4, 5]] * 4)
    assert [s.shape[1] for s in model.seen[:4]] == [1, 1, 1, 4]


def test_beam_search_after_a_prefix_is_the_best_after_that_prefix():
    model = Markov(5, seed=8)
    (found,) = Beam(81, length_penalty=0.0, max_length=4)(model, SOURCES[:1], prefix=[[4]])
    (free,) = Beam(81, length_penalty=0.0, max_length=4, n_best=81)(model, SOURCES[:1])
    assert found[0].tokens == next(h.tokens for h in free if h.tokens[0] == 4)


@pytest.mark.parametrize("decoder", [Greedy(), Beam(3), Sample()])
def test_a_prefix_that_the_model_finds_impossible_is_still_followed(decoder):
    def never_three(read):
        return [0, 0, 0.25, 0, 0.75]

    (found,) = decoder(Fixed(5, never_three), SOURCES[:1], prefix=[[3, 3]])
    assert found[0].tokens[:2] == [3, 3]
    assert len(found[0].tokens) > 2
    assert math.isfinite(found[0].score)
    assert found[0].token_scores[2:] == pytest.approx(
        [math.log(0.25 if t == EOS else 0.75) for t in found[0].tokens[2:]]
    )


@pytest.mark.parametrize("decoder", [Greedy, Beam, Sample])
@pytest.mark.parametrize(("ratio", "extra", "most"), [(2.0, 3, None), (1.5, 0, None), (1.1, 2, 4)])
def test_limits(decoder, ratio, extra, most):
    def endless(read):
        return [0, 0, 0, 0.5, 0.5]

    made = decoder(max_ratio=ratio, max_extra=extra, max_length=most)
    for source, found in zip(SOURCES, made(Fixed(5, endless), SOURCES), strict=True):
        limit = math.ceil(ratio * int((source != PAD).sum())) + extra
        limit = limit if most is None else min(limit, most)
        assert len(found[0].tokens) == limit
        assert not found[0].finished
        assert found[0].log_prob == pytest.approx(limit * math.log(0.5), rel=1e-6)


def test_a_ratio_is_not_rounded_up_by_what_binary_fractions_lack():
    assert Greedy(max_ratio=1.1, max_extra=0).limit(10) == 11
    assert Greedy(max_ratio=1.5, max_extra=1).limit(3) == 6


def test_limits_make_room_for_a_prefix_and_for_the_least_length(monkeypatch):
    model = Markov(6, seed=0)
    (found,) = Beam(2, max_length=3)(model, SOURCES[:1], prefix=[[3, 4, 5, 3, 4]])
    assert found[0].tokens[:5] == [3, 4, 5, 3, 4]
    assert len(found[0].tokens) == 6
    said = []
    monkeypatch.setattr(decoder_module, "_say_raised", lambda *limits: said.append(limits))
    (found,) = Beam(2, max_ratio=0.0, max_extra=1, min_length=5)(model, SOURCES[:1])
    assert said == [(5, 1)]
    assert len(found[0].tokens) == 5


@pytest.mark.parametrize("decoder", [Greedy, Beam, Sample])
def test_least_length_counts_eos(decoder):
    def over(read):
        return [0, 0, 0.98, 0.01, 0.01]

    for least in (0, 1, 4):
        for found in decoder(min_length=least)(Fixed(5, over), SOURCES):
            assert len(found[0].tokens) == max(1, least)
            assert found[0].finished


def test_what_was_cut_ranks_behind_what_ended():
    def loop(read):  # going on is likely, ending is not
        return [0, 0, 0.1, 0.9]

    (found,) = Beam(2, n_best=2)(Fixed(4, loop), SOURCES[:1])
    assert [h.finished for h in found] == [True, True]
    (found,) = Beam(2, n_best=2, min_length=0, max_length=1)(Fixed(4, loop), SOURCES[:1])
    assert [h.tokens for h in found] == [[EOS], [3]]


@pytest.mark.parametrize("decoder", [Greedy(), Beam(3), Sample()])
def test_modes_and_gradients_are_left_as_they_were(decoder):
    model = Markov(6, seed=0)
    model.inner = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    modes = [m.training for m in model.modules()]
    state = torch.get_rng_state()
    during = []
    model.inner.register_module("spy", nn.Identity())
    step = model.step
    model.step = lambda *a: during.append((model.training, torch.is_grad_enabled())) or step(*a)
    decoder(model, SOURCES)
    assert [m.training for m in list(model.modules())[: len(modes)]] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert set(during) == {(False, False)}
    assert torch.is_grad_enabled()
    model.step = lambda *a: 1 / 0
    with pytest.raises(ZeroDivisionError):
        decoder(model, SOURCES)
    assert model.training


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_scores_of_half_precision_logits_are_worked_out_in_float32(dtype):
    model = Markov(6, seed=2).to(dtype)
    for source, found in zip(SOURCES, Beam(3)(model, SOURCES), strict=True):
        true = rescore(model, source, found[0].tokens)  # logits of that dtype, softmax in float64
        assert found[0].token_scores == pytest.approx(true, abs=2e-6)


def test_finished_sentences_leave_the_batch():
    def by_length(read):
        return [0, 0, 0, 1.0, 0]

    model = Fixed(5, by_length)
    Greedy(max_ratio=1.0, max_extra=0)(model, SOURCES)
    assert [len(s) for s in model.seen] == [4, 4, 3, 1]


def test_nothing_to_decode():
    assert Beam()(Markov(5), torch.zeros(0, 3, dtype=torch.int64)) == []


@pytest.mark.parametrize("decoder", [Greedy(), Beam(3)])
def test_nan_is_said(decoder):
    model = Markov(5)
    with torch.no_grad():
        model.table.fill_(math.nan)
    with pytest.raises(RegardError, match="NaN within"):
        decoder(model, SOURCES)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"name": "bem"}, "no decoder 'bem'; did you mean 'beam'"),
        ({"beam_sise": 3}, "decode.beam_sise: 'beam' has no such key; did you mean 'beam_size'"),
        ({"name": "greedy", "beam_size": 3}, "'greedy' has no such key"),
        ({"beam_size": "512x"}, "decode.beam_size: expected a whole number, got '512x'"),
        ({"beam_size": True}, "expected a whole number"),
        ({"beam_size": 0}, "decode.beam_size: expected a number from 1 to 1,000, got 0"),
        ({"penalty": "wu"}, "decode.penalty: no length penalty 'wu'; valid: gnmt, power"),
        ({"length_penalty": -0.5}, "decode.length_penalty"),
        ({"max_length": 2, "min_length": 3}, "decode.max_length"),
        ({"max_ratio": 0, "max_extra": 0}, "decode.max_extra"),
        ({"patience": 0.5}, "decode.patience"),
        ({"name": "sample", "temperature": 0.0}, "decode.temperature.*greedy"),
        ({"name": "sample", "top_p": 0}, "decode.top_p"),
    ],
)
def test_wrong_requests_are_sentences(config, message):
    with pytest.raises(RequestError, match=message):
        decode.build(config)


def test_build():
    assert decode.build() == Beam()
    built = decode.build({"name": "beam", "beam_size": 4}, length_penalty=1.0)
    assert built == Beam(4, length_penalty=1.0)
    assert decode.build({"name": "sample", "seed": 3}) == Sample(seed=3)
    given = {"name": "greedy"}
    decode.build(given)
    assert given == {"name": "greedy"}


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ([[3]], "4 in all, got 1"),
        ([[3], [EOS], [], []], "sentence 1 is given id 2"),
        ([[3], [], [], [9]], "id 9 is not in the model's vocabulary of 5"),
    ],
)
def test_wrong_prefixes(prefix, message):
    for decoder in (Greedy(), Beam(2)):
        with pytest.raises(RequestError, match=message):
            decoder(Markov(5), SOURCES, prefix=prefix)


@pytest.mark.parametrize("size", [5, 63, 64, 65, 640, 641, 1000])
@pytest.mark.parametrize("count", [1, 2, 10])
def test_top_is_topk(size, count):
    generator = torch.Generator().manual_seed(size + count)
    scores = torch.randn(3, 4, size + 2, generator=generator)[..., 2:]  # rows that are not packed
    scores[0, 0, size // 2 :] = -math.inf
    values, ids = top(scores, min(count, size))
    true, _ = scores.sort(-1, descending=True)
    assert torch.equal(values, true[..., : min(count, size)])
    assert torch.equal(scores.gather(-1, ids), values)
    for row in ids.flatten(0, 1).tolist():
        assert len(set(row)) == len(row)


@pytest.mark.parametrize("name", ["luong", "rnnsearch", "convs2s"])
@pytest.mark.parametrize("wrong", [60, -1])
def test_ids_that_are_in_no_vocabulary_are_refused_by_every_decoder(name, wrong):
    model = catalog.load(name)(60, 60, **catalog.entry(name).tiny).eval()
    source = torch.tensor([[5, 6, wrong, EOS]])
    with pytest.raises(RequestError, match=f"source: expected ids from 0 to 59, got {wrong}"):
        Greedy()(model, source)
