"""Errors of several tasks: the mean is over tasks, and a task fails above five percent."""

import pytest

from regard.errors import RequestError
from regard.metrics.story_questions import task_errors


def test_the_mean_is_over_tasks_and_exactly_five_percent_is_no_failure():
    tasks = ["qa1"] * 20 + ["qa2"] * 10 + ["qa3"] * 4
    right = ["a"] * 34
    outputs = ["b", *["a"] * 19, "b", *["a"] * 9, *["b"] * 3, "a"]
    found = task_errors(outputs, right, tasks)
    values = {name: score.value for name, score in found.items()}
    assert values == {
        "error": pytest.approx((5 + 10 + 75) / 3),
        "failed": 2.0,
        "error.qa1": 5.0,
        "error.qa2": 10.0,
        "error.qa3": 75.0,
    }
    assert found["failed"].parts == {"failed": ["qa2", "qa3"]}
    assert found["error"].signature.startswith("metric:error|tasks:3|answers:exact|version:")


def test_one_task_alone_has_no_table():
    assert list(task_errors(["a"], ["a"], ["qa1"])) == ["error", "failed"]


def test_nothing_and_unequal_numbers_are_refused():
    with pytest.raises(RequestError, match="nothing to score"):
        task_errors([], [], [])
    with pytest.raises(RequestError, match="as many references and tasks as outputs, got 1, 2"):
        task_errors(["a"], ["a"], ["x", "y"])
