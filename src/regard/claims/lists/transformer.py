"""C18 to C33: self-attention, heads, positions."""

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
        "cheaper far beyond: one product over all positions runs faster than a step for each. "
        "What is measured was changed after a first run, and the verdict stayed.",
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
        Significant("cross-attention alone over whole", "p of cross-attention alone over whole"),
        "PER {whole:.2f} whole, {cross-attention alone:.2f} with cross-attention alone",
        "trainings:cross_attention_alone",
        seconds=250,
        note="Pronunciations: 20,000 words, read five times by a small Transformer with sinusoids; "
        "with a window of one each letter and each phoneme sees itself alone. Words are short, and "
        "neither model has learned them after 425 updates (a full training has PER 6.97). What the "
        "whole model gains by seeing more it may gain later; on captions, too, a window of 5 is "
        "ahead after seven passes (docs/papers/transformer.md). Translation was not tried.",
    ),
    Claim(
        "C24",
        "Convolutions need many layers to see far; about ten are good.",
        "survey, by its own tests",
        AllOf(
            (
                EverySeed("10 layers", above=0, minus="4 layers"),
                EverySeed("10 layers", above=8),
            )
        ),
        "90 % right up to a distance of {1 layers:.0f}, {2 layers:.0f}, {4 layers:.0f} and "
        "{10 layers:.0f} with 1, 2, 4 and 10 layers",
        "reach:reach_by_layers",
        seconds=40,
        note="Made data: the first symbol is asked for at the last place. n layers of width 3 can "
        "see 2 n symbols back, and two layers do. More layers see no farther after 200 updates, "
        "nor after 1,000 (UPDATES, one seed, 8 symbols): what is far away is not learned, though "
        "it is in reach. Dilated convolutions learn 64 symbols in as many updates (C20). Whether "
        "depth helps a translator was not measured; with 4 and 3 layers ConvS2S has BLEU 39.05 on "
        "Multi30k.",
    ),
    Claim(
        "C25",
        "All attention maps a query, keys and values; mostly the keys are the values.",
        "survey; Vaswani 2017",
        AllOf(
            (
                Exact("models without the map"),
                EverySeed("share with keys that are values", above=0.5),
            )
        ),
        "of {models:.0f} models with attention {models without the map:.0f} have no such map; of "
        "the others {share with keys that are values:.0%} have keys that are the values",
        "catalog_count:keys_and_values",
        seconds=2,
        note="Counted while the tiny models of the catalog read two random examples. RAM looks at "
        "a place that its state names, and MA-CNN makes maps of channels: they have no keys that a "
        "query is compared with. Keys and values are compared as the model gives them, before the "
        "projections of heads. They differ in memory networks and ConvS2S, and where a layer of "
        "its own makes keys of states, as in HAN. The rule was fixed after a trial of the count.",
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
        EverySeed("sinusoids, 40", above=0.95, other=0.7),
        "right at the longest length of training, at twice and at four times it: "
        "{sinusoids, 20:.0%}, {sinusoids, 40:.0%}, {sinusoids, 80:.0%} with sinusoids, "
        "{relative, 20:.0%}, {relative, 40:.0%}, {relative, 80:.0%} with relative vectors",
        "longer:longer_sums",
        seconds=80,
        note="An encoder says y_i = x_i + x_(i-1) at each place: a relation of neighbors, which "
        "sinusoids have to learn for each place. Not measured on text.",
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

THEMES: Mapping[str, Sequence[Claim]] = {
    "Self-attention (自注意力)": SELF_ATTENTION,
    "Many heads (多头)": HEADS,
    "Positions (位置)": POSITIONS,
}
