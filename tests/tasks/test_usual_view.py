"""What is shown of a task that says nothing of its own: the last layers, under their names."""

import numpy as np

from regard.tasks.usual_view import _last
from regard.views import Map


def named(*names, kind="self"):
    return [Map.of(name, 0, 0, np.ones((1, 2, 2)), kind=kind) for name in names]


def test_of_layers_the_last_one_is_shown():
    maps = named("layers.0.attention", "layers.1.attention", "layers.10.attention")
    assert [(p.map, p.title) for p in _last(maps, [0, 1, 2])] == [(2, "")]


def test_attentions_beside_each_other_are_all_shown_with_their_names():
    maps = named("aspects.attention", "aspects.attention", "opinions.attention", kind="word")
    found = [(p.map, p.title) for p in _last(maps, [0, 1, 2])]
    assert found == [
        (0, "aspects.attention, call 1"),
        (1, "aspects.attention, call 2"),
        (2, "opinions.attention, call 1"),
    ]
    other = [*maps, *named("encoder.0.attention", "encoder.1.attention")]
    assert [p.map for p in _last(other, range(5))] == [0, 1, 2, 4]
    assert _last([], []) == []
