"""The `.seen` file: what comes back, how exactly, and what happens to damaged ones."""

import json
import random
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regard
from regard import viewer
from regard.errors import RequestError
from regard.viewer.seen_file import file as _seen
from regard.viewer.seen_file.codec import keep_top, pack, pack_few, unpack

SETTINGS = settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
PIECES = ["the", "cat", "##s", "sat", "on", "it", "</s>"]
DRAW = np.random.default_rng(0)


def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def a_view(heads=3, rows=5, columns=7, sharp=2.0):
    weights = softmax(sharp * DRAW.standard_normal((2, heads, rows, columns)))
    return regard.view(
        weights, rows=[f"r{i}" for i in range(rows)], columns=PIECES,
        kind="cross", title="ä title",
    )  # fmt: skip


@pytest.mark.parametrize("code", [None, "f16"])
def test_what_is_written_comes_back_to_its_precision(code, tmp_path):
    view = a_view()
    back = viewer.read(view.save(tmp_path / "new" / "a.seen", code=code))
    assert (back.title, back.names, len(back.runs)) == (view.title, view.names, 1)
    assert back.axes == view.axes
    for mine, other in zip(view.maps, back.maps, strict=True):
        assert (mine.shape, mine.kind, mine.layer) == (other.shape, other.kind, other.layer)
        top = mine.weights.max(-1, keepdims=True)
        bound = top / 400 * 1.01 if code is None else np.maximum(mine.weights * 2**-11, 1e-7)
        assert (abs(mine.weights - other.weights) <= bound).all()
        if code is None:  # faint rows are no coarser than strong ones
            assert abs(mine.weights - other.weights).max() > 0


def test_half_precision_is_exact_where_the_weights_were():
    weights = softmax(DRAW.standard_normal((2, 4, 4))).astype(np.float16)
    back = _seen.parse(_seen.dump(regard.view(weights), code="f16"))
    assert (back.maps[0].weights == weights).all()


@pytest.mark.parametrize(
    ("draw", "every"),
    [
        (lambda shape: DRAW.uniform(size=shape), 5),
        (lambda shape: DRAW.integers(0, 2, shape), 5),
        (lambda shape: np.ones(shape), 10),
        (lambda shape: DRAW.exponential(size=shape), 2),
        (lambda shape: DRAW.exponential(size=shape) ** 3, 1),
    ],
)
def test_no_noise_takes_more_than_six_bits_a_weight(draw, every):
    weights = draw((256, 256)).astype(np.float32)
    weights /= weights.sum(1, keepdims=True)
    content = _seen.dump(regard.view(weights[None]))
    head = json.loads(zlib.decompressobj().decompress(content[20:]))
    assert head["maps"][0].get("every", [1]) == [every]
    packed = pack(weights, "u8")
    assert len(packed.blob) * 8 <= 6 * weights.size
    back = _seen.parse(content).maps[0].weights[0]
    bound = weights.max(1, keepdims=True) * every / 400 * 1.01
    assert (abs(back - weights) <= bound).all()


@SETTINGS
@given(
    seed=st.integers(0, 10**6), rows=st.integers(0, 6), columns=st.integers(1, 300),
    k=st.integers(1, 8), size=st.sampled_from([1e-9, 1e-3, 1.0, 1e6]),
)  # fmt: skip
def test_codes_keep_what_they_say(seed, rows, columns, k, size):
    draw = np.random.default_rng(seed)
    weights = (softmax(3 * draw.standard_normal((rows, columns))) * size).astype(np.float32)
    bound = weights.max(1, initial=0.0, keepdims=True) / 400 * 1.01 + 3e-10
    packed = pack(weights, "u8")
    back = unpack(packed.blob, "u8", weights.shape, packed.scale, 0, "x")
    assert (abs(back - weights) <= bound).all()
    signed = weights * np.sign(draw.standard_normal(weights.shape)).astype(np.float32)
    packed = pack(signed, "i8")
    back = unpack(packed.blob, "i8", weights.shape, packed.scale, 0, "x")
    assert (abs(back - signed) <= 2 * bound).all()
    top = keep_top(weights, k)
    back = unpack(top.blob, "top", weights.shape, top.scale, top.entries, "x")
    kept = back > 0
    assert (kept.sum(1) <= k).all()
    assert top.entries == kept.sum()
    assert (abs(back - weights)[kept] <= (bound + 0 * weights)[kept] * 2).all()
    for row, shown, mass in zip(weights, kept, top.mass, strict=True):
        if shown.any() and not shown.all():
            assert row[shown].min() >= row[~shown].max()
        share = row[shown].sum() / row.sum()
        assert share - 1 / 255 - 1e-3 <= mass / 255 <= share + 1e-3


@SETTINGS
@given(
    seed=st.integers(0, 10**6), rows=st.integers(0, 40), columns=st.integers(1, 300),
    sharp=st.sampled_from([0.0, 0.5, 3.0, 9.0]), steps=st.sampled_from([8, 25, 64]),
    causal=st.booleans(), empty=st.booleans(),
)  # fmt: skip
def test_few_steps_keep_what_they_say(seed, rows, columns, sharp, steps, causal, empty):
    draw = np.random.default_rng(seed)
    weights = softmax(sharp * draw.standard_normal((rows, columns)))
    if causal:
        weights = np.tril(weights, draw.integers(0, 3))
    if empty:
        weights[draw.random(rows) < 0.3] = 0
    made = pack_few(weights, steps)
    back = unpack(made.blob, "few", weights.shape, made.scale, made.entries, "x", steps, made.fine)
    most = made.scale[:, None]
    off = abs(back - weights)
    assert (off <= most / (2 * steps) * 1.0001).all()
    assert off.max(initial=0) == pytest.approx(made.off, abs=1e-6)
    large = weights > 15 / steps * most
    if made.fine == 200:
        assert (off <= most / 400 * 1.0001)[large].all()
    if causal:
        assert (back[np.triu_indices(rows, 3, columns)] == 0).all()


def test_few_steps_are_for_large_heads_and_say_by_how_much_they_are_off(tmp_path):
    weights = softmax(4 * DRAW.standard_normal((2, 200, 300)))
    view = regard.view(weights, kind="cross")
    sizes = [view.save(tmp_path / f"{n}.seen", precision=n).stat().st_size for n in (25, 64, 200)]
    assert sizes[0] < sizes[1] < sizes[2]
    assert sizes[0] < 0.6 * sizes[2]
    content = (tmp_path / "25.seen").read_bytes()
    (row,) = json.loads(zlib.decompressobj().decompress(content[20:]))["maps"]
    back = viewer.read(tmp_path / "25.seen").maps[0].weights
    assert row["code"] == "few"
    assert abs(back - weights).max() == pytest.approx(row["off"], rel=0.01)
    # What is below half a step is not lost: rows still add up.
    assert back.sum(-1) == pytest.approx(np.ones((2, 200)), abs=0.03)
    small = regard.view(weights[:, :20, :30], kind="cross")
    assert _seen.dump(small, precision=25) == _seen.dump(small)
    for wrong in (7, 65, 100, 201):
        with pytest.raises(RequestError, match="8 to 64 steps"):
            view.save(tmp_path / "no.seen", precision=wrong)


@pytest.mark.parametrize(
    "lie",
    [{"steps": 0}, {"steps": 200}, {"fine": [0]}, {"fine": []}, {"entries": [9]}, {"entries": []}],
)
def test_lies_about_few_steps_are_refused(lie):
    content = _seen.dump(regard.view(softmax(DRAW.standard_normal((1, 190, 190)))), precision=25)
    size = struct.unpack_from("<I", content, 8)[0]
    head = json.loads(zlib.decompress(content[20 : 20 + size]))
    blobs = content[20 + size :]
    assert used(_seen.assemble(head, [blobs]))
    head["maps"][0].update(lie)
    assert not used(_seen.assemble(head, [blobs]))


@pytest.mark.parametrize("place", [0, 7, 64 + 190, 64 + 190 + 4 * 190, 64 + 9 * 190, -1])
def test_damage_to_few_steps_is_refused_or_harmless(place):
    weights = softmax(3 * DRAW.standard_normal((190, 190)))
    made = pack_few(weights, 25)
    raw = bytearray(zlib.decompress(made.blob))
    raw[place] ^= 0x93
    try:
        back = unpack(
            zlib.compress(bytes(raw)), "few", weights.shape, made.scale, made.entries, "x", 25, 200
        )
    except RequestError:
        refused = True
    else:
        refused = False
        assert np.isfinite(back).all()
    assert refused or place not in (0, 7)  # counts must hold


def test_top_k_takes_less_room_and_says_what_was_kept(tmp_path):
    weights = softmax(4 * DRAW.standard_normal((4, 200, 300)))
    view = regard.view(weights, kind="cross")
    full, few = view.save(tmp_path / "a.seen"), view.save(tmp_path / "b.seen", top_k=8)
    assert few.stat().st_size < full.stat().st_size
    back = viewer.read(few).maps[0].weights
    assert ((back > 0).sum(-1) <= 8).all()
    assert (back.max(-1) > 0.99 * weights.max(-1)).all()


def test_signed_weights_and_sparse_edges():
    signed = DRAW.standard_normal((2, 3, 4)).astype(np.float32)
    back = _seen.parse(_seen.dump(regard.view(signed, kind="cross")))
    assert abs(back.maps[0].weights - signed).max() <= abs(signed).max() / 200 * 1.01
    edges = np.zeros((1, 50, 50), np.float32)
    edges[0, np.arange(50), (np.arange(50) * 7) % 50] = 1
    back = _seen.parse(_seen.dump(regard.view(edges, kind="edges")))
    assert (back.maps[0].weights == edges).all()


def test_what_cannot_be_kept_is_refused():
    with pytest.raises(RequestError, match="finite"):
        _seen.dump(regard.view(np.full((2, 2), np.nan, np.float32)))
    with pytest.raises(RequestError, match='"u8" or "f16"'):
        _seen.dump(a_view(), code="u4")
    with pytest.raises(RequestError, match="from 1 up"):
        _seen.dump(a_view(), top_k=0)


def used(content):
    """Whether all of it can be read; a sentence is the only way to fail."""
    try:
        for one in _seen.parse(content).maps:
            _ = one.weights
    except RequestError as error:
        said = str(error)
    else:
        return True
    assert said.strip()
    assert "\n" not in said
    return False


GOOD = _seen.dump(a_view())
TOP = _seen.dump(a_view(), top_k=2)


@SETTINGS
@given(st.binary(max_size=200))
def test_random_bytes_are_refused(content):
    assert not used(content)
    assert not used(_seen.MAGIC + content)


@SETTINGS
@given(cut=st.integers(1, 2000), top=st.booleans())
def test_a_file_cut_off_is_refused(cut, top):
    content = TOP if top else GOOD
    assert used(content)
    assert not used(content[: max(len(content) - cut, 0)])


@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 10**9), top=st.booleans())
def test_damaged_bytes_never_crash_and_never_change_weights_in_silence(seed, top):
    content, chance = bytearray(TOP if top else GOOD), random.Random(seed)
    for _ in range(chance.randint(1, 3)):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    assert not used(bytes(content)) or bytes(content) == (TOP if top else GOOD)


def with_header(change, content=GOOD):
    packed, _ = struct.unpack_from("<II", content, 8)
    end = _seen.START + packed
    head = json.loads(zlib.decompress(content[_seen.START : end]))
    change(head)
    return _seen.assemble(head, [content[end:]])


VALUES = [None, -1, 0, 1, 2**31, 2**70, 1.5, 1e300, "x", "", [], [1], [[1, 2]], [-1, 3], {}, True]


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(seed=st.integers(0, 10**9), top=st.booleans())
def test_lies_in_the_header_are_refused_or_harmless(seed, top):
    content, chance = TOP if top else GOOD, random.Random(seed)

    def lie(head):
        *way, last = chance.choice([p for p in places(head) if p])
        here = head
        for key in way:
            here = here[key]
        here[last] = chance.choice(VALUES)

    tracemalloc.start()
    try:
        used(with_header(lie, content))
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "lie",
    [
        lambda head: head["maps"][0].update(shape=[3, 50_000, 50_000]),
        lambda head: head["maps"][0].update(shape=[2**30, 5, 7]),
        lambda head: head["maps"][0].update(blobs=[[0, 2**30]] * 3),
        lambda head: head["maps"][0].update(code="u9"),
        lambda head: head["maps"][0].update(rows=9),
        lambda head: head["sides"][1].update(groups=[[0]], texts=["x"]),
        lambda head: head["sides"][1].update(special=[99]),
        lambda head: head["sides"][0].update(kind="smell"),
        lambda head: head["runs"][0].update(maps=[77]),
        lambda head: head["runs"][0].update(score="high"),
        lambda head: head.update(sides=3),
    ],
)
def test_these_lies_are_refused(lie):
    assert not used(with_header(lie))


def test_a_header_that_would_not_fit_is_not_unpacked():
    bomb = zlib.compress(b" " * 10**7)

    def file(small, size):
        return _seen.MAGIC + struct.pack("<III", len(small), size, zlib.crc32(small)) + small

    tracemalloc.start()
    assert not used(file(bomb, 2**32 - 1))
    assert not used(file(bomb, 10))
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    deep = zlib.compress(b"[" * 10**6)
    assert not used(file(deep, 10**6))


def test_files_that_are_not_there_and_other_versions(tmp_path):
    with pytest.raises(RequestError, match="No such file"):
        viewer.read(tmp_path / "none.seen")
    path = tmp_path / "x.seen"
    path.write_bytes(b"hello")
    with pytest.raises(RequestError, match=r"x\.seen: this is not a \.seen file"):
        viewer.read(path)
    path.write_bytes(GOOD[:6] + b"\x09\x00" + GOOD[8:])
    with pytest.raises(RequestError, match="version 0900"):
        viewer.read(path)
