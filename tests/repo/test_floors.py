"""A lower floor of the house never imports a higher one."""

import re
import sys
import tomllib

import pytest

from tests.repo.tree import SOURCE, TOP, dotted, imports, modules, top_imports

# From the ground up; those of one row do not know each other unless KNOWN says so.
FLOORS = [
    {"errors", "_version"},
    {"system", "native", "runtime"},
    {"attention"},
    {"protocols"},
    {"layers"},
    {"models", "optim", "encoders"},
    {"data"},
    {"metrics", "decode"},
    {"fields", "views"},
    {"viewer"},
    {"datasets"},
    {"watching"},
    {"losses"},
    {"tasks"},
    {"inference"},
    {
        *("recipe", "folder", "convert", "loading", "evaluation", "train"),
        *("serve", "bulk", "claims", "cli"),
    },
]
# Tables of names and readers of files: they import nothing heavy, and anyone may ask them.
ANYONE = {"catalog", "settings"}
LIGHT = ["catalog/building.py", "recipe/recipe.py", "errors.py", "__init__.py", "cli/app.py"]
HEAVY = {"torch", "pytorch_lightning", "tokenizers", "sacrebleu", "matplotlib", "numpy", "pydantic"}


def floor(part: str) -> int | None:
    return next((i for i, row in enumerate(FLOORS) if part in row), None)


def home(name: str) -> str | None:
    """regard.attention.op.attend -> attention."""
    parts = name.split(".")
    return parts[1] if parts[0] == "regard" and len(parts) > 1 else None


def below_top(name: str) -> bool:
    """Is this one of the package's files or folders, rather than a name from its front page?"""
    return (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()


def test_every_part_has_a_floor():
    parts = {dotted(path).split(".")[1] for path in modules() if path.parent != SOURCE}
    parts |= {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert sorted(p for p in parts if floor(p) is None and p not in ANYONE) == []


def test_a_floor_knows_only_those_below():
    wrong = []
    for path in modules():
        here = [*dotted(path).split("."), ""][1]
        if here in ("", "__main__") or floor(here) is None:
            continue
        for name, line in imports(path):
            there = home(name)
            if there is None or there == here or not below_top(there) or there in ANYONE:
                continue
            top_row = floor(there) == len(FLOORS) - 1 == floor(here)
            if not top_row and floor(there) >= floor(here):
                wrong.append(f"{path.relative_to(SOURCE)}:{line} imports {name}")
    assert wrong == []


def test_protocols_know_the_operation_alone():
    files = (SOURCE / "protocols").glob("*.py")
    known = {home(name) for file in files for name, _ in imports(file)} - {None}
    assert known == {"attention", "errors", "protocols", "runtime"}


def test_the_training_engine_is_imported_in_one_place():
    users = [
        str(path.relative_to(SOURCE))
        for path in modules()
        for name, _ in imports(path)
        if name.split(".")[0] in ("pytorch_lightning", "lightning", "lightning_fabric")
    ]
    assert set(users) == {"train/engine.py"}


@pytest.mark.parametrize("name", LIGHT)
def test_light_modules_import_nothing_heavy(name):
    assert top_imports(SOURCE / name) & HEAVY == set()


def test_top_imports_sees_what_runs_and_not_what_waits(tmp_path):
    file = tmp_path / "a.py"
    file.write_text(
        "import os\nif True:\n    import json.decoder\nclass A:\n    from re import X\n"
        "def f():\n    import torch\nif TYPE_CHECKING:\n    import numpy\n"
    )
    assert top_imports(file) == {"os", "json", "re"}


DEPENDENCIES = {
    *sys.stdlib_module_names,
    *("regard", "torch", "pytorch_lightning", "typer", "rich", "pydantic", "yaml", "tokenizers"),
    *("safetensors", "sacrebleu", "jaxtyping", "numpy", "matplotlib", "mpl_toolkits"),
    "rouge_score",
    "regex",
    "pyarrow",  # the extra `tables`
    "soundfile",  # the extra `speech`
    "PIL",  # matplotlib's own, and the extra `vision`
    *("ctranslate2", "onnx"),  # the extra `export`
    "onnxruntime",  # the extra `backbone`
    *("ray", "zstandard", "compression"),  # the extras `ray` and `zstd`; Python 3.14's own
    *("fastapi", "starlette", "uvicorn", "prometheus_client", "httpx"),  # the extra `serve`
}
"""What a user gets from `pip install regard` and its extras."""


def test_only_dependencies_are_imported():
    wrong = []
    for path in modules():
        wanted = set(DEPENDENCIES)
        if path.parent.name == "huggingface" or path.name == "inspector.py":
            wanted.add("transformers")  # reads folders of Hugging Face where it is installed
        if path.name == "following.py":  # runs within IPython alone
            wanted.add("IPython")
        if path.parent.name == "triton":  # comes with torch for CUDA; only these files need it
            wanted.add("triton")
        wrong += [
            f"{path.relative_to(SOURCE)}:{line} imports {name}"
            for name, line in imports(path)
            if name and name.split(".")[0] not in wanted
        ]
    assert wrong == []


def test_shapes_are_checked_wherever_they_are_annotated():
    """`make test` hooks the packages and modules that it names, and no others."""
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    (checked,) = re.findall(r"^CHECKED := (.*)$", makefile, re.MULTILINE)
    shaped = {
        dotted(path)
        for path in modules()
        if any(name.split(".")[0] == "jaxtyping" for name, _ in imports(path))
    }
    hooked = {
        name: {one for one in shaped if f"{one}.".startswith(f"{name}.")}
        for name in checked.split(",")
    }
    assert shaped - set().union(*hooked.values()) == set()
    assert [name for name, found in hooked.items() if not found] == []


def test_mypy_skips_no_types_of_what_is_imported():
    """What it skips is Any, and nothing that has it is checked."""
    settings = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    skipped = [
        name.removesuffix(".*")
        for row in settings["overrides"]
        if row.get("follow_imports") == "skip"
        for name in row["module"]
    ]
    imported = {name for path in modules() for name, _ in imports(path)}
    used = {one for one in skipped if any(f"{name}.".startswith(f"{one}.") for name in imported)}
    assert len(skipped) > 30
    assert used == {"IPython", "onnx", "torch._dynamo", "transformers", "triton"}
