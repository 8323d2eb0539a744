"""`regard serve`: models over HTTP."""

import importlib.util
import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from regard.cli._common import show_traces
from regard.cli._folder import Device
from regard.errors import RequestError
from regard.system.devices import device_named
from regard.system.extras import install

__all__ = ["serve"]

KEYS = "REGARD_SERVE_KEYS"
WHOLE = ("fastapi", "uvicorn", "prometheus_client", "python_multipart")
LIGHT = ("starlette", "uvicorn")
"""Packages that a server needs, with PyTorch and without."""
LOCAL = ("127.0.0.1", "localhost", "[::1]", "::1")


def serve(
    folders: Annotated[
        list[str],
        typer.Argument(metavar="FOLDER...", help="Trained folders, shipped names, NAME=FOLDER."),
    ],
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="0.0.0.0: every machine may ask.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="0: a free one.")] = 8000,
    workers: Annotated[
        int, typer.Option(min=1, metavar="N", help="Processes; they share the weights.")
    ] = 1,
    threads: Annotated[
        int, typer.Option(min=1, metavar="N", help="CPU threads of each process.")
    ] = 1,
    device: Device = "cpu",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the decoder (beam_size=1)."),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Bearer keys, one a line; or ${KEYS}, with commas."),
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Requests may come under this name; *: under any."),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A reverse proxy that says who the client is."),
    ] = None,
    batch_tokens: Annotated[
        int, typer.Option(min=1, metavar="N", help="Padded tokens that are answered at once.")
    ] = 4096,
    wait_ms: Annotated[
        float, typer.Option(min=0, metavar="MS", help="How long the first text waits for others.")
    ] = 3.0,
    reload: Annotated[
        float, typer.Option(min=0, metavar="S", help="Between looks at the folders; 0: never.")
    ] = 2.0,
    grace: Annotated[
        float, typer.Option(min=0, metavar="S", help="Not ready, but still here, after SIGTERM.")
    ] = 0.0,
    max_body: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Of a request.")] = 16
    * 2**20,
    max_texts: Annotated[int, typer.Option(min=1, metavar="N", help="Of a request.")] = 512,
    max_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Of a request.")] = 32_768,
    max_queue: Annotated[
        int, typer.Option(min=1, metavar="N", help="Texts that wait in a process.")
    ] = 4096,
    join: Annotated[
        bool, typer.Option("--join/--no-join", help="Texts join a beam search that is under way.")
    ] = True,
    max_wait: Annotated[
        float, typer.Option(min=0.001, metavar="S", help="That a text may expect to wait.")
    ] = 5.0,
    max_seconds: Annotated[
        float, typer.Option(min=0.001, metavar="S", help="Of a request.")
    ] = 60.0,
    max_concurrency: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests of one client at once.")
    ] = 64,
    max_streams: Annotated[
        int, typer.Option(min=1, metavar="N", help="Outputs that are streamed at once.")
    ] = 8,
    max_beam: Annotated[
        int, typer.Option(min=1, metavar="N", help="n_best and beam_size of a request.")
    ] = 32,
    max_output: Annotated[
        int, typer.Option(min=1, metavar="N", help="Lengths that a request's decoder may have.")
    ] = 1024,
    log_texts: Annotated[bool, typer.Option("--log-texts", help="Log texts, too.")] = False,
) -> None:
    """Serve models over HTTP: answers, scores, alignments, and what was looked at.

    Logs are JSON lines on stderr. SIGTERM finishes what was accepted, then ends. A folder that
    changes is loaded again without a lost request. Routes: docs/howto/serve.md, and /docs.

    Where PyTorch is not installed, folders with a program.json answer /predict by NumPy; other
    routes say that they need PyTorch.

    Examples:
        regard serve de-en-small
        regard serve de-en-small reviews=runs/classification/han --port 9000
        regard serve de-en-small --host 0.0.0.0 --keys keys.txt --workers 4
    """
    from regard.serve.settings import Limits, Settings, bound, named

    light = importlib.util.find_spec("torch") is None
    _check_extra(LIGHT if light else WHOLE)
    given = {
        "--workers": workers != 1,
        "--device": device != "cpu",
        "--batch-tokens": batch_tokens != Settings.batch_tokens,
        "--wait-ms": wait_ms / 1000 != Settings.wait,
        "--no-join": not join,
        "--max-streams": max_streams != Limits.streams,
        "--max-wait": max_wait != Limits.wait,
    }
    if light and any(given.values()):
        names = ", ".join(name for name, is_given in given.items() if is_given)
        raise RequestError(
            f"{names}: without PyTorch one process answers on the CPU, a text at a time; leave "
            "that out, or pip install torch"
        )
    there = device_named(device)
    if there != "cpu" and workers > 1:
        raise RequestError(
            f"--workers {workers}: on a GPU one process serves, whose batches are the larger; "
            "leave it out"
        )
    limits = Limits(
        body=max_body,
        texts=max_texts,
        tokens=max_tokens,
        queue=max_queue,
        wait=max_wait,
        seconds=max_seconds,
        concurrency=max_concurrency,
        streams=max_streams,
        beam=max_beam,
        output=max_output,
    )
    hosted = tuple(host_name or ())
    hosts = () if "*" in hosted or (not hosted and host not in LOCAL) else (*LOCAL, *hosted)
    settings = Settings(
        models=named(folders),
        host=host,
        port=port,
        limits=limits,
        changes=tuple(changes or ()),
        batch_tokens=batch_tokens,
        join=join,
        wait=wait_ms / 1000,
        threads=threads,
        device=there,
        keys=_keys(keys),
        hosts=hosts,
        proxy=tuple(proxy or ()),
        reload=reload,
        grace=grace,
        log_texts=log_texts,
    )
    level = logging.DEBUG if show_traces() else logging.getLogger("regard").level
    try:
        listening = bound(settings)
    except (OSError, OverflowError) as error:
        raise RequestError(f"{host}:{port}: {error}") from None
    address, number = listening.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    ready = partial(_tell, f"http://{shown}:{number}", level)
    with listening:
        if light:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", str(threads))  # before NumPy is imported
            from regard.serve.without_torch import serve as light_run

            light_run(settings, [listening], level, ready)
            return
        if workers == 1:
            from regard.serve.server import serve as run

            run(settings, [listening], level=level, ready=ready)
            return
        from regard.serve.workers import serve_together

        if code := serve_together(settings, listening, workers, level, ready):
            raise typer.Exit(code)


def _tell(address: str, level: int) -> None:
    """Print the address when it answers, for people: logs are JSON by then."""
    if level <= logging.INFO:
        typer.echo(f"{address}  (Ctrl-C ends it)", err=True)


def _check_extra(names: Sequence[str]) -> None:
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise RequestError(f"this needs {name}: {install('serve')}")


def _keys(path: Path | None) -> tuple[str, ...]:
    """The keys of a file or of the environment.

    Raises:
        RequestError: there is none in the file, or one that no header can hold.
    """
    if path is not None:
        lines = path.read_text("utf-8").splitlines()
        given = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not given:
            raise RequestError(f"{path}: expected a key in a line, got none")
    else:
        given = [key.strip() for key in os.environ.get(KEYS, "").split(",") if key.strip()]
    for key in given:
        if not key.isascii() or not key.isprintable() or " " in key or len(key) < 8:
            raise RequestError("keys: expected 8 or more ASCII characters without blanks each")
    return tuple(given)
