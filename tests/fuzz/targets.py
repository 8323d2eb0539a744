"""What is fuzzed: seeds, how they are broken, and what reads them.

A target is made in a folder of its own. Its `use` gives a result or raises an error of regard's;
anything else is a finding.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.fuzz.mutate import Mutate, changed_bytes, changed_json, changed_lines
from tests.fuzz.seeds import COLUMNS, TEXTS

__all__ = ["MAKERS", "Target", "target"]


@dataclass(frozen=True)
class Target:
    """A reader and what it is given.

    Args:
        seeds: whole inputs.
        use: reads the bytes of one input.
        mutate: breaks a seed.
    """

    seeds: Sequence[bytes]
    use: Callable[[bytes], Any]
    mutate: Mutate = changed_bytes


def target(name: str, folder: Path) -> Target:
    """The target of a name, with its files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return MAKERS[name](folder)


def rows_of(
    folder: Path, name: str, ending: str, mutate: Mutate = changed_bytes, **more: Any
) -> Target:
    """A format of `regard.data.formats`."""
    from regard.data import formats
    from regard.data.problems import Problems

    path = folder / f"in.{ending}"

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        problems = Problems(shown=0)
        return list(formats.read(path, COLUMNS[name], name, problems=problems, **more))

    return Target(TEXTS[name], use, mutate)


def _moses(folder: Path) -> Target:
    from regard.data import formats
    from regard.data.problems import Problems

    def use(content: bytes) -> Any:
        (folder / "in.de").write_bytes(content)
        (folder / "in.en").write_bytes(TEXTS["moses"][1])
        return list(formats.read(folder / "in", COLUMNS["moses"], problems=Problems(shown=0)))

    return Target(TEXTS["moses"], use)


def _text_pairs(folder: Path) -> Target:
    from regard.data import formats
    from regard.data.problems import Problems

    (folder / "a.summary").write_text("short\n")

    def use(content: bytes) -> Any:
        (folder / "a.txt").write_bytes(content)
        columns = COLUMNS["text-pairs"]
        return list(formats.read(folder, columns, "text-pairs", problems=Problems(shown=0)))

    return Target(TEXTS["moses"], use)


def _written_back(folder: Path, name: str) -> Target:
    """Predicted tags put into a file that is broken."""
    from regard.data import formats

    path = folder / f"in.{name}"

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        column: str | int = {"conll": 4, "conllu": "UPOS"}.get(name, "tags")
        return formats.write_back(path, folder / "out", {1: "O O O"}, column, name)

    return Target(TEXTS[name], use)


def _documents(folder: Path, name: str, seeds: str, mutate: Mutate) -> Target:
    from regard.data.annotations.documents import to_json
    from regard.data.formats import documents as annotated
    from regard.data.problems import Problems

    path = folder / "in"

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        found = annotated.read(path, name, Problems(shown=0))
        return [(to_json(one), one.parts, one.concepts) for _, one in found]

    return Target(TEXTS[seeds], use, mutate)


def _given_document(folder: Path) -> Target:
    """What a user types in one input; ValueError is its reader's word for a refusal."""
    from regard.data.formats import documents as annotated

    def use(content: bytes) -> Any:
        text = content.decode("utf-8", "replace")
        list(annotated.blocks(iter(text.split("\n"))))
        try:
            return annotated.document_of(text)
        except ValueError:
            return None

    return Target([*TEXTS["pubtator"], TEXTS["documents"][0].splitlines()[0]], use)


def _vectors(folder: Path) -> Target:
    import numpy as np

    from regard.data.text.word_vectors import read_word_vectors

    path = folder / "in.vec"
    binary = b"2 3\n" + b"".join(
        w + b" " + np.array([1, 2, 3], "<f4").tobytes() for w in (b"a", b"b\xc3\xa4")
    )

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        return read_word_vectors(path, wanted={"a", "the"}), read_word_vectors(path, most=5)

    return Target([*TEXTS["vectors"], binary], use)


def _lexicon(folder: Path) -> Target:
    from regard.inference.unknown_words import read_lexicon

    path = folder / "in.txt"

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        return read_lexicon(path)

    return Target(TEXTS["lexicon"], use)


def _tables(folder: Path, name: str) -> Target:
    from regard.data.graphs.files import read

    for one in ("edges", "nodes"):
        (folder / f"{one}.csv").write_bytes(TEXTS[one][0])

    def use(content: bytes) -> Any:
        (folder / f"{name}.csv").write_bytes(content)
        return read(folder)

    return Target(TEXTS[name], use)


def _recipe(folder: Path, checked: bool) -> Target:
    from regard import recipe

    path = folder / "in.yaml"

    def use(content: bytes) -> Any:
        path.write_bytes(content)
        found = recipe.load(path, tiny=len(content) % 2 == 0)
        if checked:
            found.check()
        return found.dump()

    return Target(TEXTS["recipe"], use)


def _override(folder: Path) -> Target:
    """`key=value` of a command line."""
    from regard import recipe

    path = folder / "in.yaml"
    path.write_bytes(TEXTS["recipe"][0])
    seeds = [b"train.steps=3", b"model.embed=1e3", b"data.limit={train: 16, dev: 2}", b"decode=~"]

    def use(content: bytes) -> Any:
        return recipe.load(path, [content.decode("utf-8", "surrogateescape")]).dump()

    return Target(seeds, use)


def _cells(folder: Path) -> Target:
    """What the fields read a cell with, and the tags of each scheme."""
    from regard.data.annotations import tag_schemes
    from regard.data.annotations.linearized_trees import linearized
    from regard.data.annotations.trees import Tree, cleaned

    seeds = [b"(S (NP (PRP I)) (VP (VBP see)))", b"O B-X I-X O B-Y", b"S-X B-Y E-Y O", b"U-X L-X"]

    def use(content: bytes) -> Any:
        text = content.decode("utf-8", "replace")
        tags = text.split()
        made: list[Any] = [tag_schemes.lenient_spans(tags), tag_schemes.repaired(tags)]
        for name in ("iob2", "iobes", "bilou"):
            if tag_schemes.wrong(tags, name) is None:
                made.append(tag_schemes.spans_of(tags, name))
        try:
            tree = Tree.parse(text)
        except ValueError:
            return made
        return made, linearized(cleaned(tree), tags=True), str(tree)

    return Target(seeds, use)


def _later(module: str, name: str, **more: Any) -> Callable[[Path], Target]:
    """A maker of another file, which is imported when it is asked for."""

    def make(folder: Path) -> Target:
        from importlib import import_module

        made: Target = getattr(import_module(f"tests.fuzz.{module}"), name)(folder, **more)
        return made

    return make


MAKERS: dict[str, Callable[[Path], Target]] = {
    "tsv": partial(rows_of, name="tsv", ending="tsv"),
    "csv": partial(rows_of, name="csv", ending="csv"),
    "json": partial(rows_of, name="json", ending="json"),
    "jsonl": partial(rows_of, name="jsonl", ending="jsonl", mutate=changed_lines),
    "jsonl-lists": partial(
        rows_of, name="jsonl", ending="jsonl", mutate=changed_lines, lists=("source",)
    ),
    "moses": _moses,
    "cbt": partial(rows_of, name="cbt", ending="txt"),
    "squad": partial(rows_of, name="squad", ending="json", mutate=changed_json),
    "babi": partial(rows_of, name="babi", ending="txt"),
    "semeval": partial(rows_of, name="semeval", ending="txt"),
    "trees": partial(rows_of, name="trees", ending="trees"),
    "conll": partial(rows_of, name="conll", ending="conll"),
    "conllu": partial(rows_of, name="conllu", ending="conllu"),
    "conll2005": partial(rows_of, name="conll2005", ending="txt"),
    "pubtator-tags": partial(rows_of, name="pubtator-tags", ending="pubtator"),
    "text-pairs": _text_pairs,
    **{
        f"back-{name}": partial(_written_back, name=name)
        for name in ("conll", "conllu", "conll2005", "jsonl", "pubtator-tags")
    },
    "pubtator": partial(_documents, name="pubtator", seeds="pubtator", mutate=changed_bytes),
    "bioc": partial(_documents, name="bioc", seeds="bioc", mutate=changed_bytes),
    "documents": partial(_documents, name="jsonl", seeds="documents", mutate=changed_lines),
    "given-document": _given_document,
    "vectors": _vectors,
    "lexicon": _lexicon,
    "graph-edges": partial(_tables, name="edges"),
    "graph-nodes": partial(_tables, name="nodes"),
    "cells": _cells,
    "recipe": partial(_recipe, checked=False),
    "recipe-checked": partial(_recipe, checked=True),
    "override": _override,
    **{
        name: _later("binaries", name.replace("-", "_"))
        for name in (
            "gzip", "npz", "graph_npz", "graph_mapped", "graph_ppi", "tar", "picture",
            "picture_addressed", "clip", "sound", "seen", "seen_header", "given_weights",
            "token_store", "checkpoint",
        )
    },
    **{
        f"folder-{part}": _later("folders", "folder", part=part)
        for part in ("config", "tokenizer", "weights", "metrics", "labels")
    },
    **{f"foreign-{part}": _later("foreign", "foreign", part=part)
       for part in ("fairseq", "opennmt-py", "joeynmt", "huggingface", "bytes", "spm")},
    **{f"bulk-{part}": _later("shards", "shards", part=part)
       for part in ("text", "jsonl", "tsv", "csv", "gz", "notes")},
    **{f"serve-{part}": _later("served", "served", part=part)
       for part in ("json", "lines", "form", "bytes", "query")},
}  # fmt: skip
"""Name -> what makes the target in a folder."""
