"""What every catalogue entry looks like from outside."""

import torch
from torch import nn

from regard.protocols import PAD, Decoding, Encoded, Generator, Output
from tests.contract.battery import SIZE, build, check_constructor, loss_of, mixed, real
from tests.contract.whole import check_copies


def test_it_is_a_generator_whose_constructor_is_its_configuration(name):
    check_constructor(name, ["source_vocab_size", "target_vocab_size"])
    model = build(name)
    assert isinstance(model, Generator)
    assert (model.source_vocab_size, model.target_vocab_size) == (SIZE, SIZE)
    assert isinstance(model.normalized, bool)


def test_shapes(name):
    model, batch = build(name), mixed()
    rows, steps = batch.target_in.shape
    encoded = model.encode(batch.source, batch.lengths)
    assert isinstance(encoded, Encoded)
    assert encoded.states.shape[0] == rows
    assert encoded.lengths.tolist() == batch.lengths.tolist()
    output = model(batch.source, batch.target_in, batch.lengths)
    assert isinstance(output, Output)
    assert output.logits.shape == (rows, steps, SIZE)
    assert output.logits.dtype == torch.float64
    assert all(isinstance(value, torch.Tensor) for value in output.extra.values())
    decoding = model.start(encoded)
    assert isinstance(decoding, Decoding)
    assert decoding.step == 0
    logits, after = model.step(batch.target_in[:, :1], decoding)
    assert logits.shape == (rows, 1, SIZE)
    assert (decoding.step, after.step) == (0, 1)


def test_gradients_reach_every_parameter(name):
    model, batch = build(name), mixed()
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of(model, batch).backward()
    optimizer.step()  # some papers start with an exact zero, which stops the gradient before it
    optimizer.zero_grad()
    loss_of(model, batch).backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{path} has no gradient"
        assert parameter.grad.isfinite().all(), f"{path}: gradient not finite"
        assert parameter.grad.any(), f"{path}: gradient is zero"


def test_normalized_is_true_to_its_word(name):
    model, batch = build(name), mixed()
    logits = model(batch.source, batch.target_in, batch.lengths).logits[real(batch)]
    total = logits.exp().sum(-1)
    ones = torch.ones_like(total)
    assert torch.allclose(total, ones, atol=1e-6) == model.normalized


def test_eval_mode_is_deterministic_and_forward_keeps_nothing(name):
    model, batch = build(name), mixed()
    before = {path: set(vars(m)) for path, m in model.named_modules()}
    state = torch.get_rng_state()
    first = model(batch.source, batch.target_in, batch.lengths).logits
    decoding = model.start(model.encode(batch.source, batch.lengths))
    for t in range(3):
        _, decoding = model.step(batch.target_in[:, t : t + 1], decoding)
    again = model(batch.source, batch.target_in, batch.lengths).logits
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), state)
    assert {path: set(vars(m)) for path, m in model.named_modules()} == before
    for path, module in model.named_modules():
        kept = [key for key, value in vars(module).items() if isinstance(value, torch.Tensor)]
        assert not kept, f"{path} keeps {kept} beside its parameters and buffers"


def test_copies_are_whole_and_their_own(name, tmp_path):
    batch = mixed()

    def logits(model):
        return model(batch.source, batch.target_in, batch.lengths).logits

    check_copies(build(name), lambda: build(name, seed=2), logits, tmp_path)


def test_weights_are_the_parameters_alone(name):
    model = build(name)
    known = {k for k, _ in model.named_parameters(remove_duplicate=False)}
    # `reads` is what a task tells a model of its symbols (lstm_a): it cannot be computed again.
    assert set(model.state_dict()) <= known | {"reads"}


def test_its_text_is_short(name):
    lines = str(build(name)).splitlines()
    assert len(lines) <= 100, f"str(model) has {len(lines)} lines"
    assert max(map(len, lines)) <= 160


def test_bf16_autocast(name):
    model, batch = build(name, dtype=torch.float32), mixed()
    exact = model(batch.source, batch.target_in, batch.lengths).logits
    with torch.autocast("cpu", torch.bfloat16):
        rough = model(batch.source, batch.target_in, batch.lengths).logits
        loss_of(model, batch).backward()
        decoding = model.start(model.encode(batch.source, batch.lengths))
        logits = []
        for t in range(batch.target_in.shape[1]):
            step, decoding = model.step(batch.target_in[:, t : t + 1], decoding)
            logits.append(step)
    spread = exact.std()
    seen = real(batch)
    assert rough.isfinite().all()
    # bfloat16 keeps 8 bits; layers add up to a few units in the last place
    assert (rough.float() - exact)[seen].abs().max() < 0.1 * spread + 0.05
    assert (torch.cat(logits, 1).float() - exact)[seen].abs().max() < 0.1 * spread + 0.05
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path


def test_bf16_weights(name):
    model, batch = build(name, dtype=torch.bfloat16), mixed()
    logits = model(batch.source, batch.target_in, batch.lengths).logits
    assert logits.isfinite().all()
    step, _ = model.step(
        batch.target_in[:, :1], model.start(model.encode(batch.source, batch.lengths))
    )
    assert (step[:, 0].float() - logits[:, 0].float()).abs().max() < 0.2


def test_the_padding_embedding_learns_nothing(name):
    model, batch = build(name), mixed()
    model.train()
    loss_of(model, batch).backward()
    for path, module in model.named_modules():
        if (
            isinstance(module, nn.Embedding)
            and module.padding_idx == PAD
            and not tied(model, module)
        ):
            assert not module.weight.grad[PAD].any(), path


def tied(model: nn.Module, embedding: nn.Embedding) -> bool:
    """Whether an output layer shares the matrix: that one does send gradients to every row."""
    return any(isinstance(m, nn.Linear) and m.weight is embedding.weight for m in model.modules())
