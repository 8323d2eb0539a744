"""What a model's source file says, read without importing it (and so without torch)."""

import ast
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from regard.errors import RegardError

__all__ = ["Parameter", "Source", "read_class"]


@dataclass(frozen=True)
class Parameter:
    """A constructor's parameter: its name, type and default as written (None: must be given)."""

    name: str
    type: str
    default: str | None
    line: int

    def __str__(self) -> str:
        """As in the source: `dim: int = 512`."""
        return f"{self.name}: {self.type}" + (f" = {self.default}" if self.default else "")


@dataclass(frozen=True)
class Source:
    """A class as its file has it.

    Args:
        file: where it is.
        line: of the class.
        paper: the module's docstring: citation, equations, shapes, departures from the paper.
        arguments: the class's docstring.
        parameters: of the constructor.
        presets: class methods that give a named set-up, each with its first sentence.
    """

    file: Path
    line: int
    paper: str
    arguments: str
    parameters: list[Parameter]
    presets: dict[str, str]


def read_class(target: str) -> Source:
    """Read "module:Class"; a constructor that it does not write itself is that of its base.

    Raises:
        RegardError: the catalogue names a module or class that is not there.
    """
    module, _, name = target.partition(":")
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise RegardError(f"the catalogue names {target}, but there is no module {module}")
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if name not in classes:
        raise RegardError(f"the catalogue names {target}, but {spec.origin} has no class {name}")
    found = classes[name]
    methods = [node for node in found.body if isinstance(node, ast.FunctionDef)]
    start = next((m for m in methods if m.name == "__init__"), None)
    base = _imported_base(tree, found)
    inherited = read_class(base) if start is None and base is not None else None
    presets = {m.name: _sentence(m) for m in methods if _is_preset(m)}
    return Source(
        Path(spec.origin),
        found.lineno,
        ast.get_docstring(tree) or "",
        ast.get_docstring(found) or "",
        _parameters(start.args) if start else inherited.parameters if inherited else [],
        {**(inherited.presets if inherited else {}), **presets},
    )


def _imported_base(tree: ast.Module, found: ast.ClassDef) -> str | None:
    """The base class that a module imports from another one of regard, as "module:Class"."""
    names = {base.id for base in found.bases if isinstance(base, ast.Name)}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard.models."):
            for one in node.names:
                if one.name in names:
                    return f"{node.module}:{one.name}"
    return None


def _parameters(arguments: ast.arguments) -> list[Parameter]:
    plain = [*arguments.posonlyargs, *arguments.args][1:]  # without self
    missing = [None] * (len(plain) - len(arguments.defaults))
    pairs = [
        *zip(plain, [*missing, *arguments.defaults[-len(plain) :]] if plain else [], strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return [
        Parameter(
            a.arg,
            ast.unparse(a.annotation) if a.annotation else "Any",
            ast.unparse(default) if default is not None else None,
            a.lineno,
        )
        for a, default in pairs
    ]


def _is_preset(method: ast.FunctionDef) -> bool:
    public = not method.name.startswith("_")
    return public and any(
        isinstance(d, ast.Name) and d.id == "classmethod" for d in method.decorator_list
    )


def _sentence(method: ast.FunctionDef) -> str:
    return (ast.get_docstring(method) or "").partition("\n")[0]
