"""Every task takes the same way: what is common is final, and who cannot do a thing says so."""

import inspect
import re

import pytest

import regard
from regard import tasks
from regard.datasets.split_reader import SplitReader
from regard.errors import RequestError
from regard.tasks import abilities
from regard.tasks.base import Task

COMMON = {"data", "predict", "judge"}


def finals(kind):
    return {name for name, own in vars(kind).items() if getattr(own, "__final__", False)}


def test_the_way_of_all_tasks_is_final():
    assert finals(Task) == COMMON
    assert finals(SplitReader) == {"data"}


@pytest.mark.parametrize("name", tasks.TASKS)
def test_no_task_has_a_way_of_its_own(name):
    kind = tasks.load(name)
    for base, of in ((Task, kind), (SplitReader, kind.reader)):
        assert issubclass(of, base)
        assert not inspect.isabstract(of)
        for method in finals(base):
            assert getattr(of, method) is getattr(base, method), method


def test_an_override_is_noticed():
    """`getattr` finds the nearest one: the check above can fail."""

    class Own(tasks.load("tagging")):
        def predict(self):
            return []

    assert Own.predict is not Task.predict
    assert Own.data is Task.data


ABILITIES = {
    abilities.streaming: "writes no text",
    abilities.combining: "do not go together",
    abilities.writing_back: "puts no outputs back",
    abilities.reading_graphs: "has no graph",
}


@pytest.mark.parametrize("asked", ABILITIES, ids=lambda one: one.__name__)
def test_who_lacks_an_ability_says_so(asked):
    """Some task has each, some has it not, and none falls between."""
    found = {True: [], False: []}
    for name in tasks.TASKS:
        task = object.__new__(tasks.load(name))  # settings are of no interest
        said = refusal(asked, task)
        assert said is None or (name in said and ABILITIES[asked] in said)
        found[said is None].append(name)
    assert all(found.values())


@pytest.mark.parametrize("name", ["emoji-small", "digits-small", "handwriting-small"])
def test_inputs_that_cannot_be_read_make_no_data_set(name, tmp_path):
    """A folder in place of a picture or a sound: `asked`, `predict`, `stream` and `view` agree."""
    loaded, text = regard.load(name), str(tmp_path)
    given = loaded.task.asked([text, text], loaded.fields)
    assert given.dataset is None
    assert list(given.places) == []
    why = f"{tmp_path} is a folder; a file was expected"
    found = [*given.refused, *loaded.predict([text])]
    if isinstance(loaded.task, abilities.StreamsText):
        found += loaded.task.stream(loaded.model, text, loaded.decoder, loaded.fields)
    assert all(one.output == "" and why in one.refused for one in found)
    with pytest.raises(RequestError, match=re.escape(why)):
        loaded.task.view(loaded, [text])


def refusal(asked, task):
    try:
        assert asked(task) is task
    except RequestError as error:
        return str(error)
    return None
