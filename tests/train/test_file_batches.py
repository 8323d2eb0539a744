"""Data in files: the same batches whoever reads them, wherever they begin, and little in memory."""

import gc
import gzip
import weakref
from itertools import islice
from typing import ClassVar

import numpy as np
import pytest
import torch
import zstandard

from regard.data.problems import Problems
from regard.data.storage.shuffle_buffer import Lane, Mark, Streamed
from regard.errors import RequestError
from regard.recipe.train_section import Training
from regard.tasks.generation.translation import Translation
from regard.tasks.labels.classification import Classification
from regard.tasks.language.language import Language
from regard.train.file_batches import LaneStream
from tests.train import runs


class Numbers:
    """Examples that are numbers: a batch is the list of them."""

    alive: ClassVar = weakref.WeakSet()

    def __init__(self, values):
        self.values = values
        self.sizes = np.array([[1 + v % 7] * 2 for v in values])
        self.texts, self.references = [""] * len(values), [[""]] * len(values)
        Numbers.alive.add(self)

    def __len__(self):
        return len(self.values)

    def subset(self, indices):
        return Numbers([self.values[i] for i in indices])

    def count(self, indices):
        return int(self.sizes[list(indices), 0].sum())

    def collate(self, indices):
        return [self.values[i] for i in indices]


def source(folder, files=6, rows=40, lanes=4, buffer=48) -> Streamed:
    paths = []
    for n in range(files):
        paths.append(folder / f"{n}.txt")
        own = range(n * 1000, n * 1000 + rows + n)
        paths[-1].write_text("".join(f"{value}\n" for value in own))

    def read(path, problems):
        yield from map(int, path.read_text().split())

    return Streamed(paths, read, lambda items, problems: Numbers(items), buffer, lanes)


def micros(made: Streamed, count: int, **settings):
    return list(islice(LaneStream(made, **{"tokens": 30, "seed": 5, **settings}), count))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return source(tmp_path_factory.mktemp("numbers"))


def shared(made: Streamed, steps: int, world: int, start=None, accumulate=1):
    """What processes see that read in turn, each in a thread, and sum with one another."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    barrier, parts = Barrier(world), [np.zeros(0, np.int64)] * world

    def run(rank):
        def together(numbers):
            parts[rank] = numbers
            barrier.wait(60)
            total = sum(parts)
            barrier.wait(60)
            return total

        return micros(
            made, steps * accumulate, rank=rank, world=world, start=start, accumulate=accumulate,
            together=together,
        )  # fmt: skip

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(run, range(world)))


def test_a_pass_has_every_example_once(made):
    everything = sorted(v for path in made.files for v in map(int, path.read_text().split()))
    orders = []
    for epoch in (0, 1):
        seen = [
            value
            for lane in range(made.lanes)
            for taken in Lane(made, lane, tokens=30, seed=5, mark=Mark(epoch)).once()
            for value in taken.examples.collate(taken.indices)
        ]
        assert sorted(seen) == everything
        orders.append(seen)
    assert orders[0] != orders[1]
    assert orders[0] != everything


@pytest.mark.parametrize("files", [1, 3])
def test_with_fewer_files_than_lanes_files_have_several(tmp_path, files):
    few = source(tmp_path, files)
    everything = sorted(v for path in few.files for v in map(int, path.read_text().split()))
    for epoch in (0, 3):
        each = [
            [v for t in Lane(few, lane, tokens=30, seed=5, mark=Mark(epoch)).once()
             for v in t.examples.collate(t.indices)]
            for lane in range(few.lanes)
        ]  # fmt: skip
        assert all(each)
        assert sorted(v for own in each for v in own) == everything


def test_processes_see_what_one_sees_that_accumulates_more(made):
    for world in (2, 4):
        one = micros(made, 40 * world, accumulate=world)
        for rank, own in enumerate(shared(made, 40, world)):
            assert [m.batch for m in own] == [m.batch for m in one[rank::world]]
            assert [m.count for m in own] == [m.count for m in one[rank::world]]
            assert [m.after for m in own] == [m.after for m in one[rank::world]]
            assert [m.epoch for m in own] == [m.epoch for m in one[rank::world]]
    assert one[-1].epoch > 1  # it went over the end of a pass


def test_anybody_goes_on_where_another_was(made):
    whole = micros(made, 240, accumulate=4)
    for cut in (4, 36, 120, 156):
        start = whole[cut - 1].after
        rest = [m.batch for m in whole[cut:]]
        assert [m.batch for m in micros(made, 60, accumulate=2, start=start)] == rest[:60]
        for world in (2, 4):
            found = shared(made, 12, world, start, 4 // world)
            flat = [found[n % world][n // world].batch for n in range(48)]
            assert flat == rest[:48]


def test_a_start_that_no_number_of_processes_divides(made):
    whole = micros(made, 60)  # one process, one micro-batch a step
    found = shared(made, 10, 4, whole[2].after)
    assert [found[n % 4][n // 4].batch for n in range(40)] == [m.batch for m in whole[3:43]]


def test_no_more_than_the_buffer_is_in_memory(made):
    gc.collect()
    most = 0
    for _ in islice(LaneStream(made, tokens=30, seed=5), 200):
        most = max(most, sum(map(len, Numbers.alive)))
    assert 0 < most <= made.buffer + made.buffer // made.lanes


def test_what_cannot_be_is_said(made, tmp_path):
    with pytest.raises(RequestError, match="3 processes cannot share 4 lanes evenly"):
        LaneStream(made, tokens=30, seed=5, world=3)
    own = source(tmp_path)
    place = micros(own, 3)[-1].after
    (tmp_path / "0.txt").write_text("1\n2\n")
    with pytest.raises(RequestError, match="the files are not those"):
        LaneStream(own, tokens=30, seed=5, start=place)
    with pytest.raises(RequestError, match=r"data\.stream\.buffer is 3"):
        Streamed(made.files, made.read, made.make, 3, 4)
    nothing = Streamed(made.files, made.read, lambda items, problems: None, 48, 4)
    with pytest.raises(RequestError, match="lane 0 of 4 has no usable example"):
        micros(nothing, 1)
    with pytest.raises(RequestError, match="no usable row"):
        nothing.first()


# -- files of texts


def write(folder, count=6, rows=30):
    """Parts of a corpus, of each kind of packing."""
    for n in range(count):
        lines = [f"satz {n} nummer {i}\tsentence {n} number {i}\n" for i in range(rows)]
        lines[7] = "nur eine spalte\n"
        raw = "".join(["source\ttarget\n", *lines]).encode()
        if n % 3 == 0:
            (folder / f"part-{n}.tsv").write_bytes(raw)
        elif n % 3 == 1:
            (folder / f"part-{n}.tsv.gz").write_bytes(gzip.compress(raw))
        else:
            (folder / f"part-{n}.tsv.zst").write_bytes(zstandard.ZstdCompressor().compress(raw))
    (folder / "dev.tsv").write_text("source\ttarget\nsatz 1\tsentence 1\n")


SECTION = {"tokenizer": {"kind": "words"}, "max_length": 9}


def test_a_task_reads_plain_and_packed_files(tmp_path, caplog):
    caplog.set_level("INFO")
    write(tmp_path)
    config = {
        **SECTION, "dev": str(tmp_path / "dev.tsv"), "sample": 60,
        "stream": {"files": f"{tmp_path}/part-*.tsv*", "buffer": 40},
    }  # fmt: skip
    data = Translation().data(config)
    said = "learned from 60 rows: the first 10 of each of 6 files"
    assert said in caplog.text
    assert isinstance(data.train, Streamed)
    assert (data.train.lanes, len(data.dev)) == (4, 1)
    words = set()
    tokenizer = data.fields["source"].tokenizer
    for lane in range(4):
        for taken in Lane(data.train, lane, tokens=64, seed=1).once():
            words |= {taken.examples.texts[i] for i in taken.indices}
            batch = taken.examples.collate(taken.indices)
            ids = tokenizer.encode_all([taken.examples.texts[i] for i in taken.indices])
            assert (batch.source == torch.from_numpy(ids.padded(np.arange(len(ids)), 0, 2))).all()
    assert len(words) == 6 * 29
    assert caplog.text.count("lacks a column") == 6
    again = Translation().data(config, data.fields)
    assert again.train.stamp == data.train.stamp


def test_labels_are_read_in_parts_too(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "good", "label": "pos"}\n' * 9)
    (tmp_path / "b.jsonl").write_text('{"text": "bad", "label": "neg"}\n' * 9)
    stream = {"files": f"{tmp_path}/*.jsonl", "buffer": 6, "lanes": 2}
    data = Classification().data({"stream": stream})
    assert data.fields["label"].names == ["neg", "pos"]
    micro = next(iter(LaneStream(data.train, tokens=8, seed=1)))
    assert micro.batch["label"].shape == (3,)
    with pytest.raises(RequestError, match=r"task\.weights: balanced counts the labels of all"):
        Classification(weights="balanced").data({"stream": stream})


def test_running_text_is_read_in_parts_too(tmp_path):
    for n in range(2):
        text = "".join(f"line {i} of {n} has some words\n" for i in range(20))
        (tmp_path / f"{n}.txt.gz").write_bytes(gzip.compress(text.encode()))
    task = Language(context=4, block=8)
    data = task.data({"stream": {"files": f"{tmp_path}/*.txt.gz", "buffer": 10}})
    words = data.tokenizers["text"]
    assert data.train.lanes == 2
    counts = []
    for lane in range(2):
        taken = list(Lane(data.train, lane, tokens=64, seed=1).once())
        batch = taken[0].examples.collate(taken[0].indices)
        assert batch.target.shape[1] == 8
        assert "some words" in words.decode(batch.target[0].tolist()) or batch.count < 8
        counts.append(sum(one.count for one in taken))
    assert counts == [20 * 8, 20 * 8]  # seven words and an end


def test_parallel_files_are_matched_by_their_order(tmp_path):
    for n in range(2):
        (tmp_path / f"{n}.de").write_text(f"eins {n}\nzwei {n}\n")
        (tmp_path / f"{n}.en.gz").write_bytes(gzip.compress(f"one {n}\ntwo {n}\n".encode()))
    files = {"source": f"{tmp_path}/*.de", "target": f"{tmp_path}/*.en.gz"}
    data = Translation().data({**SECTION, "stream": {"files": files}})
    first = data.train.first()
    assert [(t, *r) for t, r in zip(first.texts, first.references, strict=True)] in (
        [("eins 0", "one 0"), ("zwei 0", "two 0")], [("eins 1", "one 1"), ("zwei 1", "two 1")],
    )  # fmt: skip
    (tmp_path / "2.de").write_text("drei\n")
    with pytest.raises(RequestError, match="as many files of each field"):
        Translation().data({**SECTION, "stream": {"files": files}})


def test_a_stream_that_cannot_be_is_said(tmp_path):
    write(tmp_path, 2)
    stream = {"files": f"{tmp_path}/part-*"}
    for section, said in (
        ({"stream": {"files": f"{tmp_path}/none-*"}}, "no file matches"),
        ({"stream": stream, "train": str(tmp_path / "part-0.tsv")}, "leave out one of the two"),
        ({"stream": stream, "store": str(tmp_path)}, "leave out one"),
        ({"stream": stream, "limit": 10}, "a stream has every row"),
        ({"stream": {**stream, "buffer": "x"}}, "buffer"),
        ({"path": str(tmp_path), "stream": {"lines": 3}}, "'lines'.* did you mean 'lanes'"),
    ):
        with pytest.raises(RequestError, match=said):
            Translation().data(section)


def test_damaged_zst_is_said_with_its_file(tmp_path):
    whole = zstandard.ZstdCompressor().compress(b"a\tb\n" + b"x\ty\n" * 50)
    (tmp_path / "a.tsv.zst").write_bytes(whole[:-6])
    from regard.data.formats import read

    with pytest.raises(RequestError, match=r"a\.tsv\.zst: damaged file after line"):
        list(read(tmp_path / "a.tsv.zst", {"x": "a"}, problems=Problems()))


def streamed(folder, **changes):
    """A recipe whose training split is in files."""
    made = runs.recipe(folder, **changes)
    text = made.read_text().replace(
        "  train: mt-bible-de/dev.tsv.gz\n",
        f"  stream: {{files: '{folder}/parts/*.tsv.gz', buffer: 64, lanes: 4}}\n",
    )
    made.write_text(text)
    (folder / "parts").mkdir()
    from regard.data.sources import shipped

    raw = gzip.decompress((shipped() / "mt-bible-de" / "dev.tsv.gz").read_bytes())
    head, *lines = raw.decode().splitlines(keepends=True)
    for n in range(5):
        part = "".join([head, *lines[n::5]]).encode()
        (folder / "parts" / f"{n}.tsv.gz").write_bytes(gzip.compress(part, mtime=0))
    return made


def test_processes_share_a_whole_step_or_are_refused(made, monkeypatch):
    from regard.recipe.train_section import BatchSettings
    from regard.train.file_batches import micros_of

    batch = BatchSettings(tokens=30, step_tokens=120)
    settings = Training(steps=1, seed=5, batch=batch)
    one = list(islice(micros_of(made, settings), 40))
    assert [m.number for m in one] == list(range(4)) * 10
    assert [m.batch for m in one] == [m.batch for m in micros(made, 40, accumulate=4)]
    monkeypatch.setenv("WORLD_SIZE", "2")
    stream = micros_of(made, settings)
    assert (stream.accumulate, stream.tokens, stream.world) == (2, 30, 2)
    odd = Training(steps=1, batch=BatchSettings(tokens=30, step_tokens=90))
    said = (
        r"2 processes cannot share evenly the 3 micro-batches of a step of 90 tokens.*\(23 gives 4"
    )
    with pytest.raises(RequestError, match=said):
        micros_of(made, odd)


def test_settings_of_a_recipe_give_a_stream_of_lanes(tmp_path):
    from regard.recipe import load
    from regard.train.building import build
    from regard.train.file_batches import micros_of

    built = build(load(str(streamed(tmp_path))).plan())
    found = micros_of(built.data.train, Training(steps=1))
    assert isinstance(found, LaneStream)


@pytest.mark.slow
def test_killed_in_the_middle_of_a_pass_it_sees_the_same_batches(tmp_path):
    made = streamed(tmp_path, steps=60, checkpoint=10, validate=0)
    runs.run(made, tmp_path / "whole")
    runs.killed(made, tmp_path / "killed", after=25)
    runs.run(made, tmp_path / "killed")
    assert runs.losses(tmp_path / "killed") == runs.losses(tmp_path / "whole")
    a, b = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "killed"))
    assert a == b


@pytest.mark.slow
def test_two_processes_go_on_where_one_was_stopped(tmp_path):
    """One process that accumulates 2, killed; then two processes: the curve of one, undisturbed."""
    changes = {"steps": 40, "checkpoint": 10, "validate": 0, "dropout": 0.0}
    made = streamed(tmp_path, accumulate=2, **changes)
    runs.run(made, tmp_path / "whole")
    runs.killed(made, tmp_path / "moved", after=15)
    for recipe in (made, tmp_path / "moved" / "recipe.yaml"):
        recipe.write_text(recipe.read_text().replace("accumulate: 2", "accumulate: 1"))
    runs.run(made, tmp_path / "moved", processes=2)
    one, other = runs.losses(tmp_path / "whole"), runs.losses(tmp_path / "moved")
    assert one.keys() == other.keys()
    assert max(abs(one[step] - other[step]) for step in one) < 1e-4
