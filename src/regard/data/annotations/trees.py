r"""Constituency trees: brackets to values and back, and trees as sequences of symbols.

A tree is written as a treebank writes it, and linearized depth first without its words:

    (TOP (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))
    (S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S

The outer TOP is not written; tags of words become XX but for those of punctuation, which say what
EVALB leaves out. With its words a sequence gives back the tree, but for the tags that became XX.

Source: Vinyals et al., "Grammar as a Foreign Language", NIPS 2015, arXiv 1412.7449, section 2.2.
"""

import re
from dataclasses import dataclass

from regard.errors import RequestError

__all__ = ["ANY", "DEEPEST", "PUNCTUATION", "ROOT", "Tree", "cleaned", "escaped"]

ROOT, ANY, EMPTY = "TOP", "XX", "-NONE-"
PUNCTUATION = frozenset({",", ":", "``", "''", "."})
"""Tags that stay themselves: those that COLLINS.prm deletes."""

DEEPEST = 200
"""Levels of a tree; the deepest of the Penn Treebank, of EWT and of CRAFT have under 40."""

_TOKEN = re.compile(r"[()]|[^\s()]+")
_TAIL = re.compile(r"(?<=[^-=])[-=].*")
_NUMBERED = re.compile(ANY + r"\d+")
_ESCAPES = {"(": "-LRB-", ")": "-RRB-"}


@dataclass(frozen=True, slots=True)
class Tree:
    """A constituent and what it is made of, or a tag and its word.

    Example:
        >>> tree = Tree.parse("(TOP (S (NP (PRP I)) (VP (VBP see))))")
        >>> tree.words(), tree.brackets()[1:]
        (['I', 'see'], [('S', 0, 2), ('NP', 0, 1), ('VP', 1, 2)])
    """

    label: str
    children: tuple["Tree", ...] = ()
    word: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Tree":
        """Read one tree; brackets without a label around it all are TOP.

        Raises:
            RequestError: it is not one tree: what was expected, and where.
        """
        open_: list[tuple[str, list[Tree]]] = []
        tokens = _TOKEN.findall(text)
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token == "(":
                named = at + 1 < len(tokens) and tokens[at + 1] not in "()"
                if named and tokens[at + 3 : at + 4] == [")"] and tokens[at + 2] not in "()":
                    if not open_:
                        raise RequestError("not a tree: a word without a constituent around it")
                    open_[-1][1].append(cls(tokens[at + 1], (), tokens[at + 2]))
                    at += 4
                    continue
                if not named and open_:
                    raise RequestError(f"not a tree: token {at + 1} opens a bracket without label")
                if len(open_) >= DEEPEST:
                    raise RequestError(f"not a tree of at most {DEEPEST} levels")
                open_.append((tokens[at + 1] if named else ROOT, []))
                at += 1 + named
            elif token == ")":
                if not open_:
                    raise RequestError("not a tree: a bracket is closed that was never opened")
                label, children = open_.pop()
                if not children:
                    raise RequestError(f"not a tree: {label} holds nothing")
                tree = cls(label, tuple(children))
                at += 1
                if open_:
                    open_[-1][1].append(tree)
                elif at < len(tokens):
                    raise RequestError(f"not one tree: {tokens[at]!r} comes behind it")
                else:
                    return tree
            else:
                raise RequestError(f"not a tree: {token!r} stands where a bracket was expected")
        told = f"{len(open_)} brackets are never closed" if open_ else "there is none"
        raise RequestError(f"not a tree: {told}")

    def __str__(self) -> str:
        """The tree on one line, as treebanks write it."""
        if self.word is not None:
            return f"({self.label} {self.word})"
        return f"({self.label} {' '.join(map(str, self.children))})"

    def leaves(self) -> list[tuple[str, str]]:
        """(Tag, word) of every word, in order."""
        if self.word is not None:
            return [(self.label, self.word)]
        return [leaf for child in self.children for leaf in child.leaves()]

    def words(self) -> list[str]:
        """The words, in order."""
        return [word for _, word in self.leaves()]

    def brackets(self) -> list[tuple[str, int, int]]:
        """(Label, start, end) of every constituent, each before those in it: words start..end-1."""
        found: list[tuple[str, int, int]] = []
        _collect(self, 0, found)
        return found


def _collect(tree: Tree, start: int, found: list[tuple[str, int, int]]) -> int:
    """Enter the constituents of a tree that starts at a word; gives where it ends."""
    if tree.word is not None:
        return start + 1
    place, end = len(found), start
    found.append((tree.label, start, start))
    for child in tree.children:
        end = _collect(child, end, found)
    found[place] = (tree.label, start, end)
    return end


def cleaned(tree: Tree) -> Tree:
    """The tree as parsers learn it: no traces, nothing empty, no function tags, one TOP outside.

    Traces are what has the tag -NONE-; a constituent of traces alone goes with them. Labels end
    before their first '-' or '=': NP-SBJ is NP, NP=2 is NP; tags stay whole.

    Raises:
        RequestError: no word is left.
    """
    kept = _kept(tree)
    if kept is None:
        raise RequestError("the tree has no words: all it has are traces")
    return kept if kept.label == ROOT else Tree(ROOT, (kept,))


def _kept(tree: Tree) -> Tree | None:
    if tree.word is not None:
        return None if tree.label == EMPTY else tree
    children = tuple(child for child in map(_kept, tree.children) if child is not None)
    return Tree(_TAIL.sub("", tree.label), children) if children else None


def escaped(word: str) -> str:
    """The word as trees have it: with -LRB- and -RRB- for brackets."""
    if "(" in word or ")" in word:
        return "".join(_ESCAPES.get(letter, letter) for letter in word)
    return word


def escaped_words(text: str) -> str:
    """The words of a text as trees have them, a blank between each."""
    return " ".join(map(escaped, text.split()))
