"""Writes docs/taxonomy.md from the catalogue: `python -m tests.docs.taxonomy`."""

import re
from collections import defaultdict
from pathlib import Path

from regard import catalog, recipe

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "taxonomy.md"
AXES = {
    "sequences": "Number of sequences",
    "levels": "Levels of abstraction",
    "positions": "Positions",
    "representations": "Representations",
}
HEAD = """# The taxonomy of attention

Four questions of Chaudhari et al. (2019), *An Attentive Survey of Attention Models*, arXiv
1904.02874, answered for every model of the catalogue, and the architecture that attention is part
of. The values are our reading of the axes: the survey's own table has fewer models, and a cell of
it may differ. A model has a value on each axis; those without attention are left out.
`python -m tests.docs.taxonomy` writes this page from `regard/catalog`.

`regard models NAME` shows a model, `regard train RECIPE` trains it, and `regard look FOLDER INPUT`
draws what it attends to.
"""


WRITING = {
    "translation",
    "pronunciation",
    "parsing",
    "summarization",
    "captioning",
    "video",
    "speech",
}
ARCHITECTURE = """Encoder-decoder, memory network, or an encoder alone; with recurrence or without.
Computed from what a model reads its sequences with (`body`) and from its tasks: those that write
an output have a decoder.
"""


def architecture(entry):
    """What attention is part of; `entry` is a row of the catalogue."""
    if re.match("memn2n", entry.name):
        return "memory network"
    body = entry.axes["body"]  # DeepAtt's is attention by default, an LSTM on request
    recurrent = re.search("LSTM|GRU|recurrent", body) and not body.startswith("attention")
    kind = "encoder-decoder" if WRITING & set(entry.tasks) else "encoder"
    return f"{kind}, {'recurrent' if recurrent else 'without recurrence'}"


def recipes():
    """Names of the recipes of each model."""
    found = defaultdict(list)
    for name in recipe.names():
        found[recipe.load(name).model["name"]].append(name)
    return found


def pages():
    """The page of each model, as the table of papers links it."""
    table = (ROOT / "docs" / "papers" / "index.md").read_text(encoding="utf-8")
    links = re.findall(r"\[`([a-z0-9-]+)`\]\(([^)]+)\)", table)
    return {name: f"papers/{link}".replace("papers/../", "") for name, link in links}


def text():
    """The whole page."""
    entries = [e for e in catalog.ENTRIES if e.axes.get("score") != "none"]
    trained, page_of = recipes(), pages()
    parts = [HEAD]
    for axis, title in AXES.items():
        groups = defaultdict(list)
        for one in entries:
            groups[one.axes.get(axis, "one")].append(one)
        parts.append(f"## {title}\n\n{catalog.AXES[axis][0].upper()}{catalog.AXES[axis][1:]}.\n")
        rows = ["| value | models |", "|---|---|"]
        for value in sorted(groups, key=lambda v: (-len(groups[v]), v)):
            links = ", ".join(f"[`{e.name}`]({page_of[e.name]})" for e in groups[value])
            rows.append(f"| {value} | {links} |")
        parts.append("\n".join(rows) + "\n")
    groups = defaultdict(list)
    for one in entries:
        groups[architecture(one)].append(f"[`{one.name}`]({page_of[one.name]})")
    rows = [f"| {value} | {', '.join(groups[value])} |" for value in sorted(groups)]
    table = "\n".join(["| value | models |", "|---|---|", *rows])
    parts.append(f"## Architecture\n\n{ARCHITECTURE}\n{table}\n")
    rows = [
        "| model | year | sequences | levels | positions | representations | recipes |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in entries:
        cells = [one.axes.get(axis, "one") for axis in AXES]
        names = ", ".join(f"`{name}`" for name in trained.get(one.name, [])) or "none"
        link = f"[`{one.name}`]({page_of[one.name]})"
        rows.append(f"| {link} | {one.year} | {' | '.join(cells)} | {names} |")
    parts.append("## All models\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
