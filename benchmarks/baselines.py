"""Simple models on sets of sentences and pairs: what a model with attention has to be better than.

    REGARD_DATA=… python benchmarks/baselines.py questions msrp --json baselines.json
    python benchmarks/baselines.py --predictions FOLDER          # every set

Linear support vector machines on tf-idf, on features of pairs, and fastText. Each is trained on
train, with the setting that is best on dev, and reported on test. CPU seconds of training are those
of the chosen setting, features counted in; seconds of prediction are those of the test set. Needs
`pip install 'regard[baselines]'`; fastText is left out where it is not installed.
"""

import argparse
import gzip
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from regard import metrics
from regard.data import read
from regard.data.sources import find
from regard.fields.marked_text import MARK
from regard.system.extras import install

try:
    from simple_models import (
        Outputs,
        Rows,
        boosted,
        character_cosines,
        fasttext,
        joined,
        letters,
        logistic,
        mean_vectors,
        pair_features,
        plain,
        question_words,
        raw_features,
        rbf,
        ridge,
        shared_words,
        svm,
        tfidf,
        untrained,
    )  # fmt: skip
except ModuleNotFoundError as error:
    sys.exit(f"the baselines need scikit-learn: {install('baselines')} ({error})")

VECTORS = "vectors/glove100.npz"
"""Below $REGARD_DATA; the cosine of mean word vectors is left out where it is not there."""

COSTS = (0.1, 0.5, 2.0, 8.0)


RANGES = ((2, 5), (3, 4), (3, 5))
"""Lengths of n-grams of characters."""


class Method(NamedTuple):
    """A baseline: features are learned once, and a model on them for each setting.

    Args:
        read: learns features from training rows; what it gives computes those of any rows.
        learn: from features, targets and a setting; what it gives computes outputs.
    """

    name: str
    read: Callable[[Rows], Callable[[Rows], Any]]
    learn: Callable[[Any, list[Any], Any], Callable[[Any], Outputs]]
    settings: tuple[Any, ...] = (None,)


def json_rows(folder: Path, part: str) -> Rows:
    """The objects of a file of JSON lines."""
    with gzip.open(folder / f"{part}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def marked_rows(folder: Path, part: str) -> Rows:
    """Sentences with two marked places, cut at the marks."""
    rows = []
    columns = {"text": "text", "relation": "relation"}
    for row in read(folder / f"{part}.txt.gz", columns, "semeval"):
        text = row.fields["text"]
        _, first, between, second, _ = MARK.split(text)
        own = {"text": MARK.sub(" ", text), "between": between, "first": first, "second": second}
        rows.append({**row.fields, **own})
    return rows


@dataclass
class Problem:
    """A set: where its rows are, what is asked, how outputs are scored, and its methods.

    Args:
        score: of outputs and rows; the first decides on dev.
        text: the columns of text: one, or the two of a pair.
        keep: which rows belong to it.
        rows: reads a part of its folder.
    """

    folder: str
    target: str
    score: Callable[[Outputs, Rows], list[metrics.Score]]
    methods: list[Method]
    text: tuple[str, ...] = ("text",)
    keep: Callable[[dict[str, Any]], bool] = lambda row: True
    rows: Callable[[Path, str], Rows] = json_rows


@dataclass
class Result:
    """A row of the table."""

    set: str
    method: str
    setting: str
    dev: float
    test: dict[str, float]
    rows: dict[str, int]
    train_cpu_s: float
    predict_cpu_s: float
    outputs: list[Any] = field(repr=False)


def of_classes(outputs: Outputs, rows: Rows, positive: str | None = None) -> list[metrics.Score]:
    references = [row["target"] for row in rows]
    other = (
        metrics.macro_f1(outputs, references)
        if positive is None
        else metrics.f1_of(outputs, references, positive)
    )
    return [metrics.accuracy(outputs, references), other]


def of_relations(outputs: Outputs, rows: Rows) -> list[metrics.Score]:
    references = [row["target"] for row in rows]
    return [metrics.directed_f1(outputs, references), metrics.accuracy(outputs, references)]


def of_numbers(outputs: Outputs, rows: Rows) -> list[metrics.Score]:
    references = [row["target"] for row in rows]
    return [score(outputs, references) for score in (metrics.pearson, metrics.spearman)]


def of_answers(outputs: Outputs, rows: Rows) -> list[metrics.Score]:
    groups, relevant = [r["question"] for r in rows], [r["target"] == "1" for r in rows]
    return [
        score(groups, outputs, relevant)
        for score in (metrics.mean_average_precision, metrics.mean_reciprocal_rank)
    ]


def problems() -> dict[str, Problem]:
    """The sets by name."""
    word, vectors = partial(tfidf, "word", 1, 3), home() / VECTORS
    both = joined(word(), tfidf("char_wb", 2, 5))
    fast = ((0.3, 25), (1.0, 25))
    words = [
        Method("words 1-3, SVM", word(), svm, COSTS),
        Method("words 1-2, SVM", tfidf("word", 1, 2), svm, COSTS),
        Method("words 1-2 of two texts or more, SVM", tfidf("word", 1, 2, least=2), svm, COSTS),
    ]
    wc = Method("words 1-3 and characters 2-5, SVM", both, svm, COSTS)
    ft = Method("fastText", plain, fasttext, fast)
    short = joined(word(length=1000), tfidf("char_wb", 2, 5, length=1000))
    topics = [
        Method("words 1-3, SVM, 1,000 characters", word(length=1000), svm, COSTS[:2]),
        Method("words and characters, SVM, 1,000 characters", short, svm, (0.5,)),
        Method("fastText", partial(plain, length=1000), fasttext, fast),
    ]
    chinese = [
        Method("characters 1-4, SVM", tfidf("char", 1, 4), svm, COSTS),
        Method("fastText on characters", letters, fasttext, fast),
    ]
    ab, nli, qa = ("a", "b"), ("premise", "hypothesis"), ("question", "answer")

    def overlap(columns: tuple[str, str], *more: Method) -> list[Method]:
        features, words = pair_features(*columns), shared_words(*columns)
        return [
            Method("features, logistic regression", joined(features), logistic, COSTS),
            Method("features, RBF SVM", joined(features), rbf, (0.3, 1.0, 3.0)),
            Method(
                "features and words, SVM", joined(features, words), svm, (0.003, 0.01, 0.03, 0.1)
            ),
            *more,
        ]

    alone = Method("hypothesis alone, SVM", tfidf("word", 1, 3, "hypothesis"), svm, COSTS)
    slow = [m for m in overlap(ab) if m.learn is not rbf]  # 25,000 rows
    classes = of_classes
    one = partial(of_classes, positive="1")
    rich = joined(pair_features(*ab), mean_vectors(*ab, vectors))
    sts = [
        Method("character cosine, untrained", character_cosines(*ab, RANGES), column, RANGES),
        Method("features, vectors, ridge", rich, ridge, (1.0, 100.0)),
        Method("features, vectors, boosted trees", rich, boosted, (100, 300)),
    ]
    near = [pair_features(*nli), mean_vectors(*nli, vectors)]
    shared = joined(*near, shared_words(*nli))
    related = [
        Method("features, vectors, boosted trees", joined(*near), boosted, (100, 300)),
        Method("features, vectors, words, ridge", shared, ridge, (3.0, 10.0, 30.0, 100.0)),
    ]
    idf = raw_features(*qa, ["idf-overlap"])
    ranked = joined(pair_features(*qa), question_words(*qa), mean_vectors(*qa, vectors))
    trecqa = [
        Method("share of question words by idf, untrained", idf, untrained, (0,)),
        Method(
            "features, question words, vectors, logistic regression",
            ranked, partial(logistic, scores=True), (0.003, 0.03, 0.3),
        ),
    ]  # fmt: skip
    between, around = tfidf("word", 1, 3, "between"), tfidf("word", 1, 2)
    ends = joined(tfidf("word", 1, 1, "first"), tfidf("word", 1, 1, "second"))
    relation = [
        Method("words 1-3 between the marks, SVM", between, svm, COSTS),
        Method("the same and the marked words, SVM", joined(between, ends), svm, COSTS),
        Method("the same and all words 1-2, SVM", joined(between, ends, around), svm, COSTS),
    ]
    return {
        "questions": Problem("questions", "label", classes, [*words, wc, ft]),
        "questions-fine": Problem("questions", "fine", classes, [*words, wc, ft]),
        "topics": Problem("topics", "label", classes, topics),
        "sentiment_en": Problem("sentiment_en", "label", classes, [*words, wc, ft]),
        "sentiment_zh": Problem("sentiment_zh", "label", classes, chinese),
        "proscons": Problem("proscons", "label", classes, [*words, wc, ft]),
        "pros-cons": Problem("pros-cons", "label", classes, [*words, wc, ft]),
        "movie_reviews": Problem("movie_reviews", "label", classes, [*words, ft]),
        "sick": Problem(
            "nli", "label", classes, overlap(nli, alone), nli, lambda row: row["source"] == "sick"
        ),
        "sick-relatedness": Problem(
            "nli", "relatedness", of_numbers, related, nli, lambda row: row["source"] == "sick"
        ),
        "rte": Problem(
            "nli", "label", classes, overlap(nli, alone), nli, lambda row: row["source"] != "sick"
        ),
        "msrp": Problem("msrp", "label", one, overlap(ab), ab),
        "paraphrase": Problem("paraphrase", "label", one, slow, ab),
        "trecqa": Problem("trecqa", "label", of_answers, trecqa, qa),
        "sts": Problem("sts", "score", of_numbers, sts, ab),
        "relation": Problem("relation", "relation", of_relations, relation, rows=marked_rows),
    }


def column(x: Any, y: list[Any], setting: tuple[int, int]) -> Callable[[Any], Outputs]:
    """The cosine of the n-grams of a range is the score."""
    return untrained(x, y, RANGES.index(setting))


def home() -> Path:
    """$REGARD_DATA."""
    told = os.environ.get("REGARD_DATA")
    if not told:
        sys.exit("REGARD_DATA is not set: expected the folder that holds the sets' folders")
    return Path(told)


def rows_of(problem: Problem, part: str) -> Rows:
    rows = [row for row in problem.rows(find(problem.folder), part) if problem.keep(row)]
    for row in rows:
        value = row[problem.target]
        row["target"] = value if isinstance(value, float) else str(value)
    return rows


def measured(name: str, problem: Problem, method: Method) -> Result:
    """The method with the setting that is best on dev."""
    train, dev, test = (rows_of(problem, part) for part in ("train", "dev", "test"))
    targets = [row["target"] for row in train]
    start = time.process_time()
    features = method.read(train)
    x = features(train)
    reading, held = time.process_time() - start, features(dev)
    best: tuple[float, Any, float, Callable[[Any], Outputs]] | None = None
    for setting in method.settings:
        start = time.process_time()
        model = method.learn(x, targets, setting)
        learning = time.process_time() - start
        value = problem.score(model(held), dev)[0].value
        if best is None or value > best[0]:
            best = value, setting, learning, model
    assert best is not None
    value, setting, learning, model = best
    start = time.process_time()
    outputs = list(model(features(test)))
    seconds = time.process_time() - start
    scores = {score.name: score.value for score in problem.score(outputs, test)}
    return Result(
        name, method.name, str(setting), value, scores,
        {"train": len(train), "dev": len(dev), "test": len(test)}, reading + learning, seconds,
        outputs,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    known = problems()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(known)}; none: all")
    parser.add_argument("--method", default="", help="only methods with this in their names")
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--predictions", type=Path, help="write FOLDER/<set>.txt, one row a line")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.sets if name not in known]
    if unknown:
        parser.error(f"no set {unknown[0]!r}; there are {', '.join(known)}")
    found: list[Result] = []
    print("| set | method | setting | test | dev | training, CPU s | prediction, CPU s |")
    print("|---|---|---|---|---|---|---|")
    for name in options.sets or known:
        here = []
        for method in known[name].methods:
            if options.method not in method.name:
                continue
            try:
                result = measured(name, known[name], method)
            except ModuleNotFoundError as error:
                print(f"{name}: {method.name} is left out: {error}", file=sys.stderr)
                continue
            here.append(result)
            test = ", ".join(f"{score} {value:.1f}" for score, value in result.test.items())
            print(
                f"| {name} | {method.name} | {result.setting} | {test} | {result.dev:.1f} | "
                f"{result.train_cpu_s:.1f} | {result.predict_cpu_s:.2f} |", flush=True,
            )  # fmt: skip
        found += here
        if options.predictions and here:
            options.predictions.mkdir(parents=True, exist_ok=True)
            best = max(here, key=lambda result: result.dev)
            lines = [f"{output}\n" for output in best.outputs]
            (options.predictions / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    if options.json:
        plain_results = [{k: v for k, v in asdict(r).items() if k != "outputs"} for r in found]
        options.json.write_text(json.dumps(plain_results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
