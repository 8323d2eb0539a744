"""What a parser looked at, and the tree that came of it."""

from collections.abc import Sequence
from dataclasses import replace

from regard.data.annotations.linearized_trees import rebuilt
from regard.data.annotations.predicate_texts import apart
from regard.data.annotations.trees import ANY, Tree
from regard.tasks.generation import view as generation
from regard.tasks.loaded_model import LoadedModel
from regard.views import Run, TreeNode, TreePanel, View, ViewOptions

__all__ = ["view"]


def view(loaded: LoadedModel, inputs: Sequence[str], options: ViewOptions) -> View:
    """As of every task that writes, with the tree of each hypothesis below its picture."""
    made = generation.view(loaded, [apart(text) for text in inputs], options)
    runs = [replace(run, panels=[*run.panels, _tree(run)]) for run in made.runs]
    return replace(made, runs=runs)


def _tree(run: Run) -> TreePanel:
    tree, _ = rebuilt(run.output.split(), run.input.split())
    return TreePanel(title="the tree", root=_node(tree))


def _node(tree: Tree) -> TreeNode:
    """A constituent with what it is made of; a word with its tag, if that says anything."""
    if tree.word is not None:
        silent = tree.label in (ANY, tree.word)
        return TreeNode(tree.word if silent else f"{tree.label} {tree.word}")
    return TreeNode(tree.label, tuple(_node(child) for child in tree.children))
