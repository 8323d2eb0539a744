"""Makes digests of headlines: several short texts in one, and their headlines as its summary.

    REGARD_DATA=… python benchmarks/digests.py digests             # folder to write
    python benchmarks/digests.py digests --data headlines --seed 2 --least 5 --most 8
    regard train summarization/pointer-generator-headlines data.path=digests \
        data.columns.target=summary task.read_source=800

Constructed data, and labeled so (`"made": "digest"`): what needs a long source and a summary of
several sentences, where none that is free is at hand. A digest has 5 to 8 texts of one section,
each a paragraph, in random order; its summary has their headlines in that order, a line each. No
text is in two digests, digests of a split have texts of that split alone, and the same seed makes
the same files. What is left of a section, fewer than five texts, is in none.
"""

import argparse
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from regard.data.sources import find, splits


def digests(
    rows: Sequence[Mapping[str, str]], seed: int, split: str, least: int = 5, most: int = 8
) -> Iterator[dict[str, object]]:
    """The digests of one split.

    Example:
        >>> rows = [dict(id=str(i), section="s", text=f"T{i}.", headline=f"h{i}") for i in range(9)]
        >>> found = list(digests(rows, 1, "dev"))
        >>> [len(one["of"]) in range(5, 9) for one in found]
        [True]
        >>> found == list(digests(rows, 1, "dev"))
        True
    """
    number = {"train": 0, "dev": 1, "test": 2}[split]
    draw = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, number])))
    sections: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        sections.setdefault(row["section"], []).append(row)
    for section in sorted(sections):
        own = sections[section]
        order = draw.permutation(len(own)).tolist()
        start = 0
        while len(order) - start >= least:
            size = min(int(draw.integers(least, most + 1)), len(order) - start)
            chosen = [own[i] for i in order[start : start + size]]
            start += size
            yield {
                "id": f"{split}-{section}-{start}",
                "made": "digest",
                "section": section,
                "of": [one["id"] for one in chosen],
                "text": "\n\n".join(" ".join(one["text"].split()) for one in chosen),
                "summary": "\n".join(one["headline"].rstrip(".") + "." for one in chosen),
            }


def main() -> None:
    """Write the three splits."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where train, dev and test are written")
    parser.add_argument("--data", default="headlines", help="the folder of headlines")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=int, default=5, help="texts of a digest")
    parser.add_argument("--most", type=int, default=8)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for split, file in splits(find(asked.data)).items():
        with gzip.open(file, "rt", encoding="utf-8") as opened:
            rows = [json.loads(line) for line in opened]
        made = list(digests(rows, asked.seed, split, asked.least, asked.most))
        target = asked.folder / f"{split}.jsonl.gz"
        with target.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as zipped:
            for one in made:
                zipped.write((json.dumps(one, ensure_ascii=False) + "\n").encode())
        words = sorted(len(str(one["text"]).split()) for one in made) or [0]
        print(
            f"{target}: {len(made)} digests of {sum(len(one['of']) for one in made)} texts, "  # type: ignore[arg-type, misc]
            f"{words[0]} to {words[-1]} words, median {words[len(words) // 2]}"
        )


if __name__ == "__main__":
    main()
