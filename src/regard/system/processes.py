"""Other processes that work for this one: what they need, and those of a Ray cluster."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.errors import RegardError, RequestError
from regard.system.extras import install

__all__ = ["cluster", "environment", "failure", "python_path", "raise_said"]


@contextmanager
def cluster() -> Iterator[Any]:
    """The module `ray`, connected to a cluster.

    It is the one that the caller is connected to, else that of `RAY_ADDRESS`, else one that runs on
    this machine, else a new one here.

    Raises:
        RequestError: ray is not installed.
    """
    try:
        ray = import_module("ray")
        if ray.__spec__ is None or ray.__spec__.origin is None:  # a folder `ray` that is at hand
            raise ImportError(name="ray")
    except ImportError:
        raise RequestError(f"--engine ray needs ray: {install('ray')}") from None
    began = not ray.is_initialized()
    if began:
        ray.init(log_to_driver=False)
    try:
        yield ray
    finally:
        if began:
            ray.shutdown()


def environment(threads: int) -> dict[str, str]:
    """Where a process finds this package and data, and how many threads its libraries take."""
    found = {name: os.environ[name] for name in ("REGARD_DATA",) if name in os.environ}
    both = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return {"PYTHONPATH": python_path(), **found, **both}


def python_path() -> str:
    """`PYTHONPATH` under which a process finds this package."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(filter(None, paths))


def failure(error: Exception) -> dict[str, Any]:
    """A failure as plain values, which another process can be told."""
    if isinstance(error, RegardError):
        return {"error": str(error), "code": error.exit_code}
    said = " ".join(str(error).split()) or "no message"
    return {"error": f"unexpected {type(error).__name__}: {said}", "code": RegardError.exit_code}


def raise_said(said: Mapping[str, Any]) -> None:
    """Fail as another process has failed; nothing where it has not.

    Raises:
        RegardError: what `failure` has told.
    """
    if "error" in said:
        kind = RequestError if said["code"] == RequestError.exit_code else RegardError
        raise kind(said["error"])
