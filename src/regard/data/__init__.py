"""Data: readers of the field's formats, tokenizers, batches by a token budget."""

from regard.data.batch import PairBatch, collate, plan
from regard.data.formats import Row, read
from regard.data.problems import Problem, Problems
from regard.data.sources import find
from regard.data.text.tokenizer import Encoding, Tokenizer, word_groups

__all__ = [
    "Encoding",
    "PairBatch",
    "Problem",
    "Problems",
    "Row",
    "Tokenizer",
    "collate",
    "find",
    "plan",
    "read",
    "word_groups",
]
