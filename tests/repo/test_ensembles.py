"""The program that chooses an ensemble on dev, on answers that are known and on small models."""

import importlib.util
import sys

import numpy as np
import pytest

import regard
from regard import recipe
from regard.evaluation.scoring import scored
from regard.train import fit
from tests.repo.tree import TOP


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("ensembles", TOP / "benchmarks" / "ensembles.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    yield found
    del sys.modules[spec.name]


def test_what_helps_is_added_and_nothing_else(program):
    """Two systems that are wrong at different places, a copy of the first, and a poor one."""
    right = np.array([0.9, 0.9, 0.2])  # probabilities of the right label
    said = [right, right[::-1], right, np.array([0.1, 0.2, 0.2])]

    class Dev:
        def __init__(self):
            self.said = said

        def worth(self, chosen, by):
            return float(np.log(np.mean([said[i] for i in chosen], 0)).mean())

    assert program.choose(Dev(), "likelihood") == [0, 1]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    top = tmp_path_factory.mktemp("ensembles")
    small = ["data.limit=400", "train.epochs=2", "train.validate.every=100"]
    bag = recipe.load("classification/bag-of-ngrams-questions", [*small, "data.path=pros-cons"])
    other = recipe.load("classification/bilstm-pros-cons", [*small, "model.hidden=8"])
    fit(bag, top / "bag" / "seed-1", progress=False)
    fit(other, top / "bilstm", progress=False)
    return top / "bag", top / "bilstm"


@pytest.mark.slow
def test_the_ensemble_is_that_of_evaluate(program, folders, capsys):
    program.main([*map(str, folders), "--samples", "10"])
    out = capsys.readouterr().out
    bag, other = (regard.load(str(f)) for f in (folders[0] / "seed-1", folders[1]))
    rows = [line for line in out.splitlines() if line.startswith("| the ensemble")]
    assert len(rows) == 2  # of dev and of test
    chosen = out.splitlines()[0]
    together = {(True, True): bag.together(other), (True, False): bag, (False, True): other}
    model = together[str(folders[0]) in chosen, str(folders[1]) in chosen]
    for row, split in zip(rows, ("dev", "test"), strict=True):
        value = scored(model, split=split).scores["accuracy"].value
        assert float(row.split("|")[2].split()[0]) == pytest.approx(value, abs=0.005)


def test_folders_without_models_are_refused(program, tmp_path):
    with pytest.raises(SystemExit, match="is no model folder and has none in it"):
        program.main([str(tmp_path)])
