"""Many files through a model: shards in, shards out, each whole or not at all.

`regard predict FOLDER -i 'corpus/*.jsonl.gz' -o out/`, and from Python:

    from regard.bulk import Order, predict_shards

    predict_shards(Order("de-en-small"), "corpus/*.jsonl.gz", "out", workers=2)
"""

from regard.bulk._order import Order as Order
from regard.bulk._run import BulkSummary as BulkSummary
from regard.bulk._run import predict_shards as predict_shards

__all__ = ["BulkSummary", "Order", "predict_shards"]
