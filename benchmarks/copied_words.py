"""Words that the vocabulary lacks: whether a summarizer points, and what it writes then.

    REGARD_DATA=… python benchmarks/copied_words.py runs/summarization/paulus-ml-headlines

Of the right summaries' words that the vocabulary lacks and the text has, each after the right words
before it; the model points where the probability of copying is above one half:

    words     such words
    points    share of them where the model points, in %
    right     of those where it points, the share where the likeliest word is the right one, in %

Of what is written with the folder's decoder:

    written   words that the vocabulary lacks
    exact     share of them that stand in the text, letter by letter, in %
    found     share of the right summaries' such words that were written, in %
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import torch

import regard
from regard.data.text.vocabulary_kinds import SPACE


@torch.inference_mode()
def pointed(loaded: Any, examples: Any, tokens: int = 4096) -> dict[str, object]:
    """After the right words: where the model points, and whether it is right."""
    model, words, points, right = loaded.model.eval(), 0, 0, 0
    for indices in loaded.task.batches(examples, tokens):
        batch = examples.collate(indices)
        output = model(batch.source, batch.target_in, batch.source_lengths)
        if "copying" not in output.extra:
            sys.exit(f"{type(model).__name__} does not say when it copies")
        own = batch.target_out >= model.target_vocab_size
        pointing = own & (output.extra["copying"] > 0)
        words += int(own.sum())
        points += int(pointing.sum())
        right += int((pointing & (output.logits.argmax(-1) == batch.target_out)).sum())
    return {"words": words, "points": percent(points, words), "right": percent(right, points)}


def wrote(loaded: Any, texts: Sequence[str], summaries: Sequence[str]) -> dict[str, object]:
    """With the folder's decoder: the words that the vocabulary lacks."""
    tokenizer = loaded.tokenizers["target"]
    known = set(tokenizer.vocabulary)
    written, exact, wanted, found = 0, 0, 0, 0
    for text, summary, one in zip(texts, summaries, loaded.predict(list(texts)), strict=True):
        spelled = {text[start:end].strip() for start, end in tokenizer.encode(text).offsets}
        there = set(tokenizer.words_of(text))
        unknown = (set(tokenizer.words_of(summary)) & there) - known
        own = [word for word, copied in zip(one.tokens, one.copied, strict=True) if copied]
        written += len(own)
        exact += sum(word.removeprefix(SPACE) in spelled for word in own)
        wanted += len(unknown)
        named = {word.lower() for word in own} if tokenizer.lowercase else set(own)
        found += len(unknown & named)
    return {
        "written": written, "exact": percent(exact, written), "found": percent(found, wanted),
    }  # fmt: skip


def percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None


def measured(folder: str, split: str, limit: int | None) -> dict[str, object]:
    """The figures of one model on one split of its data."""
    loaded = regard.load(folder)
    config = {**loaded.config["data"], "limit": {split: limit} if limit else None}
    examples = getattr(loaded.task.data(config, loaded.tokenizers, splits=(split,)), split)
    if examples is None:
        sys.exit(f"{folder}: its data has no {split} split")
    right = [one[0] for one in examples.references]
    return {
        "folder": folder, "split": split, "texts": len(examples),
        "vocabulary": loaded.model.target_vocab_size, **pointed(loaded, examples),
        **wrote(loaded, examples.texts, right),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--split", default="test", choices=("train", "dev", "test"))
    parser.add_argument("--limit", type=int, help="so many texts alone")
    given = parser.parse_args()
    for one in given.folders:
        print(json.dumps(measured(one, given.split, given.limit)), flush=True)
