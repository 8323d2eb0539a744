"""Scores of captions as the COCO evaluation computes them, over words divided by blanks."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from regard.errors import RequestError
from regard.metrics.overlap import longest_common_subsequence
from regard.metrics.score import References, Score, Sums, comparable, signature

__all__ = ["caption_bleu", "caption_rouge", "cider_d"]

Vector = dict[tuple[str, ...], float]


def caption_bleu(hypotheses: Sequence[str], references: References, order: int = 4) -> Score:
    """BLEU of n-grams up to `order` over words divided by blanks, without smoothing.

    With several references the one nearest in length counts for the brevity penalty. Equal to
    `pycocoevalcap`'s, but that one adds 1e-15 to every count.

    Args:
        hypotheses: one caption for each picture.
        references: the right caption of each, or several.
        order: 1 to 4.
    """
    from sacrebleu.metrics.bleu import BLEU

    if not 1 <= order <= 4:
        raise RequestError(f"caption_bleu: order is {order}; it must be from 1 to 4")
    hypotheses, found = comparable(hypotheses, references)
    most = max(map(len, found))
    several = [[own[i] if i < len(own) else None for own in found] for i in range(most)]
    metric = BLEU(tokenize="none", smooth_method="none", max_ngram_order=order, force=True)
    score = metric.corpus_score(list(hypotheses), several)  # type: ignore[arg-type]
    return Score(
        f"bleu{order}",
        float(score.score),
        signature(tok="none", smooth="none", order=order, ref="closest"),
        {"brevity_penalty": float(score.bp), "output_words": int(score.sys_len)},
    )


def caption_rouge(hypotheses: Sequence[str], references: References) -> Score:
    r"""ROUGE-L with β = 1.2, the mean over captions.

        100 (1 + β²) P R / (R + β² P)

    with P and R the largest of the longest common subsequence over the output's and over the
    reference's words; each is the largest over all references, as in `pycocoevalcap`.
    """
    beta = 1.2**2
    each = []
    for said, several in zip(*comparable(hypotheses, references), strict=True):
        words = said.split()
        precision = recall = 0.0
        for one in several:
            right = one.split()
            common = longest_common_subsequence(words, right)
            precision = max(precision, common / max(len(words), 1))
            recall = max(recall, common / max(len(right), 1))
        whole = recall + beta * precision
        each.append((1 + beta) * precision * recall / whole if whole else 0.0)
    sums = Sums.percent(np.array(each))
    return Score(
        "rougeL", 100 * float(np.mean(each)), signature(beta="1.2", tok="blanks"), {}, sums
    )


def cider_d(hypotheses: Sequence[str], references: References) -> Score:
    r"""CIDEr-D: how much a caption says what is said of its picture and not of the others.

    .. math:: \frac{10}{4 m} \sum_{n=1}^{4} \sum_{j=1}^{m} e^{-(l(c) - l(s_j))^2 / 2\sigma^2}
              \frac{\min(g^n(c), g^n(s_j)) \cdot g^n(s_j)}{\lVert g^n(c) \rVert
              \lVert g^n(s_j) \rVert}

    g counts n-grams, each times the logarithm of the number of pictures over the number of
    pictures whose references have it; σ = 6. The lengths are numbers of bigrams, as in
    `pycocoevalcap`. It depends on the whole set, so it has no interval. The value goes from 0
    to 10; papers often print it times 100.

    Source: Vedantam, Zitnick and Parikh (2015), "CIDEr: Consensus-based Image Description
    Evaluation", section 8.
    """
    hypotheses, found = comparable(hypotheses, references)
    right = [[_counts(one.split()) for one in own] for own in found]
    seen: Counter[tuple[str, ...]] = Counter()
    for several in right:
        seen.update({gram for one in several for gram in one})
    pictures = math.log(len(right))
    each = []
    for said, several in zip(hypotheses, right, strict=True):
        mine = _weighed(_counts(said.split()), seen, pictures)
        total = 0.0
        for one in several:
            own = _weighed(one, seen, pictures)
            near = math.exp(-((_bigrams(mine) - _bigrams(own)) ** 2) / (2 * 6.0**2))
            total += near * sum(_similar(mine[0][n], own[0][n]) for n in range(4)) / 4
        each.append(10 * total / len(several))
    return Score(
        "cider",
        float(np.mean(each)),
        signature(form="CIDEr-D", sigma=6, tok="blanks"),
        {"each": each},
    )


def _counts(words: Sequence[str]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for n in range(1, 5) for i in range(len(words) - n + 1))


def _weighed(
    counts: Counter[tuple[str, ...]], seen: Counter[tuple[str, ...]], pictures: float
) -> tuple[list[Vector], int]:
    """The vectors of the four orders, and how many bigrams there are."""
    found: list[Vector] = [{} for _ in range(4)]
    for gram, count in counts.items():
        found[len(gram) - 1][gram] = count * (pictures - math.log(max(seen[gram], 1)))
    return found, sum(count for gram, count in counts.items() if len(gram) == 2)


def _bigrams(weighed: tuple[list[Vector], int]) -> int:
    return weighed[1]


def _similar(one: Vector, other: Vector) -> float:
    """The cosine of two vectors, where the first has nothing beyond the second's numbers."""
    pairs = ((v, other.get(gram, 0.0)) for gram, v in one.items())
    product = sum((min(v, w) * w for v, w in pairs), 0.0)
    sizes = [math.sqrt(sum(v * v for v in own.values())) for own in (one, other)]
    return product / (sizes[0] * sizes[1]) if all(sizes) else product
