"""Writes tests/golden/relations.json: what SemEval-2010 task 8's scorer 1.2 says of random outputs.

Run with Perl, and with the scorer of the task's release:

    python -m tests.metrics.golden_relations semeval2010_task8_scorer-v1.2.pl
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

HOME = Path(__file__).parents[1] / "golden" / "relations.json"
RELATIONS = (
    "Cause-Effect", "Component-Whole", "Content-Container", "Entity-Destination", "Entity-Origin",
    "Instrument-Agency", "Member-Collection", "Message-Topic", "Product-Producer",
)  # fmt: skip
EACH = re.compile(r"^\s*([\w-]+) :.*F1 =\s+([\d.]+)%$", re.MULTILINE)


def answers(labels: list[str]) -> str:
    return "".join(f"{n}\t{label}\n" for n, label in enumerate(labels, 1))


def official(scorer: str, outputs: list[str], references: list[str]) -> dict:
    with TemporaryDirectory() as place:
        said, true = Path(place, "said.txt"), Path(place, "true.txt")
        said.write_text(answers(outputs))
        true.write_text(answers(references))
        command = ["perl", scorer, str(said), str(true)]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    last = told[told.index("TAKING DIRECTIONALITY INTO ACCOUNT") :]
    each = {name: float(f1) for name, f1 in EACH.findall(last) if name != "_Other"}
    (f1,) = re.findall(r"macro-averaged F1 = ([\d.]+)%", last)
    return {"outputs": outputs, "references": references, "f1": float(f1), "each": each}


def drawn(draw: np.random.Generator, relations: tuple[str, ...], right: float) -> tuple[list, list]:
    labels = ["Other", *(f"{r}({d})" for r in relations for d in ("e1,e2", "e2,e1"))]
    references = draw.choice(labels, 200)
    outputs = np.where(draw.random(200) < right, references, draw.choice(labels, 200))
    turned = [one.translate(str.maketrans("12", "21")) for one in outputs]
    outputs = np.where(draw.random(200) < 0.1, turned, outputs)
    return outputs.tolist(), references.tolist()


def main() -> None:
    (scorer,) = sys.argv[1:]
    draw = np.random.default_rng(1)
    some, all_others = drawn(draw, RELATIONS[:3], 0.5), ["Other"] * 200
    made = {
        "all relations": official(scorer, *drawn(draw, RELATIONS, 0.7)),
        "three relations": official(scorer, *some),
        "nothing said": official(scorer, all_others, some[1]),
        "relations that are not there": official(scorer, drawn(draw, RELATIONS, 0.2)[0], some[1]),
    }
    HOME.write_text(json.dumps(made, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
