"""Every model can learn eight examples by heart, and says them back."""

import pytest
import torch

from regard.decode import Greedy
from tests.contract.battery import build, loss_of, pairs, source_of

LENGTHS = [3, 4, 5, 3, 4, 5, 4, 3]
TARGETS = [4, 3, 5, 5, 4, 3, 4, 2]
RATES = {"transformer": 0.03, "marian": 0.03, "conditional-gru": 0.05}
RATE = 0.1  # recurrent models bear more, and learn in half the steps


@pytest.mark.slow
def test_it_overfits_eight_examples(name):
    model, batch = build(name, dtype=torch.float32), pairs(LENGTHS, TARGETS)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATES.get(name, RATE), betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda update: min((update + 1) / 30, 1, (80 / (update + 1)) ** 0.5)
    )
    tokens = int(batch.target_lengths.sum())
    model.train()
    for _ in range(400):
        loss = loss_of(model, batch) / tokens
        if loss.item() < 0.02:  # too little for even one wrong token among the 30
            break
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    assert loss.item() < 0.02
    found = Greedy()(model, source_of(model, batch), batch.lengths)
    for row, (hypothesis,) in enumerate(found):
        assert hypothesis.tokens == batch.target_out[row, : TARGETS[row]].tolist()
