"""How evenly a mixture of experts is used, and what each expert is asked: figures and a picture.

    REGARD_DATA=… python benchmarks/experts.py runs/translation/moe-multi30k -o experts.png

Of each mixture, over the words of one split, the right translation read word by word (Shazeer et
al. 2017, table 6; without noise, as in decoding):

    importance  coefficient of variation of the experts' sums of gate values; 0: all alike
    load        the same of the numbers of words
    busiest     words of the busiest expert over those of the mean expert
    idle        experts that no word was sent to
    words       for each expert, the busiest first: its share of the words in %, and the words that
                are sent to it far more often than to others (the paper's table 9)

The picture has the experts' shares of the words, busiest first. Needs matplotlib for it.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from plots import COLORS, _figure

import regard
from regard.layers.experts import Experts, Gates, squared_variation

RARE = 20
"""Words that come less often than this are typical of nothing."""


@torch.inference_mode()
def routed(loaded: Any, examples: Any, tokens: int = 4096) -> dict[str, Any]:
    """For each mixture: gate values and numbers of words by expert, and by word and expert."""
    model, caught = loaded.model.eval(), {}
    mixtures = {path: one for path, one in model.named_modules() if isinstance(one, Experts)}
    if not mixtures:
        sys.exit(f"{type(model).__name__} has no mixture of experts")
    for path, mixture in mixtures.items():
        mixture.gates.register_forward_hook(
            lambda module, given, out, path=path: caught.update({path: out})
        )
    found: dict[str, Any] = {}
    for indices in loaded.task.batches(examples, tokens):
        batch = examples.collate(indices)
        model(batch.source, batch.target_in, batch.source_lengths)
        read = {"encoder": batch.source, "decoder": batch.target_in}
        for path, mixture in mixtures.items():
            side = path.split("_")[0]
            ids, gates = read[side].flatten(), caught[path]
            size, side_size = len(mixture.into), getattr(model, SIZES[side])
            own = found.setdefault(
                path, {"importance": np.zeros(size), "words": np.zeros((side_size, size))}
            )
            add(own, ids, gates)
    return found


SIZES = {"encoder": "source_vocab_size", "decoder": "target_vocab_size"}


def add(found: dict[str, Any], ids: torch.Tensor, gates: Gates) -> None:
    """Count the real words of a batch."""
    real = ids != 0
    weights, experts = gates.weights[real].double().numpy(), gates.experts[real].numpy()
    np.add.at(found["importance"], experts.ravel(), weights.ravel())
    words = np.broadcast_to(ids[real].numpy()[:, None], experts.shape)
    np.add.at(found["words"], (words.ravel(), experts.ravel()), 1)


def summary(found: dict[str, Any], vocabulary: list[str]) -> dict[str, Any]:
    """The figures of one mixture."""
    load = found["words"].sum(0)
    often = found["words"].sum(1)
    often = np.where(often >= RARE, often, np.inf)
    share = found["words"] / often[:, None]  # of a word's visits, those to this expert
    busiest = np.argsort(-load)
    return {
        "importance": round(variation(found["importance"]), 3),
        "load": round(variation(load), 3),
        "busiest": round(float(load.max() / load.mean()), 2),
        "idle": int((load == 0).sum()),
        "words": [
            [
                round(float(100 * load[i] / load.sum()), 1),
                [vocabulary[j] for j in np.argsort(-share[:, i])[:8] if share[j, i] > 0],
            ]
            for i in busiest
        ],
    }


def variation(x: np.ndarray) -> float:
    """The coefficient of variation, as the model's penalty has it."""
    return float(squared_variation(torch.from_numpy(x)).sqrt())


def draw(found: dict[str, Any], path: Path) -> None:
    """A bar for each expert, a panel for each mixture."""
    figure, axes = _figure(6.4, 2.2, len(found))
    for one, (name, own) in zip(np.atleast_1d(axes), found.items(), strict=True):
        load = np.sort(own["words"].sum(0))[::-1]
        share = 100 * load / load.sum()
        one.bar(range(1, len(share) + 1), share, color=COLORS[0])
        one.axhline(100 / len(share), color=COLORS[1], linewidth=1)
        one.set_title(name.replace("_", "'s "), fontsize=8)
        one.set_xlabel("expert, busiest first", fontsize=7)
        one.set_ylabel("% of the words", fontsize=7)
    figure.savefig(path, dpi=160)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--split", default="test", choices=("train", "dev", "test"))
    parser.add_argument("-o", "--output", type=Path, metavar="PNG")
    given = parser.parse_args()
    loaded = regard.load(given.folder)
    data = loaded.task.data(loaded.config["data"], loaded.tokenizers, splits=(given.split,))
    examples = getattr(data, given.split)
    if examples is None:
        sys.exit(f"{given.folder}: its data has no {given.split} split")
    found = routed(loaded, examples)
    for path, own in found.items():
        side = "source" if path.startswith("encoder") else "target"
        vocabulary = loaded.tokenizers[side].vocabulary
        print(json.dumps({"mixture": path, **summary(own, vocabulary)}, ensure_ascii=False))
    if given.output:
        draw(found, given.output)
