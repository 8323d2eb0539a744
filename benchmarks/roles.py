"""Roles with gold predicates and with those that the folder's finder finds, and the finder itself.

    OMP_NUM_THREADS=1 python benchmarks/roles.py runs/tagging/deepatt-ffn-srl    # its test split
    OMP_NUM_THREADS=1 python benchmarks/roles.py runs/tagging/deepatt-ffn-srl --finder
    OMP_NUM_THREADS=1 python benchmarks/roles.py FOLDER --write    # learn a finder into the folder

Data are those of the folder's recipe. Sentences without a predicate are read too: what is found in
them is wrong. JSON lines: `finder` has precision, recall and F1 of predicates (over all sentences,
and over those with a predicate), with the seconds of learning where it was learned here; `gold` and
`found` have srl_eval of arguments (`found`: those of wrong predicates count as wrong). A folder of
before there were finders gets one from its training split, kept only with --write.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import regard
from regard.data.formats._column_blocks import blocks, without_comments
from regard.data.problems import Problems
from regard.datasets import rows as corpus
from regard.datasets import section
from regard.fields import PredicatesField
from regard.metrics.roles import Proposition, srl_eval


def main(given: argparse.Namespace) -> None:
    loaded = regard.load(given.folder)
    task: Any = loaded.task
    data = {key: value for key, value in loaded.config["data"].items() if key != "limit"}
    config = section.Config.of(data, task.fields(), task.columns, task.header, task.max_length)
    files = config.files(("train", given.split))
    seconds = None
    field = loaded.fields["predicates"]
    if not field.learned or given.write:
        train = corpus.read(files["train"], config, task.examples, "train", Problems())
        started = time.process_time()
        field = PredicatesField("text", "predicate").learn(
            list(zip(train.values["text"], train.values["predicate"], strict=True))
        )
        seconds = round(time.process_time() - started, 1)
        loaded = replace(loaded, fields={**loaded.fields, "predicates": field})
        if given.write:
            text = field.dump() + "\n"
            Path(given.folder, "field.predicates.json").write_text(text, "utf-8")
    rows = corpus.read(files[given.split], config, task.examples, given.split, Problems())
    gold: dict[str, dict[int, str]] = {text: {} for text in sentences(files[given.split])}
    for text, places, right in zip(
        rows.values["text"], rows.values["predicate"], rows.references, strict=True
    ):
        gold.setdefault(text, {})[places[0]] = right[0]
    texts = list(gold)
    assert isinstance(field, PredicatesField)
    assert field.finder is not None
    said = [set(field.finder.find(text.split())) for text in texts]
    wanted = [set(gold[text]) for text in texts]
    some = [i for i, own in enumerate(wanted) if own]
    size = len(field.dump().encode())
    told: dict[str, Any] = {} if seconds is None else {"seconds": seconds}
    for name, which in (("all", range(len(texts))), ("with a predicate", some)):
        told[name] = rates([said[i] for i in which], [wanted[i] for i in which])
    say(finder=given.folder, split=given.split, sentences=len(texts), bytes=size,
        features=len(field.finder.weights), **told)  # fmt: skip
    if given.finder:
        return
    places = [(text, place) for text in texts for place in gold[text]]
    tagged = loaded.predict([f"{text} ||| {place}" for text, place in places])
    outputs: dict[str, dict[int, str]] = {text: {} for text in texts}
    for (text, place), one in zip(places, tagged, strict=True):
        outputs[text][place] = one.output
    references = [propositions(gold[text]) for text in texts]
    report("gold", [propositions(outputs[text]) for text in texts], references)
    others = [(i, place) for i, own in enumerate(said) for place in sorted(own - wanted[i])]
    tagged = loaded.predict([f"{texts[i]} ||| {place}" for i, place in others])
    found = [
        {p: outputs[text][p] for p in own & set(gold[text])}
        for text, own in zip(texts, said, strict=True)
    ]
    for (i, place), one in zip(others, tagged, strict=True):
        found[i][place] = one.output
    report("found", [propositions(one) for one in found], references)


def sentences(path: Path) -> list[str]:
    """The words of every sentence, those without a predicate among them."""
    found = []
    for block in blocks(path, Problems()):
        words, _ = without_comments(block)
        if words:
            found.append(" ".join(word.cells[0] for word in words))
    return found


def propositions(tags: Mapping[int, str]) -> list[Proposition]:
    return [Proposition.of(own.split(), position=place) for place, own in sorted(tags.items())]


def rates(said: Sequence[set[int]], right: Sequence[set[int]]) -> dict[str, float]:
    """Precision, recall and F1 of predicates, in %."""
    both = sum(len(a & b) for a, b in zip(said, right, strict=True))
    precision, recall = both / sum(map(len, said)), both / sum(map(len, right))
    f1 = 2 * precision * recall / (precision + recall)
    named = {"precision": precision, "recall": recall, "f1": f1}
    return {name: round(100 * value, 2) for name, value in named.items()}


def report(
    predicates: str,
    outputs: Sequence[Sequence[Proposition]],
    references: Sequence[Sequence[Proposition]],
) -> None:
    scores = srl_eval(outputs, references, predicates=predicates)
    say(predicates=predicates, **{name: round(own.value, 2) for name, own in scores.items()})


def say(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--split", choices=["dev", "test"], default="test")
    parser.add_argument("--finder", action="store_true", help="the finder alone")
    parser.add_argument("--write", action="store_true", help="learn a finder into the folder")
    main(parser.parse_args())
