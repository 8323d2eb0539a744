"""The front door: quick help, exit codes, errors as one sentence, JSON and nothing else."""

import importlib
import json
import os
import resource
import socket
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer

import regard
from regard.cli import app as front
from regard.cli._common import Json, columns, emit, say, split_help
from regard.errors import RegardError, RequestError
from regard.system.extras import install
from tests.cli.run import run, run_alone


@pytest.fixture
def command(monkeypatch):
    """Puts a command `probe` into the table, whose body the test gives."""

    def put(body):
        def probe(
            words: Annotated[list[str] | None, typer.Argument(help="Anything.")] = None,
            number: Annotated[int, typer.Option(help="A number.")] = 1,
            json: Json = False,
        ) -> object:
            """Probe the front door.

            Examples:
                regard probe one two
            """
            say("working")
            return body(words or [], number, json)

        module = type(sys)("regard.cli.train")
        module.train = probe
        monkeypatch.setitem(sys.modules, "regard.cli.train", module)

    return put


def used(words, python):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = run_alone(*words, python=python)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ran.code == 0
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_takes_less_than_three_tenths_of_a_second_of_processor_time():
    assert min(used(["--help"], ("-m", "regard")) for _ in range(3)) <= 0.3


@pytest.mark.parametrize("words", [["models"], ["models", "transformer"], ["recipes"]])
def test_light_commands_import_nothing_heavy(words):
    code = (
        "import sys; from regard.cli.app import main; code = main(sys.argv[1:]); "
        "heavy = {'torch', 'numpy', 'pytorch_lightning', 'sacrebleu', 'matplotlib'}; "
        "sys.exit(code or ', '.join(heavy & set(sys.modules)) or 0)"
    )
    ran = run_alone(*words, python=("-c", code))
    assert (ran.code, ran.err) == (0, "")


NO_COMPILER = """
import json, os, signal, sys, threading, time, urllib.request
import torch
HEAVY = {"torch._dynamo", "torch._inductor", "sympy", "pytorch_lightning", "matplotlib",
         "transformers", "pandas", "numpy.ma", "torch.distributed"} - set(sys.modules)
import regard
from regard.cli.app import main

def check(what, code):
    heavy = sorted(HEAVY & set(sys.modules))
    if code or heavy:
        sys.exit(f"{what}: exit code {code}, imported {heavy}")

for words in json.loads(sys.argv[1]):
    check(words, main(words))
regard.load("stories-small")
check("load", 0)

def ask():
    body = json.dumps({"inputs": ["Hallo"]}).encode()
    wanted = urllib.request.Request(
        f"http://127.0.0.1:{sys.argv[2]}/predict", body, {"content-type": "application/json"})
    for _ in range(600):
        try: answers.append(json.load(urllib.request.urlopen(wanted)))
        except OSError: time.sleep(0.1)
        else: break
    os.kill(os.getpid(), signal.SIGTERM)

answers = []
threading.Thread(target=ask).start()
check("serve", main(["serve", "de-en-small", "--port", sys.argv[2]]))
assert len(answers) == 1
"""


@pytest.mark.nohook
def test_no_compiler_is_imported_where_nothing_is_trained(tmp_path, monkeypatch):
    """PyTorch's compiler costs three seconds; the check of sizes on the meta device used it.

    All in one process: the first that imports it is named. `import torch` imports torch.distributed
    itself, in some versions.
    """
    monkeypatch.chdir(tmp_path)
    Path("two.jsonl").write_text('{"de": "Hallo.", "en": "Hello."}\n', encoding="utf-8")
    commands = [
        ["models", "transformer"],
        ["predict", "parser-small", "Hello ."],  # it has no program
        ["evaluate", "de-en-small", "--data", "two.jsonl", "--columns", "source=de,target=en"],
        ["look", "de-en-small", "Hallo", "-o", "page.html"],
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ran = run_alone(json.dumps(commands), port, python=("-c", NO_COMPILER))
    assert ran.code == 0, ran.err


def test_no_command_imports_anything_heavy_for_its_help():
    """All in one process: the first that does is named."""
    code = (
        "import sys; from regard.cli.app import COMMANDS, main; "
        "heavy = {'torch', 'numpy', 'pytorch_lightning', 'sacrebleu', 'matplotlib'}\n"
        "for words in [[], *[[row.name] for row in COMMANDS]]:\n"
        "    code = main([*words, '--help'])\n"
        "    if code or heavy & set(sys.modules): sys.exit(f'{words}: {heavy & set(sys.modules)}')"
    )
    ran = run_alone(python=("-c", code))
    assert (ran.code, ran.err) == (0, "")


def test_help_shows_the_examples_before_the_options(capsys):
    ran = run(capsys, "--help")
    assert ran.code == 0
    assert ran.out.index("regard predict de-en-small") < ran.out.index("Usage:")
    for row in front.COMMANDS:
        assert f"  {row.name} " in ran.out
        assert row.help in ran.out, "the sentence fits its line"
    assert run(capsys).out == ran.out
    assert "\x1b" not in ran.out


def test_a_commands_help_is_sentence_examples_usage_options(capsys, command):
    command(lambda *_: None)
    ran = run(capsys, "train", "--help")
    places = [
        ran.out.index(s) for s in ("Probe the front", "  regard probe one", "Usage:", "--json")
    ]
    assert places == sorted(places)
    assert {"-q", "-v", "-h"} <= set(ran.out.replace(",", " ").split())


def test_every_command_of_the_table_that_is_there_has_help(capsys):
    for row in front.COMMANDS:
        if importlib.util.find_spec(row.module) is None:
            continue
        ran = run(capsys, row.name, "--help")
        assert ran.code == 0, ran.err
        assert f"Usage: regard {row.name}" in ran.out
        assert f"  regard {row.name}" in ran.out.partition("Usage:")[0], "examples come first"


def test_words_reach_the_command_as_they_were_typed(capsys, command):
    seen = []
    command(lambda words, number, json: seen.append((words, number)))
    assert run(capsys, "train", "a=1", "--number", "3", "b", "--", "-x", "--json").code == 0
    assert seen == [(["a=1", "b", "-x", "--json"], 3)]


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RequestError("no such thing"), 2, "no such thing"),
        (RegardError("it broke"), 1, "it broke"),
        (KeyboardInterrupt("saved at step 3"), 130, "saved at step 3"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (FileNotFoundError(2, "No such file or directory", "x.tsv"), 2, "x.tsv: no such file"),
        (OSError(28, "No space left on device", "out"), 1, "out: no space left"),
        (ModuleNotFoundError("No module", name="matplotlib.pyplot"), 2, install("view")),
        (ModuleNotFoundError("No module", name="torch"), 2, "this needs PyTorch: pip install"),
        (ValueError("bad\n  thing"), 1, "unexpected ValueError: bad thing; -vv"),
    ],
)
def test_failures_are_one_sentence_and_an_exit_code(capsys, command, error, code, said):
    def fail(*_):
        raise error

    command(fail)
    ran = run(capsys, "train")
    assert (ran.code, ran.out) == (code, "")
    *talk, last = ran.err.splitlines()
    assert talk == ["working"]
    assert last.startswith("regard: ")
    assert said in last

    ran = run(capsys, "train", "--json")
    assert ran.code == code
    assert said in ran.result["error"]
    assert list(ran.result) == ["error"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "no command is called 'trian': did you mean 'train'?"),
        (["--nonsense"], "no such option: --nonsense"),
        (["train", "--numbr", "1"], "no such option: --numbr"),
        (["train", "--number", "x"], "invalid value for '--number'"),
    ],
)
def test_a_wrong_request_exits_with_2(capsys, command, words, said):
    command(lambda *_: None)
    ran = run(capsys, *words)
    assert (ran.code, ran.out) == (2, "")
    assert said.lower() in ran.err.lower()
    assert len(ran.err.splitlines()) == 1
    assert said.lower() in run(capsys, *words, "--json").result["error"].lower()


def test_traces_only_with_vv(capsys, command):
    def fail(*_):
        raise RegardError("it broke")

    command(fail)
    for words in (["train"], ["train", "-v"], ["-v", "train"]):
        assert "Traceback" not in run(capsys, *words).err
    for words in (["train", "-vv"], ["-vv", "train"]):
        ran = run(capsys, *words)
        assert "Traceback" in ran.err
        assert ran.err.splitlines()[-1] == "regard: it broke"


def test_q_silences_talk_but_not_errors(capsys, command):
    command(lambda *_: None)
    assert run(capsys, "train").err == "working\n"
    assert run(capsys, "train", "-q").err == ""
    assert run(capsys, "train").err == "working\n", "one run does not change the next"
    assert run(capsys, "-q", "nonsense").err.startswith("regard: ")


def test_a_commands_own_exit_code_is_kept(capsys, command):
    def leave(*_):
        raise typer.Exit(3)

    command(leave)
    assert run(capsys, "train").code == 3


def test_results_are_plain_json(capsys):
    import numpy as np

    emit({"a": float("nan"), "b": (1, 2), "c": np.float32(0.5), "d": np.int64(3), "e": "ü"})
    line = capsys.readouterr().out
    assert json.loads(line) == {"a": None, "b": [1, 2], "c": 0.5, "d": 3, "e": "ü"}
    assert line.count("\n") == 1


def test_a_closed_pipe_is_no_error():
    code = "from regard.cli.app import main; import sys; sys.exit(main(['models', '--json']))"
    read, write = os.pipe()
    os.close(read)
    import subprocess

    path = os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=write,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", path])},
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


def test_version(capsys):
    ran = run(capsys, "--version")
    assert ran.code == 0
    assert ran.out == f"regard {regard.__version__}\n"


def test_help_is_split_at_its_examples():
    text = """Do it.

    Examples:
        regard do
          deeper

    More about it.
    """
    assert split_help(text) == ("Do it.", ["regard do", "  deeper"], "More about it.")
    assert split_help("One\nsentence.") == ("One sentence.", [], "")


def test_columns_are_as_wide_as_they_need_to_be():
    assert columns([("a", 1), ("bcd", 22)]) == "a    1\nbcd  22"
