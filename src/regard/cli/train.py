"""`regard train`: a recipe in, a folder out; run it again to continue."""

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli._common import Json, columns, emit, print_result, say
from regard.errors import RegardError, RequestError

if TYPE_CHECKING:
    from regard.recipe import Recipe

__all__ = ["train"]

log = logging.getLogger(__name__)


def train(
    recipe: Annotated[str, typer.Argument(help="A name of `regard recipes`, or a .yaml file.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes to the recipe.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FOLDER", help="Default: runs/RECIPE.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="1-10", help="Train once for each; write mean and sd.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Throw away what is in the folder.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Train even where another process trains there.")
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Train in this many processes of this machine.")
    ] = 1,
    dry: Annotated[
        bool,
        typer.Option("--dry", help="Build everything, run one batch, score two examples."),
    ] = False,
    show: Annotated[
        bool,
        typer.Option("--print", help="Print the resolved recipe and where each value is from."),
    ] = False,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="Apply the recipe's section `tiny`.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a recipe into a folder; run it again to continue.

    Ctrl-C saves; the same command continues, also after a crash, with the same result. A changed
    recipe in the same folder is refused.

    Examples:
        regard train pronunciation/rnnsearch-cmudict
        regard train translation/transformer-tiny-multi30k model.layers=3 -o small
        regard train my-recipe.yaml --seeds 1-5 --json
        regard train pronunciation/rnnsearch-cmudict --tiny
        regard train translation/transformer-tiny-multi30k --print
    """
    from regard import recipe as recipes

    training = {
        "-o": output,
        "--seeds": seeds,
        "--fresh": fresh,
        "--force": force,
        "--processes": processes > 1,
    }
    unused = [name for name, value in training.items() if value]
    if (show or dry) and unused:
        raise RequestError(
            f"{unused[0]}: {'--print' if show else '--dry'} trains nothing; leave out one of them"
        )
    if show and dry:
        raise RequestError("--print and --dry: leave out one of them")
    found = recipes.load(recipe, changes or [], tiny=tiny)
    if show:
        _print(found.check(), as_json)
    elif dry:
        from regard.train.dry_run import dry as run_dry

        _result(run_dry(found), as_json)
    elif processes > 1:
        if seeds is not None:
            raise RequestError("--processes: expected one training, and --seeds asks for several")
        from regard.train.launch import launch

        given = {"--tiny": tiny, "--fresh": fresh, "--force": force, "--json": as_json}
        words = [recipe, *(changes or []), *(name for name, own in given.items() if own)]
        where = [] if output is None else ["-o", str(output)]
        if code := launch(["train", *words, *where], processes):
            sys.exit(code)  # they have said why
    elif seeds is not None:
        from regard.train.seeds import fit_seeds, seeds_of

        numbers = seeds_of(seeds)
        found_all = fit_seeds(
            recipe, changes or [], numbers, output, tiny=tiny, fresh=fresh, force=force, jobs=0
        )
        _result(found_all, as_json)
    else:
        from regard.train import fit
        from regard.train.run import default_folder

        folder = output or default_folder(found)
        metrics = fit(found, folder, fresh=fresh, force=force, progress=not as_json)
        if metrics:  # empty in all processes but the first
            _keep_program(folder)
            _result({"folder": str(folder), **metrics}, as_json)


def _keep_program(folder: Path) -> None:
    """Write the program by which `regard predict` answers without PyTorch, where there can be one.

    One of other weights, of an earlier training in this folder, goes.
    """
    from regard.convert import add_program
    from regard.folder.programs import open_program
    from regard.runtime.stored_program import PROGRAM

    if open_program(folder) is not None:
        return
    try:
        add_program(folder)
    except RegardError as error:
        (folder / PROGRAM).unlink(missing_ok=True)
        log.info("%s: no %s: %s", folder, PROGRAM, error)


def _print(recipe: "Recipe", as_json: bool) -> None:
    rows = list(recipe.table())
    if as_json:
        emit({"recipe": recipe.resolved(), "from": {key: origin for key, _, origin in rows}})
    else:
        print_result(
            columns([(key, json.dumps(value), f"# {origin}") for key, value, origin in rows])
        )


def _result(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit(result)
        return
    for name, value in result.get("metrics", {}).items():
        print_result(f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}")
    if "folder" in result:
        say(f"{result['folder']}: try `regard predict {result['folder']} …`")
