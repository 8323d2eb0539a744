"""`regard compare`: systems side by side, with intervals and paired significance."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli._common import Json, emit, print_result, say
from regard.cli._folder import Columns, Split, named_columns, split_of
from regard.errors import RequestError, nearest
from regard.evaluation.comparing import System, check_count, markdown, variations
from regard.evaluation.comparing import compare as compare_systems
from regard.folder.seeds import model_folders

if TYPE_CHECKING:
    from regard.recipe import Recipe

__all__ = ["compare"]

ENGINES = ("local", "ray")


def compare(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="TARGET...", help="Recipes or folders, and KEY=VALUE for recipes."),
    ],
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=A,B,C", help="Train each recipe with each of these values."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="1-3", help="Train recipes under each of these seeds.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Where recipes are trained.  [default: runs/compare]",
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="FILE", help="Score on this file; default: their own.")
    ] = None,
    sides: Columns = None,
    split: Split = None,
    metric: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Which scores; default: all.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Of bootstrap and randomization.")] = 1000,
    tiny: Annotated[bool, typer.Option("--tiny", help="Apply the recipes' `tiny`.")] = False,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Who trains: local, or ray (all at once).  [default: local]"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare systems on the same examples: a table in Markdown, or JSON.

    Recipes are trained first (again = only what is missing). Folders are taken as they are; a
    folder of seeds is one system. Each score has its mean and standard deviation over seeds and a
    95 % bootstrap interval, and beside the first system the difference and its p by approximate
    randomization; with more than two systems also Holm's p, corrected for their number.

    Examples:
        regard compare runs/first runs/second --data test.tsv.gz --columns source=de,target=en
        regard compare translation/transformer-tiny-multi30k --vary model.heads=1,4,16
        regard compare graphs/gat-cora graphs/gcn-cora --seeds 1-10 --engine ray
    """
    changes = [target for target in targets if "=" in target]
    named = [target for target in targets if "=" not in target]
    systems = []
    if engine is not None and engine not in ENGINES:
        raise RequestError(f"--engine {engine}: {nearest(engine, ENGINES)}")
    root = output or Path("runs/compare")
    folders = {target: model_folders(target) for target in named}
    training = {
        "changes": changes,
        "--vary": vary,
        "--seeds": seeds,
        "-o": output,
        "--tiny": tiny,
        "--engine": engine,
    }
    unused = [name for name, value in training.items() if value]
    if unused and all(folders.values()):
        raise RequestError(
            f"{unused[0]}: changes, --vary, --seeds, -o, --tiny and --engine are for recipes; these"
            " are trained folders"
        )
    each = len(variations(vary or []))
    check_count(sum(1 if folders[target] else each for target in named))
    if seeds is not None:
        from regard.train.seeds import seeds_of

        seeds_of(seeds)  # refused before anything is trained
    if engine == "ray":
        _train_on_ray(
            [target for target in named if not folders[target]],
            changes,
            variations(vary or []),
            seeds,
            root,
            tiny,
        )
    for target in named:
        if folders[target]:
            systems.append(System(target, folders[target]))
        else:
            systems += [
                _trained(target, changes, varied, seeds, root, tiny)
                for varied in variations(vary or [])
            ]
    result = compare_systems(
        systems,
        data=data,
        columns=named_columns(sides),
        split=split_of(split, data),
        metrics=metric or (),
        samples=samples,
    )
    if as_json:
        emit(result)
    else:
        print_result(markdown(result))


def _trained(
    recipe: str,
    changes: list[str],
    varied: list[str],
    seeds: str | None,
    output: Path,
    tiny: bool,
) -> System:
    """Train one recipe with one set of values, under all seeds."""
    from regard.train import fit
    from regard.train.seeds import fit_seeds, seeds_of

    own = [*changes, *varied]
    found, root = _placed(recipe, own, output, tiny)
    name = " ".join([found.name, *varied])
    say(f"{name}: {root}")
    if seeds is None:
        fit(found, root, progress=False)
        return System(name, [root])
    numbers = seeds_of(seeds)
    fit_seeds(recipe, own, numbers, root, tiny=tiny, jobs=0)
    return System(name, [root / f"seed-{number}" for number in numbers])


def _placed(recipe: str, own: list[str], output: Path, tiny: bool) -> "tuple[Recipe, Path]":
    """A recipe with its changes, and where it is trained."""
    from regard import recipe as recipes

    found = recipes.load(recipe, own, tiny=tiny)
    # Other changes or another file of that name, another folder: what was trained stays.
    file = str(Path(recipe).resolve()) if Path(recipe).is_file() else ""
    said = [text for text in (file, *own, "tiny" if tiny else "") if text]
    mark = hashlib.blake2b("\n".join(said).encode(), digest_size=3).hexdigest()
    return found, output / (f"{found.name}-{mark}" if said else found.name)


def _train_on_ray(
    named: list[str],
    changes: list[str],
    varied: list[list[str]],
    seeds: str | None,
    output: Path,
    tiny: bool,
) -> None:
    """Train every recipe with every set of values under every seed, where there is room."""
    from regard.train.on_ray import Cell, fit_cells
    from regard.train.seeds import seeds_of

    cells = []
    for recipe in named:
        file = str(Path(recipe).resolve()) if Path(recipe).is_file() else recipe
        for one in varied:
            found, root = _placed(recipe, [*changes, *one], output, tiny)
            threads = int(found.train.get("threads") or 1)
            for number in [None] if seeds is None else seeds_of(seeds):
                own = [] if number is None else [f"train.seed={number}"]
                place = root if number is None else root / f"seed-{number}"
                cells.append(Cell(file, (*changes, *one, *own), place, tiny, threads))
    if cells:
        fit_cells(cells)
