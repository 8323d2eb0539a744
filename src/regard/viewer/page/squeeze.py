"""The page's script without comments and needless blanks, its own names made short.

It is no minifier: what comes out is the source as it is written, only denser, so that a page of a
few words stays small. Texts, templates (but for the code inside) and patterns are copied as they
are. A name is shortened everywhere alike, and only where the script itself declares it and never
uses it as the name of a field.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from string import ascii_letters, digits
from typing import NamedTuple

__all__ = ["squeeze"]

OWN = frozenset(
    """
    above column firstCol firstRow fits high lastCol lastRow many pixels probe wide
    """.split()
)
"""Names of fields that are the script's own: neither a file nor a browser has them."""
_WORDS = {"const": "let", "true": "!0", "false": "!1", "undefined": "void 0"}
"""What says the same in fewer letters; nothing is assigned to that was a `const`."""
_RESERVED = frozenset(
    """
    as async await break case catch class const constructor continue default do else extends false
    finally for function get if in is let new null of return set static switch this throw true try
    typeof undefined var void while yield
    """.split()
)
_TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*)
  | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<blank>[ \t]*\n\s*|[ \t]+)
  | (?P<word>[\w$\u0080-\uffff]+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_WORD = re.compile(r"[\w$\u0080-\uffff]")
_PATTERN = re.compile(r"/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_OBJECT = frozenset(["(", ",", "=", ":", "[", "?", "&", "|", "return", "const", "let"])
"""What stands before a brace that opens an object or takes one apart; others open blocks."""


class _Token(NamedTuple):
    text: str
    kind: str
    blank: str = ""


def squeeze(code: str) -> str:
    """JavaScript with short names, and lines joined only where a line end cannot matter."""
    tokens: list[_Token] = []
    _code(code, 0, tokens, inside=False)
    short = _shortened(tokens) | _WORDS
    out: list[str] = []
    for text, kind, blank in tokens:
        _put(out, blank, short.get(text, text) if kind == "word" else text, raw=kind == "raw")
    return "".join(out).strip() + "\n"


def _code(code: str, at: int, out: list[_Token], *, inside: bool) -> int:
    """Cut code from `at` into tokens; inside a template up to the brace that closes it."""
    depth, blank = 0, ""
    while at < len(code):
        last = out[-1].text[-1] if out else "\n"
        if code[at] == "`":
            out.append(_Token("`", "template", blank))
            blank, at = "", _template(code, at + 1, out)
            continue
        if code[at] == "/" and code[at + 1] != "/" and last in "(,=:[!&|?{};\n>":
            found = _PATTERN.match(code, at)
            if found:
                out.append(_Token(found[0], "text", blank))
                blank, at = "", found.end()
                continue
        token = _TOKEN.match(code, at)
        assert token is not None
        at = token.end()
        kind, text = token.lastgroup or "", token[0]
        if kind == "comment":
            continue
        if kind == "blank":
            blank = "\n" if "\n" in text + blank else " "
            continue
        if kind == "other" and inside:
            depth += (text == "{") - (text == "}")
            if depth < 0:
                out.append(_Token("}", "raw"))
                return at
        out.append(_Token(text, kind, blank))
        blank = ""
    return at


def _template(code: str, at: int, out: list[_Token]) -> int:
    start = at
    while True:
        if code[at] == "\\":
            at += 2
        elif code.startswith("${", at):
            out.append(_Token(code[start : at + 2], "raw"))
            start = at = _code(code, at + 2, out, inside=True)
        elif code[at] == "`":
            out.append(_Token(code[start : at + 1], "raw"))
            return at + 1
        else:
            at += 1


def _put(out: list[str], blank: str, text: str, *, raw: bool) -> None:
    last = out[-1][-1] if out and out[-1] else "\n"
    if raw:
        out.append(text)
        return
    if (text == "}" and out and out[-1] in (";", ",")) or (text == ")" and out[-1] == ","):
        out.pop()  # no statement follows, no element follows
    if blank == "\n" and last not in "\n{;,([=&|?:<>*%!" and text[0] not in "})],.?:":
        out.append("\n")
    elif blank and (
        (_WORD.match(last) and _WORD.match(text[0])) or (last == text[0] and last in "+-")
    ):
        out.append(" ")
    out.append(text)


def _shortened(tokens: Sequence[_Token]) -> dict[str, str]:
    """A short name for each of the script's own, the most frequent first."""
    words = Counter(t.text for t in tokens if t.kind == "word")
    own = ((_declared(tokens) - _fields(tokens)) | OWN) - _RESERVED
    long = sorted((w for w in own if len(w) > 2), key=lambda w: (-words[w] * (len(w) - 2), w))
    free = (
        name
        for size in (1, 2)
        for name in map("".join, product(ascii_letters, *[ascii_letters + digits] * (size - 1)))
        if name not in words and name not in _RESERVED
    )
    return dict(zip(long, free, strict=False))


def _around(tokens: Sequence[_Token]) -> Iterator[tuple[int, str, str, str]]:
    """Each word's place, what stands before and after it, and the bracket it is in.

    A brace that opens an object is told apart as "o".
    """
    stack = [""]
    for i, (text, kind, _) in enumerate(tokens):
        before = tokens[i - 1].text if i else ""
        if kind == "other" and text in "([{":
            stack.append("o" if text == "{" and before in _OBJECT else text)
        elif (kind == "other" and text in ")]}") or (kind == "raw" and text.startswith("}")):
            if len(stack) > 1 and kind == "other":
                stack.pop()
        elif kind == "word":
            after = tokens[i + 1].text if i + 1 < len(tokens) else ""
            yield i, before, after, stack[-1]


def _fields(tokens: Sequence[_Token]) -> set[str]:
    """Words that are names of fields anywhere: behind a point, before a colon, in an object."""
    found = set()
    for i, before, after, bracket in _around(tokens):
        point = before == "." and not (i > 1 and tokens[i - 2].text == ".")
        key = bracket == "o" and before in ("{", ",") and after in (",", "}", "=", "(", ":")
        if point or key or (before in ("{", ",") and after == ":"):
            found.add(tokens[i].text)
    return found


def _declared(tokens: Sequence[_Token]) -> set[str]:
    """Words that follow `const`, `let`, `function`, `class`, or are an arrow's parameters."""
    found = set()
    for i, before, after, bracket in _around(tokens):
        text = tokens[i].text
        arrow = after == "=" and i + 2 < len(tokens) and tokens[i + 2].text == ">"
        if before in ("const", "let", "function", "class") or arrow:
            found.add(text)
        elif bracket in ("{", "") and before == "," and after == "=":
            found.add(text)  # const a = 1, b = 2
        elif bracket in ("[", "(") and before in ("[", "(", ",", ".") and _takes(tokens, i):
            found.add(text)
    return found


def _takes(tokens: Sequence[_Token], at: int) -> bool:
    """Whether the brackets around a place are parameters or take an array apart."""
    depth = 0
    for i in range(at, len(tokens)):
        text, kind, _ = tokens[i]
        if kind != "other":
            continue
        depth += (text in "([{") - (text in ")]}")
        if depth < 0:
            after = [t.text for t in tokens[i + 1 : i + 3]]
            return after == ["=", ">"] or (text == "]" and after[:1] == ["="] and after[1] != "=")
    return False
