"""C34 to C43: training the Transformer, prediction."""

from collections.abc import Mapping, Sequence

from regard.claims.claim import Claim, quote
from regard.claims.rules import AllOf, EverySeed, Exact, IntervalAbove, Significant

__all__ = ["THEMES"]

RESULTS = "docs/results.md"

TRAINING = [
    Claim(
        "C34",
        "Without residual connections deeper networks fit even the training set worse.",
        "He 2015; survey",
        AllOf(
            (
                EverySeed("12 without", above=0, minus="2 without"),
                EverySeed("12 without", above=0, minus="12 with"),
            )
        ),
        "training loss without residual connections {2 without:.2f} with 2 layers, "
        "{12 without:.2f} with 12; with them {2 with:.2f} and {12 with:.2f}",
        "depth:residuals",
        seconds=150,
        note="Encoders that reverse strings of 12 of 16 symbols, pre-norm, 200 updates; a blind "
        "guess has 2.77.",
    ),
    Claim(
        "C35",
        "Layer norm of an example does not depend on its batch; batch norm does.",
        "survey (Ba 2016)",
        AllOf(
            (
                Exact("change by layer norm"),
                EverySeed("change by batch norm", above=0.01),
            )
        ),
        "six others in the batch change an example by {change by layer norm:.0e} (layer norm) and "
        "{change by batch norm:.1f} (batch norm)",
        "equalities:norms",
        seconds=1,
        note="Batch norm as in training; in evaluation it uses means of the training.",
    ),
    Claim(
        "C36",
        "Dropout helps against over-fitting.",
        "Vaswani 2017, Table 3, row D",
        Significant("dropout over none", "p of dropout over none", sign=-1),
        "PER {none:.2f} without dropout, {dropout:.2f} with 0.2",
        "trainings:dropout",
        seconds=500,
        note="Pronunciations: 1,000 words to learn from, read sixty times by a small Transformer. "
        "A narrower one (188,000 parameters) on 4,000 words did not over-fit in thirty passes, and "
        "dropout made it worse there: PER 36.65 with 0.2, 30.88 without.",
    ),
    Claim(
        "C37",
        "Label smoothing worsens perplexity and helps the score.",
        "Vaswani 2017, 5.4 and Table 3, row D",
        AllOf(
            (
                EverySeed("perplexity, smoothed", above=0, minus="perplexity, none"),
                Significant("smoothed over none", "p of smoothed over none", sign=-1),
            )
        ),
        "perplexity of a phoneme {perplexity, none:.3f} without, {perplexity, smoothed:.3f} with "
        "0.1; PER {none:.2f} and {smoothed:.2f}",
        "trainings:smoothing",
        seconds=500,
        note="Pronunciations: 20,000 words to learn from, read eight times by a small Transformer. "
        "It under-fits then; a longer training may decide otherwise.",
    ),
    Claim(
        "C38",
        "The learning rate has to warm up.",
        "Vaswani 2017, 5.3",
        EverySeed("post-norm", above=0.5, minus="post-norm, warmed up", other=0),
        "training loss of post-norm {post-norm:.2f} without warm-up, {post-norm, warmed up:.2f} "
        "with it; of pre-norm {pre-norm:.2f} and {pre-norm, warmed up:.2f}",
        "warmup:warm_up",
        seconds=250,
        note="Twelve layers that reverse strings of 12 of 16 symbols, 400 updates by Adam; the "
        "better of the rates 0.001 and 0.003 counts, with a warm-up of 100 updates or none. "
        "Post-norm, as published, learns little in so few updates, with a warm-up or without (a "
        "blind guess has 2.77); a longer training may part them. Pre-norm learns without a "
        "warm-up, and a little sooner than with one: there the rate need not warm up.",
    ),
    Claim(
        "C39",
        "Bigger models are better.",
        "Vaswani 2017, Table 3, row C",
        EverySeed("smaller", above=0, minus="wider"),
        "PER {wider:.2f} with 4.9 M parameters, {smaller:.2f} with 2.6 M",
        quotes=(
            quote(
                RESULTS,
                "2 seeds: PER 6.91 and 7.03",
                "regard train pronunciation/transformer-cmudict --seeds 1-2",
                {"smaller": [6.91, 7.03]},
            ),
            quote(
                RESULTS,
                "| PER 6.85, WER 28.62 |",
                "regard train pronunciation/transformer-cmudict model.dim=256 model.ffn_dim=768 "
                "model.dropout=0.25 train.epochs=30 train.optimizer.lr=0.0015",
                {"wider": [6.85, 6.85]},
            ),
        ),
        note="The wider one was trained twice as long. Layers were not varied.",
    ),
    Claim(
        "C40",
        "The Transformer has the best BLEU at a fraction of the cost.",
        "Vaswani 2017, Table 2",
        AllOf(
            (
                EverySeed("Transformer", above=0, minus="next best"),
                EverySeed("its CPU-seconds", below=0, minus="those of the next best"),
            )
        ),
        "BLEU {Transformer:.2f} in {its CPU-seconds:,.0f} CPU-s; ConvS2S {next best:.2f} in "
        "{those of the next best:,.0f}",
        quotes=(
            quote(
                RESULTS,
                "60 passes (3,436 CPU-s on a Zen 5, in bfloat16, beside another training), "
                "2 seeds: 41.10 and 40.81",
                "regard train translation/transformer-tiny-multi30k --seeds 1-2",
                {"Transformer": [41.10, 40.81], "its CPU-seconds": 3436},
            ),
            quote(
                RESULTS,
                "| BLEU 39.05, chrF 50.06 |",
                "regard train translation/convs2s-multi30k",
                {"next best": [39.05, 39.05]},
            ),
            quote(
                RESULTS,
                "11.6 M parameters, 14 passes (about 2,000 CPU-s)",
                "regard train translation/convs2s-multi30k",
                {"those of the next best": 2000},
            ),
        ),
        note="It is the best of twelve models, not the cheapest: on one thread nothing is gained "
        "by reading all words at once. Open: scores at equal processor time.",
    ),
    Claim(
        "C41",
        "The Transformer carries over to parsing.",
        "Vaswani 2017, Table 4",
        EverySeed("Transformer", above=0, minus="LSTM+A"),
        "labelled F1 {Transformer:.2f} (Transformer, 2,400 CPU-s), {LSTM+A:.2f} (LSTM+A, 800)",
        quotes=(
            quote(
                RESULTS,
                "| F1 80.46 (recall 79.92, precision 81.01)",
                "regard train parsing/transformer-ewt",
                {"Transformer": 80.46},
            ),
            quote(
                RESULTS,
                "| labelled F1 83.08 (recall 82.31, precision 83.87;",
                "regard train parsing/lstm-a-ewt",
                {"LSTM+A": 83.08},
            ),
        ),
        note="One seed, 10,450 sentences to learn from. It parses; it is not the better parser "
        "on so little data.",
    ),
]

PREDICTION = [
    Claim(
        "C42",
        "Masked attention over the true labels replaces the decoder's recurrence: one parallel "
        "pass equals step by step.",
        "survey",
        AllOf((Exact("step by step"), Exact("by later labels"))),
        "one pass and nine steps differ by {step by step:.0e}; later labels change nothing",
        "equalities:one_pass",
        seconds=1,
        note="A Transformer with random weights; tests/contract holds it for every generator.",
    ),
    Claim(
        "C43",
        "In use the model reads its own labels, not the true ones, and errors add up.",
        "survey",
        AllOf(
            (
                IntervalAbove("interval of the gap"),
                IntervalAbove("interval of late minus early"),
            )
        ),
        "phonemes 1 and 8 wrong: {wrong after own[0]:.1%} and {wrong after own[7]:.1%} after own "
        "labels, {wrong after true[0]:.1%} and {wrong after true[7]:.1%} after true ones",
        "own_labels:own_labels",
        seconds=10,
        note="400 words of 8 to 12 phonemes, place by place: one phoneme too many shifts all "
        "that follow, which counts as wrong here.",
    ),
]

THEMES: Mapping[str, Sequence[Claim]] = {
    "Training the Transformer": TRAINING,
    "Prediction (教师强制)": PREDICTION,
}
