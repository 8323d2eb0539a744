"""The commands that messages name for what is missing."""

from pathlib import Path

import pytest

from regard.cli._common import explain_failure
from regard.system import extras

TOP = Path(__file__).parents[2]


def test_a_checkout_installs_itself(monkeypatch, tmp_path):
    monkeypatch.chdir(TOP)
    assert extras.install("view") == "pip install -e '.[view]'"
    monkeypatch.chdir(tmp_path)
    assert extras.install("view") == f"pip install -e '{TOP}[view]'"


def test_an_installed_package_is_named(monkeypatch, tmp_path):
    """Neither site-packages nor a folder `src` without a project is a checkout."""
    for folder in "lib/site-packages", "src":
        file = tmp_path / folder / "regard" / "system" / "extras.py"
        monkeypatch.setattr(extras, "__file__", str(file))
        assert extras.install("view") == "pip install 'regard[view]'"
    (tmp_path / "pyproject.toml").touch()
    assert extras.install("view") == f"pip install -e '{tmp_path.resolve()}[view]'"


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("sacrebleu", "sacrebleu is not installed, and regard needs it: pip install sacrebleu"),
        ("rouge_score.scoring", "rouge-score is not installed, and regard needs it: pip install"),
        ("PIL.Image", f"this needs PIL: {extras.install('vision')}"),
        ("matplotlib", f"this needs matplotlib: {extras.install('view')}"),
        ("nobody.knows", "nobody is not installed: pip install nobody"),
    ],
)
def test_a_missing_module_is_one_sentence(module, said):
    told, code = explain_failure(ModuleNotFoundError("No module", name=module))
    assert code == 2
    assert told.startswith(said)


def test_a_module_of_our_own_that_is_missing_is_a_fault():
    told, code = explain_failure(ModuleNotFoundError("No module", name="regard.nothing"))
    assert code == 1
    assert told.startswith("unexpected ModuleNotFoundError")
