"""What is asked of an output: the same options by every door."""

import dataclasses
import inspect

import pytest

from regard.bulk.order import Order
from regard.cli.predict import predict
from regard.decode.request import DecodingRequest, by_name, each_of
from regard.errors import RequestError
from regard.folder.loaded import Loaded
from regard.serve._schemas import PredictBody, StreamBody

NAMES = [one.name for one in dataclasses.fields(DecodingRequest)]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_reached_from_every_door(name):
    """Of an output that grows, and of many files, nothing is kept: attention places it at last."""
    assert name in inspect.signature(predict).parameters
    assert name in inspect.signature(inspect.unwrap(Loaded.predict)).parameters
    assert name in PredictBody.model_fields
    assert (name in StreamBody.model_fields) == (name != "keep")
    assert (name in {one.name for one in dataclasses.fields(Order)}) == (name != "keep")


def test_values_by_name():
    one = DecodingRequest.of({"prefix": None, "force_words": ["a", "b"], "keep": None})
    assert one == DecodingRequest(force_words=("a", "b"))
    assert one.names == {"force_words"}
    told = by_name([one, DecodingRequest(prefix="x", keep=("urls",))])
    assert told == {"prefix": ["", "x"], "force_words": [("a", "b"), ()]}
    assert each_of(None, 2) == [DecodingRequest()] * 2
    assert each_of(one, 2) == [one, one]
    assert by_name([]) == {}


def test_what_is_refused():
    with pytest.raises(RequestError, match=r"bad_words: expected a list, .*write \['a b'\]"):
        DecodingRequest.of({"bad_words": "a b"})
    with pytest.raises(RequestError, match="a request for each of 3 inputs, got 1"):
        each_of([DecodingRequest()], 3)
