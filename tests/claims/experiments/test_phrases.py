"""Phrases of a tree, and where a head looks from them."""

import torch

from regard.claims.experiments.phrases import by_word, in_own_phrase, innermost
from regard.data.annotations.trees import Tree

TREE = Tree.parse(
    "(TOP (S (NP (DT the) (NN law)) (VP (VBZ helps) (PP (IN in) (NP (NN court)))) (. .)))"
)


def test_the_innermost_phrase_has_two_words_and_is_not_the_sentence():
    noun, verb, prepositional = ("NP", 0, 2), ("VP", 2, 5), ("PP", 3, 5)
    assert innermost(TREE) == [noun, noun, verb, prepositional, prepositional, None]


def test_a_head_is_inside_where_it_looks_at_a_word_of_the_same_phrase():
    looked = torch.tensor([[1, 0, 3, 4, 3, 0], [5, 2, 1, 2, 0, 0]])
    assert in_own_phrase(looked, innermost(TREE)).tolist() == [[1.0] * 5, [0.0] * 5]


def test_pieces_of_a_word_look_on_average_and_are_looked_at_together():
    """Two words, of two pieces and of one; the last row and column are the end."""
    weights = torch.tensor(
        [[[0.5, 0.2, 0.3, 0.0], [0.1, 0.0, 0.7, 0.2], [0.3, 0.3, 0.2, 0.2], [0.25] * 4]]
    )
    joined = by_word(weights, [0, 0, 1])
    torch.testing.assert_close(joined, torch.tensor([[[-1.0, 0.5], [0.6, -1.0]]]))
