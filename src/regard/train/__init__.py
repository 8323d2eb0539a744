"""Training: recipes in, model folders out. Only `engine.py` uses the training engine."""

from typing import Any

__all__ = ["fit"]


def __getattr__(name: str) -> Any:
    if name == "fit":
        from regard.train.run import fit

        return fit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
