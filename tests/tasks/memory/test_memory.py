"""The task memory: from files to a trained folder, and questions that nothing was told about."""

import random

import pytest
import torch
from torch.nn import functional as F

import regard
from regard import recipe, tasks, train
from regard.errors import RequestError
from regard.models.memn2n import MemN2N
from regard.tasks.memory.memory import Answer, MemoryQA

PEOPLE, PLACES = ("Ann", "Bob", "Cy"), ("hall", "garden", "white house", "attic")


def story(draw):
    where, lines = {}, []
    for _ in range(draw.randint(2, 6)):
        who, place = draw.choice(PEOPLE), draw.choice(PLACES)
        where[who] = place
        lines.append(f"{who} went to the {place}.")
    who = draw.choice(sorted(where))
    lines.append(f"Where is {who}?\t{where[who]}\t1")
    return "".join(f"{n} {line}\n" for n, line in enumerate(lines, 1))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    draw, path = random.Random(1), tmp_path_factory.mktemp("stories")
    for task, split, count in (
        (1, "train", 300), (1, "test", 60), (2, "train", 30), (2, "test", 20),
    ):  # fmt: skip
        text = "".join(story(draw) for _ in range(count))
        (path / f"qa{task}_where_{split}.txt").write_text(text)
    return path


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("memn2n")
    asked = [
        f"data.path={data}", "train.epochs=24", "task.linear_start=4", "train.batch.tokens=32",
        "train.validate.every=0", "model.dim=20", "model.hops=2", "train.optimizer.lr=0.01",
    ]  # fmt: skip
    train.fit(recipe.load("memory/memn2n-babi", asked), path, progress=False)
    return path


def test_a_trained_folder_answers_and_says_what_it_looked_at(folder):
    loaded = regard.load(folder)
    told = "Ann went to the hall. Bob went to the attic. Ann went to the white house."
    ann, bob = loaded.predict([f"{told} Where is Ann?", f"{told} Where is Bob?"])
    assert (ann.output, bob.output) == ("white house", "attic")
    assert isinstance(bob, Answer)
    facts = bob.as_json()["facts"]
    assert [fact["fact"] for fact in facts] == told.replace(". ", ".|").split("|")
    last = [fact["hops"][-1] for fact in facts]
    assert sum(last) == pytest.approx(1, abs=1e-3)
    assert max(last) == last[1]


def test_several_tasks_are_scored_each_and_in_the_mean(folder, data):
    loaded = regard.load(folder)
    test = loaded.task.data({"path": str(data)}, loaded.tokenizers, splits=("test",)).test
    found = loaded.predict(test.texts)
    by_batch = loaded.task.predict(loaded.model, test, None, loaded.tokenizers)
    assert [p.output for p in found] == [p.output for p in by_batch]
    values = {k: v.value for k, v in loaded.task.score(by_batch, test).items()}
    assert list(values) == ["error", "failed", "error.qa1", "error.qa2"]
    wrong = [
        [p.output != r[0] for p, r, t in rows if t == task]
        for rows in [list(zip(found, test.references, test.tasks, strict=True))]
        for task in ("qa1", "qa2")
    ]
    means = [100 * sum(each) / len(each) for each in wrong]
    assert [values["error.qa1"], values["error.qa2"]] == pytest.approx(means)
    assert values["error"] == pytest.approx(sum(means) / 2)


def test_empty_unknown_and_bare_questions_have_defined_answers(folder, caplog):
    found = regard.load(folder).predict(["", "?!", "Where is Ann?", "Xy zapped. Where is Ann?"])
    assert [bool(p.refused) for p in found] == [False, True, False, False]
    assert found[0].output == ""
    assert "expected facts and a question" in found[1].refused
    assert found[2].facts == []
    assert "2 words were never seen in training and say nothing: 'xy', 'zapped'" in caplog.text


def test_the_last_tenth_is_held_out_by_story_and_the_last_facts_are_kept(data):
    made = MemoryQA(facts=3).data({"path": str(data), "tasks": [1]})
    assert (len(made.train), len(made.dev), len(made.test)) == (270, 30, 60)
    assert made.test.story.sizes.max() == 3
    whole = MemoryQA().data({"path": str(data), "tasks": [1]}, made.tokenizers)
    for n in range(60):
        kept, facts = made.test.story[n], whole.test.story[n]
        texts = [made.test.sheet.texts[i] for i in kept]
        assert texts == [whole.test.sheet.texts[i] for i in facts][-3:]
    limited = MemoryQA().data({"path": str(data), "limit": 10})
    assert [limited.train.tasks.count(t) for t in ("qa1", "qa2")] == [10, 10]


def test_the_loss_is_the_same_whether_short_stories_are_read_apart_or_not(data):
    task = MemoryQA()
    made = task.data({"path": str(data)})
    torch.manual_seed(0)
    model = MemN2N(**task.model_arguments(made.tokenizers), dim=8).eval()
    short = made.train.story.sizes.argsort().tolist()
    batch = made.train.collate([*short[:30], *short[-2:]])
    parts = batch.parts()
    assert sorted(i for part in parts for i in part.index) == sorted(batch.index)
    assert len(parts) == 2
    loss, count = task.loss(model, batch)
    logits = model(batch.story, batch.question, batch.lengths).logits
    assert torch.allclose(loss, F.cross_entropy(logits, batch.answer, reduction="sum"))
    assert count == 32
    assert len(made.train.collate([0]).parts()) == 1


def test_what_the_section_data_does_not_have_is_said(data, tmp_path):
    for config, words in (
        ({"path": str(data), "taks": [1]}, "stories have no 'taks'.*tasks"),
        ({"path": str(data), "size": "100k"}, "expected 1k or 10k"),
        ({"path": str(data), "tasks": [7]}, "no task 'qa7'; it has qa1, qa2"),
        ({}, "data.path is not given"),
    ):
        with pytest.raises(RequestError, match=words):
            MemoryQA().data(config)
    (tmp_path / "qa1_x_train.txt").write_text("1 Nobody asks.\n")
    with pytest.raises(RequestError, match=r"qa1_x_train.txt has no question"):
        MemoryQA().data({"path": str(tmp_path)})
    with pytest.raises(RequestError, match=r"has no dev split; it has train"):
        MemoryQA().data({"path": str(tmp_path)}, splits=("dev",))
    with pytest.raises(RequestError, match=r"task\.facts is 0"):
        MemoryQA(facts=0)


def test_the_catalogue_of_tasks_has_it():
    assert tasks.load("memory") is MemoryQA


def test_the_view_is_a_table_of_facts_by_hops(folder, tmp_path):
    from regard.viewer import drawable
    from regard.viewer.content import hops_of

    loaded = regard.load(folder)
    asked = "Ann went to the hall. Bob went to the attic. Where is Bob?"
    made = drawable(loaded.task.view(loaded, [asked, "Where is Ann?"]))
    first, second = made.runs
    table = hops_of(made, first, first.panels[0])
    assert table.rows == ["Ann went to the hall.", "Bob went to the attic."]
    assert table.columns == ["hop 1", "hop 2"]
    assert table.weights[0].sum(0) == pytest.approx([1, 1], abs=1e-5)
    assert "Bob went to the attic." in str(made.text(colour=False))
    assert [m.scope for m in made.maps] == [{"hop": 0}, {"hop": 1}]
    assert "no facts: answered from the question alone" in str(made.text(1, colour=False))
    made.page(tmp_path / "page.html")
    made.figure(tmp_path / "table.png", show="hops")
    assert (tmp_path / "table.png").stat().st_size > 1000
    with pytest.raises(RequestError, match="the input is empty"):
        loaded.task.view(loaded, [" "])
    assert second.maps == []
