"""The answer of each run as the headline of its page, below what it was given."""

import re
from collections.abc import Sequence
from html import escape

from regard.viewer.palette import HEADS
from regard.views import Run, SpansPanel, TreeNode, TreePanel, ValuesPanel

__all__ = ["headline_html", "plain_title"]

MOST = 400
"""Characters of an input, and of an output, that a headline has room for."""
PREDICATES = 3
"""Texts with labels that a headline has room for; the stage has all."""


def plain_title(text: str) -> str:
    """A title with the columns of its input set apart by a dot, as people write them.

    Example:
        >>> plain_title("entailment · A dog runs. ||| A dog.")
        'entailment · A dog runs. · A dog.'
    """
    return re.sub(r"\s*\|\|\|\s*", " · ", text)


def headline_html(runs: Sequence[Run], *, answers: bool = True) -> str:
    """A block for each run; that of the chosen one is shown.

    Args:
        answers: else the inputs alone, where the answers are shown larger.
    """
    made = []
    for number, run in enumerate(runs):
        answer, given = _answer(run) if answers else [], _short(plain_title(run.input))
        if not answer and not given:
            continue
        lines = f'<p class="given" dir="auto">{escape(given)}</p>' if given else ""
        lines += "".join(f'<p class="answer" dir="auto">{one}</p>' for one in answer)
        kind = " data-spans" if _spans(run) else ""
        hidden = " hidden" if number else ""
        made.append(f'<div data-run="{number}"{kind}{hidden}>{lines}</div>')
    return "".join(made)


def _spans(run: Run) -> list[SpansPanel]:
    return [panel for panel in run.panels if isinstance(panel, SpansPanel)]


def _answer(run: Run) -> list[str]:
    """Labeled texts, a tree in brackets, or a text with its probability: lines of HTML."""
    if spans := _spans(run):
        return [_labeled(panel) for panel in spans[:PREDICATES]]
    for panel in run.panels:
        if isinstance(panel, TreePanel):
            return [escape(_short(_bracketed(panel.root)))]
    if not run.output:
        return []
    sure = ""
    for panel in run.panels:
        if isinstance(panel, ValuesPanel) and panel.kind == "bars" and run.output in panel.labels:
            value = panel.values[panel.labels.index(run.output)]
            sure = f" <small>{value * 100:.1f} %</small>" if 0 <= value <= 1 else ""
            break
    return [escape(_short(run.output)) + sure]


def _labeled(panel: SpansPanel) -> str:
    """The text with each span underlined and its label behind; of spans that overlap the first."""
    labels = list(dict.fromkeys(one.label for one in panel.spans))
    made: list[str] = []
    at = 0
    for one in sorted(panel.spans, key=lambda span: (span.start, -span.end)):
        if one.start < at:
            continue
        made += map(escape, panel.words[at : one.start])
        hue = HEADS[labels.index(one.label) % len(HEADS)]
        inside = escape(" ".join(panel.words[one.start : one.end]))
        made.append(
            f'<mark style="--hue:{hue}">{inside}</mark><sub>\u00a0{escape(one.label)}</sub>'
        )
        at = one.end
    return " ".join([*made, *map(escape, panel.words[at:])])


def _bracketed(node: TreeNode) -> str:
    """The tree in one line, `(NP The cat)`."""
    if not node.children:
        return node.label
    return f"({' '.join([node.label, *map(_bracketed, node.children)])})"


def _short(text: str) -> str:
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"
