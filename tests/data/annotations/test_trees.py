"""Trees: read, cleaned, linearized, put together again whatever the symbols are."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.annotations.linearized_trees import linearized, rebuilt
from regard.data.annotations.trees import DEEPEST, Tree, cleaned
from regard.data.files.registry import format_of
from regard.data.formats import read
from regard.data.problems import Problems
from regard.errors import RequestError

LABELS = ("S", "NP", "VP", "PP", "ADVP")
WORD = st.text("abcZ9'-.%", min_size=1, max_size=4)
LEAF = st.builds(
    lambda tag, word: Tree(tag, (), word), st.sampled_from(["NN", "VB", ",", "."]), WORD
)
NODE = st.recursive(
    LEAF,
    lambda inner: st.builds(
        lambda label, children: Tree(label, tuple(children)),
        st.sampled_from(LABELS),
        st.lists(inner, min_size=1, max_size=4),
    ),
    max_leaves=20,
)
TREE = st.lists(NODE, min_size=1, max_size=3).map(lambda nodes: Tree("TOP", tuple(nodes)))


@settings(deadline=None, max_examples=60)
@given(TREE)
def test_text_and_back(tree):
    assert Tree.parse(str(tree)) == tree
    assert cleaned(tree) == tree
    spread = str(tree).replace("(", " ( ").replace(") ", ")\n\t ")
    assert Tree.parse(spread) == tree


@settings(deadline=None, max_examples=60)
@given(TREE)
def test_symbols_and_back(tree):
    """With tags nothing is lost; without, the tags of words alone."""
    assert rebuilt(linearized(tree, tags=True), tree.words()) == (tree, True)
    again, whole = rebuilt(linearized(tree), tree.words())
    assert whole
    assert again.brackets() == tree.brackets()
    kept = [tag if tag in (",", ".") else "XX" for tag, _ in tree.leaves()]
    assert again.leaves() == list(zip(kept, tree.words(), strict=True))


SYMBOL = st.sampled_from([*("(" + x for x in LABELS), *(")" + x for x in LABELS), ")", "XX", ","])


@settings(deadline=None, max_examples=120)
@given(st.lists(SYMBOL, max_size=40), st.lists(WORD, min_size=1, max_size=8))
def test_any_symbols_make_a_tree(symbols, words):
    tree, whole = rebuilt(symbols, words)
    assert tree.words() == words
    assert cleaned(tree) == tree  # nothing empty
    assert whole == _is_tree(symbols, len(words))


def _is_tree(symbols, count):
    """By deleting innermost constituents until nothing is left."""
    tags = sum(symbol[0] not in "()" for symbol in symbols)
    rest = ["x" if symbol[0] not in "()" else symbol for symbol in symbols]
    changed = True
    while changed:
        changed = False
        for i, symbol in enumerate(rest):
            if symbol[0] != ")":
                continue
            start = i - 1
            while start >= 0 and rest[start] == "x":
                start -= 1
            if start < i - 1 and start >= 0 and rest[start] in ("(" + symbol[1:], rest[start]):
                fits = symbol == ")" or rest[start][1:] == symbol[1:]
                if rest[start][0] == "(" and fits:
                    rest[start : i + 1] = ["x"]
                    changed = True
            break
    return tags == count and all(symbol == "x" for symbol in rest)


def repaired(symbols: str, words: str) -> str:
    tree, whole = rebuilt(symbols.split(), words.split())
    assert not whole
    return str(tree)


def test_repairs():
    """Each rule of `rebuilt` by itself."""
    closed = "(TOP (S (NP (XX a)) (VP (XX b))))"
    assert repaired("(S (NP XX )NP (VP XX", "a b") == closed  # never closed
    assert repaired("(S (NP XX )NP (VP XX )S", "a b") == closed  # closes what is inside too
    assert repaired("(S (NP XX )NP )PP (VP XX )VP )S", "a b") == closed  # no PP is open
    assert repaired("(S (PP )PP (NP XX )NP (VP XX )VP )S", "a b") == closed  # empty
    assert repaired("(S (NP XX )NP (VP XX XX )VP )S", "a b") == closed  # too many tags
    assert repaired("(S (NP XX )NP )S", "a b c") == "(TOP (S (NP (XX a)) (XX b) (XX c)))"
    assert repaired("", "a b") == "(TOP (XX a) (XX b))"


def test_one_symbol_closes_all():
    tree, whole = rebuilt(["(S", "(NP", "XX", ")", "(VP", "XX", ")", ")"], ["a", "b"])
    assert whole
    assert str(tree) == "(TOP (S (NP (XX a)) (VP (XX b))))"


def test_brackets_in_words():
    tree, _ = rebuilt(["(NP", "XX", "XX", ")NP"], [":)", "("])
    assert str(tree) == "(TOP (NP (XX :-RRB-) (XX -LRB-)))"


def test_the_paper_s_example():
    text = "(TOP (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))"
    symbols = "(S (NP XX )NP (VP XX (NP XX XX )NP )VP . )S"
    assert " ".join(linearized(Tree.parse(text))) == symbols


def test_traces_and_functions_go():
    text = (
        "( (S (NP-SBJ-1 (NN x)) (VP (VBD y) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))) (NP=2 (NN z))))"
    )
    assert str(cleaned(Tree.parse(text))) == "(TOP (S (NP (NN x)) (VP (VBD y)) (NP (NN z))))"
    with pytest.raises(RequestError, match="no words"):
        cleaned(Tree.parse("(TOP (NP (-NONE- *)))"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is none"),
        ("(TOP (NP (NN x))", "1 brackets are never closed"),
        ("(TOP (NP (NN x)))) ", "comes behind it"),
        (") (", "never opened"),
        ("(TOP (NP))", "NP holds nothing"),
        ("(TOP ((NN x)))", "token 3 opens a bracket without label"),
        ("(NN x)", "a word without a constituent"),
        ("(TOP (NP (NN x y)))", "'x' stands where"),
        ("(NP " * (DEEPEST + 1), f"at most {DEEPEST} levels"),
    ],
)  # fmt: skip
def test_what_is_no_tree(text, told):
    with pytest.raises(RequestError, match=told.replace("(", r"\(")):
        Tree.parse(text)


FILE = """*x*x*x*
*x*   a head   *x*

( (S (NP-SBJ (NN one))
     (VP (VBZ is)

         (ADJP-PRD (CD 1)))) )
# a comment
(TOP (S (NP (NN two)
(TOP (S (NP (NN three))))
(TOP (S (NP (NN four))))) (TOP (NP (NN five)))
(TOP (S
"""


def test_a_file(tmp_path):
    path = tmp_path / "a.mrg.gz"
    path.write_bytes(gzip.compress(FILE.encode()))
    problems = Problems()
    rows = list(read(path, {"source": "words", "target": "tree"}, problems=problems))
    assert [(row.line, row.fields["source"]) for row in rows] == [(4, "one is 1"), (10, "three")]
    assert rows[0].fields["target"] == "(TOP (S (NP (NN one)) (VP (VBZ is) (ADJP (CD 1)))))"
    assert [(p.line, p.what) for p in problems] == [(n, "not a tree") for n in (9, 11, 12)]
    details = [p.detail for p in problems]
    assert "3 brackets" in details[0]
    assert "comes behind" in details[1]


def test_a_file_of_something_else(tmp_path):
    path = tmp_path / "a.trees"
    path.write_text("this is\nnot a tree\n")
    assert format_of(path) == "trees"
    with pytest.raises(RequestError, match="not one tree in it"):
        list(read(path, {"source": "words"}))
    with pytest.raises(RequestError, match="'tree'"):
        list(read(path, {"target": "trees"}))
