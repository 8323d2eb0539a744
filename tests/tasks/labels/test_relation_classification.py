"""Relations between two marked words: from a file to scores, answers and a picture."""

import numpy as np
import pytest

import regard
from regard.errors import RequestError
from regard.evaluation.scoring import scored
from tests.tasks.labeled import fitted

MODEL = {"name": "att-blstm", "embed": 12, "hidden": 12, "embed_dropout": 0.0, "dropout": 0.1}
VERBS = {"made": "Product-Producer", "filled": "Content-Container", "met": "Other"}


def write(path, count, seed):
    """Which mark stands first says the direction, the verb says the relation."""
    random = np.random.default_rng(seed)
    lines = []
    for number in range(count):
        verb = str(random.choice([*VERBS]))
        words = random.permutation(["baker", "bread", "smith", "sword", "cup", "tea"])[:2]
        turned = bool(random.integers(2))
        first, second = ("e2", "e1") if turned else ("e1", "e2")
        text = f"the <{first}>{words[0]}</{first}> {verb} a <{second}>{words[1]}</{second}> ."
        name = VERBS[verb]
        label = name if name == "Other" else f"{name}({first},{second})"
        lines.append(f'{number}\t"{text}"\n{label}\nComment:\n')
    path.write_text("\n".join(lines))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    place = tmp_path_factory.mktemp("relations")
    for seed, (split, count) in enumerate((("train", 200), ("dev", 40), ("test", 40))):
        write(place / f"{split}.txt", count, seed)
    files = {split: str(place / f"{split}.txt") for split in ("train", "dev", "test")}
    task = {"name": "relation-classification"}
    metrics = fitted(place, place, MODEL, task, epochs=8, format="semeval", **files)
    return metrics, place / "run"


def test_a_model_learns_relations_and_their_direction(trained):
    metrics, folder = trained
    assert set(metrics["metrics"]) == {"f1", "accuracy", "ece"}
    assert metrics["metrics"]["f1"] > 95
    assert "direction:yes" in metrics["signature"]["f1"]
    loaded = regard.load(folder)
    texts = [
        "The <e1>baker</e1> made a <e2>bread</e2>.",
        "The <e2>baker</e2> made a <e1>bread</e1>.",
        "The <e2>baker</e2> met a <e1>smith</e1>.",
    ]
    found = [one.output for one in loaded.predict(texts)]
    assert found == ["Product-Producer(e1,e2)", "Product-Producer(e2,e1)", "Other"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("The fire was caused by lightning.", "expected <e1>one</e1> and <e2>another</e2>"),
        ("The <e1>fire</e1> was caused by lightning.", "got <e1> </e1>"),
        ("<e1>a <e2>b</e1> c</e2>", "got <e1> <e2> </e1> </e2>"),
        ("<e1> </e1> was <e2>b</e2>", "a marked place is empty"),
        ("<e1>a</e1> <e1>a</e1> was <e2>b</e2>", "got <e1> </e1> <e1> </e1>"),
    ],
)
def test_a_text_without_two_marked_places_is_refused(trained, text, why):
    loaded = regard.load(trained[1])
    good, bad = loaded.predict(["The <e1>baker</e1> made a <e2>bread</e2>.", text])
    assert good.output
    assert not bad.output
    assert why in bad.refused
    with pytest.raises(RequestError, match="marked"):
        loaded.task.view(loaded, [text])


def test_the_picture_has_the_marks_among_the_words(trained):
    loaded = regard.load(trained[1])
    made = loaded.task.view(loaded, ["The <e1>baker</e1> made a <e2>bread</e2>."])
    (own,) = made.maps
    words = "the <e1> baker </e1> made a <e2> bread </e2> ."
    assert made.axes[own.columns].pieces == words.split()
    np.testing.assert_allclose(own.weights[0].sum(-1), 1, atol=1e-5)


def test_another_file_is_read_as_the_model_s_own_data(trained, tmp_path):
    write(tmp_path / "more.txt", 30, 7)
    loaded = regard.load(trained[1])
    assert len(scored(loaded, tmp_path / "more.txt").examples) == 30
    (tmp_path / "more.tsv").write_text("text\trelation\nA <e1>a</e1> met <e2>b</e2>.\tOther\n")
    assert len(scored(loaded, tmp_path / "more.tsv").examples) == 1
