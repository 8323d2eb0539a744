"""Options of decoders belong to tasks that write text; others say that they cannot use them."""

from pathlib import Path

import pytest
from torch import nn

from regard import decode, tasks
from regard.errors import RequestError
from regard.folder.reading import Loaded
from regard.tasks.generation.base import Generation

OTHERS = [name for name in tasks.TASKS if not issubclass(tasks.load(name), Generation)]
OPTIONS = {
    "prefix": "a",
    "force_words": [["a"]],
    "bad_words": [["a"]],
    "beam_size": 2,
    "n_best": 3,
    "name": "greedy",
}


def test_what_writes_no_text():
    assert {"language", "memory", "graphs", "reading"} <= set(OTHERS)
    assert not {"translation", "parsing", "pronunciation"} & set(OTHERS)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_a_task_cannot_use_is_refused(name, option):
    task = tasks.load(name)(**({"graph": "some.npz"} if name == "graphs" else {}))
    config = {"model": {"name": "none"}, "decode": {"name": "beam"}}
    loaded = Loaded(nn.Identity(), task, {}, decode.build(), config, Path("nowhere"))
    with pytest.raises(RequestError, match=f"^{option}: the task {name} cannot use it"):
        loaded.predict(["x"], **{option: OPTIONS[option]})
    with pytest.raises(RequestError, match=f"^stream: the task {name} cannot use it"):
        loaded.stream("x")
