"""Do heads learn the structure of sentences (C69)? `en-de-small` on trees of the English Web."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard import load, watch
from regard.claims.claim import Measured
from regard.claims.experiments.seen import interval
from regard.data.annotations.trees import Tree
from regard.data.files.registry import read
from regard.data.sources import find
from regard.protocols import EOS
from regard.views.charts import Chart, Matrix

__all__ = ["Phrase", "in_own_phrase", "innermost", "phrases"]

TREES = "parsing/ewt-test.trees.gz"
COUNT = 500
LABELS = ("NP", "PP", "VP", "S")
POSITIONS = ("word before", "word after")
Phrase = tuple[str, int, int]


def innermost(tree: Tree) -> list[Phrase | None]:
    """Of each word its smallest phrase of two words or more; None if that is the sentence."""
    count = len(tree.words())
    own: list[Phrase | None] = [None] * count
    spans = [one for one in tree.brackets() if 1 < one[2] - one[1] < count]
    for label, start, end in sorted(spans, key=lambda one: one[1] - one[2]):
        for word in range(start, end):
            own[word] = (label, start, end)
    return own


def in_own_phrase(looked: Tensor, own: Sequence[Phrase | None]) -> Tensor:
    """Whether each head looks, from each word that has a phrase, at a word of that phrase.

    Shapes:
        looked (heads, words), the word that each looks at most, to (heads, words with a phrase)
    """
    real = [(word, one) for word, one in enumerate(own) if one is not None]
    inside = [(looked[:, word] >= one[1]) & (looked[:, word] < one[2]) for word, one in real]
    return torch.stack(inside, 1).float()


def by_word(weights: Tensor, words: Sequence[int]) -> Tensor:
    """Weights (heads, pieces, pieces) to (heads, words, words): the mean from, the sum at pieces.

    A word's weight at itself becomes -1, so that it is never the largest.
    """
    to = torch.zeros(len(words), max(words) + 1)
    to[torch.arange(len(words)), torch.tensor(words)] = 1.0
    weights = weights[:, : len(words), : len(words)]
    joined: Tensor = (to / to.sum(0)).T @ weights @ to
    return joined - torch.eye(to.shape[1]) * (1 + joined)


@torch.no_grad()
def phrases(seeds: Sequence[int]) -> Measured:
    """How often a word's largest weight lies in its own phrase: by head, and by position alone.

    The best head, and the better of "the word before" and "the word after", are chosen on one
    half of 500 sentences of 6 to 25 words and tried on the other; a difference for each sentence.
    """
    loaded = load("en-de-small")
    model: Any = loaded.model
    each, by_label = list[Tensor](), dict[str, list[Tensor]]()
    for row in read(find(TREES), {"tree": "tree"}):
        tree = Tree.parse(str(row.fields["tree"]))
        words, own = tree.words(), innermost(tree)
        encoding = loaded.tokenizers["source"].encode(" ".join(words))
        # words as the tokenizer has them, and a phrase somewhere
        if not 6 <= len(words) <= 25 or not any(own) or max(encoding.words) + 1 != len(words):
            continue
        with watch(model) as seen:
            model.encode(torch.tensor([[*encoding.ids, EOS]]))
        weights = torch.cat([seen[layer].weights[0] for layer in seen])
        place = torch.arange(len(words))
        ways = [by_word(weights, encoding.words).argmax(-1)]
        ways += [(place - 1).abs()[None], (place + 1 - 2 * (place + 1 == len(words)).long())[None]]
        inside = in_own_phrase(torch.cat(ways), own)
        each.append(inside.mean(1))
        for column, one in zip(inside.T, filter(None, own), strict=True):
            by_label.setdefault(one[0], []).append(column)
        if len(each) == COUNT:
            break
    share = torch.stack(each)  # (sentences, heads and then positions)
    half, heads = len(share) // 2, share.shape[1] - len(POSITIONS)
    mean = share[:half].mean(0)
    best, position = int(mean[:heads].argmax()), heads + int(mean[heads:].argmax())
    gain = share[half:, best] - share[half:, position]
    values = {
        "sentences": [float(len(share) - half)],
        "best head": [float(share[half:, best].mean())],
        "position": [float(share[half:, position].mean())],
        "all heads": [float(share[half:, :heads].mean())],
        "interval of the gain": interval(gain),
    }
    names = [f"{n // 4 + 1}.{n % 4 + 1}" for n in range(heads)] + list(POSITIONS)
    table = [torch.stack(by_label[label]).mean(0) for label in LABELS]
    relations = Matrix("share by phrase", names, LABELS, torch.stack(table, 1).tolist())
    bars = {name: values[name] for name in ("best head", "position", "all heads")}
    return Measured(values, [relations, Chart("in one's own phrase", y="share", bars=bars)])
