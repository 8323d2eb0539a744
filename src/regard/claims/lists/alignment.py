"""C01 to C17: why attention, its kinds, its scores."""

from collections.abc import Mapping, Sequence

from regard.claims.claim import Claim, quote
from regard.claims.rules import AllOf, EverySeed, Exact, Median, NearMedian, Widens

__all__ = ["THEMES"]

RESULTS = "docs/results.md"
BY_LENGTH = (
    "python benchmarks/by_length.py "
    "runs/translation/rnn-encoder-decoder-multi30k runs/translation/rnnsearch-multi30k"
)

WHY = [
    Claim(
        "C01",
        "A vector of fixed length loses more the longer the sentence; attention loses less.",
        "Bahdanau 2014, Figure 2",
        Widens("with attention", minus="without"),
        "BLEU {with attention[0]:.1f} with, {without[0]:.1f} without up to 8 words; "
        "{with attention[4]:.1f}, {without[4]:.1f} over 18",
        quotes=(
            quote(
                RESULTS,
                "| `rnnsearch` (additive attention) | 37.1 | 42.6 | 41.5 | 36.7 | 35.4 | 22.8 |",
                BY_LENGTH,
                {"with attention": [42.6, 41.5, 36.7, 35.4, 22.8]},
            ),
            quote(
                RESULTS,
                "| `rnn-encoder-decoder` (one vector, seen at every step) | 29.6 | 39.0 | 34.6 "
                "| 28.2 | 26.3 | 14.4 |",
                BY_LENGTH,
                {"without": [39.0, 34.6, 28.2, 26.3, 14.4]},
            ),
        ),
        note="One seed of each, both of GRUs, after as many passes at the same rate.",
    ),
    Claim(
        "C02",
        "The fall is worst beyond the longest training sentence, and attention mends it.",
        "survey",
        EverySeed("attention at 16", above=0.9),
        "trained on 1 to 8 symbols, right at 8 and at 16: {one vector at 8:.0%}, "
        "{one vector at 16:.0%} (one vector), {attention at 8:.0%}, {attention at 16:.0%} "
        "(attention), {walking window at 8:.0%}, {walking window at 16:.0%} (a walking window)",
        "fixed_vector:beyond_training",
        seconds=70,
        note="The fixed vector falls early and evenly; attention falls steeply just behind its "
        "training lengths. It removes the bottleneck, not the need to generalize: a window that "
        "walks along the source has learned nothing about length, and holds.",
    ),
    Claim(
        "C03",
        "To pack a sentence into a vector loses information: a larger vector holds a longer one.",
        "survey",
        EverySeed("64 cells", above=0, minus="8 cells"),
        "half of the symbols come back up to a length of {8 cells:.1f}, {16 cells:.1f}, "
        "{32 cells:.1f} and {64 cells:.1f} with 8, 16, 32 and 64 cells",
        "fixed_vector:lossy",
        seconds=35,
        note="After 250 updates, so this is what is learned soon, not the most that fits.",
    ),
    Claim(
        "C04",
        "Without attention every source word counts the same for every target word.",
        "survey",
        EverySeed("evenness, one vector", above=0.95),
        "entropy of a row of gradients over its largest: {evenness, one vector:.2f} with one "
        "vector, {evenness, attention:.2f} with attention",
        "fixed_vector:source_gradients",
        seconds=40,
        note="1 is even. With one vector the rows are nearly even, on the border of the rule "
        "(0.95); with attention they are not.",
    ),
    Claim(
        "C05",
        "The weights are an alignment of words.",
        "Bahdanau 2014, 5.2.1; Luong 2015, 5.4",
        EverySeed("alignment error rate", below=20),
        "alignment error rate {alignment error rate:.1f} % of the largest weights, on copies",
        "fixed_vector:alignment",
        seconds=28,
        note="Copies have one true link a word. Text would need gold links, which no included set "
        "has.",
    ),
    Claim(
        "C06",
        "Attention costs hardly more time than the same model without it.",
        "survey",
        Median("ratio", below=1.1),
        "a training step takes {ratio at 20:.1f}, {ratio at 40:.1f} and {ratio at 80:.1f} times "
        "as long at 20, 40 and 80 words",
        "timing:cost_of_attention",
        seconds=30,
        note="That is this package on a CPU. Without attention the decoder is one recurrence in C "
        "over the whole target; with it every step waits for a look at the source, so the steps "
        "are taken one by one.",
    ),
    Claim(
        "C07",
        "Reading the source backwards helps a single vector.",
        "Sutskever 2014, 3.3",
        EverySeed("backwards", above=0, minus="forwards"),
        "{backwards:.0%} of five symbols right backwards, {forwards:.0%} forwards",
        "fixed_vector:backwards",
        seconds=25,
        note="On made strings. On text, `translation/seq2seq-multi30k model.reverse=false`, it "
        "was not measured.",
    ),
]

KINDS = [
    Claim(
        "C08",
        "Soft attention trains by back-propagation; hard attention samples, so it is slower.",
        "Xu 2015, 4",
        EverySeed("soft", above=0, minus="hard"),
        "{soft:.0f} % of the words right (soft), {hard:.0f} % (hard) after 1,200 updates",
        quotes=(
            quote(
                RESULTS,
                "after 1,200 updates 70.4 and 69.6 beside 77.6 and 78.9",
                "python benchmarks/captioned_digits.py --updates 1200",
                {"hard": [70.4, 69.6], "soft": [77.6, 78.9]},
            ),
        ),
        note="Made scenes of digits, two seeds.",
    ),
    Claim(
        "C09",
        "Hard attention ends as good as soft attention, or better.",
        "Xu 2015, Table 1",
        EverySeed("hard", above=0, minus="soft", other=-2),
        "{hard:.1f} % of the words (hard), {soft:.1f} % (soft) after 12,000 updates",
        quotes=(
            quote(
                RESULTS,
                "soft attention names 95.6 and 96.4 % of the words, hard attention 94.8 and 95.4",
                "python benchmarks/captioned_digits.py --updates 12000",
                {"soft": [95.6, 96.4], "hard": [94.8, 95.4]},
            ),
        ),
        note="Two seeds on made scenes: hard attention ends 0.9 behind, no more than seeds "
        "differ by. Captions of drawings say too little (BLEU-1 of 8 to 10 both). Photographs "
        "with captions are what it would take to see the paper's order.",
    ),
    Claim(
        "C10",
        "A moving average lowers the variance of the sampled gradient of hard attention.",
        "Xu 2015, 4.1",
        EverySeed("upper end of the ratio", below=1),
        "the variance falls to {ratio:.0%}",
        "sampling:moving_average",
        seconds=2,
        note="The less rewards differ beside their mean, the more the average saves.",
    ),
    Claim(
        "C11",
        "Local attention is cheaper than global, but not on short sources; its predicted center "
        "is inaccurate.",
        "Luong 2015, 3.2; the second half: survey",
        AllOf(
            (
                NearMedian("exponent of T", 1.0),
                EverySeed("times as fast at 8,192", above=1),
            )
        ),
        "at 8,192 keys {times as fast at 8,192:.0f} times as fast, T^{exponent of T:.2f}",
        quotes=(
            quote(
                "docs/streaming.md",
                "| local-p-8192 | f | 111 (105-114), T^1.05 |",
                "regard bench kernels local-p-8192",
                {"times as fast at 8,192": 111, "exponent of T": 1.05},
            ),
        ),
        note="This is the first half, against the straightforward form. Open: short sources, and "
        "how far the predicted center is from the true one.",
    ),
    Claim(
        "C12",
        "Local attention, local-p above all, beats global attention.",
        "Luong 2015, Table 4",
        AllOf(
            (
                EverySeed("local-m", above=2, minus="global", other=-2),
                EverySeed("local-p", above=2, minus="global", other=-2),
            )
        ),
        "BLEU {local-m:.2f} (local-m), {global:.2f} (global), {local-p:.2f} (local-p)",
        quotes=(
            quote(
                RESULTS,
                "| BLEU 34.78, chrF 47.29 |",
                "regard train translation/luong-local-p-multi30k",
                {"local-p": 34.78},
            ),
            quote(
                RESULTS,
                "| BLEU 35.74, chrF 47.88 |",
                "regard train translation/luong-local-m-multi30k",
                {"local-m": 35.74},
            ),
            quote(
                RESULTS,
                "| BLEU 35.13, chrF 47.27 |",
                "regard train translation/luong-general-multi30k",
                {"global": 35.13},
            ),
        ),
        note="One seed; the interval of a system is about 1.7 BLEU to either side. Captions are "
        "short (12 words), so that a window of 21 words is nearly the sentence.",
    ),
    Claim(
        "C13",
        "Input feeding helps.",
        "Luong 2015, 3.3 and Table 1",
        EverySeed("fed", above=0.01, minus="not fed", other=-0.01),
        "{fed:.1%} of six symbols right with input feeding, {not fed:.1%} without",
        "luong_scores:feeding",
        seconds=30,
        note="A copy of random symbols may need no memory of earlier looks. On text "
        "(`translation/luong-general-multi30k model.feed=false`, 1,679 CPU-seconds a seed) it was "
        "not measured.",
    ),
]

SCORES = [
    Claim(
        "C14",
        "Scores that read the content beat a score of the location alone.",
        "Luong 2015, Table 4",
        AllOf(
            (
                EverySeed("worst content at 6", above=0, minus="location at 6"),
                EverySeed("worst content at 9", above=0, minus="location at 9"),
            )
        ),
        "right at 6 and 9 symbols: dot {dot at 6:.0%}, {dot at 9:.0%}; general "
        "{general at 6:.0%}, {general at 9:.0%}; concat {concat at 6:.0%}, {concat at 9:.0%}; "
        "location {location at 6:.0%}, {location at 9:.0%}",
        "luong_scores:scores",
        seconds=110,
        note="Copying goes from left to right, which a score of the location alone can learn by "
        "heart for the lengths of training.",
    ),
    Claim(
        "C15",
        "Additive attention is as good as the dot product, dearer, and better than an unscaled "
        "dot product where d is large.",
        "Vaswani 2017, 3.2.1; survey",
        AllOf(
            (
                Median("times as dear at 256", above=1),
                EverySeed("loss of dot at 256", above=0, minus="loss of additive at 256"),
                EverySeed("loss of additive at 256", below=0.1, minus="loss of scaled dot at 256"),
            )
        ),
        "loss at d = 256: {loss of additive at 256:.2f} (additive), {loss of dot at 256:.2f} "
        "(dot), {loss of scaled dot at 256:.2f} (scaled); additive scores take "
        "{times as dear at 256:.0f} times as long",
        "timing:additive_and_dot",
        seconds=60,
        note="A look-up among eight keys, 120 updates.",
    ),
    Claim(
        "C16",
        "q·k of parts with unit variance has variance d; divided by √d it has variance 1.",
        "Vaswani 2017, 3.2.1",
        AllOf(
            (
                NearMedian("slope of q·k", 1.0, within=0.05),
                NearMedian("slope of q·k / √d", 0.0, within=0.05),
            )
        ),
        "variance grows as d^{slope of q·k:.2f}, divided by √d as d^{slope of q·k / √d:.2f}",
        "scaling:variance",
        seconds=3,
    ),
    Claim(
        "C17",
        "Large scores saturate the softmax; its gradient vanishes, and training suffers.",
        "Vaswani 2017, 3.2.1; survey",
        AllOf(
            (
                Exact("error of a(δ − a)"),
                EverySeed("Jacobian scaled", above=0, minus="Jacobian unscaled"),
                EverySeed("loss unscaled", above=0.1, minus="loss scaled", other=-0.1),
            )
        ),
        "mean loss over 120 updates {loss unscaled:.2f} unscaled, {loss scaled:.2f} scaled",
        "scaling:saturation",
        seconds=45,
        note="The derivative of weight i by score j is a_i (δ_ij − a_j). It vanishes where one "
        "weight is 1 and the others are 0, not simply where a weight is small.",
    ),
]

THEMES: Mapping[str, Sequence[Claim]] = {
    "Why attention (对齐, 定长向量)": WHY,
    "Soft, hard, global, local (软/硬, 全局/局部)": KINDS,
    "Scores (打分函数, 缩放)": SCORES,
}
