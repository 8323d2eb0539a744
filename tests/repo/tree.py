"""The repository as these tests see it: its tracked files, and what each module imports."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
SOURCE = TOP / "src" / "regard"
_LEFT_OUT = {".git", ".venv", "runs", "site", "dist", "build", "__pycache__"}


@cache
def tracked() -> tuple[Path, ...]:
    """Files in the index and on the disk; all files where this is no git checkout."""
    asked = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, check=False)
    if asked.returncode == 0:
        names = asked.stdout.decode().rstrip("\0").split("\0")
    else:
        names = [str(p.relative_to(TOP)) for p in TOP.rglob("*") if p.is_file()]
    paths = (TOP / name for name in names if not set(Path(name).parts) & _LEFT_OUT)
    return tuple(path for path in paths if path.is_file())


@cache
def modules() -> tuple[Path, ...]:
    """Every Python file of the package."""
    return tuple(sorted(SOURCE.rglob("*.py")))


def dotted(path: Path) -> str:
    """src/regard/attention/op.py -> regard.attention.op."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Dotted names that a file imports anywhere, with lines; `from a import b` gives a.b too."""
    return tuple(_imports(path))


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Every statement at any depth; most of what `ast.walk` visits are expressions."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, part, ())
            waiting.extend(inner if isinstance(inner, list) else ())


def top_classes(path: Path) -> list[str]:
    """The classes of a module that stand in no other block; files are not parsed for it."""
    return re.findall(r"^class +(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    package = dotted(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            home = ".".join([*base, *([node.module] if node.module else [])])
            yield home, node.lineno
            yield from ((f"{home}.{alias.name}", node.lineno) for alias in node.names)


def top_imports(path: Path) -> set[str]:
    """The first part of what a file imports when it is itself imported (not inside functions)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting.extend(node.orelse)
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.split(".")[0])
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return found
