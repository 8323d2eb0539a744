"""What passes the gate into C, and what does not."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

import regard.attention._ops.cpu.located  # declares what is looked for
import regard.decode.program.search_in_c
import regard.losses.smoothed_cross_entropy
from regard import native
from regard.attention._kernels import edges, features, local
from regard.attention._ops import split_halves
from regard.attention._ops.cpu import additive_calls, dots
from regard.decode import top
from regard.layers import _crf_native
from regard.native import (
    _build,
    dropout,
    fingerprint,
    gate,
    gated,
    gemm,
    packed_products,
    reading,
)
from regard.native.gate import BrokenContract, Function, Struct

USERS = (
    regard.decode.program.search_in_c,
    regard.losses.smoothed_cross_entropy,
    _crf_native,
    edges,
    features,
    split_halves,
    local,
    additive_calls,
    dots,
    top,
    dropout,
    fingerprint,
    gated,
    gemm,
    packed_products,
    reading,
)
SOURCES = Path(native.__file__).parent
needs_c = pytest.mark.skipif(native.library() is None, reason="no compiled library")
GETTERS = {"regard_additive_width", "regard_vnni", "regard_machine_avx_vnni", "regard_multiplies",
           "regard_get_level", "regard_set_level", "regard_set_divides",
           "regard_set_vnni"}  # fmt: skip
TYPES = {
    "int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "int": ctypes.c_int32,
    "float": ctypes.c_float, "double": ctypes.c_double,
}  # fmt: skip


def prototypes():
    """Of every function that the library shows: its name, and the ctypes of its arguments."""
    found = {}
    for path in SOURCES.glob("*.c"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        for kind, name, arguments in re.findall(
            r"REGARD_API (\w+) (regard_\w+)\(([^)]*)\) \{", text
        ):
            each = [a.strip() for a in arguments.split(",")]
            found[name] = (
                kind,
                [
                    ctypes.c_void_p if "*" in a else TYPES[a.split()[-2]]
                    for a in each
                    if a != "void"
                ],
            )
    return found


def test_every_function_of_the_library_has_a_signature_like_its_own():
    declared = {f.name: [a.ctype for a in f.arguments] for f in Function.every}
    of_c = prototypes()
    assert len(of_c) > 20
    for name, (kind, arguments) in of_c.items():
        if name not in GETTERS:
            assert kind == "int"  # a status
            assert declared[name] == arguments, name


@needs_c
def test_structs_are_laid_out_as_in_c(monkeypatch):
    library = native.library()
    assert len(gate._STRUCTS) > 10
    assert gate.differing(library) is None
    (name, kind), *_ = (one for one in gate._STRUCTS if one[0] == "features_call")
    fields = list(kind._fields_)
    for wrong in (fields[:-1], [*fields[1:2], *fields[:1], *fields[2:-1], ("x", ctypes.c_int32)]):
        other = type("Other", (ctypes.Structure,), {"_fields_": wrong})
        monkeypatch.setattr(gate, "_STRUCTS", [(name, other)])
        assert gate.differing(library).startswith("features_call is laid out as")
    monkeypatch.setattr(gate, "_STRUCTS", [("nowhere", kind)])
    assert gate.differing(library) == "the layout of nowhere is not in it"


SCORES = ("query", "key", "packed", "v", "scores", "heads", "threads")


def arguments(**changes):
    given = {
        "query": torch.randn(2, 3, 8), "key": torch.randn(2, 5, 8), "packed": None,
        "v": torch.randn(8), "scores": torch.empty(2, 3, 5), "heads": 1, "threads": 1,
    } | changes  # fmt: skip
    return [given[name] for name in SCORES]


@needs_c
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"query": torch.randn(2, 3, 8).double()}, "query: f32 [b q d], got float64"),
        ({"query": torch.randn(3, 8)}, r", got float32 \(3, 8\)"),
        ({"key": torch.randn(2, 5, 7)}, r"key: f32 \[b k d\] rows, got float32 \(2, 5, 7\)"),
        ({"key": torch.randn(3, 5, 8)}, r"\(3, 5, 8\)"),
        ({"key": torch.randn(2, 8, 5).mT}, r"strides \(40, 1, 5\)"),
        ({"query": torch.randn(2, 3, 16)[..., ::2]}, r"strides \(48, 16, 2\)"),
        ({"key": torch.randn(2, 5, 12)[..., :8]}, r"strides \(60, 12, 1\)"),
        ({"key": torch.randn(2, 12, 12)[..., :8], "scores": torch.empty(2, 3, 12)}, "144, 12, 1"),
        ({"packed": torch.randn(2, 5, 47)}, "packed"),
        ({"v": torch.randn(9)}, r"v: f32 \({heads \* d}\), got float32 \(9,\)"),
        ({"heads": 2}, "heads = 2"),
        ({"scores": torch.empty(2, 3, 6)}, "scores: f32"),
        ({"scores": torch.empty(2, 5, 3).mT}, "scores: f32"),
        ({"v": torch.randn(8, device="meta")}, "on meta"),
    ],
)
def test_what_is_not_as_declared_is_refused(changes, said):
    with pytest.raises(BrokenContract, match=said.replace("[b q d]", r"\[b q d\]")):
        additive_calls._SCORES(*arguments(**changes))


@needs_c
def test_rows_may_lie_in_a_longer_memory():
    query, v, longer = torch.randn(2, 3, 8), torch.randn(8), torch.randn(2, 9, 8)
    there, dense = torch.empty(2, 3, 5), torch.empty(2, 3, 5)
    given = {"query": query, "v": v}
    additive_calls._SCORES(*arguments(**given, key=longer[:, 2:7], scores=there))
    additive_calls._SCORES(*arguments(**given, key=longer[:, 2:7].clone(), scores=dense))
    assert torch.equal(there, dense)


def misaligned(x):
    raw = np.zeros(x.numel() * 4 + 1, dtype=np.uint8)
    there = torch.frombuffer(raw, dtype=torch.float32, offset=1, count=x.numel()).view(x.shape)
    return there.copy_(x)


@needs_c
def test_inputs_that_are_not_aligned_are_copied():
    query, key = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    plain, odd = torch.empty(2, 3, 5), torch.empty(2, 3, 5)
    v = torch.randn(8)
    additive_calls._SCORES(*arguments(query=query, key=key, v=v, scores=plain))
    additive_calls._SCORES(
        *arguments(query=misaligned(query), key=misaligned(key), v=v, scores=odd)
    )
    torch.testing.assert_close(odd, plain, rtol=0, atol=0)


@needs_c
def test_outputs_that_are_not_aligned_are_refused():
    with pytest.raises(BrokenContract, match="scores"):
        additive_calls._SCORES(*arguments(scores=misaligned(torch.empty(2, 3, 5))))
    ids = torch.frombuffer(np.zeros(12, dtype=np.uint8), dtype=torch.int64, offset=4)
    with pytest.raises(BrokenContract, match="ids"):  # aligned for 32 bits, not for 64
        top._BEST(0, torch.randn(1, 5), torch.empty(1, 1), ids[None], 1)


def test_what_a_table_of_addresses_points_to_is_laid_out_as_said():
    x = torch.randn(3, 4)
    assert gate.expect("x", x, torch.float32, (3, 4)) == x.data_ptr()
    for wrong in (torch.randn(4, 3).t(), x.double(), x[:2], x.to("meta"), torch._neg_view(x),
                  misaligned(x)):  # fmt: skip
        with pytest.raises(BrokenContract, match=r"x: expected contiguous torch.float32 \(3, 4\)"):
            gate.expect("x", wrong, torch.float32, (3, 4))


@needs_c
def test_a_negated_view_is_negated_before_c_sees_it():
    v = torch.randn(8)
    plain, seen = torch.empty(2, 3, 5), torch.empty(2, 3, 5)
    given = {"query": torch.randn(2, 3, 8), "key": torch.randn(2, 5, 8)}
    additive_calls._SCORES(*arguments(**given, v=v, scores=plain))
    whole = torch._neg_view(-v)  # contiguous, and its memory holds the other sign
    assert whole.is_neg()
    assert whole.is_contiguous()
    additive_calls._SCORES(*arguments(**given, v=whole, scores=seen))
    torch.testing.assert_close(seen, plain, rtol=0, atol=0)


def test_a_signature_that_cannot_be_checked_is_refused():
    for texts in (("a: f16 [n]",), ("a: f32? [n]",), ("stride",), ("a: f32 n",)):
        with pytest.raises(ValueError, match="cannot"):
            Function("regard_x", *texts)
    with pytest.raises(RuntimeError, match="regard_x was traced with C"):
        Function("regard_x", "n: long")(1)


def test_a_struct_holds_its_tensors():
    pair = Struct("pair", "a: f32 [n]", "size = n", "twice = {2 * n}", "b: f32? [n]")
    one = torch.randn(3)
    made = pair(one, None)
    assert (made.a, made.size, made.twice, made.b) == (one.data_ptr(), 3, 6, None)
    assert made.held[0] is one
    gate._STRUCTS.pop()


def test_numbers_in_a_struct_are_64_bits_wide():
    """So that nothing is padded, whatever stands beside them."""
    mixed = Struct("mixed", "rate: float", "count: int", "n: long", "scale: double")
    assert [getattr(mixed.kind, name).offset for name in mixed.fields] == [0, 8, 16, 24]
    made = mixed(0.1, -3, 1 << 40, 0.3)
    assert (made.rate, made.count, made.n, made.scale) == (0.1, -3, 1 << 40, 0.3)
    gate._STRUCTS.pop()


@needs_c
@pytest.mark.parametrize(
    ("row", "at", "value"),
    [
        (0, 0, -1),
        (0, 1, 4),
        (1, 0, -1),
        (1, 1, 5),
        (1, 1, 1 << 62),
        (2, 1, 4),
        (3, 0, 7),
        (4, 0, 1 << 41),
        (5, 1, 1 << 41),
        (6, 0, -1 << 41),
    ],
)
def test_spans_that_leave_the_rows_are_refused_by_c(row, at, value):
    q = torch.randn(6, 1, 4)
    spans = torch.tensor([[0, 3], [3, 3], [0, 3], [3, 3], [9, 9], [0, 0], [-9, -9]])
    assert torch.isfinite(dots.dots(q, q, q, spans, 3, 3, 1.0)).all()
    spans[row, at] = value
    with pytest.raises(IndexError, match="spans that are out of range"):
        dots.dots(q, q, q, spans, 3, 3, 1.0)


@needs_c
@pytest.mark.parametrize("pass_", ["forward", "backward"])
@pytest.mark.parametrize(
    ("offsets", "ends"),
    [
        ([1, 2, 4], [0, 1, 2, 0]),
        ([0, 2, 5], [0, 1, 2, 0]),
        ([0, 3, 2], [0, 1]),
        ([0, -1, 4], [0, 1, 2, 0]),
        ([0, 2, 4], [0, 1, 3, 0]),
        ([0, 2, 4], [0, -1, 2, 0]),
    ],
)
def test_edges_that_leave_the_nodes_are_refused_by_c(offsets, ends, pass_):
    offsets, ends = torch.tensor(offsets), torch.tensor(ends, dtype=torch.int32)
    seed, f = torch.zeros(1, dtype=torch.int64), torch.zeros
    rest = offsets, ends, *([ends] if pass_ == "backward" else []), 0.2, 0.0, seed
    call = {
        "forward": (edges._FORWARD, f(1, 2, 2), f(1, 3, 2), f(1, 3, 2, 4), *rest, f(1, 2, 2, 4),
                    f(1, 2, 2, 2), 1),
        "backward": (edges._BACKWARD, f(1, 2, 2), f(1, 2, 2, 4), *rest, f(1, 3, 2, 4),
                     f(1, 3, 4, 2), f(1, 1, 3, 2), f(1, 2, 2), f(1, 2, 2, 4), 1),
    }[pass_]  # fmt: skip
    with pytest.raises(IndexError, match="offsets or spans that are out of range"):
        call[0](*call[1:])


@needs_c
@pytest.mark.parametrize("gold", [[0, -1], [5, 1], [1, 1 << 40]])
def test_targets_that_are_not_in_the_vocabulary_are_refused_by_c(gold):
    with pytest.raises(IndexError, match=r"a target id is (-1|5|1099511627776), and there are 5"):
        regard.losses.smoothed_cross_entropy._entropy(
            torch.randn(2, 5), torch.tensor(gold), (0.9, 0.1), write=True
        )


@needs_c
@pytest.mark.parametrize(("first", "count"), [(-1, 2), (4, 2), (6, 0)])
def test_more_than_there_are_is_refused_by_c(first, count):
    values, ids = torch.empty(1, count), torch.empty(1, count, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="sizes do not fit"):
        top._BEST(first, torch.randn(1, 5), values, ids, 1)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.parametrize(
    "optimize",
    [pytest.param("-fsyntax-only", id="syntax"), pytest.param("-O1", marks=pytest.mark.slow)],
)
def test_the_c_compiles_without_a_warning(optimize, tmp_path):
    flags = [f for f in _build.FLAGS if f not in ("-w", "-O3", "-shared")]
    said = []
    for path in sorted(SOURCES.glob("*.c")):
        out = ["-c", "-o", str(tmp_path / "x.o")] if optimize == "-O1" else []
        done = subprocess.run(["gcc", *flags, *_build.WARNINGS, optimize, *out, str(path)],
                              capture_output=True, text=True, check=False)  # fmt: skip
        if done.returncode:
            said.append(done.stderr)
    assert said == []
