"""Encoders that somebody else has trained: local folders of Hugging Face, run on our attention.

`open_encoder` reads a folder without transformers, pickles or code of its own. An `Encoder` gives
the states of texts; `words_from` joins them to the words of a task.
"""

from regard.encoders.encoder import Encoder, PieceStates
from regard.encoders.opening import open_encoder, stamp
from regard.encoders.words import words_from

__all__ = ["Encoder", "PieceStates", "open_encoder", "stamp", "words_from"]
