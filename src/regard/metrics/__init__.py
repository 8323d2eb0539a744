"""Official scores, each with a signature that says exactly what was computed; all from 0 to 100."""

from regard.metrics.alignment import Links, aer, hard_alignment, read_links
from regard.metrics.calibration import (
    ReliabilityBin,
    expected_calibration_error,
    fit_temperature,
    reliability,
)
from regard.metrics.captions import caption_bleu, caption_rouge, cider_d
from regard.metrics.classification import accuracy, directed_f1, f1_of, macro_f1
from regard.metrics.correlation import mean_squared_error, pearson, spearman
from regard.metrics.distance import edit_distance, nearest_variant
from regard.metrics.error_rates import cer, per, wer, word_error_rate
from regard.metrics.likelihood import perplexity
from regard.metrics.multilabel import micro_f1
from regard.metrics.parsing import COLLINS, Parameters, evalb
from regard.metrics.ranking import mean_average_precision, mean_reciprocal_rank
from regard.metrics.roles import Proposition, srl_eval
from regard.metrics.score import Score, Sums
from regard.metrics.significance import Difference, Interval, bootstrap, holm, paired
from regard.metrics.spans import conlleval, seqeval_strict
from regard.metrics.squad import exact_match, span_f1
from regard.metrics.summary_rouge import rouge
from regard.metrics.summary_statistics import copied_names, length_ratio, novelty, repetition
from regard.metrics.translation import bleu, chrf

__all__ = [
    "COLLINS",
    "Difference",
    "Interval",
    "Links",
    "Parameters",
    "Proposition",
    "ReliabilityBin",
    "Score",
    "Sums",
    "accuracy",
    "aer",
    "bleu",
    "bootstrap",
    "caption_bleu",
    "caption_rouge",
    "cer",
    "chrf",
    "cider_d",
    "conlleval",
    "copied_names",
    "directed_f1",
    "edit_distance",
    "evalb",
    "exact_match",
    "expected_calibration_error",
    "f1_of",
    "fit_temperature",
    "hard_alignment",
    "holm",
    "length_ratio",
    "macro_f1",
    "mean_average_precision",
    "mean_reciprocal_rank",
    "mean_squared_error",
    "micro_f1",
    "nearest_variant",
    "novelty",
    "paired",
    "pearson",
    "per",
    "perplexity",
    "read_links",
    "reliability",
    "repetition",
    "rouge",
    "seqeval_strict",
    "span_f1",
    "spearman",
    "srl_eval",
    "wer",
    "word_error_rate",
]
