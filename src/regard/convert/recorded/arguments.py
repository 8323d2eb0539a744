"""The arguments of a recorded operation by their names, with PyTorch's defaults."""

from typing import Any

from regard.decode.program.recorder import Node, named_arguments

__all__ = ["arguments"]


def arguments(node: Node) -> dict[str, Any]:
    """Every argument of an operation of PyTorch, by its name in the schema."""
    schema = node.function._schema
    given = named_arguments(schema, node.args, node.kwargs)
    return {
        a.name: given.get(a.name, a.default_value if a.has_default_value() else None)
        for a in schema.arguments
    }
