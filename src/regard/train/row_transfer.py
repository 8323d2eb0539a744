"""Training on from a model's weights with other words, labels or tags than it has.

Each row of a weight that belongs to a word (a label, a tag) is found again by its name:

    W'[w] = W[w]                        w is in both vocabularies
    W'[w] = 1/n Σ_i W[p_i]              w is new, and p_1 … p_n are the pieces it had before
    W'[w] = 1/|V| Σ_v W[v]              w is new, and is not made of known pieces

for embeddings, output projections and biases alike, and for both sides of a table of transitions.
Which dimensions of which weights are such rows is asked of the model itself: it is made twice
without values, the second time with one more word, and what has grown by one are rows.
"""

import inspect
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.catalog.building import constructor, shape_of
from regard.data.text.vocabulary_kinds import SPECIALS
from regard.errors import RequestError, nearest
from regard.fields import Field, TextField
from regard.protocols import Branched

__all__ = ["Change", "beginning", "changes", "choices", "rows_of", "taken_over"]


class Change(NamedTuple):
    """What becomes of the rows of one argument of a model.

    Args:
        field: whose names they are.
        old, new: the names of the rows.
        sources: for each new row the old rows that its values are the mean of; none: of all.
        kept, pieced, added, dropped: how many rows both have; how many are new, from pieces; how
            many, from the mean; how many old ones are gone.
    """

    field: str
    old: Sequence[str]
    new: Sequence[str]
    sources: Sequence[Sequence[int]]
    kept: int
    pieced: int
    added: int
    dropped: int

    @property
    def same(self) -> bool:
        """Whether every row stays where it is."""
        return [*self.old] == [*self.new]

    @property
    def ordinary(self) -> list[int]:
        """The old rows that a mean is of: all but those of special tokens."""
        return [i for i, name in enumerate(self.old) if name not in SPECIALS] or [0]

    def __str__(self) -> str:
        new = self.pieced + self.added
        said = f"{self.field}: {self.kept:,} kept, {new:,} added"
        if new:
            said += f" ({self.pieced:,} from pieces, {self.added:,} from the mean)"
        return f"{said}, {self.dropped:,} dropped"


def choices(asked: str | Mapping[str, str], fields: Mapping[str, Field]) -> dict[str, str]:
    """For each field `keep`, `extend` or `replace`.

    Raises:
        RequestError: a field is named that the task does not have.
    """
    if isinstance(asked, str):
        return dict.fromkeys(fields, asked)
    for name in asked:
        if name not in fields:
            raise RequestError(f"there is no field {name!r}: {nearest(name, fields)}")
    return {name: asked.get(name, "keep") for name in fields}


def beginning(
    task: Any, old: Mapping[str, Field], chosen: Mapping[str, str], *, shared: bool
) -> Any:
    """The task, whose fields begin with what the old ones know, where they are not replaced.

    Args:
        shared: all its texts will have one vocabulary.

    Raises:
        RequestError: the texts share a vocabulary, and are not all treated alike, or had not one.
    """
    declared = task.fields()
    texts = [n for n, f in declared.items() if isinstance(f, TextField) and f.of is None]
    if shared and len(texts) > 1:
        if len({chosen[name] for name in texts}) > 1:
            raise RequestError("texts share a vocabulary; expected one word for all of them")
        if chosen[texts[0]] != "replace" and len({old[name].dump() for name in texts}) > 1:
            raise RequestError(
                "the texts of the old model do not share a vocabulary; expected "
                "data.tokenizer.shared=false, or 'replace'"
            )
    made = copy(task)
    grown = {
        name: own
        if chosen[name] == "replace"
        else own.onto(old[name], extends=chosen[name] == "extend")
        for name, own in declared.items()
    }
    made.fields = lambda: dict(grown)
    return made


def changes(
    task: Any, old: Mapping[str, Field], new: Mapping[str, Field], chosen: Mapping[str, str]
) -> dict[str, Change]:
    """For each argument of the model whose rows have names, where they come from.

    Raises:
        RequestError: what was to be kept or extended was learned again.
    """
    before, after = task.rows(old), task.rows(new)
    found: dict[str, Change] = {}
    for argument, (field, names) in after.items():
        if argument not in before:
            continue
        known = before[argument][1]
        place = {name: i for i, name in enumerate(known)}
        kept = [name for name in names if name in place]
        if chosen[field] != "replace" and len(kept) != len(known):
            raise RequestError(
                f"the task {task.name} learns its {field} by itself: it cannot be extended, only "
                "kept or replaced"
            )
        added = [name for name in names if name not in place]
        pieces = dict(zip(added, old[field].pieces(added), strict=True))
        sources: list[Sequence[int]] = []
        for name in names:
            if name in place:
                sources.append((place[name],))
            else:
                sources.append([place[piece] for piece in pieces[name]])
        pieced = sum(bool(own) for own in pieces.values())
        numbers = len(kept), pieced, len(added) - pieced, len(known) - len(kept)
        found[argument] = Change(field, known, names, sources, *numbers)
    return found


def rows_of(
    model: Any, sizes: Mapping[str, int], settings: Mapping[str, Any], grown: Sequence[str]
) -> tuple[dict[str, list[int]], list[str]]:
    """The dimensions of a model's weights that are rows of words, by the name of the weight.

    Args:
        model: its class.
        sizes, settings: what its constructor is told.
        grown: arguments among the sizes, all of one vocabulary.

    Returns:
        the dimensions, and the weights that depend on the sizes in another way.
    """
    plain = _shapes(model, sizes, settings)
    try:
        more = _shapes(model, {**sizes, **{n: sizes[n] + 1 for n in grown}}, settings)
    except (RequestError, RuntimeError, ValueError):  # sizes that must be those of others
        return {}, [*plain]
    found: dict[str, list[int]] = {}
    unclear = [name for name in plain if len(more.get(name, ())) != len(plain[name])]
    for name in plain.keys() - unclear:
        steps = [other - one for one, other in zip(plain[name], more[name], strict=True)]
        at = [i for i, step in enumerate(steps) if step]
        if any(steps[i] != 1 or plain[name][i] != sizes[grown[0]] for i in at):
            unclear.append(name)
        elif at:
            found[name] = at
    return found, unclear


@torch.no_grad()
def taken_over(
    model: nn.Module,
    start: Any,
    sizes: Mapping[str, int],
    settings: Mapping[str, Any],
    found: Mapping[str, Change],
    where: str,
) -> None:
    """Give a model the weights of another one, row by row where rows have names.

    The weights of a model without branches are those of the deep branch; others start from scratch.

    Args:
        start: the loaded model.
        found: see `changes`.
        where: the place in the recipe.

    Raises:
        RequestError: another class, other sizes, or rows that cannot be told from each other.
    """
    if isinstance(model, Branched) and not isinstance(start.model, Branched):
        model = model.branches["deep"]
        settings = {key: value for key, value in settings.items() if key != "beside"}
    mine, theirs = model.state_dict(), start.model.state_dict()
    for name in sorted({*mine, *theirs}):
        if name not in mine or name not in theirs:
            _refuse(name, mine.get(name), theirs.get(name), start.folder, where)
    groups: dict[Any, list[str]] = {}
    for argument, change in found.items():
        if argument in sizes and not change.same:
            groups.setdefault((tuple(change.old), tuple(change.new)), []).append(argument)
    moved = dict(theirs)
    for grown in groups.values():
        change = found[grown[0]]
        rows, unclear = rows_of(constructor(start.config["model"]["name"]), sizes, settings, grown)
        whole = all(sizes[argument] == len(change.new) for argument in grown)
        for name in unclear if whole else [*rows, *unclear]:
            raise RequestError(
                f"{where}: the rows of {name} do not belong to single names of {change.field}; "
                "expected train.vocabulary to keep it"
            )
        for name, dimensions in rows.items():
            for at in dimensions:
                if moved[name].shape[at] == len(change.old):
                    moved[name] = _moved(moved[name], mine[name], at, change)
    for name, here in sorted(mine.items()):
        if moved[name].shape != here.shape:
            _refuse(name, here, theirs[name], start.folder, where)
        here.copy_(moved[name])


def _refuse(name: str, here: Tensor | None, there: Tensor | None, folder: Any, where: str) -> None:
    sizes = ("nothing" if one is None else str(tuple(one.shape)) for one in (here, there))
    raise RequestError(
        "{}: train.start needs a model of the same kind and sizes, and {} is {} in the "
        "recipe and {} in {}".format(where, name, *sizes, folder)
    )


def _moved(old: Tensor, new: Tensor, at: int, change: Change) -> Tensor:
    """An old weight with the new rows along one dimension; `new` has those of whole numbers."""
    known = [i for i, own in enumerate(change.sources) if len(own) == 1]
    made = old.new_empty([*old.shape[:at], len(change.new), *old.shape[at + 1 :]])
    if not old.is_floating_point() and made.shape == new.shape:
        made.copy_(new)  # a mean of marks means nothing
    elif not old.is_floating_point():
        made.zero_()
    places = torch.tensor([change.sources[i][0] for i in known], device=old.device)
    made.index_copy_(
        at, torch.tensor(known, device=old.device), old.index_select(at, places.long())
    )
    if old.is_floating_point() and len(known) < len(change.sources):
        every = torch.tensor(change.ordinary, device=old.device)
        mean = old.index_select(at, every).mean(at)
        for i, own in enumerate(change.sources):
            if len(own) != 1:
                pieces = torch.tensor([*own], device=old.device)
                row = old.index_select(at, pieces).mean(at) if len(own) else mean
                made.select(at, i).copy_(row)
    return made


def _shapes(
    model: Any, sizes: Mapping[str, int], settings: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    known = inspect.signature(model).parameters
    arguments = {name: size for name, size in sizes.items() if name in known}
    made = shape_of(model, {**arguments, **settings})
    return {name: tuple(tensor.shape) for name, tensor in made.state_dict().items()}
