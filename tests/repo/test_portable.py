"""What keeps Windows and macOS possible: nothing that one system alone has is taken as given.

None of these systems is here. What can be tested is that the code asks for nothing they lack: the
sources are read, and (slow) a Linux is made to lack it.
"""

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "regard"
MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog", "msvcrt", "winreg"}
OS = {
    "fork", "forkpty", "setsid", "killpg", "getuid", "geteuid", "getgid", "sched_getaffinity",
    "sched_setaffinity", "nice", "getloadavg", "sysconf", "mkfifo", "chown", "uname", "statvfs",
    "O_DIRECTORY", "register_at_fork", "pread", "getpgid", "setpriority",
}  # fmt: skip
SIGNALS = {"SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGCHLD"}
GUARDS = ("hasattr", "getattr")


def trees(words):
    """The files that have one of these words: no other can use what they name."""
    there = re.compile(rf"\b({'|'.join(words)})\b")
    for path in sorted(ROOT.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if there.search(text):
            yield path.relative_to(ROOT), ast.parse(text)


def parents(tree):
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def above(node, known):
    while node in known:
        node = known[node]
        yield node


def asked_before(node, known):
    """Whether it is used only where `hasattr` was asked, or in a `try` for its absence."""
    return any(isinstance(one, ast.Try | ast.If | ast.IfExp) for one in above(node, known))


def used(tree):
    """What of one system alone is used without asking whether it is there."""
    known = parents(tree)
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name in MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            names = [node.module]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            lacking = {"os": OS, "signal": SIGNALS}.get(node.value.id, set())
            names = [node.attr] if node.attr in lacking else []
        elif isinstance(node, ast.Call):
            is_context = ast.unparse(node.func).endswith(("get_context", "set_start_method"))
            names = [a.value for a in node.args if isinstance(a, ast.Constant)
                     and a.value == "fork"] if is_context else []  # fmt: skip
        if names and not asked_before(node, known):
            yield node.lineno, names[0]


def test_nothing_of_one_system_alone_is_taken_as_given():
    words = {*MODULES, *OS, *SIGNALS, "fork"}
    found = [f"{path}:{line}: {name}" for path, tree in trees(words) for line, name in used(tree)]
    assert not found
    wrong = "import fcntl\nos.fork()\nmultiprocessing.get_context('fork')\nsignal.SIGKILL\n"
    assert {name for _, name in used(ast.parse(wrong))} == {"fcntl", "fork", "SIGKILL"}
    assert len([*used(ast.parse(wrong))]) == 4
    right = "if hasattr(os, 'nice'):\n    os.nice(1)\ntry:\n    import fcntl\nexcept ImportError: 1"
    assert not [*used(ast.parse(right))]


def bare(tree):
    """Text that is read or written in whatever encoding the system prefers."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        told = {keyword.arg for keyword in node.keywords}
        if "encoding" in told or None in told:
            continue
        if (name == "read_text" and not node.args) or (name == "write_text" and len(node.args) < 2):
            yield node.lineno
        if ast.unparse(node.func) in ("open", "gzip.open", "os.fdopen"):
            mode = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "mode")]
            text = not mode or (isinstance(mode[0], ast.Constant) and "b" not in mode[0].value)
            if text and not (ast.unparse(node.func) == "gzip.open" and not mode):
                yield node.lineno


def test_texts_are_utf8_whatever_the_system_prefers():
    words = {"open", "fdopen", "read_text", "write_text"}
    found = [f"{path}:{line}" for path, tree in trees(words) for line in bare(tree)]
    assert not found
    assert len([*bare(ast.parse("open(p)\np.read_text()\np.write_text(t)\nopen(p, 'rb')"))]) == 3


LACKING = """
import builtins, os, sys, importlib, pkgutil
plain = builtins.__import__

def asked(name, globals=None, *more, **named):  # other packages know what system they are on
    own = str((globals or {}).get("__name__", "")).partition(".")[0] == "regard"
    if own and name in ("fcntl", "resource", "pwd", "grp", "termios"):
        raise ImportError(name)
    return plain(name, globals, *more, **named)

def forked():
    raise AssertionError("os.fork was called")

builtins.__import__ = asked
os.fork = forked
del os.sched_getaffinity
import regard
left = {}
for one in pkgutil.walk_packages(regard.__path__, "regard."):
    if one.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(one.name)
    except ImportError as error:  # an optional dependency is another thing
        left[one.name] = str(error)
bad = {n: s for n, s in left.items() if any(m in s for m in ("fcntl", "resource", "pwd", "grp"))}
assert not bad, bad
from regard import recipe, train
from regard import loading
path = sys.argv[1]
train.fit(recipe.load("pronunciation/rnnsearch-cmudict-demo", [
    "train.cpu_seconds=null", "train.steps=2", "train.epochs=null", "train.validate.every=0",
    "model.hidden=8", "model.embed=8", "model.align=8", "model.maxout=8", "data.limit=40",
    "decode.beam_size=1", "decode.max_length=3", "train.device=cpu"]), path, progress=False)
print(loading.load("de-en-small").predict(["Das Fenster wird geschlossen."], beam_size=1)[0].output)
"""


@pytest.mark.slow
@pytest.mark.nohook
def test_all_is_imported_and_a_model_trained_where_there_is_no_fork(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LACKING), str(tmp_path / "run")],
        env={**os.environ, "REGARD_NATIVE": "0"}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "The window is closed."
