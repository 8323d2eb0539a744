"""Taggers that others made, on the sets of names and aspects: what a model has to be better than.

    REGARD_DATA=… python benchmarks/names.py cdr aspects                  # both, trained and scored
    python benchmarks/names.py aspects --peers crf --seeds 1
    python benchmarks/names.py cdr --peers crf --folder runs/tagging/bilstm-crf-cdr   # and speed

`crf` is sklearn-crfsuite's with the usual features (words, endings, shapes, neighbors), its L1 and
L2 chosen on dev; `spacy` is the tagger of names of a blank English pipeline, stopped on dev. On
`aspects` what tells O is lowered as on dev it is best, as recipes do (`task.tune_outside`): in the
CRF by a threshold on the marginal of O. All read the rows that the recipes read, words as they are
given, and are scored by the rule of conlleval on test. CPU seconds: those of the chosen training.

With `--folder` a trained model and the first peer tag the test set in turns, one thread: `speed`
says words a second of CPU time (min, median, max), `ratio` how many times as fast the folder is.
Needs `pip install sklearn-crfsuite spacy`; what is not installed is left out.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from paired import machine, paired, row

from regard import load
from regard.data import sources
from regard.data.annotations.tag_schemes import lenient_spans, tags_of
from regard.data.formats import read
from regard.metrics.spans import conlleval

Sentences = Sequence[Sequence[str]]


class Data(NamedTuple):
    """A split: words and tags of every sentence."""

    words: Sentences
    tags: Sentences


SETS: dict[str, tuple[dict[str, str], str, bool]] = {
    "cdr": ({"text": "text", "tags": "tags"}, "pubtator-tags", False),
    "aspects": ({"text": "tokens", "tags": "tags"}, "jsonl", True),
}
"""Columns, format, and whether O is lowered."""
LOWERED = tuple(x / 20 for x in range(2, 21))
"""The marginals of O below which a word is no O."""


def split(name: str, part: str) -> Data:
    """The sentences of a file, as recipes read them."""
    columns, format, _ = SETS[name]
    file = sources.splits(sources.find(name))[part]
    found = [
        (one.fields["text"].split(), one.fields["tags"].split())
        for one in read(file, columns, format, lists={"text": " ", "tags": " "})
    ]
    return Data([words for words, _ in found], [tags for _, tags in found])


def f1(said: Sentences, data: Data) -> float:
    """Of exact spans with their types."""
    return float(conlleval(said, data.tags)["f1"].value)


# -- sklearn-crfsuite


def look(word: str) -> str:
    """Capitals, small letters, digits and marks, each run as one."""
    kinds = (
        "X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in word
    )
    found = ""
    for kind in kinds:
        found += "" if found.endswith(kind) else kind
    return found


def features(words: Sequence[str], at: int) -> list[str]:
    """What is usual: the word, its ends, its shape, and the two words on either side."""
    word = words[at]
    low = word.lower()
    found = ["bias", f"w={low}", f"shape={look(word)}"]
    for size in (2, 3, 4):
        found += [f"end{size}={low[-size:]}", f"begin{size}={low[:size]}"]
    for step in (-2, -1, 1, 2):
        inside = 0 <= at + step < len(words)
        near = words[at + step] if inside else ""
        found.append(f"{step}={near.lower()}")
        if abs(step) == 1:
            found += [f"{step}shape={look(near)}", f"{step}end={near[-3:].lower()}"]
            pair = (near.lower(), low) if step < 0 else (low, near.lower())
            found.append(f"{step}pair={' '.join(pair)}")
    return found


def crf(name: str, train: Data, dev: Data, seed: int) -> tuple[Callable[[Sentences], Any], float]:
    """The tagger that is best on dev, and the CPU seconds of its training."""
    from sklearn_crfsuite import CRF

    def described(sentences: Sentences) -> list[list[list[str]]]:
        return [[features(words, i) for i in range(len(words))] for words in sentences]

    inputs, on_dev = described(train.words), described(dev.words)
    best = (-1.0, None, 0.0, 1.0)
    for first, second in ((0.1, 0.01), (0.1, 0.1), (0.5, 0.01), (1.0, 0.001)):
        began = time.process_time()
        made = CRF(c1=first, c2=second, max_iterations=100, all_possible_transitions=True)
        made.fit(inputs, train.tags)
        spent = time.process_time() - began
        for most in LOWERED if SETS[name][2] else (1.0,):
            value = f1(tagged(made, on_dev, most), dev)
            if value > best[0]:
                best = (value, made, spent, most)
    _, made, spent, most = best
    return lambda sentences: tagged(made, described(sentences), most), spent


def tagged(made: Any, inputs: Any, most: float) -> Sentences:
    """The best paths; or each word by itself, where O may have no more than so much."""
    if most == 1.0:
        return made.predict(inputs)
    found = []
    for sentence in made.predict_marginals(inputs):
        tags = []
        for word in sentence:
            others = {tag: p for tag, p in word.items() if tag != "O"}
            tags.append("O" if word["O"] >= most else max(others, key=others.__getitem__))
        found.append(tags)
    return found


# -- spaCy


def spacy(name: str, train: Data, dev: Data, seed: int) -> tuple[Callable[[Sentences], Any], float]:
    """A blank pipeline's tagger after the pass that is best on dev, at most 20."""
    import spacy as library
    from spacy.tokens import Doc
    from spacy.training import Example

    random.seed(seed)
    library.util.fix_random_seed(seed)
    pipeline = library.blank("en")
    pipeline.add_pipe("ner")

    def document(words: Sequence[str], tags: Sequence[str] = ()) -> Any:
        labels = [tag if len(tag) > 1 or tag == "O" else f"{tag}-{NAME}" for tag in tags]
        return Doc(pipeline.vocab, words=list(words), ents=labels or None)

    def tag(sentences: Sentences) -> Sentences:
        found = []
        for one in pipeline.pipe([document(words) for words in sentences]):
            spans = [(e.start, e.end, "" if e.label_ == NAME else e.label_) for e in one.ents]
            found.append(tags_of(spans, len(one)))
        return found

    examples = [
        Example(document(words), document(words, tags)) for words, tags in zip(*train, strict=True)
    ]
    optimizer = pipeline.initialize(lambda: examples)
    best, kept, stale, began = -1.0, b"", 0, time.process_time()
    for _ in range(20):
        random.shuffle(examples)
        for own in library.util.minibatch(examples, size=32):
            pipeline.update(own, drop=0.3, sgd=optimizer)
        value = f1(tag(dev.words), dev)
        stale = 0 if value > best else stale + 1
        if value > best:
            best, kept = value, pipeline.to_bytes()
        if stale == 3:
            break
    spent = time.process_time() - began
    pipeline.from_bytes(kept)
    return tag, spent


NAME = "NAME"
"""The label of spans without one, which spaCy does not know."""
PEERS = {"crf": crf, "spacy": spacy}


def folder(path: str) -> Callable[[Sentences], Any]:
    """What a trained model says."""
    model = load(path)
    return lambda sentences: [
        one.output.split() for one in model.predict([" ".join(words) for words in sentences])
    ]


def speed(tag: Callable[[Sentences], Any], words: Sentences, repeats: int) -> list[int]:
    """Words a second of CPU time: min, median, max."""
    count, found = sum(map(len, words)), []
    for _ in range(repeats):
        began = time.process_time()
        tag(words)
        found.append(count / (time.process_time() - began))
    return [round(of(found)) for of in (min, statistics.median, max)]


def main() -> None:
    """Measure what was asked for."""
    told = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    told.add_argument("sets", nargs="+", choices=SETS)
    told.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    told.add_argument("--seeds", type=int, nargs="+", default=[1])
    told.add_argument("--folder", help="a trained model, for speed in turns")
    told.add_argument("--repeats", type=int, default=5)
    given = told.parse_args()
    torch.set_num_threads(1)
    for name in given.sets:
        train, dev, test = (split(name, part) for part in ("train", "dev", "test"))
        ours = folder(given.folder) if given.folder else None
        for peer in given.peers:
            for seed in given.seeds:
                try:
                    tag, spent = PEERS[peer](name, train, dev, seed)
                except ImportError as error:
                    print(f"{peer} is left out: {error}", file=sys.stderr)
                    break
                found = {"f1": round(f1(tag(test.words), test), 2)}
                found["dev"] = round(f1(tag(dev.words), dev), 2)
                found["by_type"] = by_type(tag(test.words), test)
                found["speed"] = speed(tag, test.words, given.repeats)
                if ours is not None:
                    found["folder_f1"] = round(f1(ours(test.words), test), 2)
                    found["folder_speed"] = speed(ours, test.words, given.repeats)
                    found["ratio"] = paired(
                        partial(ours, test.words), partial(tag, test.words), given.repeats
                    )
                row(
                    set=name, peer=peer, seed=seed, cpu_seconds=round(spent, 1), **found,
                    **machine(),
                )  # fmt: skip


def by_type(said: Sentences, data: Data) -> dict[str, float]:
    """F1 of each label."""
    labels = sorted({span[2] for tags in data.tags for span in lenient_spans(tags)} - {""})
    found = {}
    for label in labels:
        both = [
            {(i, *span) for i, tags in enumerate(side) for span in lenient_spans(tags)
             if span[2] == label}
            for side in (said, data.tags)
        ]  # fmt: skip
        found[label] = round(200 * len(both[0] & both[1]) / max(sum(map(len, both)), 1), 2)
    return found


if __name__ == "__main__":
    main()
