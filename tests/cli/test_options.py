"""Every option of every command changes what comes out, or is refused: none is ignored.

The options are those of the argument parsers, so that a new one without a value here fails. Each is
given to a command that ran without it, in every context where it could be overlooked. What would
take minutes or a network (training, serving, measuring) is replaced by a print of what it was told.
"""

import hashlib
import importlib
import json
import logging
import re
import shutil
from pathlib import Path

import pytest
import torch

from regard.cli.app import COMMANDS, command
from tests.cli.run import run
from tests.cli.toy import _loads, folder, layered
from tests.folder.test_training_log import write

__all__ = ["_loads", "folder", "layered"]

TEXT = "ein Hund läuft http://a.de ."
RECIPE = "pronunciation/rnnsearch-cmudict"

SHARED = {
    "--json": [], "-q": [], "-v": [], "--threads": ["3"], "--device": ["cuda"],
    "--set": ["max_length=2"], "--graph": ["x"], "--with": ["{layered}"],
    "--columns": ["source=en,target=de"],
    "--split": ["dev"], "--data": ["{rows2}"], "-o": ["out"], "--force": [],
}  # fmt: skip
"""A value for options that several commands have."""

VALUES = {
    "demo": {"--updates": ["5"], "--reuse": []},
    "train": {"--seeds": ["1-2"], "--fresh": [], "--processes": ["2"], "--dry": [], "--print": [],
              "--tiny": []},
    "evaluate": {"--where": ["id=0"], "--check": [], "--branches": []},
    "compare": {"--vary": ["model.layers=1,2"], "--seeds": ["1-2"], "--metric": ["chrf"],
                "--samples": ["7"], "--tiny": [], "--engine": ["local"]},
    "curves": {"--show": ["lr"], "--by": ["cpu"], "-o": ["out.png"]},
    "predict": {"-i": ["{lines}"], "--n-best": ["2"], "--prefix": ["the"], "--force-words": ["dog"],
                "--bad-words": ["{word}", "--bad-words", "{other}"], "--keep": ["urls"],
                "--align": [], "--replace-unknown": [],
                "--lexicon": ["{lexicon}"], "--into": ["new.tsv"], "--output-column": ["x"],
                "--engine": ["ray"], "--workers": ["0"], "--fresh": [], "--attention": ["x"],
                "--head": ["9"], "--must": ["dog"], "--never": ["{word}", "--never", "{other}"]},
    "look": {"-o": ["out.svg"], "--show": ["lines"], "--serve": [], "--port": ["1"],
             "--hypothesis": ["2"], "--layer": ["1"], "--head": ["2"], "--kind": ["encoder"],
             "--step": ["2"], "--target": ["a dog runs"], "--max": ["3"], "--pieces": [],
             "--values": [], "--width": ["5"], "--measure": ["gradient"], "--why": [],
             "--open": []},
    "serve": {"--host": ["::1"], "--port": ["1"], "--workers": ["2"], "--keys": ["{keys}"],
              "--host-name": ["x"], "--proxy": ["10.0.0.1"], "--batch-tokens": ["7"],
              "--wait-ms": ["7"], "--reload": ["7"], "--grace": ["7"], "--max-body": ["7"],
              "--max-texts": ["7"], "--max-tokens": ["7"], "--max-queue": ["7"],
              "--join": ["--no-join"], "--max-wait": ["7"], "--max-seconds": ["7"],
              "--max-concurrency": ["7"], "--max-streams": ["7"], "--max-beam": ["7"],
              "--max-output": ["7"], "--log-texts": []},
    "export": {"--to": ["nonsense"], "--quantization": ["float16"]},
    "convert": {"--from": ["fairseq"]},
    "models": {"--task": ["translation"], "--explain": []},
    "recipes": {},
    "claims": {"--verdict": ["open"], "--kept": [], "-o": ["out.svg"]},
    "data": {"--columns": ["a=de"], "--format": ["conllu"], "--header": ["--no-header"]},
    "bench": {"--quick": [], "--list": [], "-o": ["out.jsonl"]},
    "doctor": {},
}  # fmt: skip
"""Of each command, values for its own options; a flag has none."""

BASES = {
    "demo": [[]],
    "train": [[RECIPE], [RECIPE, "--print"], [RECIPE, "--dry"]],
    "evaluate": [["{folder}", "--data", "{rows}"]],
    "compare": [["{folder}", "{layered}", "--data", "{rows}", "--samples", "5"]],
    "curves": [["{log}"]],
    "predict": [["{folder}", TEXT], ["{folder}", TEXT, "--json"],
                ["{folder}", "-i", "{rows}", "-o", "made"]],
    "look": [["{layered}", TEXT], ["{layered}", TEXT, "--json"],
             ["{layered}", TEXT, "-o", "out.png"], ["{layered}", TEXT, "-o", "out.html"],
             ["{layered}", TEXT, "-o", "out.seen"], ["{layered}", TEXT, "--serve"], ["{seen}"],
             ["{seen}", "-o", "out.html"]],
    "serve": [["{folder}"]],
    "export": [["{layered}", "--to", "regard", "-o", "made"],
               ["{layered}", "--to", "huggingface", "-o", "made"]],
    "convert": [["{exported}", "--from", "huggingface", "-o", "made"]],
    "models": [[], ["rnnsearch"]],
    "recipes": [["list", "translation"], ["show", RECIPE], ["copy", RECIPE, "mine.yaml"]],
    "claims": [[], ["C30"], ["C33"]],
    "data": [["{rows}"], ["{jsonl}"]],
    "bench": [["kernels", "kernel-a"], ["complexity", "layer-a"], ["kernels", "--list"]],
    "doctor": [["{folder}"]],
}  # fmt: skip
"""Of each command the contexts: command lines that work, to which each option is added."""

INERT = {
    ("recipes", "--force"), ("export", "--force"), ("convert", "--force"),
}  # fmt: skip
"""What works only where a file is there already: these have it in a second run."""

SLOW = re.compile(r"[\d.,]+ (s|ms|MB|a second|lines a second)\b|(?<=seconds\": )[\d.]+")


def parameters(name):
    """The options of a command, by the name that is given."""
    row = next(row for row in COMMANDS if row.name == name)
    made = command(name, getattr(importlib.import_module(row.module), name))
    several = [own.opts for own in made.params if own.opts[0].startswith("-")]
    return {
        min(opts, key=lambda one: (one not in ("-o", "-i", "-q", "-v"), len(one)))
        for opts in several
    }


def wanted(name):
    """Each option with its value."""
    table = {**SHARED, **VALUES[name]}
    return {option: table[option] for option in parameters(name)}


def test_every_option_of_the_parsers_has_a_value_here():
    assert set(VALUES) == set(BASES) == {row.name for row in COMMANDS}
    for name, own in VALUES.items():
        there = parameters(name)
        assert not there - {*SHARED, *own}, f"{name}: give these a value"
        assert not set(own) - there, f"{name}: these are gone"


@pytest.fixture(scope="module")
def places(tmp_path_factory, folder, layered):
    """Files that the command lines name."""
    from regard import loading

    place = tmp_path_factory.mktemp("options")
    pairs = [("ein Hund läuft .", "a dog runs ."), ("die Datei", "the file")]
    rows = ["id\tde\ten", *(f"{i}\t{de}\t{en}" for i, (de, en) in enumerate(pairs))]
    files = {
        "rows.tsv": "\n".join(rows), "rows2.tsv": "\n".join(rows[:2]), "lines.txt": pairs[1][0],
        "lexicon.txt": "Hund\tdog\n", "keys.txt": "12345678\n",
        "jsonl.jsonl": "\n".join(json.dumps({"de": de, "en": en}) for de, en in pairs),
    }  # fmt: skip
    for name, text in files.items():
        (place / name).write_text(text + "\n")
    seen = loading.load(layered)
    from regard.viewer import drawable
    from regard.views import ViewOptions

    drawable(seen.task.view(seen, [TEXT], ViewOptions())).save(place / "kept.seen")
    return {
        "word": loading.load(folder).translate([TEXT])[0].split()[0],
        "other": loading.load(folder).translate([pairs[1][0]])[0].split()[0],
        **{Path(name).stem: str(place / name) for name in files}, "folder": folder,
        "layered": layered, "seen": str(place / "kept.seen"), "log": write(place / "log"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def exported(tmp_path_factory, layered):
    """A model in the form of another program."""
    from regard import convert

    made = tmp_path_factory.mktemp("exported") / "huggingface"
    convert.export(layered, "huggingface", made)
    return str(made)


@pytest.fixture
def told(monkeypatch, _loads):
    """What takes long says what it was told, in place of doing it."""
    import regard.cli.bench as bench
    import regard.cli.demo as demo
    import regard.cli.look as look
    from regard import bulk, loading
    from regard.inference import unknown_words
    from regard.serve import server, settings, workers
    from regard.train import dry_run, launch, seeds
    from regard.train import run as training

    def saying(name, answer=None):
        def said(*words, **more):
            print(f"{name}{words}{more}".replace(" at 0x", " "))
            return answer

        return said

    class Socket:
        def getsockname(self):
            return "127.0.0.1", 1

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    rows = {
        name: type("Row", (), {"id": name, "what": name, "__repr__": lambda s: s.id})()
        for name in ("kernel-a", "layer-a")
    }

    class Program:
        ROWS = LAYERS = rows
        HEAD = ("ROW",)
        measure_row = staticmethod(saying("row", [{"row": 1}]))
        measure = staticmethod(saying("layer", {"row": 1}))
        cells = staticmethod(lambda row: ["cell"])

        @staticmethod
        def summary(found, threads, quick):
            return {"rows": found, "reached": 1, "of": 1, "threads": threads, "instructions": "",
                    "torch": "", "load": 0, "missed": []}  # fmt: skip

    def shards(order, pattern, out, *, workers, **more):
        print("shards", workers, more["engine"], more["fresh"])
        return predict_shards(order, pattern, out, workers=0, **more)

    def shown(view, *more, **options):
        runs = [(run.output, run.score) for run in view.runs]
        print(runs, [m.what for m in view.maps], more, options)

    predict_shards = bulk.predict_shards
    monkeypatch.setattr(bulk, "predict_shards", shards)
    monkeypatch.setattr(loading, "load", _loads)
    result = {"metrics": {"bleu": 1.0}}
    monkeypatch.setattr(torch, "set_num_threads", saying("threads"))
    monkeypatch.setattr(unknown_words, "replace_unknown", lambda f, t, k=None: (print(k), f)[1])
    monkeypatch.setattr(look, "serve_view", shown)
    monkeypatch.setattr("webbrowser.open", lambda address: print("opened") or True)
    monkeypatch.setattr(settings, "bound", saying("bound", Socket()))
    monkeypatch.setattr(server, "serve", saying("serve"))
    monkeypatch.setattr(workers, "serve_together", saying("together", 0))
    monkeypatch.setattr(training, "fit", saying("fit", result))
    monkeypatch.setattr(seeds, "fit_seeds", saying("seeds", result))
    monkeypatch.setattr(launch, "launch", saying("launch", 0))
    monkeypatch.setattr(dry_run, "dry", saying("dry", result))
    monkeypatch.setattr(bench, "program", lambda name: Program)
    for name in ("_translate", "_read", "_learn"):
        monkeypatch.setattr(demo, name, saying(name, {}))


def outcome(capsys, place, monkeypatch, words, there=False):
    """What a command line leaves: exit code, both streams, the level of the talk, its files."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    if there:
        (place / "made").mkdir()
        (place / "mine.yaml").write_text("")
    monkeypatch.chdir(place)
    ran = run(capsys, *words)
    files = {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(place.rglob("*"))
        if path.is_file() and ".bulk" not in path.parts  # which has times
    }  # fmt: skip
    streams = [SLOW.sub("", text) for text in (ran.out, ran.err)]
    return ran.code, *streams, logging.getLogger("regard").level, files


FAST = ("evaluate", "predict", "curves", "serve", "data", "bench", "doctor", "train", "compare")
"""Commands whose contexts are all walked by `make test`; of others the first, as named there."""
CONTEXTS = [
    pytest.param(
        name, base, id=f"{name}-{number}",
        marks=[] if name in FAST or (number == 0 and name not in ("convert", "export"))
        or (name, number) == ("look", 3) else pytest.mark.slow,
    )
    for name, bases in BASES.items() for number, base in enumerate(bases)
]  # fmt: skip


@pytest.mark.parametrize(("name", "base"), CONTEXTS)
def test_no_option_is_ignored(name, base, capsys, tmp_path, monkeypatch, places, told, request):
    ignored, wrong = [], []
    if name == "convert":
        places = {**places, "exported": request.getfixturevalue("exported")}
    words = [name, *(word.format(**places) for word in base)]
    place = tmp_path / "here"
    before = outcome(capsys, place, monkeypatch, words)
    assert before[0] == 0, before
    assert before == outcome(capsys, place, monkeypatch, words), "it is not the same twice"
    for option, value in wanted(name).items():
        if option in base and not value:
            continue
        given = value if value and value[0].startswith("--") else [option, *value]
        there = (name, option) in INERT
        old = outcome(capsys, place, monkeypatch, words, there) if there else before
        after = outcome(
            capsys, place, monkeypatch, [*words, *(w.format(**places) for w in given)], there
        )
        if after == old:
            ignored.append(given)
        if after[0] not in (0, 2) or "unexpected" in after[2]:
            wrong.append([*given, after])
    assert (ignored, wrong) == ([], [])


@pytest.mark.parametrize(
    "option",
    ["--json", "--align", "--replace-unknown", "--n-best", "--prefix", "--force-words",
     "--bad-words", "--lexicon", "--attention", "--head"],
)  # fmt: skip
def test_a_file_written_again_takes_no_options_of_texts(option, capsys, places):
    value = [word.format(**places) for word in wanted("predict")[option]]
    words = ["predict", places["folder"], "-i", places["rows"], "--into", "new.tsv"]
    ran = run(capsys, *words, option, *value)
    assert ran.code == 2
    assert f"{option}: --into predicts a data file as it is" in (ran.err or ran.out)
