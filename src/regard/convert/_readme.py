"""What every export has beside the model: tokenizers, and a page that says how to use it."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.data.text.tokenizer import KINDS
from regard.errors import RequestError
from regard.system.extras import install

if TYPE_CHECKING:
    from regard.folder.loaded import Loaded

__all__ = ["PAGES", "fill", "longest", "manual", "needs", "output_limit"]


PAGES = Path(__file__).parent / "pages"


def needs(package: str) -> None:
    """Refuse, in one sentence, where a package of the extra `export` is not installed."""
    if find_spec(package) is None:
        raise RequestError(f"this needs {package}: {install('export')}")


def longest(loaded: "Loaded") -> int:
    """How many positions a source or an output can have, by what the folder allows."""
    return max(_source_limit(loaded), output_limit(loaded))


def output_limit(loaded: "Loaded") -> int:
    """How many tokens an output can have, whatever its source."""
    limit: int = loaded.decoder.limit(_source_limit(loaded))
    return limit


def _source_limit(loaded: "Loaded") -> int:
    return int(getattr(loaded.task, "max_source", 1024))


def manual(loaded: "Loaded", out: Path, page: str, **more: Any) -> None:
    """Write the tokenizers, and as `README.md` one of `pages` with its blanks filled in.

    Its blanks: `name`, `source` and `target` (the tokenizers' files), `joint` (what stands between
    two tokens of an output), `ending` (what ends a source), and those of `more`.
    """
    sides = loaded.tokenizers
    files = {side: f"tokenizer.{side}.json" for side in sides}
    if sides["source"] is sides["target"]:
        files = dict.fromkeys(sides, "tokenizer.json")
    for side, file in files.items():
        sides[side].without_segmenter().save(out / file)
    ending = ' + ["</s>"]' if getattr(loaded.model, "reads_end", True) else ""
    joint = KINDS[sides["target"].kind].joint
    fill(out, page, **files, joint=joint, ending=ending, **more)


def fill(out: Path, page: str, **blanks: Any) -> None:
    """Write one of `pages` as `README.md`, with its blanks filled in; `name` is the folder's."""
    text = (PAGES / f"{page}.md").read_text("utf-8")
    blanks["name"] = out.name
    for key, value in blanks.items():
        text = text.replace(f"«{key}»", str(value))
    (out / "README.md").write_text(text, "utf-8")
