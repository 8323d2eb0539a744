"""What the baselines are made of: features of texts and pairs, and learners of scikit-learn.

A feature is learned from training rows; what that gives computes those of any rows. A learner takes
features, targets and a setting; what it gives computes outputs.
"""

import random
import re
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC, LinearSVC

from regard.data.pairs.sentence_features import PairFeatures
from regard.data.text.word_vectors import read_word_vectors

__all__ = [
    "Outputs", "Rows", "boosted", "character_cosines", "fasttext", "joined", "letters", "logistic",
    "mean_vectors", "pair_features", "plain", "question_words", "raw_features", "rbf", "ridge",
    "shared_words", "svm", "tfidf", "untrained",
]  # fmt: skip

Rows = list[dict[str, Any]]
Outputs = Sequence[Any]

WORDS = r"(?u)\w+|[^\w\s]"


def tfidf(
    analyzer: str,
    low: int,
    high: int,
    text: str = "text",
    length: int | None = None,
    least: int | None = None,
):
    """Vectors of tf-idf, with logarithms of counts, of what `least` texts have.

    By default a word is in one text or more, n-grams of characters in two.
    """

    def read(train: Rows) -> Callable[[Rows], Any]:
        lowest = least or (1 if analyzer == "word" else 2)
        options = {"token_pattern": WORDS} if analyzer == "word" else {}
        vectors = TfidfVectorizer(
            analyzer=analyzer, ngram_range=(low, high), sublinear_tf=True, min_df=lowest,
            dtype=np.float32, **options,
        )  # fmt: skip
        vectors.fit(row[text][:length] for row in train)
        return lambda rows: vectors.transform([row[text][:length] for row in rows])

    return read


def joined(*parts: Callable[[Rows], Callable[[Rows], Any]]):
    """Features of several kinds beside each other."""

    def read(train: Rows) -> Callable[[Rows], Any]:
        each = [part(train) for part in parts]
        return lambda rows: hstack([csr_matrix(one(rows)) for one in each], format="csr")

    return read


def svm(x: Any, y: list[str], cost: float) -> Callable[[Any], Outputs]:
    model = LinearSVC(C=cost, random_state=1).fit(x, y)
    return lambda other: model.predict(other).tolist()


def logistic(x: Any, y: list[Any], cost: float, scores: bool = False) -> Callable[[Any], Outputs]:
    model = LogisticRegression(C=cost, max_iter=2000).fit(x, y)
    if scores:
        return lambda other: model.decision_function(other).tolist()
    return lambda other: model.predict(other).tolist()


def rbf(x: Any, y: list[str], cost: float) -> Callable[[Any], Outputs]:
    model = SVC(C=cost, gamma="scale").fit(x.toarray(), y)
    return lambda other: model.predict(other.toarray()).tolist()


def boosted(x: Any, y: list[float], rounds: int) -> Callable[[Any], Outputs]:
    model = HistGradientBoostingRegressor(
        max_iter=rounds, learning_rate=0.05, early_stopping=False, random_state=1
    ).fit(x.toarray(), y)
    return lambda other: model.predict(other.toarray()).tolist()


def ridge(x: Any, y: list[float], penalty: float) -> Callable[[Any], Outputs]:
    model = Ridge(alpha=penalty).fit(x, y)
    return lambda other: model.predict(other).tolist()


def untrained(x: Any, y: list[Any], column: int) -> Callable[[Any], Outputs]:
    """A column of the features is the score."""
    return lambda other: other.toarray()[:, column].tolist()


def fasttext(x: list[str], y: list[str], setting: tuple[float, int]) -> Callable[[Any], Outputs]:
    import fasttext as library

    names = sorted(set(y))  # fastText's labels have no spaces
    rate, epochs = setting
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        lines = [f"__label__{names.index(b)} {a}\n" for a, b in zip(x, y, strict=True)]
        random.Random(1).shuffle(lines)  # it reads them in order, and files are sorted by class
        path.write_text("".join(lines), encoding="utf-8")
        model = library.train_supervised(
            str(path), lr=rate, epoch=epochs, wordNgrams=2, dim=50, thread=1, verbose=0, seed=1
        )
    # The method of the Python class does not run with NumPy 2 in every build.
    return lambda other: [
        names[int(model.f.predict(f"{a}\n", 1, 0.0, "strict")[0][1].removeprefix("__label__"))]
        for a in other
    ]


def plain(train: Rows, text: str = "text", length: int | None = None) -> Callable[[Rows], Any]:
    """Words and punctuation with spaces between them, for fastText."""
    return lambda rows: [" ".join(re.findall(WORDS, row[text][:length].lower())) for row in rows]


def letters(train: Rows, text: str = "text") -> Callable[[Rows], Any]:
    """Characters with spaces between them."""
    return lambda rows: [" ".join(row[text].replace(" ", "")) for row in rows]


@cache
def split(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+(?:[.,]\d+)*|\w+(?:n't|'\w+)?|[^\w\s]", text.lower()))


def raw_features(first: str, second: str, kinds: Sequence[str]):
    """The features of `regard.data.pairs.sentence_features`."""

    def pairs(rows: Rows) -> list[tuple[list[str], list[str]]]:
        return [(list(split(row[first])), list(split(row[second]))) for row in rows]

    def read(train: Rows) -> Callable[[Rows], Any]:
        features = PairFeatures(kinds).learn(pairs(train))
        return lambda rows: csr_matrix(features.of(pairs(rows)))

    return read


def pair_features(first: str, second: str, kinds: Sequence[str] = tuple(PairFeatures.KINDS)):
    """The same, each with mean 0 and variance 1 in training."""

    plainly = raw_features(first, second, kinds)

    def read(train: Rows) -> Callable[[Rows], Any]:
        features = plainly(train)
        mine = features(train).toarray()
        mean, deviation = mine.mean(0), mine.std(0) + 1e-6
        return lambda rows: (features(rows).toarray() - mean) / deviation

    return read


def shared_words(first: str, second: str, scale: float = 1.0):
    """Which words both sentences have, and which one alone has."""

    def words(row: dict[str, Any]) -> dict[str, float]:
        a, b = {*split(row[first])}, {*split(row[second])}
        found = {f"both {w}": scale for w in a & b} | {f"first {w}": scale for w in a - b}
        return found | {f"second {w}": scale for w in b - a}

    def read(train: Rows) -> Callable[[Rows], Any]:
        vectors = DictVectorizer(dtype=np.float32).fit(map(words, train))
        return lambda rows: vectors.transform(map(words, rows))

    return read


def character_cosines(first: str, second: str, ranges: Sequence[tuple[int, int]]):
    """The cosine of the vectors of tf-idf of both texts, a column for each range of n-grams."""

    def read(train: Rows) -> Callable[[Rows], Any]:
        kinds = [
            TfidfVectorizer(analyzer="char_wb", ngram_range=one, sublinear_tf=True)
            for one in ranges
        ]
        for vectors in kinds:
            vectors.fit(row[text] for row in train for text in (first, second))

        def cosines(rows: Rows) -> Any:
            sides = [[row[text] for row in rows] for text in (first, second)]
            both = [[vectors.transform(side) for side in sides] for vectors in kinds]
            return hstack([csr_matrix(a.multiply(b).sum(1)) for a, b in both], format="csr")

        return cosines

    return read


def question_words(first: str, second: str):
    """The question's first words, each with whether the answer has a number or name."""

    def words(row: dict[str, Any]) -> dict[str, float]:
        begin, answer = split(row[first])[:2], row[second].split()
        number = any(c.isdigit() for c in row[second]) or "<num>" in answer
        name = any(w[0].isupper() for w in answer[1:])
        kinds = [" ".join(begin[:n]) for n in (1, 2)]
        return {f"{kind} {number} {name}": 1.0 for kind in kinds}

    def read(train: Rows) -> Callable[[Rows], Any]:
        vectors = DictVectorizer(dtype=np.float32).fit(map(words, train))
        return lambda rows: vectors.transform(map(words, rows))

    return read


def mean_vectors(first: str, second: str, path: Path):
    """The cosine of the sentences' mean word vectors; nothing where there are no vectors."""

    def read(train: Rows) -> Callable[[Rows], Any]:
        if not path.is_file():
            return lambda rows: np.zeros((len(rows), 1))
        words, vectors = read_word_vectors(path)
        index = {word: at for at, word in enumerate(words)}
        centered = vectors - vectors.mean(0)

        def mean(text: str) -> Any:
            ids = [index[w] for w in split(text) if w in index and w.isalnum()]
            found = centered[ids].mean(0) if ids else np.zeros(centered.shape[1])
            return found / max(1e-9, np.linalg.norm(found))

        return lambda rows: np.array([[3 * mean(r[first]) @ mean(r[second])] for r in rows])

    return read
