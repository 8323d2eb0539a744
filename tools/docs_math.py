"""A hook of mkdocs: the mathematics of docstrings, written as Sphinx writes it, becomes MathML.

Browsers draw MathML themselves, so that no page asks the network for a renderer. `.. math::` with
the indented lines below it, and :math:`…` in a line; in pages that are also notebooks, a line
between two `$$`.
"""

import re
import textwrap
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.preprocessors import Preprocessor

BLOCK = re.compile(r"^(?P<indent>[ ]*)\.\. math::(?P<first>.*)$")
DOLLARS = re.compile(r"^\$\$(.+)\$\$$")
STARS = re.compile(r"(?<![\w`])\(\*(?=\w)(?![^*()]*\w\*)")  # a shape (*batch, K), not (*these*)
INLINE = re.compile(r":math:`([^`]+)`", re.S)


def equations(formula: str) -> list[str]:
    r"""The equations of a line, where \qquad stands between them: a narrow page breaks there."""
    parts = [""]
    for piece in re.split(r"(\\qquad)", textwrap.dedent(formula).strip().replace("\n", " ")):
        if piece == r"\qquad" and not _is_open(parts[-1]):
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts if part.strip()]


def _is_open(formula: str) -> bool:
    """Whether a group, or a pair of large brackets, has no end yet."""
    left, right = (len(re.findall(rf"\\{side}(?![a-z])", formula)) for side in ("left", "right"))
    return left != right or formula.count("{") != formula.count("}")


class Mathematics(Preprocessor):
    """Formulas go where Markdown leaves them alone, before it reads the text."""

    def run(self, lines: list[str]) -> list[str]:
        found: list[str] = []
        at = 0
        while at < len(lines):
            block = BLOCK.match(lines[at])
            at += 1
            if dollars := DOLLARS.match(lines[at - 1]):
                found += ["", self._block(dollars[1]), ""]
                continue
            if not block:
                found.append(lines[at - 1])
                continue
            indent, formula = block["indent"], [block["first"].strip()]
            while at < len(lines) and (
                lines[at].startswith(indent + " ") or (not lines[at].strip() and formula == [""])
            ):
                formula.append(lines[at].strip())
                at += 1
            found += ["", indent + self._block(" ".join(formula)), ""]
        found = [line if ">>>" in line else STARS.sub(r"(\*", line) for line in found]
        text = INLINE.sub(lambda m: self._kept(m[1], "inline"), "\n".join(found))
        return text.split("\n")

    def _block(self, formula: str) -> str:
        made = "".join(convert(part, display="block") for part in equations(formula))
        return str(self.md.htmlStash.store(f'<div class="equations">{made}</div>'))

    def _kept(self, formula: str, display: str) -> str:
        formula = textwrap.dedent(formula).strip().replace("\n", " ")
        return str(self.md.htmlStash.store(convert(formula, display=display)))


class MathExtension(Extension):
    """Before fences (25) and HTML blocks (20) are read."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.preprocessors.register(Mathematics(md), "regard_math", 30)


def on_config(config: Any) -> Any:
    config.markdown_extensions.append(MathExtension())
    return config
