"""Summaries that nobody trained, and what can be cut out of the texts at best, beside models.

    REGARD_DATA=… python benchmarks/summaries.py                          # headlines, test
    REGARD_DATA=… python benchmarks/summaries.py runs/summarization/abs-headlines OTHER_FOLDER
    REGARD_DATA=… python benchmarks/summaries.py --split dev --no-stemmer --json summaries.json
    python benchmarks/summaries.py --file test.jsonl.gz --predictions name=lines.txt

    lead      the first 15 words of the first sentence
    rule      the first sentence without "X is a", up to the end of its clause, 12 words at most
    textrank  the sentence that TextRank ranks first (sumy; left out where it is not installed)
    sentence  oracle: the sentence that shares most with the headline (mean of ROUGE-1 and 2)
    window    oracle: the run of at most 16 words of the first sentence that shares most

Sentences are cut by a regular expression, for sumy too, whose own tokenizer needs files from the
network. ROUGE F1 is rouge-score's, with Porter's stemmer unless `--no-stemmer`. `words` is the mean
length. Needs `pip install rouge-score`; folders need regard's summarization.
"""

import argparse
import gzip
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

try:
    from rouge_score import rouge_scorer, tokenizers
except ModuleNotFoundError as error:
    sys.exit(f"ROUGE needs rouge-score: pip install rouge-score ({error})")

KINDS = ("rouge1", "rouge2", "rougeL")
SENTENCE = re.compile(r"""(?<=[.!?])\s+(?=[A-Z0-9"'(*])|\n+""")
SUBJECT = re.compile(r"^.{0,80}?\b(?:is|are)\s+(?:an?|the)\s+", re.DOTALL)
CLAUSE = re.compile(r"[,;:.](?:\s|$)|\s(?:that|which)\b")
LONGEST = 16
"""Words of the longest headline in the data."""


def sentences(text: str) -> list[str]:
    """The sentences of a text; a line ends one."""
    return [one for one in map(str.strip, SENTENCE.split(text)) if one]


def first(text: str) -> str:
    """The first sentence; of an empty text nothing."""
    return next(iter(sentences(text)), "")


def lead(text: str, words: int = 15) -> str:
    """The first words of the first sentence."""
    return " ".join(first(text).split()[:words])


def rule(text: str, words: int = 12) -> str:
    """What the first sentence says its subject is, up to the end of the clause.

    A clause of one word is not cut; a sentence that says nothing of its subject is taken whole.

    Example:
        >>> rule("Foo is a fast editor of texts, which runs everywhere. It has colors.")
        'fast editor of texts'
    """
    whole = first(text)
    said = SUBJECT.sub("", whole, count=1) or whole
    end = CLAUSE.search(said, 1)
    if end and len(said[: end.start()].split()) > 1:
        said = said[: end.start()]
    return " ".join(said.split()[:words])


def shared(one: Sequence[str], other: Sequence[str]) -> float:
    """The mean of ROUGE-1 and ROUGE-2 F1 of two lists of words."""
    total = 0.0
    for n in (1, 2):
        a, b = (
            Counter(tuple(own[i : i + n]) for i in range(len(own) - n + 1)) for own in (one, other)
        )
        both, most = (a & b).total(), a.total() + b.total()
        total += 2 * both / most if most else 0.0
    return total / 2


def best_sentence(text: str, headline: str, cut: Callable[[str], list[str]]) -> str:
    """The sentence that shares most with the headline; of equals the first."""
    wanted = cut(headline)
    return max(sentences(text) or [""], key=lambda own: shared(cut(own), wanted))


def best_window(text: str, headline: str, cut: Callable[[str], list[str]]) -> str:
    """The run of words of the first sentence that shares most with the headline."""
    wanted, words = cut(headline), first(text).split()
    tokens = [cut(word) for word in words]
    best, most = "", -1.0
    for start in range(len(words)):
        own: list[str] = []
        for end in range(start, min(start + LONGEST, len(words))):
            own = own + tokens[end]
            if (value := shared(own, wanted)) > most:
                best, most = " ".join(words[start : end + 1]), value
    return best


def textrank() -> Callable[[str], str] | None:
    """What ranks sentences by TextRank (Mihalcea and Tarau 2004); None without sumy."""
    try:
        from sumy.models.dom import ObjectDocumentModel, Paragraph, Sentence
        from sumy.summarizers.text_rank import TextRankSummarizer
    except ModuleNotFoundError:
        return None

    class Words:
        @staticmethod
        def to_words(text: str) -> list[str]:
            return re.findall(r"\w+", text)

    ranker = TextRankSummarizer()

    def ranked(text: str) -> str:
        several = [Sentence(own, Words) for own in sentences(text) if Words.to_words(own)]
        if not several:
            return ""
        document = ObjectDocumentModel([Paragraph(several)])
        (best,) = ranker(document, 1)
        return str(best)

    return ranked


def table(
    systems: dict[str, Sequence[str]], headlines: Sequence[str], stemmer: bool
) -> list[dict[str, Any]]:
    """ROUGE F1 of every system, in %, and the mean number of words that it writes."""
    scorer = rouge_scorer.RougeScorer(list(KINDS), use_stemmer=stemmer)
    rows = []
    for name, outputs in systems.items():
        if len(outputs) != len(headlines):
            sys.exit(f"{name}: expected {len(headlines)} summaries, got {len(outputs)}")
        totals = dict.fromkeys(KINDS, 0.0)
        for output, headline in zip(outputs, headlines, strict=True):
            for kind, own in scorer.score(headline, output).items():
                totals[kind] += own.fmeasure
        found = {kind: round(100 * total / len(headlines), 2) for kind, total in totals.items()}
        words = round(sum(len(own.split()) for own in outputs) / len(outputs), 1)
        rows.append({"system": name, **found, "words": words})
    return rows


def main(given: argparse.Namespace) -> None:
    path = given.file or Path(os.environ.get("REGARD_DATA", "."), "headlines")
    path = path / f"{given.split}.jsonl.gz" if path.is_dir() else path
    if not path.exists():
        sys.exit(f"there is no {path}: set REGARD_DATA, or give --file")
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][: given.limit]
    texts, headlines = [row["text"] for row in rows], [row["headline"] for row in rows]
    tokenizer = tokenizers.DefaultTokenizer(given.stemmer)
    pairs = list(zip(texts, headlines, strict=True))
    systems: dict[str, Sequence[str]] = {
        "lead": [lead(text) for text in texts],
        "rule": [rule(text) for text in texts],
    }
    if ranked := textrank():
        systems["textrank"] = [ranked(text) for text in texts]
    else:
        print("textrank is left out: pip install sumy", file=sys.stderr)
    systems["sentence (oracle)"] = [best_sentence(*pair, tokenizer.tokenize) for pair in pairs]
    systems["window (oracle)"] = [best_window(*pair, tokenizer.tokenize) for pair in pairs]
    for own in given.predictions:
        name, _, file = own.rpartition("=")
        systems[name or file] = Path(file).read_text("utf-8").splitlines()
    for folder in given.folders:
        import regard

        systems[folder] = [one.output for one in regard.load(folder).predict(texts)]
    found = table(systems, headlines, given.stemmer)
    stemmed = "Porter's stemmer" if given.stemmer else "no stemmer"
    print(f"{path.name}: {len(rows)} texts, rouge-score F1, {stemmed}\n")
    print("| system | ROUGE-1 | ROUGE-2 | ROUGE-L | words |\n|---|---|---|---|---|")
    for row in found:
        print("| " + " | ".join(str(row[key]) for key in ("system", *KINDS, "words")) + " |")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folders", nargs="*", help="model folders to predict with")
    parser.add_argument("--split", default="test", choices=("train", "dev", "test"))
    parser.add_argument("--file", type=Path, help="another file of texts and headlines")
    parser.add_argument("--limit", type=int, help="so many texts alone")
    parser.add_argument("--predictions", nargs="*", default=[], help="NAME=FILE with a line a text")
    parser.add_argument("--no-stemmer", dest="stemmer", action="store_false")
    parser.add_argument("--json", type=Path, help="write the table here too")
    main(parser.parse_args())
