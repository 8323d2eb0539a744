"""The rule for well-formed trees: against all trees there are, and on models that know nothing."""

import itertools
import math

import pytest
import torch

from regard.data.annotations.linearized_trees import rebuilt
from regard.decode import Beam, Greedy, Sample
from regard.decode.rules.forbidden_words import Avoid
from regard.decode.rules.trees import Trees
from regard.models.luong import Luong
from regard.models.transformer import Transformer
from regard.protocols import EOS, PAD

SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]
SMALL = [*SPECIALS, "XX", "(A", ")A", "(B", ")B"]
LARGE = [*SPECIALS, "XX", ",", *(side + x for x in ("S", "NP", "VP", "PP") for side in "()")]


def forests(words, room, run, deepest):
    """All sequences of nodes with so many words and at most `room` tokens, by the grammar."""
    if not words:
        return [[]]
    found = []
    for first in range(1, words + 1):
        for node in nodes(first, room, run, deepest):
            found += [
                node + rest for rest in forests(words - first, room - len(node), run, deepest)
            ]
    return [symbols for symbols in found if len(symbols) <= room]


def nodes(words, room, run, deepest):
    """A word, or a constituent."""
    if room < words:
        return []
    found = [["XX"]] if words == 1 else []
    if deepest and room > words + 1:
        for label in "AB":
            inner = forests(words, room - 2, run, deepest - 1)
            found += [["(" + label, *symbols, ")" + label] for symbols in inner]
    return found


def longest_run(symbols):
    return max((len(list(own)) for opens, own in itertools.groupby(s[0] == "(" for s in symbols)
                if opens), default=0)  # fmt: skip


def allowed(rule, read, row=0):
    """The ids that may follow `read` in a sentence."""
    scores = torch.zeros(1, 1, rule.kind.numel())
    said = rule(scores, torch.tensor([[read]], dtype=torch.int64), torch.tensor([row]))[0, 0]
    return [i for i, score in enumerate(said.tolist()) if score != -math.inf]


@pytest.mark.parametrize(
    ("words", "limit", "run", "deepest"),
    [
        (1, 2, 9, 9),
        (1, 9, 9, 9),
        (1, 9, 2, 9),
        (2, 8, 9, 9),
        (2, 9, 9, 1),
        (3, 8, 9, 9),
        (2, 3, 9, 9),
    ],
)
def test_what_can_be_written_is_every_tree(words, limit, run, deepest):
    rule = Trees(SMALL, [words], [limit], run=run, deepest=deepest)
    written, open_ = [], [[]]
    while open_:
        read = open_.pop()
        for token in allowed(rule, read):
            if token == EOS:
                written.append([SMALL[i] for i in read])
            else:
                open_.append([*read, token])
        assert allowed(rule, read), "a hypothesis that cannot go on"
    trees = [s for s in forests(words, limit - 1, run, deepest) if longest_run(s) <= run]
    assert sorted(written) == sorted(trees)
    assert trees


def test_one_symbol_that_closes_whatever_is_open():
    rule = Trees([*SPECIALS, "XX", "(A", "(B", ")"], [1], [9])
    assert allowed(rule, [5]) == [4, 5, 6]  # not empty
    assert allowed(rule, [5, 6, 4]) == [7]
    assert allowed(rule, [5, 6, 4, 7, 7]) == [EOS]


def test_numbered_tags_come_in_order():
    rule = Trees([*SPECIALS, "XX0", "XX1", ",", "(A", ")A"], [4], [30])
    assert allowed(rule, [7]) == [4, 6, 7]
    assert allowed(rule, [7, 4]) == [5, 6, 7, 8]
    assert allowed(rule, [7, 4, 6, 8, 4]) == [5, 6, 7]


def test_a_limit_that_no_tree_fits():
    """Tags until the limit, and never an end before the last word."""
    rule = Trees(SMALL, [5], [3])
    assert [allowed(rule, [4] * n) for n in range(4)] == [[4]] * 4


def random_model(kind):
    torch.manual_seed(1)
    if kind is Luong:
        return Luong(9, len(LARGE), embed=8, hidden=8, layers=1)
    return Transformer(9, len(LARGE), dim=8, heads=2, layers=1, ffn_dim=8, tied="none")


SOURCE = torch.full((6, 14), 5)
COUNTS = [13, 9, 5, 3, 2, 1]
for row, count in enumerate(COUNTS):
    SOURCE[row, count], SOURCE[row, count + 1 :] = EOS, PAD

DECODERS = {
    "greedy": Greedy(max_ratio=3.0, max_extra=3),
    "beam": Beam(4, n_best=4, length_penalty=0.0, max_ratio=3.0, max_extra=3),
    "wide": Beam(7, n_best=7, length_penalty=1.0, max_ratio=1.0, max_extra=0, diversity_rate=0.1),
    "sample": Sample(n_best=5, temperature=3.0, max_ratio=4.0, max_extra=0),
    "top": Sample(n_best=3, top_k=2, max_ratio=3.0, max_extra=3, no_repeat_ngram=0),
}


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("kind", [Transformer, Luong])
def test_models_that_know_nothing_write_trees(kind, name):
    decoder, model = DECODERS[name], random_model(kind)
    rule = Trees(LARGE, COUNTS, [decoder.limit(n + 1) for n in COUNTS])
    found = decoder(model, SOURCE, rules=[rule])
    for count, hypotheses in zip(COUNTS, found, strict=True):
        assert hypotheses
        for one in hypotheses:
            assert one.tokens[-1] == EOS, "cut at the limit"
            _, whole = rebuilt([LARGE[i] for i in one.tokens[:-1]], ["w"] * count)
            assert whole
    freely = decoder(model, SOURCE)
    assert not all(
        rebuilt([LARGE[i] for i in h.tokens if i > 3], ["w"] * n)[1] and h.tokens[-1] == EOS
        for n, some in zip(COUNTS, freely, strict=True)
        for h in some
    )


def test_beside_other_rules_and_in_other_orders():
    """A sentence's rule goes by its place in the batch, whoever has left it."""
    model = random_model(Transformer)
    decoder = DECODERS["beam"]
    spelled = [f" {symbol}" for symbol in LARGE]
    limits = [decoder.limit(n + 1) for n in COUNTS]
    together = [Avoid([[" (PP"]] * 6, spelled), Trees(LARGE, COUNTS, limits)]
    found = decoder(model, SOURCE, rules=together)
    for at, hypotheses in enumerate(found):
        length = COUNTS[at] + 1
        alone = decoder(
            model, SOURCE[at : at + 1, :length], rules=[
                Avoid([[" (PP"]], spelled), Trees(LARGE, COUNTS[at : at + 1], limits[at : at + 1])
            ],
        )[0]  # fmt: skip
        assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]
        assert all(LARGE.index("(PP") not in h.tokens for h in hypotheses)
