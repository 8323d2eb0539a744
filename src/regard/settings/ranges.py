"""How large or small a number in a recipe, or in a model folder's `config.json`, may be.

Constructors say the types; the ranges stand here, once for all of them, by the section a setting is
in and its name. Upper ends are far above everything that was ever trained: they are there so that
a folder from somewhere else cannot ask for a billion layers.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.errors import RequestError

__all__ = ["RANGES", "Range", "range_of", "within"]


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; `open` leaves out the ends that it names: "low", "high".

    Example:
        >>> 1 in Range(0, 1), 1 in Range(0, 1, "high"), str(Range(0, 1, "high"))
        (True, False, 'from 0 to below 1')
    """

    low: float | int
    high: float | int
    open: str = ""

    def __contains__(self, value: float | int) -> bool:
        above = self.low < value if self.open == "low" else self.low <= value
        below = value < self.high if self.open == "high" else value <= self.high
        return above and below

    def __str__(self) -> str:
        low = f"above {self.low:,}" if self.open == "low" else f"from {self.low:,}"
        return f"{low} to {'below ' if self.open == 'high' else ''}{self.high:,}"


NUMBER = Range(-(10**9), 10**9)
"""Every number of which nothing else is said."""
SEED = Range(0, 2**32 - 1)  # NumPy's
WIDTH = Range(1, 1_000_000)
LAYERS = Range(1, 1000)
HEADS = Range(1, 10_000)
LENGTH = Range(1, 1_000_000)
SHARE = Range(0, 1, "high")
"""What is dropped, mixed or smoothed: all of it would leave nothing."""
FACTOR = Range(0, 10**9)
POSITIVE = Range(0, 10**9, "low")
COUNT = Range(0, 10**9)
SOME = Range(1, 10**9)
TOKENS = Range(0, 100_000)
"""Of an output: what a decoder may write."""

RANGES: Mapping[str, Mapping[str, Range]] = {
    "model": {
        **dict.fromkeys(
            """
            in_features num_answers num_auxiliary num_classes num_names num_pointers num_relations
            num_tags source_dim source_vocab_size target_vocab_size vocab_size
            """.split(),
            Range(1, 100_000_000),
        ),
        **dict.fromkeys(
            """
            align dim embed ffn_dim head_dim hidden maxout pruned rank value_head_dim filters
            width widths character character_hidden characters context feature mark more slices
            source_embed state
            """.split(),
            WIDTH,
        ),
        **dict.fromkeys(("blocks", "decoder_layers", "hops", "layers", "sets"), LAYERS),
        **dict.fromkeys(("heads", "output_heads"), HEADS),
        **dict.fromkeys(("experts", "k"), WIDTH),
        **dict.fromkeys(
            (
                "attention_dropout",
                "activation_dropout",
                "dropout",
                "embed_dropout",
                "noise",
                "lstm_dropout",
                "output_dropout",
                "score_dropout",
                "word_dropout",
                "concept_dropout",
                "cue_dropout",
            ),
            SHARE,
        ),
        **dict.fromkeys(("length", "longest", "max_length", "memory"), LENGTH),
        **dict.fromkeys(("clip", "window"), LENGTH),
        **dict.fromkeys(("epsilon", "ratio", "scale", "sharpen"), POSITIVE),
        **dict.fromkeys(("decoder", "dilations", "encoder", "kernel"), WIDTH),
        **dict.fromkeys(("core", "glimpse"), WIDTH),
        **dict.fromkeys(("convolutions", "glimpses", "ngrams", "parts", "paths"), LAYERS),
        "buckets": Range(1, 100_000_000),
        "dim_filters": Range(0, 1_000_000),
        "in_channels": Range(1, 4096),
        "scales": Range(1, 16),
        **dict.fromkeys(("grid", "side"), Range(1, 4096)),
        "join": Range(1, 1000),
        "expected": Range(0, 1),
        "sigma": POSITIVE,
        **dict.fromkeys(
            (
                "distances",
                "extra",
                "feature_columns",
                "first",
                "linear",
                "num_cues",
                "num_features",
                "reach",
                "regions",
                "keep",
                "motion",
            ),
            Range(0, 1_000_000),
        ),
        **dict.fromkeys(
            (
                "balance",
                "coverage",
                "ctc",
                "doubly",
                "entropy",
                "max_norm",
                "bias_rate",
                "penalty",
                "reinforce",
                "slope",
                "diversity",
                "margin",
            ),
            FACTOR,
        ),
        "alpha": FACTOR,
        "num_characters": COUNT,
        **dict.fromkeys(("forget_bias", "start"), Range(-1000, 1000)),
        "attention": WIDTH,  # of queries and keys; ConvS2S: which decoder layers attend
    },
    "task": {
        "smoothing": SHARE,
        **dict.fromkeys(
            ("anonymous", "block", "context", "facts", "longest", "max_document", "max_source"),
            SOME,
        ),
        "coverage_after": FACTOR,
        **dict.fromkeys(("focal", "linear_start", "names", "numbers", "vectors"), FACTOR),
        **dict.fromkeys(("bpe_dropout", "names_share"), Range(0, 1)),
        "cues": Range(0, 10_000_000),
        "neighbors": SOME,
        **dict.fromkeys(("lead_sentences", "lead_words", "oracle_sentences", "read_source"), COUNT),
        "extraction": Range(-1000, 1000),
        "tune_extraction": COUNT,
        "outside": Range(-1000, 1000),
        "beam": Range(1, 1000),
        "filters": Range(1, 1000),
        "frames": Range(1, 10_000),
        "rate": Range(4_000, 192_000),
        "reinforce": FACTOR,
        "channels": Range(1, 3),
        "size": Range(2, 4096),
        "temperature": POSITIVE,
        "threshold": Range(0, 1),
        "window": Range(0, 1_000_000),
    },
    "task.scene": {
        **dict.fromkeys(("cell", "copies", "mark", "piece", "size"), Range(1, 4096)),
        "clutter": Range(0, 4096),
        "seed": SEED,
    },
    "task.vary": {
        "copies": Range(1, 4096),
        **dict.fromkeys(("blur", "light", "shift", "turn", "zoom"), Range(0, 90)),
        "seed": SEED,
    },
    "task.guided": {"head": SOME, "weight": FACTOR},
    "task.scheduled": {"floor": Range(0, 1), "k": POSITIVE, "slope": FACTOR},
    "task.risk": {
        "after": COUNT,
        "alpha": POSITIVE,
        "samples": Range(1, 100_000),
        "weight": Range(0, 1),
    },
    "task.pointing": {"others": FACTOR, "weight": FACTOR},
    "task.self_critical": {"after": COUNT, "max_length": Range(1, 100_000), "weight": Range(0, 1)},
    "decode": {
        "beam_size": Range(1, 1000),
        "n_best": Range(1, 100_000),
        "patience": Range(1, 10**9),
        **dict.fromkeys(("coverage_penalty", "diversity_rate", "length_penalty"), FACTOR),
        "max_ratio": Range(0, 100),
        "max_length": Range(1, 100_000),
        **dict.fromkeys(("max_extra", "min_length", "no_repeat_ngram"), TOKENS),
        "repetition_penalty": Range(1, 10**9),
        "temperature": FACTOR,
        "top_k": COUNT,
        "top_p": Range(0, 1, "low"),
        "seed": SEED,
    },
    "train": {"seed": SEED, "threads": Range(1, 1024)},
    "train.optimizer": {
        **dict.fromkeys(("eps", "lr", "weight_decay"), FACTOR),
        **dict.fromkeys(("betas", "momentum"), SHARE),
        "rho": Range(0, 1),
    },
    "train.schedule": {
        **dict.fromkeys(("final", "start", "warmup"), FACTOR),
        "dim": WIDTH,
        "every": POSITIVE,
        "factor": Range(0, 1, "low"),
        "least": Range(0, 1),
        "threshold": POSITIVE,
    },
    "data": {
        **dict.fromkeys(("last_words", "limit", "max_length", "sample"), SOME),
        "columns": SOME,
    },
    "data.dev": {"share": Range(0, 1), "seed": SEED},
    "data.vectors": {"most": COUNT},
    "data.stream": {"buffer": SOME, "lanes": Range(1, 10_000)},
    "data.tokenizer": {"min_count": SOME, "vocab_size": Range(5, 100_000_000)},
}
"""Section -> setting -> what its numbers may be, those in a list or under keys too."""


def range_of(key: str) -> Range:
    """The range of a setting by its dotted key; of something inside it, that of what it is in.

    Example:
        >>> str(range_of("model.layers")), str(range_of("data.tokenizer.source.vocab_size"))
        ('from 1 to 1,000', 'from 5 to 100,000,000')
        >>> range_of("data.limit.train") == range_of("data.limit")
        True
    """
    parts = key.split(".")
    for last in range(len(parts) - 1, 0, -1):
        for end in range(last, 0, -1):
            section = RANGES.get(".".join(parts[:end]), {})
            if parts[last] in section:
                return section[parts[last]]
    return NUMBER


def within(key: str, value: Any, where: Callable[[str], str] = lambda key: "") -> None:
    """Refuse a value with a number that its setting cannot have; NaN and infinity are in no range.

    Args:
        key: the dotted key.
        value: a number, or a list or mapping of whatever depth that holds some.
        where: gives the place of a dotted key, for the error; "" for none.

    Raises:
        RequestError: the key, what was expected, what was given.
    """
    if isinstance(value, Mapping):
        for name, item in value.items():
            within(f"{key}.{name}", item, where)
    elif isinstance(value, list | tuple):
        for item in value:
            within(key, item, where)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        bounds = range_of(key)
        if not (math.isfinite(value) and value in bounds):
            place = f"{where(key)}: ".removeprefix(": ")
            raise RequestError(f"{place}{key}: expected a number {bounds}, got {value!r}")
