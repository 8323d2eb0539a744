"""Sentences that join a program under way have the logits that they have by themselves."""

import pytest
import torch

from regard import native, watch
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.program.recordings import recorded_form
from regard.decode.program.staggered import Staggered, own_steps, unjoined_reason
from regard.errors import RequestError
from regard.protocols import BOS, EOS
from tests.decode.program.zoo import CASES

pytestmark = pytest.mark.skipif(native.library() is None, reason="there is no C")
BY_NAME = {str(case): case for case in CASES}
APART = {"arsg", "paulus", "show-attend-tell", "lstmn-lm", "memn2n-lm"}
JOINING = [str(case) for case in CASES if case.name not in APART and "talking" not in str(case)]
FAST = {"seq2seq", "luong", "convs2s", "bytenet", "pointer-generator", "following-transformer"}
FAST |= {"luong(attention=local-m, reach=4)", "transformer(position={'kind': 'shaw', 'clip': 2})"}
WIDTH, STEPS = 3, 9
COMES = ((0, 2, 7), (3, 1, 4), (5, 2, 10))
"""The step with which each group comes, its sentences, and the longest of their sources."""


def groups(case, model):
    """Each group's encoded sources and the words that its hypotheses read."""
    g = torch.Generator().manual_seed(2)
    encoded = [model.encode(case.source(n, size, seed=s)) for s, n, size in COMES]
    words = [torch.randint(EOS + 2, 40, (STEPS, n, WIDTH), generator=g) for _, n, _ in COMES]
    return [model.start(one) for one in encoded], words, encoded[0]


def widened(decoding, sentences):
    return decoding.select(torch.zeros(sentences, WIDTH, dtype=torch.int64))


def read(words, step):
    return torch.full_like(words[0], BOS) if step == 0 else words[step]


def by_itself(form, begun, words, order):
    """Logits of a group's steps."""
    decoding, every = widened(begun, words.shape[1]), []
    for step in range(STEPS):
        logits, decoding = form.step(read(words, step), decoding)
        decoding = decoding.select(order.expand(words.shape[1], WIDTH))
        every.append(logits)
    return every


def joining(decoder, begun, words, order, leaves=None):
    """Logits of each group's steps, where each comes at its time; `leaves`: when the first goes."""
    decoding, here, every = None, [], [[] for _ in COMES]
    for step in range(STEPS):
        for group, (comes, count, _) in enumerate(COMES):
            if comes == step:
                new = widened(begun[group], count)
                decoding = new if decoding is None else decoder.joined(decoding, new)
                here.append(group)
        if step == leaves:
            decoding = decoding.rows(torch.arange(COMES[0][1], len(decoding.starts)))
            here.remove(0)
        tokens = torch.cat([read(words[group], step - COMES[group][0]) for group in here])
        logits, decoding = decoder.step(tokens, decoding)
        decoding = decoding.select(order.expand(len(tokens), WIDTH))
        for group, own in zip(here, logits.split([COMES[g][1] for g in here]), strict=True):
            every[group].append(own)
    return every, decoding


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in JOINING]
)
@torch.inference_mode()
def test_who_joins_has_the_logits_of_its_own(name):
    case, order = BY_NAME[name], torch.tensor([1, 0, 0])
    model = case.build()
    begun, words, encoded = groups(case, model)
    decoder = recorded_form(model, encoded)
    assert isinstance(decoder, RecordedDecoder)
    assert decoder.unjoined_reason is None
    expected = [by_itself(decoder, one, own, order) for one, own in zip(begun, words, strict=True)]
    for leaves in (None, 6):
        found, decoding = joining(decoder, begun, words, order, leaves)
        assert isinstance(decoding, Staggered)
        for mine, own in zip(found, expected, strict=True):
            for one, other in zip(mine, own, strict=False):
                size = other.shape[-1]  # own words of other sources come behind
                atol = 1e-6 if name == "bytenet" else 0  # whose long outputs are PyTorch's
                torch.testing.assert_close(one[..., :size], other, atol=atol, rtol=0)
                assert (one[..., size:] < -1e4).all() or one.shape == other.shape
        left = COMES if leaves is None else COMES[1:]
        assert sorted(own_steps(decoding)) == sorted(STEPS - comes for comes, *_ in left)


@torch.inference_mode()
def test_what_was_written_before_all_is_let_go():
    case = BY_NAME["transformer"]
    model = case.build()
    begun, words, encoded = groups(case, model)
    decoder = recorded_form(model, encoded)
    _, decoding = joining(decoder, begun, words, torch.tensor([0, 1, 2]), leaves=6)
    assert decoding.step == STEPS - COMES[1][0]
    assert decoding.starts.tolist() == [0, 2, 2]
    assert len(decoding.carried["caches"].blocks) == decoding.step


@torch.inference_mode()
def test_the_model_takes_steps_that_are_not_the_programs():
    """ByteNet's program ends with the source."""
    case = BY_NAME["bytenet"]
    model = case.build()
    begun, words, encoded = groups(case, model)
    decoder = recorded_form(model, encoded)
    taken = decoder.steps_of_model
    short = [one.rows(torch.tensor([0])) for one in begun[:2]]
    decoding, alone = (widened(short[0], 1) for _ in range(2))
    ends = max(one.memories["columns"].shape[1] for one in short)
    for step in range(ends + 3):
        if step == 2:
            assert decoder.steps_of_model == taken
            decoding = decoder.joined(decoding, widened(short[1], 1))
        tokens = torch.full((1 + (step >= 2), WIDTH), EOS + 1 + step)
        logits, decoding = decoder.step(tokens, decoding)
        expected, alone = model.step(tokens[:1], alone)
        torch.testing.assert_close(logits[:1], expected, atol=1e-6, rtol=0)
    assert decoder.steps_of_model == taken + 3 + 1  # the first's, and at last the second's
    assert words[0].shape[1] == len(begun[0].carried["0"])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("show-attend-tell", "its memory has no lengths"),
        ("arsg", "its first step is not that of its program"),
        ("arsg(attention=content, reach=2)", "PyTorch computes"),
    ],
)
@torch.inference_mode()
def test_reasons_against(name, why):
    case = BY_NAME[name]
    model = case.build()
    decoder = recorded_form(model, model.encode(case.source(2, 5)))
    assert why in (decoder.unjoined_reason + " " + (unjoined_reason(decoder.lowered) or ""))


@torch.inference_mode()
def test_who_has_begun_joins_no_more():
    case = BY_NAME["luong"]
    model = case.build()
    begun, words, encoded = groups(case, model)
    decoder = recorded_form(model, encoded)
    _, moved = decoder.step(words[0][0], widened(begun[0], 2))
    with pytest.raises(RequestError, match="before its first step"):
        decoder.joined(moved, moved)


@torch.inference_mode()
def test_who_watches_is_told():
    case = BY_NAME["luong"]
    model = case.build()
    begun, _, encoded = groups(case, model)
    decoder = recorded_form(model, encoded)
    both = decoder.joined(widened(begun[0], 2), widened(begun[1], 1))
    with watch(model), pytest.raises(RequestError, match="joined"):
        decoder.step(torch.full((3, WIDTH), BOS), both)
