"""Packages do not import one another in a circle, wherever in a file the imports stand."""

import ast
from collections.abc import Iterator
from functools import cache

from tests.repo.tree import SOURCE, dotted, imports, modules, top_classes


def package(name: str) -> str:
    return name.split(".")[1]


@cache
def graph() -> dict[str, frozenset[str]]:
    """Of each module those that it imports, anywhere in the file, by name or by import_module."""
    names = {dotted(path) for path in modules()}

    def home(name: str) -> str | None:
        while name and name not in names:
            name = name.rpartition(".")[0]
        return name if name.count(".") else None  # the front page is everybody's

    found = {}
    for path in modules():
        mine = dotted(path)
        there = {home(name) for name, _ in [*imports(path), *loaded_by_name(path)]}
        found[mine] = frozenset(there - {None, mine})
    return found


def loaded_by_name(path) -> Iterator[tuple[str, int]]:
    """`import_module("regard.…")` wherever it stands."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "import_module" in text else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            for given in node.args[:1]:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield given.value, node.lineno


def circles(arrows: dict[str, frozenset[str]]) -> list[set[str]]:
    """The strongly connected parts of more than one module (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(start: str) -> None:
        work = [(start, iter(sorted(arrows.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            here, rest = work[-1]
            for there in rest:
                if there not in index:
                    index[there] = low[there] = len(index)
                    stack.append(there)
                    work.append((there, iter(sorted(arrows.get(there, ())))))
                    break
                if there in stack:
                    low[here] = min(low[here], index[there])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[here])
                if low[here] == index[here]:
                    at = stack.index(here)
                    part = set(stack[at:])
                    del stack[at:]
                    if len(part) > 1:
                        found.append(part)

    for name in sorted(arrows):
        if name not in index:
            visit(name)
    return found


def test_circles_are_found():
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    given = {name: frozenset(there) for name, there in arrows.items()}
    assert sorted(map(sorted, circles(given))) == [["a", "b", "c"], ["d", "e"]]


def test_no_circle_goes_through_packages():
    across = [part for part in circles(graph()) if len({package(name) for name in part}) > 1]
    assert list(map(sorted, across)) == []


def test_attention_knows_nothing_above_it():
    """Nor by a name in a string: the recorder reached the viewer so."""
    for path in (SOURCE / "attention").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import_module" not in text, path
        above = {package(name) for name in graph()[dotted(path)]}
        assert above <= {"attention", "native", "errors", "system"}, path


def test_class_names_of_the_viewer_are_unique():
    """A public class of the views and the viewer is called as no other of the package is."""
    where: dict[str, set[str]] = {}
    for path in modules():
        for name in top_classes(path):
            if not name.startswith("_"):
                where.setdefault(name, set()).add(dotted(path))
    mine = {
        name: homes for name, homes in where.items()
        if any(package(home) in ("viewer", "views") or "._views." in home for home in homes)
    }  # fmt: skip
    assert {name: homes for name, homes in mine.items() if len(homes) > 1} == {}
