"""The operation once more, slowly, in NumPy and float64: loops over rows, queries and keys."""

import numpy as np


def slow_attend(query, key, value, score, mask=None, temperature=1.0):
    """(B, Q, Dq), (B, K, Dk), (B, K, Dv), score(q, k, j) -> float; mask (B, Q, K) or None."""
    batch, queries, keys = query.shape[0], query.shape[1], key.shape[1]
    context = np.zeros((batch, queries, value.shape[-1]))
    weights = np.zeros((batch, queries, keys))
    for b in range(batch):
        for i in range(queries):
            seen = [j for j in range(keys) if mask is None or mask[b, i, j]]
            if not seen:
                continue
            e = np.array([score(query[b, i], key[b, j], j) for j in seen]) / temperature
            w = np.exp(e - e.max())
            w /= w.sum()
            for j, x in zip(seen, w, strict=True):
                weights[b, i, j] = x
                context[b, i] += x * value[b, j]
    return context, weights
