"""Processes that make shards: as many as wanted, killed at any moment, never a line lost."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from regard.bulk import Order, local_engine, predict_shards
from regard.bulk.job import BulkJob
from tests.bulk.toys import bytes_of, lines_of, sentences
from tests.cli.run import SOURCE
from tests.cli.toy import folder

__all__ = ["folder"]

pytestmark = [pytest.mark.slow, pytest.mark.nohook]

KILLS, SECONDS = 12, 150
"""Kills of one command, and after how many seconds a slow machine has seen enough of them."""


def corpus_of(place: Path, shards: int, lines: int) -> Path:
    place.mkdir()
    for number in range(shards):
        texts = sentences(lines, number)
        texts[lines // 2] = "die Datei" * (number % 2)
        rows = [json.dumps({"n": n, "de": text}) for n, text in enumerate(texts)]
        rows[7] = "{"
        if number % 3 == 0:
            (place / f"{number}.txt").write_text("\n".join(texts) + "\n", "utf-8")
        elif number % 3 == 1:
            (place / f"{number}.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
        else:
            with gzip.open(place / f"{number}.jsonl.gz", "wt", encoding="utf-8") as file:
                file.write("\n".join(rows) + "\n")
    return place


def interruptible() -> None:
    """Who starts the tests in the background may have them ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(folder: str, corpus: Path, out: Path, *more: str) -> "subprocess.Popen[str]":
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    words = ["predict", folder, "-i", f"{corpus}/*", "-o", str(out), *more]
    return subprocess.Popen(
        [sys.executable, "-m", "regard", *words], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}, start_new_session=True,
        preexec_fn=interruptible,
    )  # fmt: skip


def workers_of(process: "subprocess.Popen[str]") -> list[int]:
    """The processes whose parent it is."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    found = {int(pid) for pid in path.read_text().split()}
    for other in Path(f"/proc/{process.pid}/task").iterdir():  # threads start them, too
        found |= {int(pid) for pid in (other / "children").read_text().split()}
    return sorted(found)


def is_there(pid: int) -> bool:
    """Whether a process runs; one that waits to be asked for its end does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def ended(pids: list[int]) -> bool:
    return not any(map(is_there, pids))


def at_work(process: "subprocess.Popen[str]", out: Path) -> bool:
    """Something is written, or it is over."""
    return process.poll() is not None or bool(list(out.glob(".*.*.*")))


def until(what, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(found)


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory):
    """A corpus, and its outputs by one process that nobody disturbed."""
    place = tmp_path_factory.mktemp("bulk")
    corpus = corpus_of(place / "corpus", 12, 300)
    predict_shards(Order(folder), str(corpus), place / "whole", workers=0)
    return corpus, bytes_of(place / "whole")


def test_two_processes_give_the_same_bytes(folder, whole, tmp_path):
    corpus, expected = whole
    done = started(folder, corpus, tmp_path / "o", "--workers", "2")
    _, said = done.communicate(timeout=300)
    assert done.returncode == 0, said
    assert "12 of 12 shards made: 3,600 lines, 8 bad" in said
    assert bytes_of(tmp_path / "o") == expected
    assert not list((tmp_path / "o" / ".bulk").glob("weights*"))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_killed_at_any_moment_nothing_is_lost_or_there_twice(folder, whole, tmp_path):
    corpus, expected = whole
    draw, out, kills, began = random.Random(), tmp_path / "o", 0, time.monotonic()
    while kills < KILLS and (kills < 2 or time.monotonic() - began < SECONDS):
        workers = draw.choice([0, 1, 2])
        process = started(folder, corpus, out, "--workers", str(workers))
        if draw.random() < 0.8:  # in the middle of the work, not while everything is imported
            until(partial(at_work, process, out))
        time.sleep(draw.uniform(0, 3))
        children = workers_of(process) if process.poll() is None else []
        process.kill()
        kills += process.wait() == -signal.SIGKILL
        assert until(partial(ended, children), 20), "a process outlived the command"
        there = bytes_of(out) if out.exists() else {}
        final = {name: held for name, held in there.items() if not name.startswith(".")}
        sides = {n for n, held in final.items() if n.endswith(".bad.jsonl") and n not in expected}
        assert all(final[name] == b"" for name in sides)
        assert {n: h for n, h in final.items() if n not in sides}.items() <= expected.items()
        if len(final) >= len(expected) - 2:  # so that there is always something left to do
            # Never a shard's bad lines alone: they are not written again while the shard is there.
            shards = sorted(name for name in final if not name.endswith(".bad.jsonl"))
            for name in draw.sample(shards, len(shards) // 2):
                (out / name).unlink()
        assert process.stderr is not None
        process.stderr.close()
    done = started(folder, corpus, out, "--workers", "2")
    _, said = done.communicate(timeout=300)
    assert done.returncode == 0, said
    assert bytes_of(out) == expected
    for path in corpus.iterdir():
        assert len(lines_of(out / path.name)) == len(lines_of(path)) == 300


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_a_process_that_dies_is_started_again(folder, whole, tmp_path):
    corpus, expected = whole
    process = started(folder, corpus, tmp_path / "o", "--workers", "1")
    assert until(lambda: list((tmp_path / "o").glob("*")) if (tmp_path / "o").exists() else False)
    assert until(lambda: workers_of(process))
    os.kill(workers_of(process)[0], signal.SIGKILL)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert bytes_of(tmp_path / "o") == expected


def test_a_shard_whose_process_always_dies_is_told_of(folder, whole, tmp_path, monkeypatch):
    corpus, expected = whole
    tell = local_engine._Hand._tell

    def deadly(self, line):
        tell(self, line)
        if line.startswith("{") and json.loads(line).get("source", "").endswith("/3.txt"):
            self.process.kill()

    monkeypatch.setattr(local_engine._Hand, "_tell", deadly)
    summary = predict_shards(Order(folder), str(corpus), tmp_path / "o", workers=2)
    assert summary.failed == {"3.txt": "the process that made it ended 2 times (exit code -9)"}
    assert (
        bytes_of(tmp_path / "o").items()
        == {k: v for k, v in expected.items() if k != "3.txt"}.items()
    )


def test_one_writes_a_folder_at_a_time(folder, whole, tmp_path):
    corpus, _ = whole
    first = started(folder, corpus, tmp_path / "o", "--workers", "0")
    assert until((tmp_path / "o" / ".predicting").exists)
    first.send_signal(signal.SIGSTOP)  # so that it is not done before the other asks
    second = started(folder, corpus, tmp_path / "o", "--workers", "0")
    _, said = second.communicate(timeout=100)
    assert second.returncode == 2
    assert f"another process writes here (process {first.pid} on" in said
    first.send_signal(signal.SIGINT)
    first.send_signal(signal.SIGCONT)
    _, said = first.communicate(timeout=100)
    assert first.returncode == 130, said
    assert not (tmp_path / "o" / ".predicting").exists()
    assert not [p for p in (tmp_path / "o").iterdir() if p.name.startswith(".") and p.is_file()]


def test_many_lines_take_no_more_memory(folder, tmp_path):
    """A shard is never whole in memory."""
    peaks = []
    for count in (2_000, 100_000):
        (tmp_path / f"{count}").mkdir()
        # Empty texts cost no decoding.
        (tmp_path / f"{count}" / "a.jsonl").write_text('""\n' * count, "utf-8")
        code = (
            "import resource, sys; from regard.bulk import Order, predict_shards;"
            f"predict_shards(Order({folder!r}), {str(tmp_path / str(count))!r}, "
            f"{str(tmp_path / f'o{count}')!r}, workers=0);"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        peaks.append(int(done.stdout) / 1024)
        assert len(lines_of(tmp_path / f"o{count}" / "a.jsonl")) == count
    assert peaks[1] - peaks[0] < 25, peaks


def test_a_process_ends_when_nobody_speaks_to_it_any_more(folder):
    told = BulkJob(Order(folder), 1, Path("none"), "").plain()
    process = subprocess.Popen(
        [sys.executable, "-m", "regard.bulk.worker"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout as out:
        with process.stdin as words:
            words.write(json.dumps(told) + "\n")
            words.flush()
            assert json.loads(out.readline()) == {"ready": True}
            assert process.poll() is None
        try:
            assert process.wait(timeout=30) == 1
        finally:
            process.kill()
