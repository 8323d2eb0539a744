r"""Word vectors from counts: what stands near what, without a network and in seconds.

.. math::
    W = U_d \sqrt{S_d}, \quad U S V^T \approx
    \max\Big(0, \log \frac{\#(w, c)\, \#}{\#(w)\, \#(c)}\Big)

with the contexts' counts flattened, :math:`\#(c)^{0.75}`. Source: Levy, Goldberg and Dagan (2015),
"Improving Distributional Similarity with Lessons Learned from Word Embeddings", section 3.
"""

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["count_vectors"]


def count_vectors(
    texts: Iterable[NDArray[np.int32]],
    vocabulary: int,
    dim: int,
    *,
    window: int = 4,
    contexts: int = 3000,
    seed: int = 1,
) -> Float[Tensor, "vocabulary dim"]:
    """Vectors of length 1 for the ids of some texts; zeros for ids that do not occur.

    Args:
        texts: ids; those from `vocabulary` on are passed over.
        vocabulary: how many ids have vectors.
        dim: of a vector; at most the contexts are that many.
        window: how far apart two words may stand; at distance k they count 1 / k.
        contexts: this many of the most frequent words are counted as context.
        seed: of the randomized decomposition.
    """
    rows = [np.asarray(text, np.int64) for text in texts]
    frequency = np.bincount(np.concatenate(rows), minlength=vocabulary)[:vocabulary]
    contexts = min(contexts, vocabulary)
    common = np.argsort(-frequency, kind="stable")[:contexts]
    column = np.full(max(vocabulary, max(int(r.max(initial=0)) for r in rows) + 1), -1)
    column[common] = np.arange(contexts)
    table = torch.zeros(vocabulary, contexts)
    counts = table.view(-1)
    for row in rows:
        for apart in range(1, window + 1):
            for one, other in ((row[:-apart], row[apart:]), (row[apart:], row[:-apart])):
                at = column[other]
                real = (one < vocabulary) & (at >= 0)
                pairs = torch.from_numpy(one[real] * contexts + at[real])
                counts.index_add_(0, pairs, torch.full((len(pairs),), 1 / apart))
    of_word = table.sum(1, keepdim=True)
    of_context = table.sum(0, keepdim=True) ** 0.75
    of_context = of_context / of_context.sum()
    ratio = table / (of_word * of_context).clamp_min(torch.finfo(torch.float32).tiny)
    information = ratio.clamp_min(1.0).log()  # positive pointwise mutual information
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        u, s, _ = torch.svd_lowrank(information, q=min(dim + 8, contexts), niter=3)
    made = torch.zeros(vocabulary, dim)
    kept = (u * s.sqrt())[:, :dim]
    made[:, : kept.shape[1]] = kept
    length: Tensor = made.norm(dim=1, keepdim=True)
    return made / length.clamp_min(1e-6)
