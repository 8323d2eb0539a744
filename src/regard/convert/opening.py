"""Model folders of other programs, read as our own are."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["load_foreign"]


def load_foreign(folder: Path) -> "Loaded":
    """A Hugging Face folder as `regard.load` gives a folder of ours.

    Raises:
        RequestError: it holds another model, or no safetensors.
    """
    from regard import decode, tasks
    from regard.convert._checkpoint import readable
    from regard.convert._huggingface import read
    from regard.fields.sets import as_fields
    from regard.folder.loaded import Loaded

    with readable(folder, "huggingface"):
        found = read(folder, unpickle=False)
    config = {
        "model": {
            "name": "marian",
            "source_vocab_size": found.model.source_vocab_size,
            "target_vocab_size": found.model.target_vocab_size,
            **found.spec,
        },
        "task": {"name": "translation"},
        "decode": found.decode,
        "data": {},
    }
    task, decoder = tasks.load("translation")(), decode.build(found.decode)
    fields = as_fields(found.tokenizers, task.fields())
    return Loaded(found.model, task, fields, decoder, config, folder)
