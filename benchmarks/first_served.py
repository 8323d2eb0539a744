"""`regard serve` from the command to its first answer: where PyTorch is not installed, and where.

    python benchmarks/first_served.py [--model de-en-small] [--text "…"] [--runs 5]

Each run is a server of its own; the two roads run in turns. For the first, PyTorch and what the
whole server needs beside it are hidden from the process. One row a road: wall-clock and CPU seconds
(user and system) from the command to the first answer, the milliseconds of that answer and of a
later one (the median of 20), and the resident memory then; medians and extremes of all runs. Linux.
"""

import argparse
import http.client
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from first_answer import row

ABSENT = ("torch", "fastapi", "prometheus_client", "python_multipart", "jaxtyping")
LATER = 20
NAMES = ("wall", "cpu", "first_ms", "later_ms", "megabytes")


def hidden(place: Path) -> dict[str, str]:
    """The environment of a process that finds none of `ABSENT`, by a file in a folder."""
    text = f"import sys\nsys.modules.update(dict.fromkeys({ABSENT!r}))\n"
    (place / "sitecustomize.py").write_text(text)
    path = os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def spent(process: int) -> tuple[float, float]:
    """CPU seconds and resident megabytes of a process."""
    stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    status = Path(f"/proc/{process}/status").read_text()
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    return seconds, int(kilobytes) / 1024


def asked(address: str, text: str) -> float:
    """The milliseconds of a request."""
    began = time.monotonic()
    connection = http.client.HTTPConnection(address, timeout=60)
    body, kind = json.dumps({"inputs": text}), {"Content-Type": "application/json"}
    connection.request("POST", "/predict", body, kind)
    answer = connection.getresponse()
    if answer.status != 200:
        raise SystemExit(f"{answer.status}: {answer.read().decode()}")
    answer.read()
    connection.close()
    return (time.monotonic() - began) * 1000


def measured(model: str, text: str, environment: dict[str, str]) -> tuple[float, ...]:
    """The numbers of one server, in the order of `NAMES`."""
    command = [sys.executable, "-m", "regard", "serve", model, "--port", "0"]
    began = time.monotonic()
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        lines = (json.loads(line) for line in process.stderr if line.startswith("{"))
        record = next((one for one in lines if one.get("message") == "serving"), None)
        if record is None:
            raise SystemExit(f"{command} does not serve")
        address = record["address"].removeprefix("http://")
        first = asked(address, text)
        wall, (cpu, _) = time.monotonic() - began, spent(process.pid)
        later = statistics.median(asked(address, text) for _ in range(LATER))
        megabytes = spent(process.pid)[1]
        process.send_signal(signal.SIGTERM)
        for _ in process.stderr:
            pass
    return wall, cpu, first, later, megabytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="de-en-small")
    parser.add_argument("--text", default="Das Fenster wird geschlossen.")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    row(python=platform.python_version(), date=time.strftime("%Y-%m-%d"), model=options.model)
    with tempfile.TemporaryDirectory() as place:
        roads = {"without PyTorch": hidden(Path(place)), "with PyTorch": dict(os.environ)}
        found: dict[str, list[tuple[float, ...]]] = {road: [] for road in roads}
        for _ in range(options.runs):
            for road, environment in roads.items():
                found[road].append(measured(options.model, options.text, environment))
    for road, runs in found.items():
        each = dict(zip(NAMES, zip(*runs, strict=True), strict=True))
        row(
            road=road,
            **{
                name: [round(f(values), 2) for f in (min, statistics.median, max)]
                for name, values in each.items()
            },
        )


if __name__ == "__main__":
    main()
