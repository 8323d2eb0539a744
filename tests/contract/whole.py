"""Checks of a whole model that reads and answers in one pass, whatever it reads.

`logits(model)` gives its scores for a batch, `loss(model)` the loss of the batch.
"""

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from regard import watch
from regard.protocols import PAD, Output
from tests.contract.battery import attentions

Call = Callable[[Any], Tensor]
COPIES = ("deepcopy", "pickle", "safetensors", "state_dict")


def check_output(model: Any, read: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    """One `Output` of scores, penalties that are numbers, parameters alone in the state."""
    output = read(model)
    assert isinstance(output, Output)
    assert output.logits.shape == shape
    assert output.logits.dtype == torch.float64
    for extra in (output.extra, read(model.train()).extra):
        assert all(isinstance(value, Tensor) for value in extra.values())
        assert all(value.dim() == 0 for name, value in extra.items() if name == "penalty")
    assert set(model.state_dict()) <= {k for k, _ in model.named_parameters(remove_duplicate=False)}
    assert len(str(model).splitlines()) <= 100


def check_gradients(model: Any, loss: Call) -> None:
    """Every parameter learns, and no padding does, where there are word vectors."""
    loss(model.train()).backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.any(), path
        assert parameter.grad.isfinite().all(), path
    if hasattr(model, "embed"):
        assert not model.embed.weight.grad[PAD].any()


def in_eval(loss: Call) -> Call:
    """The loss without what only training has; the model is in train mode again behind it."""

    def judged(model: nn.Module) -> Tensor:
        found = loss(model.eval()).detach()
        model.train()
        return found

    return judged


def learn_by_heart(
    model: nn.Module, loss: Call, judged: Call, lr: float = 0.03, every: int = 5
) -> None:
    """300 updates at most, until what is judged is below 0.05.

    Args:
        every: judged before each update of so many; 1 for a model that samples what it reads.
    """
    optimizer = torch.optim.Adam(model.train().parameters(), lr=lr, fused=True)
    for update in range(301):
        if update % every == 0:
            now = judged(model)
            if now.item() < 0.05 or update == 300:
                break
        optimizer.zero_grad()
        loss(model).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert now.item() < 0.05


def check_watching(model: nn.Module, loss: Call, frozen: bool = False) -> None:
    """The same loss, random numbers and gradients, watched or not.

    Args:
        frozen: some parameters have no gradient.
    """
    results = []
    for watched in (False, True):
        own = copy.deepcopy(model).train()
        torch.manual_seed(7)
        if watched:
            with watch(own) as seen:
                found = loss(own)
            assert len(seen) == len(attentions(own))
        else:
            found = loss(own)
        found.backward()
        grads = [p.grad for p in own.parameters() if p.grad is not None]
        assert frozen or len(grads) == len(list(own.parameters()))
        results.append([found.detach(), torch.get_rng_state(), *grads])
    for without, within in zip(*results, strict=True):
        assert torch.equal(without, within)


def check_eval(model: nn.Module, logits: Call) -> None:
    """Eval mode is deterministic, keeps nothing between calls; train mode drops."""
    before = {path: set(vars(m)) for path, m in model.named_modules()}
    state = torch.get_rng_state()
    first = logits(model)
    assert torch.equal(logits(model), first)
    assert torch.equal(torch.get_rng_state(), state)
    assert {path: set(vars(m)) for path, m in model.named_modules()} == before
    assert not torch.equal(logits(model.train()), first)


def check_copies(
    model: nn.Module, other: Callable[[], nn.Module], logits: Call, folder: Path
) -> None:
    """A copy made in any way gives the same, and its weights are its own.

    Args:
        other: makes a model of the same form with other weights.
    """
    expected = logits(model)
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    loaded = other()
    assert not torch.equal(logits(loaded), expected)
    for how in COPIES:
        if how == "deepcopy":
            made = copy.deepcopy(model)
        elif how == "pickle":
            made = pickle.loads(pickle.dumps(model))
        else:  # into one whose weights are others
            made = loaded
            if how == "safetensors":
                save_model(model, str(folder / "model.safetensors"))
                load_model(made, folder / "model.safetensors")
            else:
                buffer = io.BytesIO()
                torch.save(model.state_dict(), buffer)
                buffer.seek(0)
                made.load_state_dict(torch.load(buffer, weights_only=True))
        assert torch.equal(logits(made), expected), how
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.add_(0.5)
        assert not torch.equal(logits(made), expected), how
        assert all(map(torch.equal, model.parameters(), weights)), how
    assert torch.equal(logits(model), expected)


def check_bf16(model: nn.Module, low: nn.Module, logits: Call, loss: Call) -> None:
    """Under autocast, and with weights of bf16 (`low`), about what float32 gives."""
    exact = logits(model)
    with torch.autocast("cpu", torch.bfloat16):
        rough = logits(model)
        loss(model.train()).backward()
    assert rough.isfinite().all()
    assert (rough.float() - exact).abs().max() < 0.1 * exact.std() + 0.02
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    found = logits(low)
    assert found.dtype == torch.bfloat16
    assert (found.float() - exact).abs().max() < 0.1
