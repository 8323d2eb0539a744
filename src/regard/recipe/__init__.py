"""Recipes: a YAML file (rules of YAML 1.2) that says everything a result depends on.

A recipe has the sections `model task data train decode`, what to `expect`, and changes that make it
`tiny` (seconds on a laptop, for tests). Values can be changed by `key=value`. Everything is checked
against the constructors that will get it, and every error names file and line.

    >>> from regard import recipe
    >>> r = recipe.load("translation/rnnsearch-multi30k", ["train.steps=2000"])  # doctest: +SKIP
    >>> r.train["steps"], r.where("train.steps")                                 # doctest: +SKIP
    (2000, "command line")
"""

from regard.recipe.recipe import (
    SECTIONS,
    Recipe,
    find,
    folder,
    load,
    names,
)

__all__ = ["SECTIONS", "Recipe", "find", "folder", "load", "names"]
