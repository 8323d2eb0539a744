"""A server under load: how many texts a second, how long they take, and how much memory it has.

    python benchmarks/serve.py load   [--model de-en-small --data FILE --column other]
    python benchmarks/serve.py memory [--workers 1,4]
    python benchmarks/serve.py soak   [--requests 100000]

`load` pairs `regard serve` with the same server that answers one text at a time
(`--batch-tokens 1`), and with LitServe around the same model where it is installed (batches of up
to 64, the same 3 ms of waiting), in turns: first how many texts a second 64 connections get out of
each, then latencies at 50, 80 and 120 % of what ours did. Requests there are sent at a constant
rate, whatever has been answered, and a latency counts from when the request was due, not from when
it could be sent (no coordinated omission). The client is a process of its own on the same machine:
it takes CPU time from every server alike.
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
from contextlib import contextmanager, suppress
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


async def closed(port: int, bodies: list[bytes], many: int, seconds: float) -> float:
    """Texts a second with so many connections that each wait for their answer."""
    pool, source, count = Connections("127.0.0.1", port), cycle(bodies), 0
    end = time.monotonic() + seconds

    async def ask() -> None:
        nonlocal count
        while time.monotonic() < end:
            status = await pool.post("/predict", next(source))
            count += status == 200 and time.monotonic() < end

    await asyncio.gather(*(ask() for _ in range(many)))
    return count / seconds


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
    found = np.percentile(took, [50, 95, 99]) * 1000 if took else [0, 0, 0]
    made = {f"p{p}_ms": round(float(v), 1) for p, v in zip((50, 95, 99), found, strict=True)}
    served = statuses[200] / (time.monotonic() - began)
    return {**made, "served_per_s": round(served, 1), "statuses": dict(statuses)}


@contextmanager
def ours(model: str, *more: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The port and the process of `regard serve`."""
    words = [sys.executable, "-m", "regard", "serve", model, "--port", "0", *more]
    words += ["--max-concurrency", "100000", "--reload", "0"]
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
        "regard": lambda: ours(options.model, "--max-wait", "1000"),
        "one at a time": lambda: ours(options.model, "--batch-tokens", "1", "--max-wait", "1000"),
    }
    if importlib.util.find_spec("litserve"):
        servers["litserve"] = lambda: litserve(options.model)
    rates: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(options.turns):
        for name, start in servers.items():
            with start() as (port, _process):
                asyncio.run(closed(port, bodies, 8, 2))
                rates[name].append(asyncio.run(closed(port, bodies, 64, options.seconds)))
            say(what="capacity", server=name, texts_per_s=round(rates[name][-1], 1))
    for name in servers:
        ratios = sorted(a / b for a, b in zip(rates["regard"], rates[name], strict=True))
        middle = float(np.median(ratios))
        say(what="ratio", to=name, min=round(ratios[0], 2), median=round(middle, 2),
            max=round(ratios[-1], 2))  # fmt: skip
    capacity = float(np.median(rates["regard"]))
    servers["regard"] = lambda: ours(options.model, "--max-wait", str(options.wait))
    for share in (0.5, 0.8, 1.2):
        for name, start in servers.items():
            if name == "one at a time":
                continue  # it is beyond its own capacity at all of these
            with start() as (port, _process):
                asyncio.run(closed(port, bodies, 8, 2))
                found = asyncio.run(opened(port, bodies, share * capacity, options.seconds))
            say(what="latency", server=name, share=share, rate=round(share * capacity, 1), **found)


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
    for _, writer in pool.free:
        writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("load", "memory", "soak"))
    parser.add_argument("--model", default="de-en-small")
    parser.add_argument("--data", default="mt/de-en/test.tsv.gz")
    parser.add_argument("--column", default="other")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--wait", type=float, default=0.5, help="--max-wait at 50, 80, 120 %%")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--workers", default="1,4")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--more", nargs="*", default=[])
    options = parser.parse_args()
    {"load": load, "memory": memory, "soak": soak}[options.what](options)


if __name__ == "__main__":
    main()
