"""A server under load: how many texts a second, how long they take, and how much memory it has.

    python benchmarks/serve.py load   [--model de-en-small --data FILE --column other]
    python benchmarks/serve.py load   --more=--no-join      # an option of our server
    python benchmarks/serve.py bare   [--precision int8]
    python benchmarks/serve.py memory [--workers 1,4]
    python benchmarks/serve.py soak   [--requests 100000]

`load` pairs `regard serve` with the same server that answers one text at a time
(`--batch-tokens 1`), and with LitServe around the same model where it is installed (batches of up
to 64, the same 3 ms of waiting). All of them run all the time, and take turns in being asked: first
how many texts a second 64 connections get out of each, then latencies at 50, 80 and 120 % of what
ours did. Requests there are sent at a constant rate, whatever has been answered, and a latency
counts from when the request was due, not from when it could be sent (no coordinated omission). The
client is a process of its own on the same machine: it takes CPU time from every server alike.

A rate counts every answer and the time until the last of them: batches give answers in bursts, and
a window that cuts one says too little. Beside it stands how many texts a server answers in a second
of its own CPU time, which other work on the machine changes less.

`bare` is what batches can give at best: the model alone, one thread, 1 to 128 texts at once.
"""

import argparse
import asyncio
import csv
import gzip
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.sources import find

LIT = """
import sys, torch, litserve, regard
torch.set_num_threads(1)

class Api(litserve.LitAPI):
    def setup(self, device):
        torch.set_num_threads(1)
        self.loaded = regard.load(sys.argv[1])
    def decode_request(self, request):
        return request["inputs"]
    def predict(self, texts):
        return self.loaded.predict(texts)
    def encode_response(self, found):
        return {"predictions": [found.as_json()]}

if __name__ == "__main__":
    api = Api(max_batch_size=64, batch_timeout=0.003)
    litserve.LitServer(api, accelerator="cpu", timeout=60).run(
        port=int(sys.argv[2]), generate_client_file=False, log_level="warning")
"""


def texts_of(data: str, column: str, most: int) -> list[str]:
    with gzip.open(find(data), "rt", encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row[column] for row in islice(rows, most)]


class Connections:
    """HTTP/1.1 over connections that stay open; as many as there are requests at once."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, path: str, body: bytes) -> int:
        """The status of an answer that was read to its end; 0 where the connection broke."""
        try:
            reader, writer = (
                self.free.pop()
                if self.free
                else await asyncio.open_connection(self.host, self.port)
            )
            head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            lines = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(lines.partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(size)
        except (OSError, ValueError, asyncio.IncompleteReadError):
            return 0
        self.free.append((reader, writer))
        return int(lines[9:12])

    def close(self) -> None:
        """Leave."""
        for _, writer in self.free:
            writer.close()


async def closed(port: int, bodies: list[bytes], many: int, seconds: float) -> tuple[float, int]:
    """Texts a second with so many connections that each wait for their answer, and all answered.

    The rate is of all answers until the last: the server has something to do all that time.
    """
    pool, source, count = Connections("127.0.0.1", port), cycle(bodies), 0
    began = last = time.monotonic()

    async def ask() -> None:
        nonlocal count, last
        while time.monotonic() < began + seconds:
            if await pool.post("/predict", next(source)) == 200:
                count, last = count + 1, time.monotonic()

    await asyncio.gather(*(ask() for _ in range(many)))
    pool.close()
    return count / max(last - began, 1e-9), count


async def opened(port: int, bodies: list[bytes], rate: float, seconds: float) -> dict[str, Any]:
    """Latencies at a constant rate, from the moment at which each request was due."""
    pool, source = Connections("127.0.0.1", port), cycle(bodies)
    took: list[float] = []
    statuses: Counter[int] = Counter()

    async def ask(due: float, body: bytes) -> None:
        status = await pool.post("/predict", body)
        statuses[status] += 1
        if status == 200:
            took.append(time.monotonic() - due)

    began, tasks = time.monotonic(), []
    for number in range(round(rate * seconds)):
        due = began + number / rate
        if (early := due - time.monotonic()) > 0:
            await asyncio.sleep(early)
        tasks.append(asyncio.create_task(ask(due, next(source))))
    await asyncio.gather(*tasks)
    pool.close()
    found = np.percentile(took, [50, 95, 99]) * 1000 if took else [0, 0, 0]
    made = {f"p{p}_ms": round(float(v), 1) for p, v in zip((50, 95, 99), found, strict=True)}
    served = statuses[200] / (time.monotonic() - began)
    return {**made, "served_per_s": round(served, 1), "statuses": dict(statuses)}


@contextmanager
def ours(model: str, *more: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The port and the process of `regard serve`."""
    words = [sys.executable, "-m", "regard", "serve", model, "--port", "0", *more]
    words += ["--max-concurrency", "100000", "--max-seconds", "600", "--reload", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    workers = int(more[more.index("--workers") + 1]) if "--workers" in more else 1
    port = 0
    for line in process.stderr:
        if '"serving"' in line:
            port = int(json.loads(line)["address"].rpartition(":")[2])
            workers -= 1
            if not workers:
                break
    threading.Thread(target=process.stderr.read, daemon=True).start()
    try:
        yield port, process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def litserve(model: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The port and the process of LitServe around the same model."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:  # its workers import the program by its file
        program = Path(folder, "lit.py")
        program.write_text(LIT)
        process = subprocess.Popen(
            [sys.executable, str(program), model, str(port)],
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            end = time.monotonic() + 120
            first = b'{"inputs": "Guten Morgen."}'
            while asyncio.run(Connections("127.0.0.1", port).post("/predict", first)) != 200:
                if time.monotonic() > end or process.poll() is not None:
                    raise SystemExit("LitServe does not answer")
                time.sleep(0.5)
            yield port, process
        finally:
            for one in reversed(family(process.pid)):
                with suppress(OSError):
                    os.kill(one, 15)
            process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])


def family(pid: int) -> list[int]:
    """A process and those that it started."""
    found = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children = Path(f"/proc/{pid}/task/{task}/children").read_text().split()
            found += [one for child in children for one in family(int(child))]
    except OSError:
        pass
    return found


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and those that it started."""
    ticks = 0
    for one in family(pid):
        with suppress(OSError):
            row = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += int(row[11]) + int(row[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def rollup(pid: int) -> Counter[str]:
    """Kilobytes by kind, of `smaps_rollup`."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return Counter({row.split()[0][:-1]: int(row.split()[1]) for row in rows})


def mapped(pid: int) -> Counter[str]:
    """Kilobytes of weights that are mapped from files, of `smaps`."""
    found: Counter[str] = Counter()
    inside = False
    for row in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = row.split()
        if "-" in first and not first.endswith(":"):
            inside = row.endswith(".safetensors")
        elif inside and len(rest) == 2:
            found[first[:-1]] += int(rest[0])
    return found


def say(**fields: Any) -> None:
    print(json.dumps({**fields, "load": round(os.getloadavg()[0], 1)}), flush=True)


def load(options: argparse.Namespace) -> None:
    texts = texts_of(options.data, options.column, 400)
    bodies = [json.dumps({"inputs": text}).encode() for text in texts]
    servers: dict[str, Callable[[], Any]] = {
        "regard": lambda: ours(options.model, "--max-wait", "1000", *options.more),
        "one at a time": lambda: ours(options.model, "--batch-tokens", "1", "--max-wait", "1000"),
    }
    if importlib.util.find_spec("litserve"):
        servers["litserve"] = lambda: litserve(options.model)
    rates: dict[str, list[float]] = {name: [] for name in servers}
    spent: dict[str, list[float]] = {name: [] for name in servers}
    with ExitStack() as stack:
        running = {name: stack.enter_context(start()) for name, start in servers.items()}
        for port, _ in running.values():
            asyncio.run(closed(port, bodies, 8, 2))
        for _ in range(options.turns):
            for name, (port, process) in running.items():
                before = cpu_seconds(process.pid)
                rate, answered = asyncio.run(closed(port, bodies, 64, options.seconds))
                rates[name].append(rate)
                spent[name].append(answered / (cpu_seconds(process.pid) - before))
                say(what="capacity", server=name, texts_per_s=round(rate, 1), answered=answered,
                    texts_per_cpu_s=round(spent[name][-1], 1))  # fmt: skip
    for name in servers:
        for kind, numbers in (("wall", rates), ("cpu", spent)):
            ratios = sorted(a / b for a, b in zip(numbers["regard"], numbers[name], strict=True))
            middle = float(np.median(ratios))
            say(what="ratio", to=name, of=kind, min=round(ratios[0], 2), median=round(middle, 2),
                max=round(ratios[-1], 2))  # fmt: skip
    capacity = float(np.median(rates["regard"]))
    servers["regard"] = lambda: ours(options.model, "--max-wait", str(options.wait), *options.more)
    del servers["one at a time"]  # it is beyond its own capacity at all of these
    with ExitStack() as stack:
        running = {name: stack.enter_context(start()) for name, start in servers.items()}
        for share in (0.5, 0.8, 1.2):
            for name, (port, _) in running.items():
                asyncio.run(closed(port, bodies, 8, 2))
                found = asyncio.run(opened(port, bodies, share * capacity, options.seconds))
                say(what="latency", server=name, share=share, rate=round(share * capacity, 1),
                    **found)  # fmt: skip


def bare(options: argparse.Namespace) -> None:
    """How many texts the model answers in a second of CPU time, by how many at once."""
    import torch

    import regard

    torch.set_num_threads(1)
    texts = texts_of(options.data, options.column, 128)
    loaded = regard.load(options.model).with_decoder(precision=options.precision)
    loaded.predict(texts[:4])
    sizes, found = (1, 2, 4, 8, 16, 32, 64, 128), dict[int, list[float]]()
    for _ in range(options.turns):
        for size in sizes:
            some = texts[:: 128 // 32] if size == 1 else texts
            began = time.thread_time()
            for first in range(0, len(some), size):
                loaded.task.predict(
                    loaded.model, some[first : first + size], loaded.decoder, loaded.fields,
                    tokens=1 << 20,
                )  # fmt: skip
            found.setdefault(size, []).append(len(some) / (time.thread_time() - began))
    for size in sizes:
        ratios = [a / b for a, b in zip(found[size], found[1], strict=True)]
        say(what="bare", precision=options.precision, at_once=size,
            texts_per_cpu_s=round(float(np.median(found[size])), 1), min=round(min(ratios), 2),
            median=round(float(np.median(ratios)), 2), max=round(max(ratios), 2))  # fmt: skip


def memory(options: argparse.Namespace) -> None:
    body = json.dumps({"inputs": ["Das Fenster wird geschlossen."] * 4}).encode()
    for count in map(int, options.workers.split(",")):
        with ours(options.model, "--workers", str(count)) as (port, process):
            asyncio.run(closed(port, [body], 8, 5))
            every = family(process.pid)
            for pid in every:
                kinds, weights = rollup(pid), mapped(pid)
                shown = {k: round(kinds[k] / 1024, 1) for k in ("Rss", "Pss", "Private_Dirty")}
                own = {k: round(weights[k] / 1024, 1) for k in ("Rss", "Pss", "Private_Dirty")}
                say(what="process", workers=count, mib=shown, weights=own)
            total = sum(rollup(pid)["Pss"] for pid in every) / 1024
            say(what="all", workers=count, pss_mib=round(total, 1))


def soak(options: argparse.Namespace) -> None:
    texts = texts_of(options.data, options.column, 2000)
    bodies = [json.dumps({"inputs": text}).encode() for text in texts]
    with ours(options.model, *options.more) as (port, process):
        sizes: list[tuple[int, float]] = []
        done, source = 0, cycle(bodies)
        while done < options.requests:
            some = [next(source) for _ in range(1000)]
            asyncio.run(each_once(port, some))
            done += len(some)
            resident = sum(rollup(pid)["Pss"] for pid in family(process.pid)) / 1024
            sizes.append((done, resident))
            if done % (options.requests // 10 or 1) < 1000:
                say(what="memory", requests=done, pss_mib=round(resident, 1))
        late = np.array(sizes[len(sizes) // 3 :])
        slope = float(np.polyfit(late[:, 0], late[:, 1], 1)[0]) * 1024 if len(late) > 2 else 0.0
        say(what="slope", kib_per_request=round(slope, 4), requests=done)


async def each_once(port: int, bodies: list[bytes]) -> None:
    pool, rest = Connections("127.0.0.1", port), iter(bodies)

    async def ask() -> None:
        for body in rest:
            assert await pool.post("/predict", body) == 200

    await asyncio.gather(*(ask() for _ in range(32)))
    pool.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("load", "bare", "memory", "soak"))
    parser.add_argument("--model", default="de-en-small")
    parser.add_argument("--data", default="mt/de-en/test.tsv.gz")
    parser.add_argument("--column", default="other")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--wait", type=float, default=0.5, help="--max-wait at 50, 80, 120 %%")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--workers", default="1,4")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--more", nargs="*", default=[])
    options = parser.parse_args()
    {"load": load, "bare": bare, "memory": memory, "soak": soak}[options.what](options)


if __name__ == "__main__":
    main()
