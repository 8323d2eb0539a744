"""Many files through a model: shards in, shards out, each whole or not at all.

`regard predict FOLDER -i 'corpus/*.jsonl.gz' -o out/`, and from Python:

    from regard.bulk import Order, predict_shards

    predict_shards(Order("de-en-small"), "corpus/*.jsonl.gz", "out", workers=2)

The names are loaded at their first use: `regard predict --help` imports no torch.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.bulk.order import Order as Order
    from regard.bulk.run import BulkSummary as BulkSummary
    from regard.bulk.run import predict_shards as predict_shards

__all__ = ["BulkSummary", "Order", "predict_shards"]

_HOMES = {"Order": "order", "BulkSummary": "run", "predict_shards": "run"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name from its home, once."""
        if name not in _HOMES:
            raise AttributeError(f"module 'regard.bulk' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"regard.bulk.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
