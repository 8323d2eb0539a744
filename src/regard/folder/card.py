"""The model card: the README.md of a model folder, for people who meet it without its maker."""

import platform
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from regard import __version__, catalog
from regard.settings.yaml_reader import dump

__all__ = ["text"]

LIMITS = (
    "Trained on the data named above and nothing else: expect worse results on other kinds of "
    "text. Outputs can be fluent and wrong; have a person check what matters. What it attends to "
    "shows where the model looked, which is not the same as why it decided."
)
GIVEN = {
    "images": "photo.png",
    "captioning": "photo.png",
    "video": "clip.gif",
    "speech": "recording.wav",
    "speech-ctc": "recording.wav",
    "relation-classification": "The <e1>fire</e1> was caused by <e2>lightning</e2>.",
}
"""What an input is called where it is no text, or no text alone."""
LICENCE = "The weights are the trainer's to license; mind the licence of the data named above."


def text(
    name: str,
    config: Mapping[str, Any],
    sections: Mapping[str, Any],
    metrics: Mapping[str, Any],
    model: nn.Module,
    words: Mapping[str, str],
) -> str:
    """Write the card.

    Args:
        name: of the folder.
        config: the folder's `config.json`.
        sections: the recipe's.
        metrics: as `evaluate` gives them: `{"metrics": {...}, "signature": {...}}`.
        model: for counting.
        words: `data`, `limits` and `licence` in prose, where the caller knows better.
    """
    count = sum(parameter.numel() for parameter in model.parameters())
    task, saved = config["task"]["name"], config["weights"]["dtype"]
    recipe = dump({k: v for k, v in sections.items() if v})
    return "\n".join(
        [
            f"# {name}",
            "",
            (
                f"{config['model']['name']} for {task}, {count:,} parameters, saved as {saved}, "
                "made by regard."
            ),
            "",
            "```python",
            "import regard",
            "",
            f'model = regard.load("{name}")  # or the path of this folder',
            _use(str(task)),
            "```",
            "",
            *("## Paper", "", _paper(config["model"]["name"]), ""),
            *("## Data", "", words.get("data") or _data(config.get("data") or {}), ""),
            *("## Scores", "", *_scores(metrics), ""),
            *("## Recipe", "", "```yaml", recipe.rstrip(), "```", ""),
            *("## Limits", "", words.get("limits") or LIMITS, ""),
            *("## Licence", "", words.get("licence") or LICENCE, ""),
            "## Versions",
            "",
            f"regard {__version__}, PyTorch {torch.__version__}, "
            f"Python {platform.python_version()}.",
            "",
        ]
    )


def _use(task: str) -> str:
    """The line of Python that uses a model."""
    if task in ("translation", "pronunciation"):
        return 'print(model.translate("..."))'
    return f'print(model.predict(["{GIVEN.get(task, "...")}"])[0].output)'


def _paper(name: str) -> str:
    if name not in catalog.names():
        return f"`{name}` is not in the catalogue."
    entry = catalog.entry(name)
    authors = entry.authors if isinstance(entry.authors, str) else ", ".join(entry.authors)
    return f"{authors}, [{entry.title}]({entry.url}), {entry.year}."


def _data(data: Mapping[str, Any]) -> str:
    columns = ", ".join(f"{k} = `{v}`" for k, v in (data.get("columns") or {}).items())
    where = data.get("path") or ", ".join(str(data[k]) for k in ("train",) if k in data)
    return f"`{where}`" + (f" ({columns})" if columns else "") + "." if where else "Not noted."


def _scores(metrics: Mapping[str, Any]) -> list[str]:
    values = metrics.get("metrics")
    if not isinstance(values, Mapping) or not values:
        values = {k: v for k, v in metrics.items() if isinstance(v, (int, float))}
    if not values:
        return ["Not measured."]
    signatures = metrics.get("signature")
    signatures = signatures if isinstance(signatures, Mapping) else {}
    rows = [
        f"| {name} | {value:.2f} | {f'`{signatures[name]}`' if name in signatures else ''} |"
        for name, value in values.items()
        if isinstance(value, (int, float))
    ]
    low = metrics.get("precision")
    for precision, scores in low.items() if isinstance(low, Mapping) else ():
        rows += [
            f"| {name}, decoded in {precision} | {value:.2f} | {value - values[name]:+.2f} |"
            for name, value in scores.items()
            if isinstance(values.get(name), (int, float)) and isinstance(value, (int, float))
        ]
    return ["| score | value | computed as |", "|---|---|---|", *rows]
