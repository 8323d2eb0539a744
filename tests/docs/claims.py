"""Writes docs/claims/index.md from the claims and their results: `python -m tests.docs.claims`."""

from collections import Counter
from pathlib import Path

from regard.claims.results import decided, folder, kept, remark, values_of
from regard.claims.rules import OPEN, VERDICTS
from regard.claims.table import CLAIMS, THEMES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "claims" / "index.md"
HEAD = """# Claims

Surveys of attention make claims: that local attention beats global attention, that √d keeps the
softmax alive, that heads learn structure. Here are seventy of them, as five Chinese surveys and the
papers that they cite make them, each with a rule of decision, what was measured here, and the
verdict that follows.

```sh
regard claims
regard claims C16 -o variance.png
regard claims --verdict opposite
```

**What a verdict says.** A rule was written before the experiment was run (a note says where it was
changed), and computes the verdict from the numbers:

- Q, trained systems: the claimed sign of the difference, and p < 0.05 by
  [`regard compare`](../commands.md#compare).
- M, made data: every seed on the claimed side of a threshold.
- E, an equality: exact to 1e-5.
- T, times: the median of runs that take turns; exponents within 0.15.
- V, real examples: a 95 % interval of a paired bootstrap against a baseline.

*Confirmed* and *opposite* are the two sides of the rule; *not confirmed* lies between them or holds
for a part only; *open* was not measured. Nearly all results are of small budgets and small data, so
they say what holds there. Where a claim fails, a paragraph says why. The experiments are in
`src/regard/claims/experiments/`, a short file each, the rules in `src/regard/claims/lists/`.
`python -m tests.docs.claims` writes this page.
"""


def section(one):
    """A claim with its rule, numbers, picture and command."""
    values, about = values_of(one), kept(one)
    decision = decided(one, values)
    lines = [f"### {one.id}: {decision.verdict}\n", f"{one.sentence} *({one.source})*\n"]
    if one.rule is not None:
        lines.append(f"- Rule: {one.rule.text}.")
    if values is not None:
        lines.append(f"- Here: {one.found(values)}.")
    if decision.statistic:
        lines.append(f"- Decided by: {decision.statistic}.")
    if one.experiment:
        data = f" (data: {', '.join(f'`{need}`' for need in one.needs)})" if one.needs else ""
        lines.append(f"- Measure it: `{one.command}`, about {one.seconds:g} CPU-seconds{data}.")
    if about is not None:
        machine = about["machine"]
        lines.append(
            f"- Measured {about['date']} in {about['seconds']:g} CPU-seconds, seeds "
            f"{', '.join(map(str, about['seeds']))}, {machine['level']}, PyTorch "
            f"{machine['torch']}: [numbers]({one.id}.json)."
        )
    for file in dict.fromkeys(quote.file for quote in one.quotes):
        where = file.removeprefix("docs/")
        said = dict.fromkeys(quote.command for quote in one.quotes if quote.file == file)
        lines.append(f"- From [{where}](../{where}): {', '.join(f'`{text}`' for text in said)}.")
    if remark(one, values):
        lines.append(f"\n{remark(one, values)}")
    if (ROOT / "docs" / "images" / "claims" / f"{one.id}.png").is_file():
        lines.append(f"\n![{one.id}: {one.sentence}](../images/claims/{one.id}.png)")
    return "\n".join(lines) + "\n"


def text():
    """The whole page."""
    verdicts = {one.id: decided(one, values_of(one)).verdict for one in CLAIMS.values()}
    counts = Counter(verdicts.values())
    parts = [HEAD, ", ".join(f"{counts[v]} {v}" for v in VERDICTS).capitalize() + ".\n"]
    for theme, claims in THEMES.items():
        parts.append(f"## {theme}\n")
        rows = ["| id | claim | verdict |", "|---|---|---|"]
        for one in claims:
            verdict = verdicts[one.id]
            shown = verdict if verdict == OPEN else f"**{verdict}**"
            link = f"[{one.id}](#{one.id.lower()}-{verdict.replace(' ', '-')})"
            rows.append(f"| {link} | {one.sentence} | {shown} |")
        parts.append("\n".join(rows) + "\n")
        parts += map(section, claims)
    return "\n".join(parts)


if __name__ == "__main__":
    assert folder() == PAGE.parent
    PAGE.write_text(text(), encoding="utf-8")
