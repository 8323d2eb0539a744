"""Makes `tests/golden/captions.json`: what pycocoevalcap says of captions drawn at random.

python -m tests.metrics.golden_captions    # pip install pycocoevalcap
"""

import json
import random
from pathlib import Path

WORDS = (
    *("a", "the", "red", "blue", "small", "dog", "cat", "bird"),
    *("on", "in", "near", "tree", "house", "sits", "runs", "two"),
)
FILE = Path(__file__).parents[1] / "golden" / "captions.json"


def captions(seed=3, count=60):
    draw = random.Random(seed)

    def one(least=1, most=12):
        return " ".join(draw.choices(WORDS, k=draw.randint(least, most)))

    right = [[one() for _ in range(draw.randint(1, 4))] for _ in range(count)]
    said = []
    for several in right:
        words = draw.choice(several).split()
        words = [w if draw.random() < 0.7 else draw.choice(WORDS) for w in words]
        said.append(" ".join(words[: draw.randint(1, len(words))]))
    return said, right


if __name__ == "__main__":
    from pycocoevalcap.bleu.bleu_scorer import BleuScorer
    from pycocoevalcap.cider.cider_scorer import CiderScorer
    from pycocoevalcap.rouge.rouge import Rouge

    said, right = captions()
    bleu, cider = BleuScorer(n=4), CiderScorer(n=4)
    for one, several in zip(said, right, strict=True):
        bleu += (one, several)
        cider += (one, several)
    bleus, _ = bleu.compute_score(option="closest", verbose=0)
    value, each = cider.compute_score()
    rouge, _ = Rouge().compute_score(dict(enumerate(right)), {i: [s] for i, s in enumerate(said)})
    FILE.write_text(json.dumps({
        "made by": "pycocoevalcap 1.2, by python -m tests.metrics.golden_captions",
        "said": said, "right": right, "bleu": bleus, "rouge": float(rouge),
        "cider": float(value), "cider_each": [float(v) for v in each],
    }, indent=1) + "\n", encoding="utf-8")  # fmt: skip
