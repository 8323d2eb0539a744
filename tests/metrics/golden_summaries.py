"""Writes tests/golden/rouge.json: what rouge-score's command line prints for damaged verses.

    pip install rouge-score
    python -m tests.metrics.golden_summaries

The texts are those of `sacrebleu.json`, cut into two lines each so that sentences are told apart.
"""

import csv
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = "rouge1,rouge2,rouge3,rougeL,rougeLsum"


def lines(text: str) -> str:
    """A text in two lines, cut in the middle."""
    words = text.split()
    half = len(words) // 2
    return "\n".join([" ".join(words[:half]), " ".join(words[half:])])


def printed(outputs: list[str], right: list[str], *, stemmer: bool) -> dict[str, list[float]]:
    """Precision, recall and F of each kind, as the command writes them."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for name, texts in (("target", right), ("prediction", outputs)):
            # A record ends at a mark that is in no text, since texts have line breaks.
            (home / name).write_text("@@".join(texts), encoding="utf-8")
        command = [
            sys.executable, "-m", "rouge_score.rouge", f"--rouge_types={KINDS}",
            f"--target_filepattern={home}/target", f"--prediction_filepattern={home}/prediction",
            "--delimiter=@@", f"--output_filename={home}/out", f"--use_stemmer={stemmer}",
            "--aggregate=false",
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        rows = list(csv.DictReader((home / "out").open(encoding="utf-8")))
    kinds = KINDS.split(",")
    return {
        kind: [[float(row[f"{kind}-{part}"]) for part in "PRF"] for row in rows] for kind in kinds
    }


if __name__ == "__main__":
    frozen = json.loads((GOLDEN / "sacrebleu.json").read_text(encoding="utf-8"))
    outputs, right = [[lines(one) for one in frozen[name]] for name in ("hyp", "ref")]
    cases = [
        {"stemmer": stemmer, "printed": printed(outputs, right, stemmer=stemmer)}
        for stemmer in (False, True)
    ]
    found = {"made by": f"rouge-score {version('rouge-score')}", "outputs": outputs,
             "references": right, "cases": cases}  # fmt: skip
    text = json.dumps(found, ensure_ascii=False, indent=1)
    (GOLDEN / "rouge.json").write_text(text + "\n", encoding="utf-8")
