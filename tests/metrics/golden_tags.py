"""What srl-eval.pl, conlleval.pl and seqeval print for tags and roles drawn at random.

    python -m tests.metrics.golden_tags PATH/srl-eval.pl PATH/conlleval.pl

with perl, and seqeval installed, writes tests/golden/srl_eval.json and spans.json. It imports
nothing of regard.
"""

import itertools
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"
SCHEMES = {"iob1": "BI", "iob2": "BI", "iobes": "BIES", "bilou": "BILU"}
ROLES = ["A0", "A0", "A1", "A1", "A2", "AM-TMP", "V", "C-A0", "C-A1", "C-A1", "C-V", "R-A0"]
RARE = ["C-R-A0", "C-C-A0", "R-A1", "C-AM-TMP"]
GROUP = 60


def nested(draw: random.Random, start: int, end: int, depth: int = 0) -> list:
    """Phrases from word to word, now and then with others inside."""
    found, place = [], start
    while place < end:
        size = min(draw.choice([1, 1, 1, 2, 2, 3, 4]), end - place)
        if draw.random() < 0.55:
            found.append((place, place + size, draw.choice(ROLES if draw.random() < 0.9 else RARE)))
            if depth < 2 and draw.random() < 0.12:
                found += nested(draw, place, place + size, depth + 1)
        place += size
    return found


def column(phrases: list, length: int) -> list[str]:
    opening, closing = [""] * length, [""] * length
    for start, end, label in sorted(phrases, key=lambda p: (p[0], -p[1])):
        opening[start] += f"({label}"
        closing[end - 1] += ")"
    return [f"{a}*{b}" for a, b in zip(opening, closing, strict=True)]


def damaged(draw: random.Random, phrases: list, length: int) -> list:
    """Another analysis of the same words: a label, a phrase or an edge differs here and there."""
    if draw.random() < 0.1:
        return nested(draw, 0, length)
    kept = [p for p in phrases if draw.random() < 0.92]
    kept = [(s, e, draw.choice(ROLES) if draw.random() < 0.1 else n) for s, e, n in kept]
    for at, (start, end, label) in enumerate(kept):
        moved = (start, end + draw.choice([-1, 1]), label)
        others = kept[:at] + kept[at + 1 :]
        apart = all(moved[1] <= s or moved[0] >= e for s, e, _ in others)
        if draw.random() < 0.1 and moved[0] < moved[1] <= length and apart:
            kept[at] = moved
    return kept


def sentence(draw: random.Random) -> dict[str, list[list[str]]]:
    """Columns of the gold and of the output: verbs, then one for each of them."""
    length = draw.randint(1, 12)
    verbs = {i: f"v{i}" for i in range(length) if draw.random() < 0.25}
    gold = {i: nested(draw, 0, length) for i in verbs}
    said = {i: damaged(draw, gold[i], length) for i in verbs if draw.random() < 0.93}
    names = {i: verbs[i] if draw.random() < 0.95 else "other" for i in said}
    if draw.random() < 0.1:
        extra = draw.randrange(length)
        said[extra], names[extra] = nested(draw, 0, length), verbs.get(extra, "extra")
    return {
        side: [
            [told.get(i, "-") for i in range(length)],
            *[column(found[i], length) for i in sorted(found)],
        ]
        for side, told, found in (("gold", verbs, gold), ("said", names, said))
    }


def srl_eval(program: str, sentences: list) -> dict:
    """The numbers that the program prints for some sentences."""
    with tempfile.TemporaryDirectory() as folder:
        for side in ("gold", "said"):
            rows = ["\n".join(" ".join(c) for c in zip(*s[side], strict=True)) for s in sentences]
            (Path(folder) / side).write_text("\n\n".join(rows) + "\n\n")
        command = ["perl", program, f"{folder}/gold", f"{folder}/said"]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    told = dict(re.findall(r"^(\S[^:\n]*?) *: *(\S+)$", out, re.M))
    found = re.findall(r"^ *(\S+) +(\d+) +(\d+) +(\d+) +(\S+) +(\S+) +(\S+)$", out, re.M)
    return {
        "propositions": int(told["Number of Propositions"]),
        "complete": float(told["Percentage of perfect props"]),
        "rows": {name: [*map(int, row[:3]), *map(float, row[3:])] for name, *row in found},
    }


def tags(draw: random.Random, scheme: str, length: int) -> list[str]:
    """Mostly valid tags of a scheme."""
    found, place, before = ["O"] * length, 0, ""
    first, last = {"iobes": "BE", "bilou": "BL"}.get(scheme, "BI")
    only = {"iobes": "S", "bilou": "U"}.get(scheme, "B")
    while place < length:
        size, label = min(draw.randint(1, 4), length - place), draw.choice(["PER", "LOC", "A-B"])
        if draw.random() < 0.5:
            place, before = place + size, ""
            continue
        letters = [only] if size == 1 else [first, *"I" * (size - 2), last]
        if scheme == "iob1" and label != before:
            letters[0] = "I"
        found[place : place + size] = [f"{letter}-{label}" for letter in letters]
        place, before = place + size, label
    return found


def broken(draw: random.Random, given: list[str], scheme: str, often: float) -> list[str]:
    """Some tags replaced by any of the scheme."""
    labels = ["-PER", "-LOC", "-A-B", "-A-", ""]
    return [
        draw.choice(["O", draw.choice(SCHEMES[scheme]) + draw.choice(labels)])
        if draw.random() < often
        else tag
        for tag in given
    ]


def tagged(draw: random.Random, scheme: str) -> list[list[str]]:
    """The tags of the gold, now and then broken too, and of the output."""
    gold = tags(draw, scheme, draw.randint(1, 14))
    gold = broken(draw, gold, scheme, 0.15 if draw.random() < 0.2 else 0)
    other = tags(draw, scheme, len(gold))
    said = [a if draw.random() < 0.85 else b for a, b in zip(gold, other, strict=True)]
    return [gold, broken(draw, said, scheme, 0.1 if draw.random() < 0.5 else 0)]


def short(scheme: str) -> list[list[str]]:
    """All sequences of a few tags with two labels."""
    names = ["O", *[f"{letter}-{label}" for letter in SCHEMES[scheme] for label in "XY"]]
    return [list(one) for one in itertools.product(names, repeat=4 if len(names) < 6 else 3)]


def conlleval(program: str, pairs: list) -> dict:
    rows = ["\n".join(f"w {a} {b}" for a, b in zip(*pair, strict=True)) for pair in pairs]
    text = "\n\n".join(rows) + "\n\n"
    command = ["perl", program]
    out = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    counts = [int(n) for n in re.findall(r"\d+", out.splitlines()[0])]
    number = r": +(\S+)%; "
    total = re.search(f"accuracy{number}precision{number}recall{number}FB1: +(\\S+)", out)
    line = f"^ *(\\S*): precision{number}recall{number}FB1: +(\\S+)  (\\d+)"
    assert total
    return {
        "words": counts[0], "there": counts[1], "said": counts[2], "right": counts[3],
        "rates": [*map(float, total.groups())],
        "types": {n: [*map(float, row)] for n, *row in re.findall(line, out, re.M)},
    }  # fmt: skip


def seqeval(pairs: list, scheme: str) -> dict:
    from seqeval import scheme as schemes
    from seqeval.metrics.v1 import precision_recall_fscore_support

    gold, said = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    kind = getattr(schemes, scheme.upper())
    sides = [schemes.Entities(side, kind) for side in (gold, said)]
    spans = [{span for row in side.entities for span in row} for side in sides]
    more = {"scheme": kind, "zero_division": 0}
    micro = precision_recall_fscore_support(gold, said, average="micro", **more)
    each = precision_recall_fscore_support(gold, said, average=None, **more)
    names = sorted(sides[0].unique_tags | sides[1].unique_tags)
    return {
        "there": len(spans[0]), "said": len(spans[1]), "right": len(spans[0] & spans[1]),
        "rates": [float(rate) for rate in micro[:3]],
        "types": {n: [*map(float, row)] for n, *row in zip(names, *each, strict=True)},
    }  # fmt: skip


def main() -> None:
    roles, chunks = sys.argv[1:]
    draw = random.Random(11)
    drawn = [sentence(draw) for _ in range(4 * GROUP)]
    texts = [{side: [" ".join(c) for c in cs] for side, cs in s.items()} for s in drawn]
    found = {
        "made by": "python -m tests.metrics.golden_tags; srl-eval.pl of 2005/04/21, one sentence a "
        f"run, then {GROUP} sentences a run",
        "sentences": texts,
        "each": [srl_eval(roles, [one]) for one in drawn],
        "groups": [srl_eval(roles, drawn[i : i + GROUP]) for i in range(0, len(drawn), GROUP)],
    }
    write("srl_eval.json", found)
    spans: dict = {
        "made by": "python -m tests.metrics.golden_tags; conlleval.pl version 2004-01-26, seqeval "
        "1.2.2 (mode strict): one sentence a run, then all; short: spans in each of short(scheme)"
    }
    for scheme in SCHEMES:
        pairs = [tagged(draw, scheme) for _ in range(250)]
        spans[scheme] = {"pairs": [[" ".join(side) for side in pair] for pair in pairs]}
        programs = {"seqeval": lambda some, scheme=scheme: seqeval(some, scheme)}
        if scheme != "bilou":  # conlleval does not know it
            programs["conlleval"] = lambda some: conlleval(chunks, some)
        for name, run in programs.items():
            each = [run([pair]) for pair in pairs]
            spans[scheme][name] = {
                "each": [[one["right"], one["said"], one["there"]] for one in each],
                "all": run(pairs),
                "short": "".join(str(run([[one, one]])["there"]) for one in short(scheme)),
            }
    write("spans.json", spans)


def write(name: str, found: dict) -> None:
    (GOLDEN / name).write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
