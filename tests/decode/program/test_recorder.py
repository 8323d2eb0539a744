"""The step of every generator is recorded and replayed; what cannot be replayed is refused."""

import threading

import pytest
import torch
from torch import nn

from regard import native
from regard.attention import attend
from regard.decode.program.recorder import NotRecorded, record
from regard.decode.program.sizes import WatchedSize
from regard.decode.program.structure import structure
from regard.decode.program.unify import recorded
from regard.decode.top import leading
from regard.layers.lstm import lstm_cell
from regard.native.operation import is_recorded
from regard.protocols import Decoding
from tests.decode.program.zoo import CASES, WORDS, Case, decoded, probes

FAST = {"luong", "gnmt", "following-transformer", "pointer-generator", "arsg", "moe", "seq2seq"}
FAST |= {"rnnsearch", "lstmn-lm", "memn2n-lm", "bytenet", "marian", "convs2s", "paulus"}
pytestmark = pytest.mark.nohook


class Replayed:
    """A model whose steps are replayed, where a program is for them."""

    def __init__(self, model, *programs):
        self.model, self.programs = model, programs
        self.by_model = []

    def step(self, tokens, decoding):
        for program in self.programs:
            try:
                return program.run(tokens, decoding)
            except NotRecorded as error:
                why = str(error)
        self.by_model.append((decoding.step, why))
        return self.model.step(tokens, decoding)


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=() if str(c) in FAST else pytest.mark.slow, id=str(c)) for c in CASES],
)
def test_a_replay_gives_the_logits_of_the_model(case):
    model = case.build()
    later = recorded(model, probes(case, model))
    first = recorded(model, probes(case, model, first=True))
    replayed = Replayed(model, later, first)
    expected, found = decoded(case, model, [model, replayed])
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one, other)
    steps = [step for step, _ in replayed.by_model]
    # A memory that fills up has its programs for when it is full; ByteNet reads past its source.
    assert steps == {"memn2n-lm": [1, 2, 3, 4], "bytenet": [11]}.get(case.name, [])


class Toy(nn.Module):
    """A generator whose step calls a function on its state."""

    def __init__(self, twist):
        super().__init__()
        torch.manual_seed(2)
        self.embed, self.out = nn.Embedding(WORDS, 4), nn.Linear(4, WORDS)
        self.register_buffer("table", torch.randn(64, 4))
        self.factor, self.twist = 2.0, twist

    def start(self, batch):
        return Decoding({}, {"state": torch.zeros(batch, 1, 4)})

    def step(self, tokens, decoding):
        state = torch.tanh(decoding.carried["state"] + self.embed(tokens)) * self.factor
        state = self.twist(self, state, decoding)
        return self.out(state), decoding.advance(state=state)


TOY = Case("lstmn-lm")  # for its source: a number of texts


def toy_program(twist):
    model = Toy(twist)
    return model, recorded(model, probes(TOY, model))


def in_place(model, x, decoding):
    x[..., 0] = 1
    return x


def by_c(model, x, decoding):
    return x + leading(x, 0, 1, False)[0]


def counted(model, x, decoding):
    model.table.add_(1)
    return x


REFUSED = {
    "item": (lambda m, x, d: x * 2 if x.sum().item() > 0 else x, "gives a value to Python"),
    "bool": (lambda m, x, d: x * 2 if (x > 9).any() else x, "gives a value to Python"),
    "tolist": (lambda m, x, d: x * (x[0, 0].tolist()[0] + 9), "tolist gives a value"),
    "numpy": (lambda m, x, d: x + torch.from_numpy(x.numpy() * 2), "numpy gives a value"),
    "equal": (lambda m, x, d: x if torch.equal(x, x) else -x, "gives a value to Python"),
    "address": (lambda m, x, d: x if x.data_ptr() else -x, "data_ptr gives a value"),
    "C": (by_c, "data_ptr gives a value"),
    "random": (lambda m, x, d: x + torch.rand_like(x), "draws random numbers"),
    "nonzero": (lambda m, x, d: x + x.nonzero().sum(), "shape depends on values"),
    "mask": (lambda m, x, d: x + x[x > 0].sum(), "shape depends on values"),
    "view": (in_place, "writes into a view"),
    "buffer": (counted, "writes into what was given"),
    "size": (lambda m, x, d: x * 2 if x.numel() > 30 else -x, "way through the code depends"),
    "same": (lambda m, x, d: (x.numel() > 30, x)[1], "different outcomes"),
    "step": (lambda m, x, d: x * 2 if d.step == 3 else -x, "way through the code depends"),
    "int": (lambda m, x, d: x * 2 if int(x.shape[0]) > 90 else -x, "becomes a plain number"),
    "len": (lambda m, x, d: x * 2 if len(x) > 90 else -x, "becomes a plain number"),
    "square": (lambda m, x, d: x + x.new_ones(x.shape[0] ** 2).sum(), "follows from no size"),
    "constant": (lambda m, x, d: x + torch.tensor(float(d.step)), "that is no input differs"),
    "end": (lambda m, x, d: x + m.table[: d.step + 60].sum(0), "follows from no size"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_replay_could_not_repeat_is_refused(name):
    twist, reason = REFUSED[name]
    with pytest.raises(NotRecorded, match=reason):
        toy_program(twist)


@pytest.mark.parametrize(
    ("twist", "steps"),
    [
        (lambda m, x, d: x * 2 if x.shape[0] * x.shape[1] > 19 else -x, {1, 2, 4}),
        (lambda m, x, d: x * 2 if d.step >= 8 else -x, {8, 9, 10, 11}),
        (lambda m, x, d: x + m.table[: d.step + 56].sum(0), {9, 10, 11}),
    ],
)
def test_a_comparison_that_comes_out_otherwise_is_left_to_the_model(twist, steps):
    model, program = toy_program(twist)
    replayed = Replayed(model, program)
    expected, found = decoded(TOY, model, [model, replayed])
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert {step for step, _ in replayed.by_model} == steps


def test_hooks_are_refused_and_settings_belong_to_a_program():
    model = Toy(lambda m, x, d: x)
    before = structure(model)
    model.factor = 3.0
    assert structure(model) != before
    handle = model.out.register_forward_hook(lambda *given: None)
    with pytest.raises(NotRecorded, match="out has a forward hook"):
        recorded(model, probes(TOY, model))
    handle.remove()
    recorded(model, probes(TOY, model))


def test_weights_are_read_anew_and_other_structures_are_refused():
    model, program = toy_program(lambda m, x, d: x)
    with torch.no_grad():
        model.out.weight.mul_(2)
    expected, found = decoded(TOY, model, [model, Replayed(model, program)])
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    decoding = Decoding({}, {"state": torch.zeros(2, 1, 4), "more": None})
    with pytest.raises(NotRecorded, match=r"inputs\.carried has state, more"):
        program.run(torch.ones(2, 1, dtype=torch.int64), decoding)
    with pytest.raises(NotRecorded, match="another kind of value"):
        program.run(torch.ones(2, 1), Decoding({}, {"state": torch.zeros(2, 1, 4)}))


def test_a_recording_sees_its_own_thread_alone():
    def beside():
        assert not is_recorded()
        attend(torch.ones(1, 2, 4), torch.ones(1, 3, 4))
        lstm_cell(torch.ones(1, 8), torch.ones(1, 2))

    def twist(model, x, decoding):
        assert is_recorded()
        thread = threading.Thread(target=beside)
        thread.start()
        thread.join()
        return x

    model = Toy(twist)
    (tokens, decoding), *_ = probes(TOY, Toy(lambda m, x, d: x))
    names = [node.name for node in record(model, tokens, decoding).nodes]
    assert not {"attend", "lstm_cell"} & set(names)
    assert len(names) == 5


def test_a_size_that_is_watched_is_an_int():
    size = WatchedSize(7)
    assert (size + 1, 2 * size, size // 2, size % 4, -size, size / 2) == (8, 14, 3, 3, -7, 3.5)
    assert [10, 20][WatchedSize(1)] == 20
    assert f"{size}" == "7"
    assert torch.zeros(size, 2).view(-1, size).shape == (2, 7)


def test_recording_and_decoding_import_no_compiler(torch_process):
    code = (
        "import sys, torch\n"
        "from tests.decode.program.zoo import Case\n"
        "from regard.decode import Beam\n"
        "from regard.decode.program.explained import explanation\n"
        "for case in (Case('gnmt'), Case('moe'), Case('transformer')):\n"
        "    model = case.build()\n"
        "    Beam(beam_size=2, max_length=4)(model, case.source(2, 5))\n"
        "    print(explanation(model).backend)\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    done = torch_process.run(code)
    assert done.returncode == 0, done.stderr
    in_c = native.level() not in ("none", "portable")
    assert done.stdout.split() == (["program"] * 3 if in_c else ["model"] * 3)
