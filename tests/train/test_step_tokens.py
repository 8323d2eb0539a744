"""`train.batch.step_tokens`: one curve for 1, 2 and 4 processes, of one recipe, in one folder."""

import math

import pytest

from tests.train.runs import killed, losses, recipe, run

STEPS = 30
BATCH = "{tokens: 300, step_tokens: 1200}"  # four micro-batches: 1, 2 and 4 processes divide them


def curve(made, folder, processes):
    said = run(made, folder, processes=processes).stderr
    assert (folder / "model.safetensors").is_file()
    return losses(folder), said


def same(one, other, tolerance=1e-5):
    assert sorted(one) == sorted(other) == list(range(1, STEPS + 1))
    for step in one:
        assert math.isclose(one[step], other[step], rel_tol=tolerance), (step, tolerance)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", [False, True], ids=["memory", "store"])
def test_the_curve_is_that_of_one_process_with_dropout_too(store, tmp_path):
    """Random numbers of a micro-batch follow from its number in the step, not from who has it."""
    made = recipe(tmp_path, batch=BATCH, steps=STEPS, dropout=0.2)
    if store:
        made.write_text(made.read_text().replace("data:\n", f"data:\n  store: {tmp_path}/stores\n"))
    one, said = curve(made, tmp_path / "one", 1)
    assert "a step: 1,200 tokens in 4 micro-batches of 300; 4 for each of 1 process" in said
    assert one[STEPS] < one[1] - 0.5  # it learns
    for processes in (2, 4) if not store else (2,):
        several, said = curve(made, tmp_path / f"{processes}", processes)
        assert f"{4 // processes} for each of {processes} processes" in said
        same(one, several)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("batch", [BATCH, "{tokens: 900, step_tokens: 1800}", "{tokens: 300}"])
def test_killed_it_goes_on_with_other_processes(batch, tmp_path):
    """One process, killed; then two, killed; then three, which cut micro-batches by rows."""
    divided = "step_tokens" in batch
    made = recipe(tmp_path, batch=batch, steps=STEPS, dropout=0.0, checkpoint=5, validate=10)
    one, _ = curve(made, tmp_path / "one", 1)
    moved = tmp_path / "moved"
    killed(made, moved, after=8)
    if divided:
        killed(made, moved, after=18, processes=2)
        after, said = curve(made, moved, 3)
        same(one, after)
    else:  # a step of two processes is twice as large
        after, said = curve(made, moved, 2)
        with pytest.raises(AssertionError):
            same(one, after)
    assert "continuing after step" in said
    assert ("with train.batch.step_tokens it would not" in said) is not divided


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_where_processes_have_no_examples_the_curve_is_the_same(tmp_path):
    """Steps of one or two rows, four processes: the others add nothing."""
    made = recipe(tmp_path, batch="{tokens: 40, step_tokens: 40}", steps=STEPS, dropout=0.0)
    one, _ = curve(made, tmp_path / "one", 1)
    several, _ = curve(made, tmp_path / "four", 4)
    same(one, several)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sharded_weights_have_the_same_curve(tmp_path):
    made = recipe(tmp_path, batch="{tokens: 300, step_tokens: 900}", steps=STEPS, dropout=0.0)
    one, _ = curve(made, tmp_path / "one", 1)
    made.write_text(made.read_text().replace("log: 1", "log: 1\n  strategy: fsdp"))
    several, _ = curve(made, tmp_path / "two", 2)
    same(one, several)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_gradients_sent_in_half_precision_have_nearly_the_curve(precision, tmp_path):
    """It differs, since sums are rounded, and only by that."""
    made = recipe(tmp_path, batch=BATCH, steps=STEPS, dropout=0.0)
    whole, _ = curve(made, tmp_path / "whole", 2)
    made.write_text(made.read_text().replace("log: 1", f"log: 1\n  compress: {precision}"))
    half, _ = curve(made, tmp_path / "half", 2)
    same(whole, half, tolerance={"fp16": 1e-3, "bf16": 1e-2}[precision])
    with pytest.raises(AssertionError):
        same(whole, half, tolerance=1e-7)
