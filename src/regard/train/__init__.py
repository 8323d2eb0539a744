"""Training: recipes in, folders out. `engine.py` alone knows the training engine underneath."""

from typing import Any

__all__ = ["fit"]


def __getattr__(name: str) -> Any:
    if name == "fit":
        from regard.train.run import fit

        return fit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
