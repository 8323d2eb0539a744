"""Where kept things stand: `regard predict --keep` beside the same sentences without anything kept.

    REGARD_DATA=… python benchmarks/kept_places.py [--sentences 600]

Of dev sentences of mt/de-en those are taken in which a name of the source is in the translation,
once. The name gets a tag around it: is the tag around the name in the translation? Or the name
becomes `{name}`: is that there once, and beside a word that the name was beside?
"""

import argparse
import gzip
import random
import re
import time

from regard import loading
from regard.data.sources import find

MARKS = ".,;:!?()\"'"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=600)
    told = parser.parse_args()
    model = loading.load("de-en-small")
    cases = [one for one in found(model, told.sentences) if one is not None]
    print(f"{len(cases)} sentences")
    began = time.perf_counter()
    tagged = [re.sub(rf"\b{name}\b", f"<b>{name}</b>", text, count=1) for text, _, name in cases]
    outputs = [one.output for one in model.predict(tagged, keep=["all"])]
    alone = inside = 0
    for output, (_, _, name) in zip(outputs, cases, strict=True):
        alone += f"<b>{name}</b>" in output
        inside += bool(re.search(rf"<b>[^<]*\b{name}\b[^<]*</b>", output))
    print(f"tag around the name alone {alone}, around it and others {inside - alone}")
    held = [re.sub(rf"\b{name}\b", "{name}", text, count=1) for text, _, name in cases]
    outputs = [one.output for one in model.predict(held, keep=["all"])]
    once = near = 0
    for output, (_, before, name) in zip(outputs, cases, strict=True):
        once += output.count("{name}") == 1
        mine, theirs = beside(output, "{name}"), beside(before, name)
        near += any(a == b for a, b in zip(mine, theirs, strict=True))
    print(f"placeholder once {once}, a neighbor the same {near}")
    print(f"{time.perf_counter() - began:.1f} s")


def found(model, count):
    """(sentence, translation, a name that both have once), None where there is none."""
    file = next(find("mt/de-en").glob("dev.tsv*"))
    heading, *lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    at = heading.split("\t").index("other")
    rows = [line.split("\t")[at] for line in lines]
    odd = re.compile(r"[%{}<>$\\@]|http")
    texts = [one for one in rows if 6 <= len(one.split()) <= 20 and not odd.search(one)]
    random.Random(5).shuffle(texts)
    texts = texts[:count]
    draw = random.Random(0)
    for text, one in zip(texts, model.predict(texts), strict=True):
        words, others = ([w.strip(MARKS) for w in t.split()] for t in (text, one.output))
        names = [
            word for word in words[1:-1]
            if re.fullmatch(r"\w{3,}", word) and word[0].isupper()
            and words.count(word) == others.count(word) == 1
        ]  # fmt: skip
        yield (text, one.output, draw.choice(names)) if names else None


def beside(text, word):
    """The words before and behind a word."""
    words = ["", *text.split(), ""]
    at = next((i for i, one in enumerate(words) if word in one), None)
    return (words[at - 1], words[at + 1]) if at is not None else (None, None)


if __name__ == "__main__":
    main()
