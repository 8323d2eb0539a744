"""Official scores, each with a signature that says exactly what was computed; all from 0 to 100."""

from regard.metrics.alignment import Links, aer, hard_alignment, read_links
from regard.metrics.classes import accuracy
from regard.metrics.distance import edit_distance, nearest_variant
from regard.metrics.interval import Difference, Interval, bootstrap, paired
from regard.metrics.labels import micro_f1
from regard.metrics.likelihood import perplexity
from regard.metrics.parsing import COLLINS, Parameters, evalb
from regard.metrics.rates import per, wer, word_error_rate
from regard.metrics.score import Score, Sums
from regard.metrics.squad import exact_match, span_f1
from regard.metrics.translation import bleu, chrf

__all__ = [
    "COLLINS",
    "Difference",
    "Interval",
    "Links",
    "Parameters",
    "Score",
    "Sums",
    "accuracy",
    "aer",
    "bleu",
    "bootstrap",
    "chrf",
    "edit_distance",
    "evalb",
    "exact_match",
    "hard_alignment",
    "micro_f1",
    "nearest_variant",
    "paired",
    "per",
    "perplexity",
    "read_links",
    "span_f1",
    "wer",
    "word_error_rate",
]
