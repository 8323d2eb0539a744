"""`regard COMMAND TARGET …`: the table of commands, and the one place where failures are said.

A command's module is imported only when that command is called (or its own --help is asked): the
table knows its module and its sentence. `regard --help` imports neither torch nor any command.
"""

import functools
import importlib
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from regard import __version__
from regard.cli._common import (
    Command,
    Quiet,
    Verbose,
    configure_talk,
    emit,
    explain_failure,
    show_traces,
    silence_pipe,
    with_talk,
)
from regard.cli._streams import prepare_streams, written_words
from regard.errors import RequestError, nearest

_INTERRUPTED = 130

__all__ = ["COMMANDS", "app", "main"]


class Row(NamedTuple):
    """A command: its name, the module that has a function of that name, and its sentence."""

    name: str
    module: str
    help: str


COMMANDS: tuple[Row, ...] = (  # sentences of at most 66 characters fit a line of 80
    Row("demo", "regard.cli.demo", "Train a small model live, use the shipped ones, draw all."),
    Row("train", "regard.cli.train", "Train a recipe into a folder; run it again to continue."),
    Row("evaluate", "regard.cli.evaluate", "Score a model with the field's official scorers."),
    Row("compare", "regard.cli.compare", "Systems side by side: intervals and significance."),
    Row("curves", "regard.cli.curves", "Show how trainings went: losses, scores on dev, rewards."),
    Row(
        "predict", "regard.cli.predict", "Use a model on texts, pictures, sounds or files of them."
    ),
    Row("look", "regard.cli.look", "Show what a model attends to: terminal, page, PNG, PDF, SVG."),
    Row("serve", "regard.cli.serve", "Serve models over HTTP, with batches over all requests."),
    Row("export", "regard.cli.export", "Write a model for Hugging Face, CTranslate2 or ONNX."),
    Row("convert", "regard.cli.convert", "Read a model of fairseq, OpenNMT-py, JoeyNMT or Marian."),
    Row("models", "regard.cli.models", "List the papers; show a model's equations and defaults."),
    Row("recipes", "regard.cli.recipes", "List, show, copy and check recipes."),
    Row("claims", "regard.cli.claims", "What surveys claim, measured: list, run, draw."),
    Row("data", "regard.cli.data", "Inspect data: rows, lengths, problems, duplicates, leaks."),
    Row("bench", "regard.cli.bench", "Measure: kernels against naive forms, layers by length."),
    Row(
        "doctor", "regard.cli.doctor", "Say what this installation can do, and check that it does."
    ),
)

_EXAMPLES = """\
  regard demo
  regard predict de-en-small "Das Fenster wird geschlossen."
  regard look de-en-small "Das Fenster wird geschlossen." -o attention.png
  regard train pronunciation/rnnsearch-cmudict train.steps=2000
  regard COMMAND --help
"""


class _Front(typer.core.TyperGroup):
    """The front page: what regard is, examples, then commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(f"{self.help}\n\n{_EXAMPLES}\n")
        self.format_usage(ctx, formatter)
        self.format_options(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise RequestError(
                f"no command is called {args[0]!r}: {nearest(args[0], self.commands)}"
            )
        return super().resolve_command(ctx, args)


_HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    cls=_Front,
    help="Train, use and look into sequence models with attention.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_HELP,
)


def _version(asked: bool) -> bool:
    if asked:
        sys.stdout.write(f"regard {__version__}\n")
        raise typer.Exit
    return asked


@app.callback()
def front(
    quiet: Quiet = False,
    verbose: Verbose = 0,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Set how much is said, whatever the command."""
    configure_talk(quiet, verbose)


@functools.cache
def command(name: str, function: Callable[..., Any]) -> Any:
    """A typed function as a command line of its own, with -q, -v and examples-first help.

    Built once in a process: typer takes longer for its options than many commands run.
    """
    single = typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    single.command(name, cls=Command, context_settings=_HELP)(with_talk(function))
    return typer.main.get_command(single)


class _Door(Command):
    """What stands for a command in the table: it imports the command and hands all words on."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.args = args
        return args

    def invoke(self, ctx: Any) -> Any:
        row = _ROWS[ctx.info_name]
        function = getattr(importlib.import_module(row.module), row.name)
        words = command(row.name, function)
        return words.main(ctx.args, prog_name=f"regard {row.name}", standalone_mode=False)


def _closed() -> None:
    """The door of a command, before it is opened."""


_ROWS = {row.name: row for row in COMMANDS}
for _row in COMMANDS:
    app.command(_row.name, cls=_Door, help=_row.help)(_closed)


@functools.cache
def _whole() -> Any:
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and give its exit code.

    0 done, 1 ran and failed, 2 the request is wrong, 130 interrupted.
    """
    words = written_words(sys.argv[1:] if arguments is None else arguments)
    prepare_streams()
    configure_talk()
    try:
        code = _whole().main(words or ["--help"], prog_name="regard", standalone_mode=False)
        sys.stdout.flush()
        if code == _INTERRUPTED:  # typer turns an interrupt outside a command into this code
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        silence_pipe()
        return 1
    except (Exception, KeyboardInterrupt) as error:
        if show_traces():
            traceback.print_exc()
        sentence, status = explain_failure(error)
        if _wants_json(words):
            emit({"error": sentence})
        sys.stderr.write(f"regard: {sentence}\n")
        return status


def _wants_json(words: Sequence[str]) -> bool:
    """Was --json asked for? Looked up by hand: the command line may be what is wrong."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options
