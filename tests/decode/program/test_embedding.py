"""The input of a packed step is the model's own, bit for bit, on both roads."""

import pytest
import torch

from regard.decode.program.embedding import placed
from regard.models.marian import Marian
from regard.models.transformer import Transformer


@pytest.mark.parametrize("at", [0, 7, 30, 300, torch.tensor([3, 0])], ids=str)
@pytest.mark.parametrize(
    ("kind", "settings"),
    [(Marian, {}), (Transformer, {}), (Transformer, {"position": {"kind": "learned"}}),
     (Transformer, {"position": {"kind": "shaw"}})],
    ids=str,
)  # fmt: skip
def test_a_word_at_its_position(kind, settings, at):
    if settings.get("position") == {"kind": "learned"} and isinstance(at, int):
        at = min(at, 20)
    torch.manual_seed(0)
    model = kind(30, 30, dim=24, heads=2, layers=1, ffn_dim=16, **settings).eval()
    tokens = torch.randint(4, 30, (2, 3))
    where = at if isinstance(at, int) else at[:, None]
    with torch.inference_mode():
        right = model._embed(model.embed_target, tokens[..., None], where)[..., 0, :]
        assert torch.equal(placed(model, tokens, where), right)
    assert torch.equal(placed(model, tokens, where), right)  # with gradients, the model's own
