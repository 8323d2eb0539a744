"""What is more than its weights say is not exported."""

import pytest
from torch import nn

from regard.convert._anatomy import anatomy
from regard.errors import RequestError
from tests.decode.program.test_structure import CHANGES, made


def test_a_plain_model_can_be_exported():
    assert anatomy(made("transformer")).layers == 2


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_module_is_refused(change):
    model = made("transformer")
    change(model)
    with pytest.raises(RequestError, match="which weights do not say"):
        anatomy(model)


def test_layers_that_differ_are_refused():
    model = made("transformer")
    layer = model.decoder[1]
    layer.self_residual.norm.eps = 0.5
    with pytest.raises(RequestError, match="its layers differ"):
        anatomy(model)
    layer.self_residual.norm.eps = model.decoder[0].self_residual.norm.eps
    wide = layer.feedforward.into
    layer.feedforward.into = nn.Linear(wide.in_features, 2 * wide.out_features)
    with pytest.raises(RequestError, match="its layers differ"):
        anatomy(model)
