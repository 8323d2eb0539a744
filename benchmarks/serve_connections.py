"""Thousands of connections that do no good, and a few clients that must not notice.

    python benchmarks/serve_connections.py [--connections 5000 --rounds 3]

A round opens so many connections to one `regard serve`, in turns of these kinds, and leaves them
open: silent; half of a request's head; half of a body; vanished (no word, not even an end); a body
that is no JSON; one that is no UTF-8; one beyond the limit; a request that is no HTTP; an answer
that is never read. Meanwhile and afterwards `--clients` connections ask for translations, one after
the other: all must be answered with 200. Then all that is left is dropped, and the server's files
and memory are looked at: they must be those of the round before.
"""

import argparse
import asyncio
import json
import os
import resource
import socket
import struct
import time
from collections import Counter
from itertools import cycle, islice
from typing import Any

from serve import Connections, family, ours, rollup, say, texts_of

HEAD = "POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def _body(content: bytes) -> bytes:
    return f"{HEAD}Content-Length: {len(content)}\r\n\r\n".encode() + content


KINDS: dict[str, tuple[bytes, set[int]]] = {
    "silent": (b"", set()),
    "half a head": (HEAD[:50].encode(), set()),
    "half a body": (f'{HEAD}Content-Length: 500\r\n\r\n{{"inputs": '.encode(), {408, 429}),
    "vanished": (HEAD[:20].encode(), set()),
    "no JSON": (_body(b'{"inputs": ['), {422}),
    "no UTF-8": (_body(b'{"inputs": "\xff\xfe\xc3"}'), {422}),
    "too large": (f"{HEAD}Content-Length: 99999999999\r\n\r\n{{".encode(), {413}),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 \r\n\r\n", {400}),
    "never read": (_body(b'{"inputs": ""}'), {200}),
}
"""What each sends, and the statuses that may come."""


async def opened(port: int, kind: str) -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    loop = asyncio.get_running_loop()
    for again in range(50):  # a full backlog refuses for a moment
        try:
            await loop.sock_connect(made, ("127.0.0.1", port))
            break
        except (ConnectionError, TimeoutError):
            await asyncio.sleep(0.05 * (again + 1))
    with_data, _ = KINDS[kind]
    if with_data:
        await loop.sock_sendall(made, with_data)
    if kind == "vanished":  # no FIN: what a pulled cable leaves is a reset, or nothing at all
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        made.close()
    return made


async def told(made: socket.socket, wait: float) -> int:
    """The status that came; 0: none."""
    try:
        got = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(made, 4096), wait)
    except (OSError, TimeoutError):
        return 0
    return int(got[9:12]) if got.startswith(b"HTTP/1.1 ") else 0


async def one_round(port: int, pid: int, many: int, clients: int, bodies: list[bytes]) -> Any:
    pool, source, going = Connections("127.0.0.1", port), cycle(bodies), True
    good: Counter[int] = Counter()

    async def ask() -> None:
        while going:
            good[await pool.post("/predict", next(source))] += 1

    asking = [asyncio.create_task(ask()) for _ in range(clients)]
    kinds = [*islice(cycle(KINDS), many)]
    limit = asyncio.Semaphore(200)

    async def open_one(kind: str) -> socket.socket:
        async with limit:
            return await opened(port, kind)

    bad = await asyncio.gather(*map(open_one, kinds))
    await asyncio.sleep(2)
    statuses: dict[str, Counter[int]] = {kind: Counter() for kind in KINDS}
    wrong = []
    for kind, made in zip(kinds, bad, strict=True):
        expected = KINDS[kind][1]
        if kind in ("vanished", "never read"):
            continue
        status = await told(made, 60 if expected and kind != "half a body" else 0.001)
        statuses[kind][status] += 1
        if status not in (expected or {0}) and not (kind == "half a body" and status == 0):
            wrong.append((kind, status))
    files = len(os.listdir(f"/proc/{pid}/fd"))  # all that can be answered has been
    for made in bad:
        made.close()
    await asyncio.sleep(1)
    going = False
    await asyncio.gather(*asking)
    pool.close()
    counted = {kind: dict(found) for kind, found in statuses.items() if found}
    return dict(good), counted, files, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="de-en-small")
    parser.add_argument("--data", default="mt/de-en/test.tsv.gz")
    parser.add_argument("--column", default="other")
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < options.connections + 300:
        raise SystemExit(f"{hard} files may be open (ulimit -n): too few for this")
    if soft < options.connections + 300:
        resource.setrlimit(resource.RLIMIT_NOFILE, (options.connections + 300, hard))
    texts = [text for text in texts_of(options.data, options.column, 400) if len(text) < 60]
    bodies = [json.dumps({"inputs": text}).encode() for text in texts]
    lost = 0
    with ours(options.model, "--max-wait", "1000") as (port, process):
        asyncio.run(one_round(port, process.pid, 20, options.clients, bodies))
        for number in range(options.rounds):
            began = time.monotonic()
            good, statuses, files, wrong = asyncio.run(
                one_round(port, process.pid, options.connections, options.clients, bodies)
            )
            time.sleep(2)
            after = len(os.listdir(f"/proc/{process.pid}/fd"))
            pss = sum(rollup(pid)["Pss"] for pid in family(process.pid)) / 1024
            lost += sum(count for status, count in good.items() if status != 200)
            say(what="round", number=number + 1, connections=options.connections, answered=good,
                statuses=statuses, unexpected=len(wrong), files=files, files_after=after,
                pss_mib=round(pss, 1), seconds=round(time.monotonic() - began, 1))  # fmt: skip
        alive = process.poll() is None
    say(what="all", alive=alive, requests_lost=lost)


if __name__ == "__main__":
    main()
