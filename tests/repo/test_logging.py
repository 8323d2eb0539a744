"""Tests see the records of every logger, though pytest no longer looks at all of them each time."""

import logging

import pytest


@pytest.fixture(params=[True, False], ids=["it propagates", "alone"])
def logger(request):
    """A logger of this test, which ceases to propagate before the test's body runs."""
    made = logging.getLogger(f"tests.{request.node.name}")
    made.propagate = request.param
    yield made
    made.propagate = True


def test_a_record_is_seen_once(logger, caplog):
    logger.warning("one")
    assert [record.getMessage() for record in caplog.records] == ["one"]


def test_a_logger_that_propagates_again_is_seen_through_the_root_alone(caplog):
    made = logging.getLogger("tests.again")
    made.propagate = False
    assert made.propagate is False
    made.propagate = True
    made.warning("two")
    assert [record.getMessage() for record in caplog.records] == ["two"]


def test_a_level_asked_for_is_put_back(caplog):
    before = logging.root.level
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("tests.level").debug("three")
    assert [record.getMessage() for record in caplog.records] == ["three"]
    assert logging.root.level == before
