"""Programs in C: the logits of the model, the same bits in any batch, and nothing out of bounds."""

import ctypes
import random

import pytest
import torch
from torch import nn

from regard import native, watch
from regard.decode.program import recorded_decoder
from regard.decode.program.folding import folded
from regard.decode.program.instructions import MEMORY, NAMES, STEP, CInstruction, CSlot
from regard.decode.program.lowering import lower
from regard.decode.program.recorded_decoder import RecordedDecoder
from regard.decode.program.recordings import _apart
from regard.decode.program.rows import NotLowered
from regard.decode.program.unify import recorded
from regard.protocols import BOS
from tests.decode.program.zoo import CASES, Case, decoded, probes

pytestmark = pytest.mark.skipif(native.library() is None, reason="there is no C")
BY_NAME = {str(case): case for case in CASES}
BY_TORCH = {
    "arsg(attention=content, reach=2)": "cumsum ge to argmax arange detach sub abs le attend",
    "lstmn-lm": "attend pack append",
    "lstmn-lm(layers=2)": "attend pack append attend pack append",
    "transformer(attention={'talking': True})": " ".join(
        ["append attend transpose attend transpose"] * 2
    ),
    "memn2n-lm": "ne unsqueeze new_full attend attend",
}
"""What PyTorch computes; all else is done in C."""
BY_MODEL = {"paulus": 1, "arsg": 1, "memn2n-lm": 5, "bytenet": 1}
BY_MODEL |= {"transformer(attention={'talking': True})": 1}
"""Steps of another structure: before anything is carried, when a memory is full, a source ends."""
FAST = ("luong", "gnmt", "convs2s", "pointer-generator", "abs", "show-attend-tell", "seq2seq")
FAST += ("rnnsearch", "moe", "marian", "temporal(attention=mean)", "lstm-a", "paulus", "arsg")
FAST += ("bytenet",)


def in_c(case, model=None):
    model = case.build() if model is None else model
    return RecordedDecoder(model, lower(folded(recorded(model, probes(case, model))))), model


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in BY_NAME]
)
def test_c_gives_the_logits_of_the_model(name):
    case = BY_NAME[name]
    decoder, model = in_c(case)
    found = [one.node.name.removeprefix("aten.").split(".")[0] for one in decoder.lowered.hosts]
    assert found == BY_TORCH.get(name, "").split()
    expected, found = decoded(case, model, [model, decoder])
    for one, other in zip(expected, found, strict=True):
        finite = torch.isfinite(one)
        assert torch.equal(finite, torch.isfinite(other))
        torch.testing.assert_close(other[finite], one[finite], atol=3e-6, rtol=0)
    assert decoder.steps_of_model == BY_MODEL.get(name, BY_MODEL.get(case.name, 0))


@pytest.mark.parametrize(
    "name",
    [
        "luong",
        "pointer-generator",
        "abs",
        "conditional-gru",
        "moe",
        "transformer",
        "paulus",
        "arsg",
    ],
)
def test_a_sentence_has_the_same_bits_in_any_batch_and_with_any_threads(name, monkeypatch):
    case = BY_NAME[name]
    decoder, model = in_c(case)
    tokens = torch.full((4, 1), BOS)
    with torch.inference_mode():  # the first step may be the model's
        _, begun = model.step(tokens, case.start(model, case.source(4, 9)))
    begun = _apart(begun)

    def steps(decoding, count):
        tokens, every = torch.full((count, 1), 3), []
        for t in range(4):
            logits, decoding = decoder.step(tokens, decoding)
            every.append(logits)
            decoding = decoding.select(torch.zeros(len(tokens), 3, dtype=torch.int64))
            tokens = torch.tensor([[3 + t, 4, 5]]).expand(len(tokens), 3)
        return every

    with torch.inference_mode():
        together = steps(begun, 4)
        for row in range(4):
            alone = steps(begun.rows(torch.tensor([row])), 1)
            for one, all_of_them in zip(alone, together, strict=True):
                assert torch.equal(one, all_of_them[row : row + 1])
        for threads in (2, 3, 9):
            monkeypatch.setattr(recorded_decoder.native, "threads", lambda _, n=threads: n)
            assert all(torch.equal(a, b) for a, b in zip(steps(begun, 4), together, strict=True))
    assert decoder.steps_of_model == 0


SELECTIONS = [
    "sparsemax",
    "entmax",
    "smooth",
    {"name": "topk", "k": 2},
    {"name": "sharpen", "beta": 2.0},
    {"name": "local-m", "reach": 1},
    {"name": "local-m", "reach": 1, "clamp": True},
    {"name": "local-p", "reach": 2},
]
PARTS = [("dot", select) for select in SELECTIONS]
PARTS += [("additive", "sparsemax"), ("location", {"name": "local-p", "reach": 2})]


@pytest.mark.parametrize(("score", "select"), PARTS, ids=str)
def test_every_selection_is_computed_in_c(score, select):
    case = Case("luong", {"attention": {"score": score, "select": select}})
    decoder, model = in_c(case)
    assert not decoder.lowered.hosts
    expected, found = decoded(case, model, [model, decoder])
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other, one, atol=3e-6, rtol=0)


SPREAD = {"bfloat16": 0.03, "int8": 0.3}
"""How far the steps of small random models are off in these precisions, in parts of the spread of
their logits."""


@pytest.mark.parametrize("precision", SPREAD)
@pytest.mark.parametrize("name", ["luong", "rnnsearch", "moe", "transformer", "convs2s", "arsg"])
@torch.inference_mode()
def test_weights_may_be_narrow(name, precision, monkeypatch):
    """Off by what rounding costs, the same bits in any batch and with any number of threads."""
    case = BY_NAME[name]
    model = case.build()
    program = folded(recorded(model, probes(case, model)))
    decoder = RecordedDecoder(model, lower(program, apart=precision == "int8"), precision)
    tokens, decoding = probes(case, model)[1]
    expected, _ = model.step(tokens, _apart(decoding))
    found, _ = decoder.step(tokens, decoding)
    off = (found - expected).abs().max() / expected.std()
    assert 1e-5 < off < SPREAD[precision]
    for row in range(len(tokens)):
        alone, _ = decoder.step(tokens[row : row + 1], decoding.rows(torch.tensor([row])))
        assert torch.equal(alone, found[row : row + 1])
    monkeypatch.setattr(recorded_decoder.native, "threads", lambda _: 2)
    assert torch.equal(decoder.step(tokens, decoding)[0], found)


@pytest.mark.parametrize(
    "name", ["transformer", "transformer(position={'kind': 'bias', 'clip': 2})", "paulus"]
)
@torch.inference_mode()
def test_the_model_may_take_a_step_between_those_in_c(name):
    """What somebody watches, say: caches become memories for it, and blocks again."""
    case = BY_NAME[name]
    decoder, model = in_c(case)
    tokens, begun = torch.full((2, 1), BOS), case.start(model, case.source(2, 5))
    own, other = begun, begun
    for step in range(12):
        expected, own = model.step(tokens, own)
        if step in (6, 7):
            with watch(model):
                found, other = decoder.step(tokens, other)
        else:
            found, other = decoder.step(tokens, other)
        finite = torch.isfinite(expected)
        torch.testing.assert_close(found[finite], expected[finite], atol=3e-6, rtol=0)
        order = torch.tensor([[0, 0, 0]] if step == 0 else [[2, 0, 1]]).expand(2, 3)
        own, other = own.select(order), other.select(order)
        tokens = torch.full((2, 3), 3 + step)
        by_model = {0, 6, 7} if name == "paulus" else {6, 7}  # its first step is another one
        assert ("caches" in other.carried) is (step not in by_model)
    assert decoder.steps_of_model == len(by_model)


@torch.inference_mode()
def test_caches_of_a_step_are_checked():
    decoder, tokens, decoding = step_of("transformer")
    _, decoding = decoder.step(tokens, decoding)
    for bad in (-1, 10**6):
        decoding.carried["caches"].ancestors[0, 0, 0] = bad
        with pytest.raises(IndexError):
            decoder.step(tokens, decoding)


class LoRA(nn.Linear):
    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.down, self.up = nn.Linear(self.in_features, 2), nn.Linear(2, self.out_features)

    def forward(self, x):
        return super().forward(x) + self.up(torch.tanh(self.down(x)))


def test_changed_layers_are_recorded_and_changed_scores_left_to_pytorch():
    case = BY_NAME["rnnsearch"]
    model = case.build()
    output = model.output
    model.output = LoRA(output.in_features, output.out_features)
    nn.utils.parametrizations.weight_norm(model.word)
    query = model.attention.score.query
    for changed in (False, True):
        if changed:
            lora = LoRA(query.in_features, query.out_features, bias=False)
            model.attention.score.query = lora
        decoder, _ = in_c(case, model.eval())
        expected, found = decoded(case, model, [model, decoder])
        for one, other in zip(expected, found, strict=True):
            torch.testing.assert_close(other, one, atol=3e-6, rtol=0)
        why = [host.why for host in decoder.lowered.hosts]
        assert why == (["a score with a LoRA"] if changed else [])


def test_experts_that_are_not_trained_are_left_to_pytorch():
    case = BY_NAME["moe"]
    model = case.build()
    nn.init.zeros_(model.decoder_experts.gates.gate)
    decoder, _ = in_c(case, model)
    assert [one.why for one in decoder.lowered.hosts] == ["experts whose gates are not trained"]


def test_what_neither_c_nor_pytorch_can_take_is_refused():
    case = BY_NAME["transformer(attention={'talking': True})"]
    model = case.build()
    program = folded(recorded(model, probes(case, model)))
    for node in program.nodes:  # as if it wrote into what it reads
        if node.name == "attend":
            node.function = torch.ops.aten.add_.Tensor
    with pytest.raises(NotLowered, match="attend, which writes into a value"):
        lower(program)


def step_of(name):
    """A decoder in C, and the arguments of a step."""
    case = BY_NAME[name]
    decoder, model = in_c(case)
    tokens, decoding = probes(case, model)[0]
    return decoder, tokens, decoding


@torch.inference_mode()
def test_ids_and_lengths_are_checked():
    decoder, tokens, decoding = step_of("luong")
    for bad in (-1, 40, 2**40):
        with pytest.raises(IndexError, match="id that is out of range"):
            decoder.step(tokens.clone().fill_(bad), decoding)
    lengths = decoding.memories["source"].mask.lengths
    for bad in (-1, 8):
        old = lengths.clone()
        lengths[0] = bad
        with pytest.raises(IndexError, match="lengths"):
            decoder.step(tokens, decoding)
        lengths.copy_(old)
    decoder.step(tokens, decoding)
    decoder, tokens, decoding = step_of("pointer-generator")
    decoding.memories["copies"][0, 0] = 999
    with pytest.raises(IndexError, match="id that is out of range"):
        decoder.step(tokens, decoding)


@pytest.mark.parametrize(
    "name",
    [
        *("luong", "pointer-generator", "conditional-gru", "convs2s", "moe"),
        *("arsg", "lstm-a", "paulus", "luong(attention=local-p, reach=4)"),
        "transformer(position={'kind': 'shaw', 'clip': 2})",
    ],
)
def test_a_program_that_does_not_fit_its_slots_touches_nothing(name, monkeypatch):
    """Any number of an instruction may be wrong: C refuses it or stays within its slots."""
    decoder, tokens, decoding = step_of(name)
    decoder.step(tokens, _apart(decoding))
    dice, refused, count = random.Random(5), 0, 400
    for _ in range(count):
        code, slots = bytes(decoder._compiled.code), bytes(decoder._compiled.slots)
        _spoil(dice, decoder)
        monkeypatch.setattr(recorded_decoder, "STEP", STEP)
        try:
            decoder.step(tokens, _apart(decoding))
        except (RuntimeError, IndexError, MemoryError):
            refused += 1
        finally:
            ctypes.memmove(decoder._compiled.code, code, len(code))
            ctypes.memmove(decoder._compiled.slots, slots, len(slots))
    assert count / 3 < refused <= count
    decoder.step(tokens, _apart(decoding))


def _spoil(dice, decoder):
    """Change one number of a program that Python does not vouch for."""
    value = dice.choice([-1, 0, 1, 2, 3, 7, 16, 33, 1000, 2**31, 2**40, 2**62, -(2**62)])
    one: CInstruction = dice.choice(decoder._compiled.code)
    what = dice.randrange(6)
    if what == 0:
        setattr(
            one, dice.choice(["op", "kind", "n", "m", "k", "heads", "before", "columns"]), value
        )
    elif what == 1:
        one.op = dice.randrange(len(NAMES))
    elif what == 2:
        one.memory[dice.randrange(len(MEMORY))] = dice.choice([value, dice.randrange(40)])
    elif what == 3:
        free = [i for i, s in enumerate(decoder.lowered.slots) if s.value is None]
        slot: CSlot = decoder._compiled.slots[dice.choice(free)]
        setattr(slot, dice.choice(["width", "compact"]), value)
    else:
        operand = getattr(one, dice.choice("yzabc"))
        name = dice.choice(["slot", "offset", "by_step", "stride"])
        setattr(operand, name, dice.choice([value, dice.randrange(40)]))
