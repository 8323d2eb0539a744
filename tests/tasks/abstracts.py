"""Made-up abstracts: toxic drugs are related to severe harms, safe drugs and mild harms are not."""

import json

import numpy as np

from regard.data.annotations.documents import Mention, Relation, RelationDocument
from regard.data.formats.documents import write

DRUGS = ("zorin", "melpax", "quorin", "bravol", "tiblat", "fenzol")
HARMS = ("rash", "fever", "stroke", "cough", "tremor", "edema")


def abstracts(count, seed=1):
    """Two drugs and two harms each; the first mentions say nothing."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        drugs = random.choice(DRUGS, 2, replace=False).tolist()
        harms = random.choice(HARMS, 2, replace=False).tolist()
        text, mentions = "", []

        def say(words, text, mentions):
            for word in words:
                text += " " if text else ""
                kind = {**dict.fromkeys(DRUGS, "Chemical"), **dict.fromkeys(HARMS, "Disease")}
                if word in kind:
                    span = (len(text), len(text) + len(word))
                    mentions.append(Mention((span,), kind[word], (word.upper(),)))
                text += word
            return text

        text = say(["We", "study", *drugs, "and", *harms, "."], text, mentions)
        cut = len(text) + 1
        bad = random.integers(2, size=(2, 2)).tolist()
        for names, kinds, words in zip(
            (drugs, harms), bad, (("safe", "toxic"), ("mild", "severe")), strict=True
        ):
            for name, kind in zip(names, kinds, strict=True):
                text = say([name, "was", words[kind], "."], text, mentions)
        relations = [
            Relation("CID", drug.upper(), harm.upper())
            for drug, toxic in zip(drugs, bad[0], strict=True)
            for harm, severe in zip(harms, bad[1], strict=True)
            if toxic and severe
        ]
        found.append(RelationDocument(
            str(number), text, tuple(mentions), tuple(relations), (0, cut)
        ))  # fmt: skip
    return found


def written(folder, sizes=(160, 20, 30), format="pubtator"):
    """A folder with three splits."""
    folder.mkdir(parents=True, exist_ok=True)
    ending = {"pubtator": "txt", "bioc": "xml", "jsonl": "jsonl"}[format]
    for seed, (split, size) in enumerate(zip(("train", "dev", "test"), sizes, strict=True), 1):
        write(abstracts(size, seed), folder / f"{split}.{ending}", format)
    return folder


def tiny(data, **task):
    """A recipe that learns them in seconds."""
    return json.dumps({
        "model": {
            "name": "bran", "dim": 16, "heads": 2, "blocks": 1, "max_length": 200,
            "word_dropout": 0.0, "embed_dropout": 0.0, "output_dropout": 0.0,
        },
        "task": {"name": "relations", "names": 1.0, **task},
        "data": {**data, "tokenizer": {"vocab_size": 200}},
        "train": {
            "epochs": 8, "batch": {"tokens": 700}, "log": 100, "seed": 1, "clip": 5.0,
            "optimizer": {"name": "adam", "lr": 0.008}, "validate": {"every": 100, "examples": 30},
        },
    })  # fmt: skip
