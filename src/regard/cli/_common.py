"""What all commands share: options, output, talk, and how a failure is said."""

import functools
import inspect
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from regard.cli._streams import writable
from regard.errors import RegardError, RequestError
from regard.system.extras import install, is_required
from regard.system.files import said_of

__all__ = [
    "TRACE",
    "Command",
    "Interrupted",
    "Json",
    "columns",
    "configure_talk",
    "emit",
    "explain_failure",
    "print_result",
    "say",
    "show_traces",
    "terse",
    "with_talk",
]

TRACE = 5
"""The log level of -vv: everything, and a trace for every failure."""

_talk = logging.getLogger("regard.cli")

Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, the result on its last line.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but warnings and errors.")]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose", "-v", count=True, show_default=False, help="Say more; -vv adds traces."
    ),
]


def configure_talk(quiet: bool = False, verbose: int = 0) -> None:
    """Send what the library says to stderr, as plain lines, from the level asked for upwards."""
    root = logging.getLogger("regard")
    root.handlers[:] = [_Stderr()]
    root.propagate = False
    levels = {0: logging.INFO, 1: logging.DEBUG}
    root.setLevel(logging.WARNING if quiet else levels.get(verbose, TRACE))


class Interrupted(RegardError):
    """The command was interrupted by the user."""

    exit_code = 130


class _Stderr(logging.Handler):
    """Plain lines on whatever stderr is now (tests and progress bars replace it)."""

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        if record.levelno >= logging.WARNING:
            line = f"regard: {line}"
        sys.stderr.write(line + "\n")


def show_traces() -> bool:
    """Was -vv given?"""
    return logging.getLogger("regard").getEffectiveLevel() <= TRACE


def say(text: str) -> None:
    """Talk: one line on stderr, silenced by -q."""
    _talk.info("%s", text)


def print_result(text: str) -> None:
    """A line of the result, on stdout."""
    sys.stdout.write(text + "\n")


def emit(result: Mapping[str, Any]) -> None:
    """One JSON object on one line of stdout, at once (NaN and infinity become null)."""
    text = json.dumps(_plain(result), ensure_ascii=False)
    if not writable(text):  # escapes of JSON, which every reader of it knows
        text = json.dumps(_plain(result))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    """A copy that is valid JSON: no NaN, no tuples, paths and the like as text."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if value is None or isinstance(value, str | int):
        return value
    if hasattr(value, "item"):  # a number of NumPy's or torch's
        return _plain(value.item())
    if isinstance(value, Iterable):
        return [_plain(v) for v in value]
    return str(value)


def columns(rows: Iterable[Sequence[object]], gap: int = 2) -> str:
    """Rows as text, left-aligned in columns as wide as they need to be.

    Example:
        >>> print(columns([("a", "bc"), ("def", "g")]))
        a    bc
        def  g
    """
    cells = [[str(c) for c in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ((c.ljust(w + gap) for c, w in zip(row, widths, strict=True)) for row in cells)
    return "\n".join("".join(line).rstrip() for line in lines)


def terse(number: int | float) -> str:
    """A count as people say it: 1536 -> 1,536; 1536000 -> 1.54M.

    Example:
        >>> terse(1536000), terse(12)
        ('1.54M', '12')
    """
    return f"{number / 1e6:.2f}M" if number >= 1e6 else f"{number:,.0f}"


class Command(TyperCommand):
    """A command whose help shows its examples first, as they are written in its docstring.

    The docstring is one sentence, then paragraphs, and an `Examples:` section of indented lines.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Sentence, examples, usage, options."""
        sentence, examples, rest = split_help(self.help or "")
        formatter.write(f"{sentence}\n\n")
        if examples:
            formatter.write("\n".join(f"  {line}".rstrip() for line in examples) + "\n\n")
        self.format_usage(ctx, formatter)
        if rest:
            formatter.write(f"\n{rest}\n")
        self.format_options(ctx, formatter)


def split_help(text: str) -> tuple[str, list[str], str]:
    """A docstring's first paragraph, the lines of its `Examples:` section, and the rest."""
    lines = inspect.cleandoc(text).splitlines()
    start = next((i for i, s in enumerate(lines) if s in ("Example:", "Examples:")), None)
    if start is None:
        first, _, rest = "\n".join(lines).partition("\n\n")
        return first.replace("\n", " "), [], rest.strip()
    end = start + 1
    while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
        end += 1
    examples = inspect.cleandoc("\n" + "\n".join(lines[start + 1 : end])).splitlines()
    first, _, rest = "\n".join(lines[:start] + lines[end:]).partition("\n\n")
    return first.replace("\n", " "), examples, rest.strip()


def with_talk(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same command with -q and -v, unless it has its own."""
    signature = inspect.signature(function, eval_str=True)
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, default, kind in (("quiet", False, Quiet), ("verbose", 0, Verbose))
        if name not in signature.parameters
    ]

    @functools.wraps(function)
    def run(**given: Any) -> Any:
        asked = {p.name: given.pop(p.name) for p in extra}
        if asked.get("quiet") or asked.get("verbose"):
            configure_talk(**asked)
        try:
            return function(**given)
        except KeyboardInterrupt as error:  # typer would drop what it says
            raise Interrupted(str(error) or "interrupted") from error

    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *extra]
    )
    return run


_EXTRAS = {
    "matplotlib": "view",
    "PIL": "vision",
    "soundfile": "speech",
    "fastapi": "serve",
    "uvicorn": "serve",
    "httpx": "serve",
    "prometheus_client": "serve",
    "onnx": "export",
    "onnxruntime": "backbone",
    "pyarrow": "tables",
    "ctranslate2": "export",
    "ray": "ray",
    "zstandard": "zstd",
}


def _not_installed(module: str) -> str:
    """Of a package that no extra has."""
    package = {"yaml": "pyyaml"}.get(module, module).replace("_", "-")
    needed = ", and regard needs it" if is_required(package) else ""
    return f"{package} is not installed{needed}: pip install {package}"


def explain_failure(error: BaseException) -> tuple[str, int]:
    """A failure as one sentence and an exit code: 2 the request is wrong, 1 it ran and failed."""
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "interrupted", Interrupted.exit_code
    if isinstance(error, RegardError):
        return str(error), error.exit_code
    if isinstance(error, typer.TyperException):  # an unknown option, a missing argument
        return _usage(error), RequestError.exit_code
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return f"{error.filename}: {_lower(error.strerror)}", RequestError.exit_code
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename is not None else ""
        return place + said_of(error), RegardError.exit_code
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return (
            "this needs PyTorch: pip install torch; without it, `regard predict` and `regard "
            "serve` answer texts by folders that have a program.json",
            RequestError.exit_code,
        )
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _EXTRAS:
        package = (error.name or "").partition(".")[0]
        return f"this needs {package}: {install(_EXTRAS[package])}", RequestError.exit_code
    if isinstance(error, ModuleNotFoundError) and (error.name or "regard")[:6] != "regard":
        return _not_installed(str(error.name).partition(".")[0]), RequestError.exit_code
    if isinstance(error, UnicodeEncodeError):  # of a name of a file, by the locale
        own = ascii(error.object)
        said = f"the encoding {error.encoding} of this locale cannot write {own}"
        return f"{said}: run with PYTHONUTF8=1", RequestError.exit_code
    what = " ".join(str(error).split()) or "no message"
    return f"unexpected {type(error).__name__}: {what}; -vv shows where", RegardError.exit_code


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    hint = f"; see {context.command_path} --help" if context is not None else ""
    return f"{_lower(error.format_message().rstrip('.'))}{hint}"


def _lower(text: str | None) -> str:
    return text[:1].lower() + text[1:] if text else "failed"


def silence_pipe() -> None:
    """Point stdout at nothing after its reader has gone, so that the exit is quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
