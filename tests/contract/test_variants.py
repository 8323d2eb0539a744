"""Papers' variants of a model meet the parts of the contract that they could break."""

from functools import partial

import pytest

from tests.contract import test_sequence, test_shape, test_watch

VARIANTS = {
    "abs as its authors' program": ("abs", {"reading": "code"}),
    "convs2s that looks once": (
        "convs2s",
        {"encoder": [[1, 12, 3]], "decoder": [[2, 12, 3]], "attention": [2]},
    ),
    "convs2s of other widths and kernels": (
        "convs2s",
        {"encoder": [[1, 12, 5]], "decoder": [[1, 12, 1], [1, 10, 4]]},
    ),
    "lstm-a as printed": (
        "lstm-a",
        {"encoder": "reversed", "start": "encoder", "readout": "linear", "feed": True},
    ),
    "luong local-m": ("luong", {"attention": "local-m", "reach": 4}),
    "luong local-m without feeding": (
        "luong",
        {"attention": "local-m", "reach": 4, "feed": False},
    ),
    "luong local-p": ("luong", {"attention": "local-p", "reach": 4}),
    "transformer that follows": ("following-transformer", {}),
    "transformer in a window": ("transformer", {"attention": {"window": 5}}),
    "transformer with relative positions": (
        "transformer",
        {"position": {"kind": "shaw", "clip": 2}},
    ),
    "transformer with relative keys alone, shared": (
        "transformer",
        {"position": {"kind": "shaw", "clip": 2, "relative": "keys", "tables": "shared"}},
    ),
    "transformer with biases of offsets": (
        "transformer",
        {"position": {"kind": "bias", "clip": 2}},
    ),
    "transformer with both": (
        "transformer",
        {"position": {"kind": "shaw", "clip": 2}, "attention": {"window": 4}},
    ),
}
CHECKS = [
    test_sequence.test_padding_changes_nothing,
    test_sequence.test_no_token_sees_those_after_it,
    test_sequence.test_every_source_token_matters,
    test_sequence.test_step_by_step_is_teacher_forcing,
    partial(test_sequence.test_beams_are_rearranged_with_all_they_carry, grad=False),
    partial(test_sequence.test_beams_are_rearranged_with_all_they_carry, grad=True),
    test_shape.test_gradients_reach_every_parameter,
    test_shape.test_bf16_autocast,
    test_watch.test_every_attention_is_seen_and_adds_up,
    test_watch.test_weights_follow_the_hypotheses_of_a_beam,
]


COMBINED = (
    "luong local-m without feeding",
    "transformer with relative keys alone, shared",
    "transformer with both",
)
"""What these join, other variants have alone: most of their checks are slow tests."""


def cases():
    for number, variant in enumerate(VARIANTS):
        for check in CHECKS:
            name = getattr(check, "func", check).__name__.removeprefix("test_")
            quick = variant not in COMBINED or name in (
                "step_by_step_is_teacher_forcing",
                "gradients_reach_every_parameter",
            )
            grad = getattr(check, "keywords", {}).get("grad", number % 2)
            quick = quick and grad == number % 2  # each variant is re-ordered one of two ways
            marks = () if quick else pytest.mark.slow
            yield pytest.param(variant, check, marks=marks, id=f"{variant}-{name}")


@pytest.mark.parametrize(("variant", "check"), list(cases()))
def test_contract(variant, check, monkeypatch):
    name, changes = VARIANTS[variant]
    for module in (test_sequence, test_shape, test_watch):
        monkeypatch.setattr(module, "build", partial(module.build, **changes))
    check(name)
