"""Models of other programs in, ours out: one file a program, two tables of names.

    READERS   huggingface, fairseq, opennmt-py, joeynmt      convert(path, "fairseq", folder)
    WRITERS   huggingface, ctranslate2, onnx, regard, program  export(folder, "ctranslate2", out)

A reader makes a `models.marian` of a checkpoint: the four special ids come first (see
`_vocabulary`), weights are renamed (`_names`), settings become arguments and a decoder. Checkpoints
are read as tensors and plain values; no pickle is ever run. A writer is given a loaded folder and
says what it wrote.
"""

import inspect
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.convert._checkpoint import readable
from regard.convert.opening import load_foreign
from regard.data.text.segmenters import has_no_blanks
from regard.data.text.tokenizer import Tokenizer
from regard.errors import RegardError, RequestError, nearest
from regard.system.files import said_of

__all__ = ["READERS", "WRITERS", "add_program", "convert", "export", "load_foreign"]

READERS: Mapping[str, str] = {
    "huggingface": "regard.convert._huggingface",
    "fairseq": "regard.convert._fairseq",
    "opennmt-py": "regard.convert._opennmt",
    "joeynmt": "regard.convert._joeynmt",
}
"""What can be read, and the module whose `read(path)` does it."""

WRITERS: Mapping[str, str] = {
    "huggingface": "regard.convert._to_huggingface",
    "ctranslate2": "regard.convert._ctranslate2",
    "onnx": "regard.convert._to_onnx",
    "regard": "regard.convert._rounded",
    "program": "regard.convert._to_program",
}
"""What can be written, and the module whose `write(loaded, folder, **options)` does it."""

OURS = ("regard", "program")
"""Those that are read here again."""


def convert(path: str | Path, origin: str, folder: str | Path) -> Path:
    """Make a model folder of ours out of another program's checkpoint.

    Args:
        path: the checkpoint, or the folder that it is in.
        origin: a name of `READERS`.

    Raises:
        RequestError: an unknown name, or a checkpoint that is not a Transformer as ours are.
    """
    from regard.folder import writing

    read = import_module(_named(origin, READERS)).read
    with readable(Path(path), origin):
        found = read(Path(path))
    model = {"name": "marian", **found.spec}
    task = {"name": "translation"}
    return writing.save_pretrained(
        folder,
        found.model,
        task=task,
        fields=found.tokenizers,
        recipe={"model": model, "task": task, "decode": found.decode},
        card={"data": f"Converted from {found.origin}, {Path(path).name}."},
    )


def export(
    folder: str | Path, target: str, out: str | Path, *, force: bool = False, **options: Any
) -> list[str]:
    """Write a model for another program into a folder of its own, whole or not at all.

    Args:
        folder: a folder of ours, a shipped name, or a folder that `regard.load` reads.
        target: a name of `WRITERS`.
        out: the folder to make.
        force: replace `out` where it is there.
        options: of the writer: `quantization` for CTranslate2 and regard.

    Returns:
        the names of the files.

    Raises:
        RequestError: an unknown name or option, a model that cannot be said there, or `out` exists.
    """
    from regard import loading

    write = import_module(_named(target, WRITERS)).write
    out = Path(out)
    if out.exists() and not force:
        raise RequestError(f"{out} exists; --force writes over it")
    loaded = loading.load(folder)
    if target not in OURS:
        for own in loaded.tokenizers.values():
            if own.segmenter is None or (target == "onnx" and not _is_cut(own)):
                continue
            raise RequestError(
                f"{target}: its tokenizers do not cut words without blanks, as this model's do "
                f"({own.segmenter}); expected a model without data.tokenizer.segmenter"
            )
    given = {key: value for key, value in options.items() if value is not None}
    known = inspect.signature(write).parameters
    for key in given:
        if key not in known:
            raise RequestError(f"{target} has no {key}: only ctranslate2 and regard have")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".exporting-", dir=out.parent) as name:
            ready = Path(name) / out.name
            ready.mkdir()
            write(loaded, ready, **given)
            if out.exists():  # one move away, one in: never half of either under this name
                out.rename(Path(name) / "before")
            ready.rename(out)
    except OSError as error:
        raise RegardError(f"{out}: could not be written: {said_of(error)}") from error
    return sorted(str(file.relative_to(out)) for file in out.rglob("*") if file.is_file())


def add_program(folder: str | Path) -> Path:
    """Write the program of a folder into it, for answers without PyTorch.

    Raises:
        RequestError: the model does what a program cannot, with the reason.
    """
    from regard import loading
    from regard.convert import _to_program

    return _to_program.add_program(loading.load(folder))


def _is_cut(own: Tokenizer) -> bool:
    """Whether a vocabulary has letters of scripts without blanks, which its segmenter would cut."""
    return any(has_no_blanks(token) for token in own.vocabulary)


def _named(name: str, table: Mapping[str, str]) -> str:
    if name not in table:
        raise RequestError(f"there is no format {name!r}: {nearest(name, table)}")
    return table[name]
