"""BLEU by sentence length: what attention buys where sentences are long.

    python benchmarks/by_length.py runs/translation/{seq2seq,rnnsearch}-multi30k

Each folder's own test split (or `--data`), cut by the number of source words; a Markdown table on
stdout. The buckets are the same for every folder; a row's sentences are those of its own split.
"""

import argparse
import json
import sys
from collections.abc import Sequence

import regard
from regard.metrics import bleu

EDGES = (0, 8, 11, 14, 18, 10**9)


def bucket(text: str) -> int:
    """Which of the intervals the number of words falls into."""
    words = len(text.split())
    return next(i for i in range(len(EDGES) - 1) if EDGES[i] < words <= EDGES[i + 1])


def name(i: int) -> str:
    """The interval as people write it."""
    return f"{EDGES[i] + 1}-{EDGES[i + 1]}" if EDGES[i + 1] < 10**9 else f"over {EDGES[i]}"


def scores(folder: str, data: str | None) -> dict[str, float | int]:
    """BLEU of each bucket and of all, with the folder's own decoder."""
    loaded = regard.load(folder)
    config = dict(loaded.config["data"])
    if data is not None:
        config["test"] = data
    test = loaded.task.data(config, loaded.tokenizers, splits=("test",)).test
    if test is None:
        sys.exit(f"{folder}: its data has no test split; say one with --data")
    found = loaded.predict(list(test.texts))
    lower = bool(getattr(loaded.task, "lowercase", False))

    def score(rows: Sequence[int]) -> float:
        outputs = [found[i].output for i in rows]
        value = bleu(outputs, [test.references[i] for i in rows], lowercase=lower).value
        return round(float(value), 1)

    rows: list[list[int]] = [[] for _ in EDGES[1:]]
    for i, text in enumerate(test.texts):
        rows[bucket(text)].append(i)
    by_length = {name(i): score(r) for i, r in enumerate(rows) if r}
    return {"all": score(range(len(found))), **by_length, "sentences": len(found)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__,
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--data", help="a test file, for folders without one of their own")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = {folder: scores(folder, given.data) for folder in given.folders}
    if given.json:
        print(json.dumps(found))
        return
    keys = list(next(iter(found.values())))
    print("| model | " + " | ".join(f"{key} words" if "-" in key else key for key in keys) + " |")
    print("|---" * (len(keys) + 1) + "|")
    for folder, row in found.items():
        print(f"| {folder} | " + " | ".join(str(row.get(key, "")) for key in keys) + " |")


if __name__ == "__main__":
    main()
