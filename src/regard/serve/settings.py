"""What a server is told: its limits, and everything else. Imports nothing heavy."""

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from regard.errors import RequestError

__all__ = ["Limits", "Settings", "bound", "named"]

COUNTED = ("min_length", "max_length", "max_extra")
"""Settings of decoders that are lengths."""


@dataclass(frozen=True)
class Limits:
    """How much a request, a client and all of them together may ask for.

    Args:
        body: bytes of a request.
        texts: inputs of a request.
        tokens: of all inputs of a request.
        queue: inputs that wait in a process.
        wait: seconds that a text may expect to wait; where it is more, requests are refused.
        seconds: of a request, from its first byte to its answer.
        concurrency: requests of one client at once, in a process.
        streams: outputs that are streamed at once, in a process.
        beam: `n_best` and `beam_size`.
        output: `min_length`, `max_length` and `max_extra` of a request's decoder.
    """

    body: int = 16 * 2**20
    texts: int = 512
    tokens: int = 32_768
    queue: int = 4_096
    wait: float = 5.0
    seconds: float = 60.0
    concurrency: int = 64
    streams: int = 8
    beam: int = 32
    output: int = 1_024

    def __post_init__(self) -> None:
        for one in fields(self):
            if not getattr(self, one.name) > 0:
                raise RequestError(
                    f"--max-{one.name}: expected a number above 0, got {getattr(self, one.name)}"
                )

    def check_decode(self, n_best: int, decode: Mapping[str, Any]) -> None:
        """Refuse settings of a request's decoder that ask for too much.

        Raises:
            RequestError: one does.
        """
        widest = {"n_best": n_best, "beam_size": decode.get("beam_size", 1)}
        for name, value in widest.items():
            if isinstance(value, int) and value > self.beam:
                raise RequestError(f"{name}: at most {self.beam} here, got {value}")
        for name in COUNTED:
            value = decode.get(name)
            if isinstance(value, int | float) and value > self.output:
                raise RequestError(f"decode.{name}: at most {self.output} here, got {value}")
        ratio = decode.get("max_ratio")
        if isinstance(ratio, int | float) and ratio > 10:
            raise RequestError(f"decode.max_ratio: at most 10 here, got {ratio}")
        if "precision" in decode:
            raise RequestError("decode.precision: the server's is used; leave it out")


@dataclass(frozen=True)
class Settings:
    """Everything that a process that serves has to know; plain values, as it may be another one.

    Args:
        models: a name and a folder, or a shipped name, each.
        changes: `--set KEY=VALUE` for the decoders or tasks of all models.
        batch_tokens: padded tokens that are answered at once.
        join: texts join the beam search that is under way, in place of waiting for its end.
        wait: seconds that a text waits for others where nothing is being computed.
        threads: CPU threads of a process.
        device: `cpu` or `cuda`.
        keys: of which a request must have one; none: everybody may ask.
        hosts: names under which requests may come; none: any.
        proxy: addresses of reverse proxies whose `X-Forwarded-For` is believed.
        reload: seconds between looks at the folders; 0: never.
        grace: seconds from SIGTERM in which `/ready` says 503 before connections are refused.
        log_texts: requests are logged with their texts.
        shared: a folder for weights that several processes map into memory; None: one process.
    """

    models: tuple[tuple[str, str], ...]
    host: str = "127.0.0.1"
    port: int = 8000
    limits: Limits = field(default_factory=Limits)
    changes: tuple[str, ...] = ()
    batch_tokens: int = 4_096
    join: bool = True
    wait: float = 0.003
    threads: int = 1
    device: str = "cpu"
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    proxy: tuple[str, ...] = ()
    reload: float = 2.0
    grace: float = 0.0
    log_texts: bool = False
    shared: Path | None = None


def named(folders: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """A name for each folder: `NAME=FOLDER`, else the folder's own.

    Raises:
        RequestError: two would have one name.
    """
    found: dict[str, str] = {}
    for given in folders:
        name, equals, folder = given.partition("=")
        if not equals or "/" in name or Path(given).is_dir():
            name, folder = Path(given).resolve().name, given
        if not name.isprintable() or not name:
            raise RequestError(f"{given!r}: expected a name, as in NAME=FOLDER")
        if name in found:
            raise RequestError(
                f"{found[name]} and {folder} would both be called {name!r}; say NAME=FOLDER"
            )
        found[name] = folder
    if not found:
        raise RequestError("expected a folder or a shipped name to serve, got none")
    return tuple(found.items())


def bound(settings: Settings) -> socket.socket:
    """A socket at the address, which does not listen yet; with port 0 one that is free.

    Raises:
        OSError: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((settings.host, settings.port))
        made.set_inheritable(True)
    except BaseException:
        made.close()
        raise
    return made
