"""Words that the vocabulary lacks: whether a summarizer that points writes the right one.

    REGARD_DATA=… python benchmarks/copied_words.py runs/summarization/paulus-ml-headlines

Of the right summaries' tokens, those that the vocabulary lacks and the text has, each after the
right tokens before it. The model points where the probability of copying is above one half.

    words     such tokens
    points    share of them where the model points, in %
    exact     of those where it points, the share whose likeliest token is the right word, in %
    right     of all of them, the share written exactly whether it points or not, in %
"""

import argparse
import json
import sys

import torch

import regard


@torch.inference_mode()
def counted(folder: str, split: str, limit: int | None, tokens: int = 4096) -> dict[str, object]:
    """The figures of one model on one split of its data."""
    loaded = regard.load(folder)
    config = {**loaded.config["data"], "limit": {split: limit} if limit else None}
    found = getattr(loaded.task.data(config, loaded.tokenizers, splits=(split,)), split)
    if found is None:
        sys.exit(f"{folder}: its data has no {split} split")
    model = loaded.model.eval()
    size, words, points, exact, right = model.target_vocab_size, 0, 0, 0, 0
    for indices in loaded.task.batches(found, tokens):
        batch = found.collate(indices)
        output = model(batch.source, batch.target_in, batch.source_lengths)
        if "copying" not in output.extra:
            sys.exit(f"{folder}: {type(model).__name__} does not say when it copies")
        own = batch.target_out >= size
        pointing = own & (output.extra["copying"] > 0)
        same = output.logits.argmax(-1) == batch.target_out
        words += int(own.sum())
        points += int(pointing.sum())
        exact += int((pointing & same).sum())
        right += int((own & same).sum())
    return {
        "folder": folder, "split": split, "texts": len(found), "vocabulary": size, "words": words,
        "points": percent(points, words), "exact": percent(exact, points),
        "right": percent(right, words),
    }  # fmt: skip


def percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--split", default="test", choices=("train", "dev", "test"))
    parser.add_argument("--limit", type=int, help="so many texts alone")
    given = parser.parse_args()
    for one in given.folders:
        print(json.dumps(counted(one, given.split, given.limit)), flush=True)
