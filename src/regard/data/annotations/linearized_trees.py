"""Trees as sequences of symbols, and back."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from regard.data.annotations.trees import (
    _NUMBERED,
    ANY,
    DEEPEST,
    PUNCTUATION,
    ROOT,
    Tree,
    escaped,
    escaped_words,
)
from regard.errors import RequestError
from regard.runtime.answer import PlainPrediction

__all__ = ["as_tree", "linearized", "rebuilt"]


def linearized(tree: Tree, *, tags: bool = False, numbers: int = 0) -> list[str]:
    """A cleaned tree as symbols: `(X`, `)X`, and a tag for each word, XX unless it is punctuation.

    Args:
        tree: of `cleaned`.
        tags: keep every tag as it is.
        numbers: where not 0, XX is followed by its word's place in the sentence modulo this: XX0,
            XX1, …; a model then need not count how many words it has written.

    Example:
        >>> tree = Tree.parse("(TOP (S (NP (PRP I)) (VP (VBP see)) (. .)))")
        >>> " ".join(linearized(tree))
        '(S (NP XX )NP (VP XX )VP . )S'
    """
    found = [symbol for child in tree.children for symbol in _symbols(child, tags)]
    if not numbers:
        return found
    places = count()
    numbered = [(symbol, -1 if symbol[0] in "()" else next(places)) for symbol in found]
    return [f"{ANY}{at % numbers}" if symbol == ANY else symbol for symbol, at in numbered]


def _symbols(tree: Tree, tags: bool) -> Iterator[str]:
    if tree.word is not None:
        yield tree.label if tags or tree.label in PUNCTUATION else ANY
        return
    yield "(" + tree.label
    for child in tree.children:
        yield from _symbols(child, tags)
    yield ")" + tree.label


def rebuilt(symbols: Iterable[str], words: Sequence[str]) -> tuple[Tree, bool]:
    """The tree of a sequence of symbols, repaired where it is not valid, and whether it was one.

    Whatever the symbols, the tree has exactly these words:

    * `)X` closes the innermost X that is open, and all that is open in it; where no X is open it is
      left out. `)` alone closes the innermost constituent.
    * What was never closed is closed at the end.
    * A constituent without words is left out.
    * Tags beyond the last word are left out. Words beyond the last tag come at the end of the last
      outermost constituent, tagged XX (right under TOP where there is none).

    Args:
        symbols: as `linearized` writes them.
        words: of the sentence; brackets in them are written as -LRB- and -RRB-.

    Raises:
        RequestError: there are no words.
    """
    if not words:
        raise RequestError("a tree needs words: there are none")
    open_: list[tuple[str, list[Tree]]] = [(ROOT, [])]
    whole, used = True, 0

    def close() -> bool:
        label, children = open_.pop()
        if children:
            open_[-1][1].append(Tree(label, tuple(children)))
        return bool(children)

    for symbol in symbols:
        if symbol.startswith("("):
            fits = len(open_) < DEEPEST
            if fits:
                open_.append((symbol[1:], []))
            whole &= fits and used < len(words)
        elif symbol.startswith(")"):
            labels = [label for label, _ in open_]
            sought = symbol[1:] or labels[-1]
            depth = next((i for i in range(len(open_) - 1, 0, -1) if labels[i] == sought), None)
            whole &= depth == len(open_) - 1
            while depth is not None and len(open_) > depth:
                whole &= close()
        elif used < len(words):
            tag = ANY if _NUMBERED.fullmatch(symbol) else symbol
            open_[-1][1].append(Tree(tag, (), escaped(words[used])))
            used += 1
        else:
            whole = False
    while len(open_) > 1:
        whole = close() and False
    top = open_[0][1]
    if used < len(words):
        rest = tuple(Tree(ANY, (), escaped(word)) for word in words[used:])
        if top and top[-1].word is None:
            top[-1] = Tree(top[-1].label, top[-1].children + rest)
        else:
            top.extend(rest)
        whole = False
    return Tree(ROOT, tuple(top)), whole


def as_tree(written: PlainPrediction) -> PlainPrediction:
    """A prediction whose output is a tree of its input's words, its alternatives' too.

    Args:
        written: its output is of symbols.
    """
    if not written.tokens:
        return written
    tree, _ = rebuilt(written.output.split(), escaped_words(written.input).split())
    others = [as_tree(one) for one in written.alternatives]
    return replace(written, output=str(tree), alternatives=others)
