"""What a tree may go on with in NumPy is what it may go on with in PyTorch, at every step."""

import numpy as np
import pytest
import torch

from regard.decode.rules.trees import Trees
from regard.runtime import tree_rule
from regard.runtime.special_ids import EOS
from regard.runtime.tree_rule import TreeRule, TreeSymbols

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
PLAIN = [*SPECIAL, "(S", ")S", "(NP", ")NP", "XX", ".", "(VP", ")VP"]
NUMBERED = [*SPECIAL, "(S", ")S", "(NP", ")NP", "XX0", "XX1", "XX2", ","]
ANY_END = [*SPECIAL, "(S", ")S", "(NP", ")", "XX", ")NP"]


def may(rule, read):
    scores = torch.zeros(1, len(read), len(rule.kind))
    rows = torch.zeros(1, dtype=torch.int64)
    return (rule(scores, torch.from_numpy(read)[None], rows)[0] == 0).numpy()


@pytest.mark.parametrize("vocabulary", [PLAIN, NUMBERED, ANY_END], ids=["plain", "numbers", ")"])
@pytest.mark.parametrize(("words", "limit"), [(1, 9), (3, 14), (4, 40), (5, 4)])
def test_every_step_of_drawn_trees(vocabulary, words, limit):
    random = np.random.default_rng(words)
    symbols, rule = TreeSymbols(vocabulary), Trees(vocabulary, [words], [limit])
    own = TreeRule(symbols, words, limit)
    ended = 0
    for _ in range(40):
        read = np.zeros((1, 0), np.int64)
        for _ in range(limit):
            free = own(read)
            np.testing.assert_array_equal(free, may(rule, read))
            choices = np.flatnonzero(free[0])
            if not len(choices):
                break
            token = random.choice(choices)
            if token == EOS:
                ended += 1
                break
            read = np.concatenate([read, [[token]]], 1)
    assert ended == 40 or limit <= words


def test_several_hypotheses_and_what_no_tree_begins_with():
    symbols, rule = TreeSymbols(PLAIN), Trees(PLAIN, [3], [30])
    read = np.array([[4, 6, 8], [8, 8, 8], [5, 5, 4], [4, 5, 7], [2, 0, 3]])
    np.testing.assert_array_equal(TreeRule(symbols, 3, 30)(read), may(rule, read))


def test_runs_and_depths_end_where_they_end_in_pytorch():
    rule = Trees(PLAIN, [200], [900])
    assert (rule.run, rule.deepest) == (tree_rule.RUN, tree_rule.DEEPEST)
    own = TreeRule(TreeSymbols(PLAIN), 200, 900)
    for read in ([4] * 11, [4] * 12, [4, 8] * 99, [4, 8] * 100):
        given = np.array([read])
        np.testing.assert_array_equal(own(given), may(rule, given))
