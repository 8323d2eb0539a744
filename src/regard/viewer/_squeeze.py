"""The page's script without comments and needless blanks; names, strings and order are kept.

It is no minifier: what comes out is the source as it is written, only denser, so that a page of a
few words stays small. Texts, templates (with code inside) and patterns are copied as they are.
"""

import re

__all__ = ["squeeze"]

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


def squeeze(code: str) -> str:
    """JavaScript with lines joined only where a line end cannot matter."""
    out: list[str] = []
    _code(code, 0, out, inside=False)
    return "".join(out).strip() + "\n"


def _code(code: str, at: int, out: list[str], *, inside: bool) -> int:
    """Copy code from `at`; inside a template up to the brace that closes it."""
    depth, blank = 0, ""
    while at < len(code):
        last = out[-1][-1] if out and out[-1] else "\n"
        if code[at] == "`":
            _put(out, blank, "`")
            blank, at = "", _template(code, at + 1, out)
            continue
        if code[at] == "/" and code[at + 1] != "/" and last in "(,=:[!&|?{};\n>":
            found = _PATTERN.match(code, at)
            if found:
                _put(out, blank, found[0])
                blank, at = "", found.end()
                continue
        token = _TOKEN.match(code, at)
        assert token is not None
        at = token.end()
        kind, text = token.lastgroup, token[0]
        if kind == "comment":
            continue
        if kind == "blank":
            blank = "\n" if "\n" in text + blank else " "
            continue
        if kind == "other" and inside:
            depth += (text == "{") - (text == "}")
            if depth < 0:
                out.append("}")
                return at
        _put(out, blank, text)
        blank = ""
    return at


def _template(code: str, at: int, out: list[str]) -> int:
    while True:
        if code[at] == "\\":
            out.append(code[at : at + 2])
            at += 2
        elif code.startswith("${", at):
            out.append("${")
            at = _code(code, at + 2, out, inside=True)
        else:
            out.append(code[at])
            at += 1
            if code[at - 1] == "`":
                return at


def _put(out: list[str], blank: str, text: str) -> None:
    last = out[-1][-1] if out and out[-1] else "\n"
    if (text == "}" and out and out[-1] in (";", ",")) or (text == ")" and out[-1] == ","):
        out.pop()  # no statement follows, no element follows
    if blank == "\n" and last not in "\n{;,([" and text[0] not in "})],.?:":
        out.append("\n")
    elif blank and (
        (_WORD.match(last) and _WORD.match(text[0])) or (last == text[0] and last in "+-")
    ):
        out.append(" ")
    out.append(text)
