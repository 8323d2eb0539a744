"""The lock file, the list of licences and the bill of materials fit pyproject.toml."""

import importlib.util
import json
import re
import shutil

import pytest

from tests.repo.tree import TOP


def load(name):
    spec = importlib.util.spec_from_file_location(name, TOP / "tools" / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def supply():
    pytest.importorskip("packaging")
    return load("supply")


@pytest.fixture
def copied(supply, tmp_path, monkeypatch):
    """The same with files that may be broken."""
    for name in ("LOCK", "LICENCES", "SBOM"):
        path = shutil.copy(getattr(supply, name), tmp_path)
        monkeypatch.setattr(supply, name, type(supply.LOCK)(path))
    return supply


def test_what_is_asked_for_is_pinned_and_its_licence_said(supply):
    assert list(supply.problems()) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("LOCK", r"^pyyaml==.*$", "pyyaml==5.1", "lock.txt has pyyaml 5.1, and runtime asks for"),
        ("LOCK", r"^numpy==.*\n", "", "lock.txt lacks numpy, which runtime asks for"),
        ("LICENCES", r"^rich\t.*\n", "", "licences.tsv is of other packages"),
        ("LICENCES", r"^rich\t(\S+)\t[^\t]*", r"rich\t\1\tnot said", "licence of rich is not said"),
        ("SBOM", r'"name": "torch"', '"name": "torsch"', "sbom.cdx.json is of other packages"),
    ],
)
def test_what_does_not_fit_is_said(copied, name, old, new, said):
    path = getattr(copied, name)
    path.write_text(re.sub(old, new, path.read_text("utf-8"), flags=re.MULTILINE), "utf-8")
    assert any(said in one for one in copied.problems()), list(copied.problems())


def test_the_bill_of_materials_names_each_package_once(supply):
    told = json.loads(supply.SBOM.read_text("utf-8"))
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    refs = [one["bom-ref"] for one in told["components"]]
    assert len(refs) == len(set(refs)) > 50
    known = {*refs, "regard"}
    for one in told["dependencies"]:
        assert {one["ref"], *one["dependsOn"]} <= known
    whole = next(one for one in told["dependencies"] if one["ref"] == "regard")
    assert any(ref.startswith("pkg:pypi/torch@") for ref in whole["dependsOn"])


def test_make_can_install_the_pinned_versions():
    venv = load("venv")
    plain = {"TORCH": venv.TORCH, "PIP_ARGS": "--quiet", "SYSTEM_TORCH": "0", "LOCK": "0"}
    assert venv.pip_args(plain) == ["--quiet"]
    locked = plain | {"LOCK": "1"}
    assert venv.pip_args(locked) == ["-c", str(venv.LOCK), "--quiet"]
    assert venv.digest("test", plain) != venv.digest("test", locked)
    assert f"\n{venv.TORCH}\n" in venv.LOCK.read_text("utf-8")
