"""C44 to C56: levels, hops, pairs of sentences, sentences."""

from collections.abc import Mapping, Sequence

from regard.claims.claim import Claim, quote
from regard.claims.rules import AllOf, EverySeed, IntervalAbove, Means, Significant

__all__ = ["THEMES"]

RESULTS = "docs/results.md"

STEPS = [
    Claim(
        "C44",
        "Attention over words, then over sentences, beats averages and a single level.",
        "Yang 2016, Table 2",
        AllOf(
            (
                Significant("gain over averages", "p over averages"),
                Significant("gain over one level", "p over one level"),
            )
        ),
        "accuracy {gain over averages:+.2f} over averages (p {p over averages:.2f}), "
        "{gain over one level:+.2f} over one level (p {p over one level:.2f})",
        quotes=(
            quote(
                RESULTS,
                "the mean of words and sentences in place of attention 86.23 ± 1.85 (+1.00, "
                "p 0.122)",
                "python benchmarks/folds.py classification/han-movie-reviews --form '' "
                "--form model.read=mean",
                {"gain over averages": -1.00, "p over averages": 0.122},
            ),
            quote(
                RESULTS,
                "attention over the words of one flat text 85.09 ± 1.65 (−0.15, p 0.879)",
                "python benchmarks/folds.py classification/han-movie-reviews --form '' "
                "--form 'task.sentences=\"\"'",
                {"gain over one level": 0.15, "p over one level": 0.879},
            ),
        ),
        note="Ten folds of 1,998 film reviews. The paper's sets have hundreds of thousands.",
    ),
    Claim(
        "C45",
        "Attention over attention beats a single sum of attention.",
        "Cui 2017",
        IntervalAbove("interval of the gain"),
        "accuracy {AoA:.1f} (AoA), {AS Reader:.1f} (AS Reader)",
        quotes=(
            quote(
                "docs/papers/aoa.md",
                "`aoa` over `as-reader` +7.1 (95 %: +5.6 to +8.6)",
                "python benchmarks/reading.py runs/aoa-1 runs/aoa-2 runs/aoa-3 runs/as-reader-1 "
                "runs/as-reader-2 runs/as-reader-3",
                {"interval of the gain": [5.6, 8.6]},
            ),
            quote(
                RESULTS,
                "accuracy 40.4 ± 0.7 and 33.3 ± 0.6, 3 seeds each",
                "regard train reading/aoa-cloze train.seed=2",
                {"AoA": 40.4, "AS Reader": 33.3},
            ),
        ),
        note="Cloze questions, 1,536. On spans of tales the two are level.",
    ),
    Claim(
        "C46",
        "Attention in every layer of the decoder beats attention in one.",
        "Gehring 2017, Table 5",
        Significant("every layer over one layer", "p of every layer over one layer", sign=-1),
        "PER {every layer:.2f} with attention in three layers, {one layer:.2f} in the first alone",
        "trainings:attending_layers",
        seconds=180,
        note="Pronunciations: 20,000 words, read five times by a small ConvS2S (width 64, three "
        "layers a side). Attention in the second or third layer alone was not tried. Each "
        "attention adds two linear layers, so the better model is also larger.",
    ),
    Claim(
        "C47",
        "More hops make fewer errors; facts are found without being marked.",
        "Sukhbaatar 2015",
        EverySeed("one hop", above=0, minus="three hops"),
        "mean error {one hop:.1f} % with one hop, {two hops:.1f} with two, {three hops:.1f} "
        "with three",
        quotes=(
            quote(
                RESULTS,
                "mean error 21.1 (20.0, 22.3), 2 hops 22.0, 1 hop 35.9",
                "regard train memory/memn2n-babi model.hops=3 train.seed=1",
                {
                    "three hops": [20.0, 22.3],
                    "two hops": [22.0, 22.0],
                    "one hop": [35.9, 35.9],
                },
            ),
        ),
        note="Questions about two facts need the second hop; what the third gains is unclear. "
        "How often a hop is on the true fact was not counted.",
    ),
]

PAIRS = [
    Claim(
        "C48",
        "Sentences read apart miss their context; cosines at the input mend it.",
        "He and Lin 2016",
        AllOf(
            (
                Significant("gain on SICK", "p on SICK"),
                Significant("gain on MSRP", "p on MSRP"),
                Significant("gain on TrecQA", "p on TrecQA"),
            )
        ),
        "SICK {gain on SICK:+.2f} (p {p on SICK:.3f}), MSRP {gain on MSRP:+.2f}, "
        "TrecQA {gain on TrecQA:+.2f}",
        quotes=(
            quote(
                RESULTS,
                "worth 1.00 of Pearson on SICK (84.64 and 85.64 with seed 1, p 0.001,",
                "regard compare similarity/mpcnn-sick similarity/mpcnn-attention-sick",
                {"gain on SICK": 1.00, "p on SICK": 0.001},
            ),
            quote(
                RESULTS,
                "On MSRP (−0.06 of accuracy, p 1.0)",
                "regard compare similarity/mpcnn-msrp similarity/mpcnn-attention-msrp",
                {"gain on MSRP": -0.06, "p on MSRP": 1.0},
            ),
            quote(
                RESULTS,
                "the 68 questions of TrecQA (−0.74 of MAP, p 0.57)",
                "regard compare similarity/mpcnn-trecqa similarity/mpcnn-attention-trecqa",
                {"gain on TrecQA": -0.74, "p on TrecQA": 0.57},
            ),
        ),
        note="One of three sets. TrecQA has 68 test questions: an interval of several points.",
    ),
    Claim(
        "C49",
        "Several widths, pools and filters compared part by part beat one cosine of two vectors.",
        "He 2015",
        AllOf(
            (
                Significant("whole over cosines", "p of whole over cosines"),
                Significant("whole over one width", "p of whole over one width"),
                Significant("whole over one pool", "p of whole over one pool"),
                Significant("whole over no block B", "p of whole over no block B"),
            )
        ),
        "SICK: Pearson {whole:.2f}; {one width:.2f} with one width, {one pool:.2f} with one pool, "
        "{no block B:.2f} without filters of single features; by cosines of two "
        "vectors {cosines[0]:.2f}, {cosines[1]:.2f} and {cosines[2]:.2f} (three seeds)",
        "trainings:parts_of_perspectives",
        seconds=390,
        needs=("nli", "vectors/glove100.npz"),
        note="SICK relatedness, two passes over 4,420 pairs. Each part is worth about a point or "
        "less. The comparison with cosines (BCNN) is unfair: at MPCNN's rate of 0.0005 they hardly "
        "train in two passes. With train.optimizer.lr=0.003 and train.epochs=10 they have 69.84, "
        "67.24 and 64.97 (67.35 ± 2.43), still below. TF-IDF and a linear model have 79.7, so two "
        "passes of MPCNN are hardly above them.",
    ),
    Claim(
        "C50",
        "Attention after the convolution (ABCNN-2) beats attention before it (ABCNN-1); both "
        "beat none.",
        "Yin 2016",
        AllOf(
            (
                Significant("ABCNN-2 over ABCNN-1", "p of ABCNN-2 over ABCNN-1"),
                Significant("ABCNN-3 over none", "p of ABCNN-3 over none"),
            )
        ),
        "SICK: accuracy {none:.2f} (none), {ABCNN-1:.2f}, {ABCNN-2:.2f} and {ABCNN-3:.2f} "
        "(ABCNN-1, 2, 3)",
        "trainings:places_of_attention",
        seconds=360,
        needs=("nli", "vectors/glove100.npz"),
        note="SICK, 15 passes over 4,420 pairs, three seeds of each. All four are level: every "
        "model is also given features of the pair (shared words, negation, lengths), which alone "
        "have 79.5. On paraphrases, with eight times as many pairs, ABCNN-3 is 1.23 above none "
        "(p 0.003).",
    ),
    Claim(
        "C51",
        "For entailment word-by-word attention beats one look, and one look beats none.",
        "Rocktäschel 2016, Table 1",
        AllOf(
            (
                EverySeed("one look", above=0.5, minus="none", other=-0.5),
                EverySeed("word by word", above=0.5, minus="one look", other=-0.5),
            )
        ),
        "accuracy {none:.2f} (none), {one look:.2f} (one look), {word by word:.2f} (word by word)",
        quotes=(
            quote(
                RESULTS,
                "conditional encoding 58.98, attention at the end 60.56 (p 0.003), word by word "
                "60.28 (p 0.016)",
                "regard compare entailment/word-by-word-sick --vary="
                "model.attention=none,final,word-by-word",
                {"none": 58.98, "one look": 60.56, "word by word": 60.28},
            ),
        ),
        note="That a look helps is significant (p 0.003); that word by word helps more is not "
        "seen. One seed; 4,420 pairs are learned by heart within two passes.",
    ),
]

SENTENCES = [
    Claim(
        "C52",
        "Several hops over a sentence beat one and max pooling; a penalty parts them and helps.",
        "Lin 2017",
        AllOf(
            (
                Significant("eight hops over one hop", "p of eight hops over one hop"),
                Significant("eight hops over no penalty", "p of eight hops over no penalty"),
                Means("structured", minus="max pooling"),
            )
        ),
        "questions: accuracy {eight hops:.2f} with 8 hops, {one hop:.2f} with one, "
        "{no penalty:.2f} without the penalty",
        "trainings:hops",
        seconds=420,
        needs=("questions", "vectors/glove100.npz"),
        quotes=(
            quote(
                RESULTS,
                "| `classification/structured-questions` | 91.20 ± 1.22 | 3 |",
                "regard train classification/structured-questions --seeds 1-3",
                {"structured": [91.20, 1.22, 3]},
            ),
            quote(
                RESULTS,
                "| `classification/bilstm-max-questions` | 87.53 ± 0.64 | 3 |",
                "regard train classification/bilstm-max-questions --seeds 1-3",
                {"max pooling": [87.53, 0.64, 3]},
            ),
        ),
        note="The hops help. What the penalty adds is within chance on 500 questions.",
    ),
    Claim(
        "C53",
        "Attention that knows directions needs no recurrence or convolution.",
        "Shen 2018 (DiSAN)",
        AllOf((Means("DiSAN", minus="without directions"), Means("DiSAN", minus="BiLSTM"))),
        "accuracy {DiSAN[0]:.2f}; {without directions[0]:.2f} without directions, "
        "{BiLSTM[0]:.2f} of a BiLSTM",
        quotes=(
            quote(
                RESULTS,
                "| `classification/disan-questions` | 90.73 ± 0.42 | 3 |",
                "regard train classification/disan-questions --seeds 1-3",
                {"DiSAN": [90.73, 0.42, 3]},
            ),
            quote(
                RESULTS,
                '| `classification/disan-questions \'model.directions=["none","none"]\'` '
                "| 87.20 ± 1.04 | 3 |",
                "regard train classification/disan-questions "
                '\'model.directions=["none","none"]\' --seeds 1-3',
                {"without directions": [87.20, 1.04, 3]},
            ),
            quote(
                RESULTS,
                "| `classification/bilstm-max-questions` | 87.53 ± 0.64 | 3 |",
                "regard train classification/bilstm-max-questions --seeds 1-3",
                {"BiLSTM": [87.53, 0.64, 3]},
            ),
        ),
        note="It is level with a CNN (91.00) and with structured self-attention (91.20).",
    ),
    Claim(
        "C54",
        "A weight for each feature, and weights over several vectors of a word, help.",
        "Shen 2018; Kiela 2018",
        AllOf(
            (
                Significant("features over words", "p of features over words"),
                Significant("weighed over sum", "p of weighed over sum"),
            )
        ),
        "questions: accuracy {features:.2f} with a weight for each feature, {words:.2f} with one "
        "for each word; {weighed:.2f} with weights over two vectors, {sum:.2f} with their sum",
        "trainings:several_weights",
        seconds=350,
        needs=("questions", "vectors/glove100.npz"),
        note="Seven passes over 4,859 questions. A weight for each feature helps DiSAN (500 test "
        "questions, p 0.043). Weights over a word's two vectors, GloVe's and that of its "
        "characters, do not help DME: two vectors leave little to choose from, where the paper "
        "has six that were learned elsewhere. On made data such weights beat the sum "
        "(tests/papers/test_dme.py).",
    ),
    Claim(
        "C55",
        "A penalty on distance helps, the more the longer the sentence.",
        "Im 2017",
        AllOf(
            (
                EverySeed("SICK with the penalty", above=1, minus="SICK without"),
                Significant("gain on RTE", "p on RTE"),
            )
        ),
        "SICK {SICK with the penalty:.2f} ({SICK without:.2f} without); RTE {gain on RTE:+.2f} "
        "(p {p on RTE:.3f})",
        quotes=(
            quote(
                RESULTS,
                "81.43 with the distance and 78.77 without (`model.alpha=0`, seed 1, p 0.001)",
                "regard compare entailment/distance-sick --vary=model.alpha=0,1.5",
                {"SICK with the penalty": 81.43, "SICK without": 78.77},
            ),
            quote(
                RESULTS,
                "−2.62 (p 0.093)",
                "regard compare entailment/distance-rte --vary=model.alpha=0,1.5",
                {"gain on RTE": -2.62, "p on RTE": 0.093},
            ),
        ),
        note="It helps where sentences have ten words; on the longer premises of RTE (28 words) "
        "it does not, with 2,965 pairs that are learned by heart.",
    ),
    Claim(
        "C56",
        "Reading with a tape (LSTMN) beats the LSTM.",
        "Cheng 2016",
        Means("LSTMN", minus="BiLSTM"),
        "accuracy {LSTMN[0]:.2f} (LSTMN), {BiLSTM[0]:.2f} (BiLSTM with max pooling)",
        quotes=(
            quote(
                RESULTS,
                "| `classification/lstmn-questions` | 84.47 ± 0.64 | 3 |",
                "regard train classification/lstmn-questions --seeds 1-3",
                {"LSTMN": [84.47, 0.64, 3]},
            ),
            quote(
                RESULTS,
                "| `classification/bilstm-max-questions` | 87.53 ± 0.64 | 3 |",
                "regard train classification/bilstm-max-questions --seeds 1-3",
                {"BiLSTM": [87.53, 0.64, 3]},
            ),
        ),
        note="The BiLSTM reads in both directions and the LSTMN in one. Its language model was "
        "not trained.",
    ),
]

THEMES: Mapping[str, Sequence[Claim]] = {
    "Levels, attention over attention, hops (层次, 记忆网络)": STEPS,
    "Pairs of sentences (协同)": PAIRS,
    "Sentence vectors and classification": SENTENCES,
}
