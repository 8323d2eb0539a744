"""What the server that forks has in memory before it forks: everything imported, models loaded.

Imported by name (`set_forkserver_preload`); does nothing where `REGARD_SERVE_PRELOAD` names no file
of settings. Models are used once with a short text, so that what is packed at the first use is
shared too.
"""

import gc
import json
import os
from contextlib import suppress
from pathlib import Path

from regard.serve._models import Models, Served

__all__ = ["LOADED"]

LOADED: dict[str, Served] = {}
"""The models, by name; empty where processes start afresh."""


def _load(path: Path) -> None:
    import torch

    from regard.serve.settings import Settings

    torch.set_num_threads(1)  # a pool of threads would be lost by forking
    told = json.loads(path.read_text("utf-8"))
    settings = Settings(
        models=tuple((name, folder) for name, folder in told["models"]),
        changes=tuple(told["changes"]),
        shared=Path(told["shared"]),
    )
    for one in Models(settings):
        LOADED[one.name] = one
        with suppress(Exception):  # what is no input of it says so
            one.loaded.predict(["a"])
    gc.collect()
    gc.freeze()


if "REGARD_SERVE_PRELOAD" in os.environ:
    # A folder that cannot be loaded is said by the process that serves.
    with suppress(Exception):
        _load(Path(os.environ["REGARD_SERVE_PRELOAD"]))
