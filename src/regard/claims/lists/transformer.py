"""C18 to C43: self-attention, heads, positions, training the Transformer, prediction."""

from collections.abc import Mapping, Sequence

from regard.claims.claim import Claim, Quote, quote
from regard.claims.rules import (
    AllOf,
    EverySeed,
    Exact,
    IntervalAbove,
    NearMedian,
    Significant,
)

__all__ = ["THEMES"]

RESULTS, PAPER = "docs/results.md", "docs/papers/transformer.md"
SMALL = (
    "regard compare translation/transformer-tiny-multi30k model.layers=2 model.norm=post "
    "data.tokenizer.vocab_size=4000 train.epochs=7 task.bpe_dropout=0 train.average=0 "
    "train.batch.tokens=2048 'train.schedule={name: cosine, warmup: 300}' train.validate.every=0 "
    "--seeds 1-2 --vary="
)
"""A Transformer of 2 + 2 layers of 128, seven passes over Multi30k; published sizes differ."""
BUDGET = "Two layers of 128, seven passes over Multi30k, two seeds."


def varied(change: str, text: str, difference: float, p: float, name: str = "difference") -> Quote:
    """A row of the table in docs/papers/transformer.md: a difference in BLEU and its p."""
    values = {name: difference, f"p of {name}" if name != "difference" else "p": p}
    return quote(PAPER, text, SMALL + change, values)


SELF_ATTENTION = [
    Claim(
        "C18",
        "Self-attention costs n²d, recurrence nd², convolution knd², restricted attention rnd.",
        "Vaswani 2017, Table 1",
        AllOf(
            (
                NearMedian("attention in n", 2),
                NearMedian("attention in d", 1),
                NearMedian("recurrence in n", 1),
                NearMedian("recurrence in d", 2),
                NearMedian("convolution in n", 1),
                NearMedian("convolution in d", 2, within=0.2),
            )
        ),
        "attention n^{attention in n:.2f} d^{attention in d:.2f}, "
        "recurrence n^{recurrence in n:.2f} d^{recurrence in d:.2f}",
        quotes=(
            quote(
                "docs/streaming.md",
                "| self-attention | n2 d | n^1.94 d^0.93 |",
                "regard bench complexity",
                {"attention in n": 1.94, "attention in d": 0.93},
            ),
            quote(
                "docs/streaming.md",
                "| recurrent | n d2 | n^1.03 d^1.93 |",
                "regard bench complexity",
                {"recurrence in n": 1.03, "recurrence in d": 1.93},
            ),
            quote(
                "docs/streaming.md",
                "| convolutional | k n d2 | n^0.96 d^1.83 |",
                "regard bench complexity",
                {"convolution in n": 0.96, "convolution in d": 1.83},
            ),
        ),
        note="Sequential operations and longest paths are traced, not timed: all are as printed "
        "(docs/streaming.md). Restricted attention has n^0.82 d^0.77: at these sizes a part of "
        "its time does not grow.",
    ),
    Claim(
        "C19",
        "Self-attention is cheaper than recurrence while n is below d.",
        "Vaswani 2017, 4",
        AllOf(
            (
                EverySeed("ratio at half of d", below=1),
                EverySeed("ratio at twice d", above=1),
            )
        ),
        "times as long as a GRU, with projections: {ratio at half of d:.2f} at n = d/2, "
        "{ratio at twice d:.2f} at 2 d, {ratio at 8 d:.2f} at 8 d",
        "timing:crossing",
        seconds=10,
        note="Counted in multiplications the two are equal at n = d. By the clock attention is "
        "cheaper far beyond: one product over all positions runs faster than a step for each.",
    ),
    Claim(
        "C20",
        "A short path makes far dependencies learnable; recurrent networks find them hard.",
        "Vaswani 2017, 4",
        AllOf(
            (
                EverySeed("longest by attention", above=0, minus="longest by GRU"),
                EverySeed("longest by dilated", above=0, minus="longest by GRU"),
            )
        ),
        "90 % right up to a distance of {longest by GRU:.0f} (GRU), {longest by dilated:.0f} "
        "(dilated convolutions), {longest by attention:.0f} (attention)",
        "far_recall:far_recall",
        seconds=60,
    ),
    Claim(
        "C21",
        "It reads whole sequences at once, so it trains faster.",
        "Vaswani 2017, Table 2",
        EverySeed("RNNsearch", above=0, minus="Transformer"),
        "PER {Transformer:.2f} in 1,800 CPU-s (Transformer), {RNNsearch:.2f} in 1,646 (RNNsearch)",
        quotes=(
            quote(
                RESULTS,
                "2 seeds: PER 6.91 and 7.03",
                "regard train pronunciation/transformer-cmudict --seeds 1-2",
                {"Transformer": [6.91, 7.03]},
            ),
            quote(
                RESULTS,
                "trained again on a Zen 5 in bfloat16 (1,646 CPU-s) 6.79 and 29.10",
                "regard train pronunciation/rnnsearch-cmudict",
                {"RNNsearch": [6.79, 6.79]},
            ),
        ),
        note="One thread of a CPU, short words: there is nothing to do at the same time. The "
        "claim is about many processors; the same two trainings on a GPU are what it would take.",
    ),
    Claim(
        "C22",
        "Restricted to r neighbors, self-attention suits long inputs.",
        "Vaswani 2017, 4",
        AllOf((EverySeed("times as fast", above=1), NearMedian("exponent of T", 1.0))),
        "a window at 8,192 positions: {times as fast:.0f} times as fast, T^{exponent of T:.2f}",
        quotes=(
            quote(
                "docs/streaming.md",
                "| window-8192 | f | 40 (38.4-44.6), T^0.90 |",
                "regard bench kernels window-8192",
                {"times as fast": 40, "exponent of T": 0.90},
            ),
        ),
        note="That is its cost. Its quality was measured on short captions alone: a window of 5 "
        "gains 1.98 BLEU there (docs/papers/transformer.md).",
    ),
    Claim(
        "C23",
        "The Transformer wins because the words of one side also look at each other.",
        "survey",
        note="Open: `model.attention.window=1` leaves cross-attention alone; 170 CPU-seconds a "
        "run of the small Transformer.",
    ),
    Claim(
        "C24",
        "Convolutions need many layers to see far; about ten are good.",
        "survey, by its own tests",
        note="Open: `translation/convs2s-multi30k` with 1 to 12 layers, three passes and 430 "
        "CPU-seconds each. With 4 and 3 layers it has BLEU 39.05 after 14 passes.",
    ),
    Claim(
        "C25",
        "All attention maps a query, keys and values; mostly the keys are the values.",
        "survey; Vaswani 2017",
        note="Open: a count over the catalog.",
    ),
]

HEADS = [
    Claim(
        "C26",
        "One head is worse than several; too many are worse, too, and so are small keys.",
        "Vaswani 2017, Table 3, rows A and B",
        AllOf(
            (
                Significant("one head", "p of one head", sign=-1),
                Significant("32 heads", "p of 32 heads", sign=-1),
                Significant("keys of 16", "p of keys of 16", sign=-1),
            )
        ),
        "BLEU against 4 heads: one {one head:+.2f}, 32 {32 heads:+.2f}, "
        "keys of 16 {keys of 16:+.2f}",
        quotes=(
            varied("model.heads=4,1", "-1.65 (p 0.001)", -1.65, 0.001, "one head"),
            varied("model.heads=4,32", "-4.89 (p 0.001)", -4.89, 0.001, "32 heads"),
            varied("model.attention.head_dim=32,16", "-1.85 (p 0.001)", -1.85, 0.001, "keys of 16"),
        ),
        note=BUDGET,
    ),
    Claim(
        "C27",
        "Heads look at different sub-spaces.",
        "Vaswani 2017, 3.2.2",
        IntervalAbove("interval"),
        "mean divergence of two heads of a layer: {trained:.2f} bits trained, {random:.2f} with "
        "random queries and keys",
        "seen:heads_apart",
        seconds=15,
        note="The interval is of the difference over 200 sentences. Heads look at different "
        "places; whether they do so in different sub-spaces the divergence does not say.",
    ),
    Claim(
        "C28",
        "One head averages: it fetches one fact where two heads fetch two.",
        "survey",
        EverySeed("two heads", above=0.2, minus="one head", other=0.0),
        "both facts: {one head:.0%} with one head, {two heads:.0%} with two",
        "heads:two_facts",
        seconds=18,
        note="One head does average, but by unequal parts (the larger and the smaller weight are "
        "among the values), and a linear layer can take an unequal sum of two words apart. With "
        "equal parts the order of the two facts would be lost.",
    ),
]

POSITIONS = [
    Claim(
        "C29",
        "Without positions a sentence is a bag of words.",
        "Vaswani 2017, 3.5",
        AllOf(
            (
                Exact("change without positions"),
                EverySeed("change with sinusoids", above=0.01),
                Significant(sign=-1),
            )
        ),
        "shuffled words give the same outputs, shuffled; {difference:+.2f} BLEU without positions",
        "positions:bag_of_words",
        seconds=1,
        quotes=(varied("model.position.kind=sinusoid,none", "-3.81 (p 0.001)", -3.81, 0.001),),
        note=BUDGET,
    ),
    Claim(
        "C30",
        "PE(p + k) is one linear map of PE(p), whatever p is.",
        "Vaswani 2017, 3.5",
        Exact("largest error"),
        "largest error {largest error:.0e} over p and k up to 128",
        "positions:linear_map",
        seconds=1,
        note="The map turns each pair of sine and cosine by k times its frequency.",
    ),
    Claim(
        "C31",
        "Learned positions are as good as sinusoids.",
        "Vaswani 2017, Table 3, row E",
        AllOf((EverySeed("difference", above=-0.5), EverySeed("difference", below=0.5))),
        "learned positions {difference:+.2f} BLEU (p {p:.2f})",
        quotes=(varied("model.position.kind=sinusoid,learned", "+0.41 (p 0.173)", 0.41, 0.173),),
        note=BUDGET,
    ),
    Claim(
        "C32",
        "Sinusoids carry over to lengths that training never had.",
        "Vaswani 2017, 3.5, as a hope",
        note="A slow test asserts the opposite for y_i = x_i + x_(i-1): accuracy below 0.7 at "
        "twice the length, and above 0.95 at four times with relative positions "
        "(tests/models/test_transformer.py). Open: on text.",
    ),
    Claim(
        "C33",
        "Relative positions beat absolute ones.",
        "Shaw 2018, Table 1",
        Significant(),
        "relative positions {difference:+.2f} BLEU (p {p:.3f})",
        quotes=(varied("model.position.kind=sinusoid,shaw", "+3.59 (p 0.001)", 3.59, 0.001),),
        note=BUDGET + " After so short a training it is also how soon a model learns.",
    ),
]

TRAINING = [
    Claim(
        "C34",
        "Without residual connections deeper networks fit even the training set worse.",
        "He 2015; survey",
        note="Open: an encoder of 12 layers that reverses strings, with and without; no model "
        "has such a setting yet.",
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
        note="Open: `pronunciation/transformer-cmudict` with `model.dropout=0,0.1,0.2` over "
        "several passes of a part of the data, three seeds.",
    ),
    Claim(
        "C37",
        "Label smoothing worsens perplexity and helps the score.",
        "Vaswani 2017, 5.4 and Table 3, row D",
        note="Open: `task.smoothing=0,0.1,0.2` on pronunciations, 60 CPU-seconds each.",
    ),
    Claim(
        "C38",
        "The learning rate has to warm up.",
        "Vaswani 2017, 5.3",
        note="A slow test has a deep post-norm Transformer fail without warm-up where pre-norm "
        "learns (tests/models/test_transformer.py). Open: post-norm with warm-up beside it.",
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
    "Self-attention (自注意力)": SELF_ATTENTION,
    "Many heads (多头)": HEADS,
    "Positions (位置)": POSITIONS,
    "Training the Transformer": TRAINING,
    "Prediction (教师强制)": PREDICTION,
}
