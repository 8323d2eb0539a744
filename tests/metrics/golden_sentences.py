"""Writes tests/golden/sentences.json: what other programs compute on random outputs.

Run with scikit-learn, scipy and pytrec_eval (the C code of trec_eval) installed, and NumPy:

    pip install scikit-learn scipy pytrec_eval-terrier
    python -m tests.metrics.golden_sentences
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

HOME = Path(__file__).parents[1] / "golden" / "sentences.json"


def classes(draw: np.random.Generator) -> dict:
    from sklearn.metrics import f1_score

    names = np.array(["a", "b", "c", "d", "never a reference", "rare"])
    references = draw.choice(names, 120, p=[0.4, 0.3, 0.2, 0.07, 0, 0.03])
    outputs = np.where(draw.random(120) < 0.6, references, draw.choice(names[:5], 120))
    labels = sorted(set(references))
    one = {c: 100 * f1_score(references, outputs, labels=[c], average="macro") for c in labels}
    macro = f1_score(references, outputs, labels=labels, average="macro")
    return {
        "outputs": outputs.tolist(), "references": references.tolist(), "f1": one,
        "macro_f1": 100 * macro,
    }  # fmt: skip


def correlation(draw: np.random.Generator) -> dict:
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import mean_squared_error

    references = np.round(draw.uniform(0, 5, 90), 1)  # with ties
    outputs = np.round(0.5 * references + draw.normal(size=90), 1)
    return {
        "outputs": outputs.tolist(), "references": references.tolist(),
        "pearson": 100 * pearsonr(outputs, references).statistic,
        "spearman": 100 * spearmanr(outputs, references).statistic,
        "mean_squared_error": mean_squared_error(references, outputs),
    }  # fmt: skip


def ranking(draw: np.random.Generator) -> dict:
    import pytrec_eval

    groups = [f"q{n}" for n in draw.integers(0, 25, 200)]  # answers of a question are apart
    scores = np.round(draw.uniform(0, 1, 200), 1)  # with ties
    share = dict(zip(sorted(set(groups)), [0, 0, 1, 1, *[0.3] * 30], strict=False))
    relevant = np.array([draw.random() < share[g] for g in groups])
    judged: dict = {}
    run: dict = {}
    for row, (group, score, right) in enumerate(zip(groups, scores, relevant, strict=True)):
        judged.setdefault(group, {})[f"{row:06}"] = int(right)
        run.setdefault(group, {})[f"{row:06}"] = float(score)
    found = pytrec_eval.RelevanceEvaluator(judged, {"map", "recip_rank"}).evaluate(run)
    keep = {
        "any": [q for q, of in judged.items() if any(of.values())],
        "both": [q for q, of in judged.items() if any(of.values()) and not all(of.values())],
    }
    mean = {
        rule: {m: 100 * float(np.mean([found[q][m] for q in of])) for m in ("map", "recip_rank")}
        for rule, of in keep.items()
    }
    return {
        "groups": groups, "scores": scores.tolist(), "relevant": relevant.tolist(), "mean": mean,
        "questions": {rule: len(of) for rule, of in keep.items()},
    }  # fmt: skip


def temperature(draw: np.random.Generator) -> dict:
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    logits = np.round(3 * draw.normal(size=(80, 4)), 2)
    labels = np.where(draw.random(80) < 0.6, logits.argmax(1), draw.integers(0, 4, 80))

    def loss(t: float) -> float:
        return -float(log_softmax(logits / t, axis=1)[np.arange(80), labels].mean())

    found = minimize_scalar(loss, bounds=(0.05, 20), method="bounded", options={"xatol": 1e-10})
    return {
        "logits": logits.tolist(), "labels": labels.tolist(), "temperature": float(found.x),
        "loss": float(found.fun),
    }  # fmt: skip


def main() -> None:
    draw = np.random.default_rng(17)
    programs = ("scikit-learn", "scipy", "pytrec_eval-terrier")
    made = {
        "made by": "python -m tests.metrics.golden_sentences; "
        + ", ".join(f"{name} {version(name)}" for name in programs),
        "classes": classes(draw), "correlation": correlation(draw), "ranking": ranking(draw),
        "temperature": temperature(draw),
    }  # fmt: skip
    HOME.write_text(json.dumps(made) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
