"""Answers about documents and stories by a folder's program are those of its model."""

import json
import shutil

import pytest
import torch

from regard import catalog, loading, tasks
from regard.convert import add_program
from regard.folder import writing
from regard.folder.places import find
from regard.folder.programs import open_program
from regard.runtime.stored_program import BeyondProgram
from tests.cli.run import run
from tests.folder import toy
from tests.folder.test_programs import same

DOCUMENT = "Ann gave Bob her new book . Bob thanked her ."
QUESTIONS = [
    *("", "no question", "a b ||| no blank", f"{DOCUMENT} ||| XXXXX thanked Ann . ||| Ann|Bob"),
    *(f"{DOCUMENT} ||| Bob thanked XXXXX .", f"{DOCUMENT} ||| XXXXX ||| nobody|here"),
    json.dumps({"document": DOCUMENT, "query": "Ann gave XXXXX a book"}),
    f"1 {DOCUMENT}\n2 Bob thanked XXXXX .\tAnn\t\tAnn|Bob",
    "Zoë met Zoë and Yvo . ||| XXXXX met Yvo",
    " ||| XXXXX",
    "word " * 6000 + "||| XXXXX",
]
STORIES = [
    "Clara moved to the garden. Emil grabbed the key. Emil went to the hall. Where is the key?",
    *("", "!!!", "Emil went to the hall. Where is Emil?", "Unknown words. Where is nobody?"),
    *("Anna went home. " * 60 + "Where is Anna?", "Emil went to the hall. Why?"),
]
CASES = {
    "cloze": ("cloze-small", {}, QUESTIONS),
    "stories": ("stories-small", {}, STORIES),
    "few facts": ("stories-small", {"task__facts": 2}, STORIES),
    "short documents": ("cloze-small", {"task__max_document": 9}, QUESTIONS),
}


def copied(name, folder, **changes):
    made = shutil.copytree(find(name), folder / name)
    if changes:
        toy.edit(made, **changes)
    add_program(made)
    return made


@pytest.mark.parametrize("case", CASES)
def test_answers_are_the_model_s(case, tmp_path):
    name, changes, texts = CASES[case]
    folder = copied(name, tmp_path, **changes)
    found, expected = open_program(folder).predict(texts), loading.load(folder).predict(texts)
    same(found, expected)
    for ours, theirs in zip(found, expected, strict=True):
        facts, others = (one.as_json().get("facts") for one in (ours, theirs))
        assert (facts is None) == (others is None)
        for fact, other in zip(facts or (), others or (), strict=True):
            assert fact["fact"] == other["fact"]
            assert fact["hops"] == pytest.approx(other["hops"], abs=2e-4)
    assert any(one.output for one in found)
    assert any(one.refused for one in found)


def test_a_question_without_facts_is_left_to_pytorch(tmp_path):
    program = open_program(copied("stories-small", tmp_path))
    with pytest.raises(BeyondProgram, match="its story has at least 1 facts"):
        program.predict(["Where is Emil?"])


def test_lines_of_a_file_are_joined_as_the_task_joins_them(tmp_path):
    program = open_program(copied("cloze-small", tmp_path))
    lines = [f"1 {DOCUMENT}", "2 Bob thanked XXXXX .\tAnn\t\tAnn|Bob", "", QUESTIONS[4]]
    task = loading.load("cloze-small").task
    assert list(program.join(iter(lines))) == list(task.join(iter(lines)))
    assert list(open_program(copied("stories-small", tmp_path)).join(iter(lines))) == lines


def test_the_command_joins_them(tmp_path, capsys):
    folder = copied("cloze-small", tmp_path)
    texts = [f"1 {DOCUMENT}", "2 Bob thanked XXXXX .\tAnn\t\tAnn|Bob"]
    by_program = run(capsys, "predict", str(folder), *texts)
    (folder / "program.json").unlink()
    assert by_program.out == run(capsys, "predict", str(folder), *texts).out
    assert len(by_program.out.splitlines()) == 1


@pytest.mark.parametrize("name", ["cloze-small", "stories-small"])
def test_there_is_no_decoder(name, tmp_path):
    folder = copied(name, tmp_path)
    assert open_program(folder, {"beam_size": 2}) is None
    assert open_program(folder, n_best=2) is None
    assert open_program(folder).changed({"beam_size": 2}) is None


@pytest.mark.parametrize("model", ["as-reader", "aoa"])
@pytest.mark.parametrize("answer", ["word", "span"])
def test_answers_of_untrained_readers_are_the_model_s(model, answer, tmp_path):
    row = {"document": DOCUMENT, "query": "XXXXX thanked Ann", "answer": "Bob"}
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.jsonl").write_text(f"{json.dumps(row)}\n" * 3)
    section = {"name": "reading", "answer": answer, "anonymous": 3, "longest": 4}
    task = tasks.load("reading")(answer=answer, anonymous=3, longest=4)
    source = {split: str(tmp_path / f"{split}.jsonl") for split in ("train", "dev", "test")}
    fields = task.data(source).fields
    spec = {**catalog.entry(model).tiny, **task.model_arguments(fields)}
    torch.manual_seed(2)
    built = catalog.load(model)(**spec)
    writing.save_pretrained(
        tmp_path / "run", built, task=section, fields=fields,
        recipe={"model": {"name": model, **spec}, "task": section, "data": source},
    )  # fmt: skip
    add_program(tmp_path / "run")
    found = open_program(tmp_path / "run").predict(QUESTIONS)
    same(found, loading.load(tmp_path / "run").predict(QUESTIONS))
    assert found[6].alternatives
