"""Recording a call as operations of PyTorch alone, for programs that know no others.

Here named operations are looked into: of an attention its products, softmax and masks are written
down, by the reference kernel. So a call becomes a graph for another runtime (`convert.recorded`)
without a line for each kind of attention.

A call is recorded at a few sizes. A value that becomes a number of Python (`int(lengths.max())`)
does not end that, as it does where a program is to replace a model's steps: it is a size then, and
what is made of it has to follow from it. A truth value has to be the same in every recording.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from regard.attention import kernels
from regard.decode.program.recorder import (
    ESCAPES,
    UNREPEATABLE,
    NotRecorded,
    Recorder,
    Recording,
    recorded_call,
)
from regard.decode.program.replay import Program
from regard.decode.program.tree import map_leaves
from regard.decode.program.unify import unify

__all__ = ["PlainRecorder", "plain_program"]

WHOLE = frozenset({"append", "recurrence", "lstm_states", "experts", "pack"})
"""Named operations that stay whole: they write into buffers, or step with every word."""
NUMBERS = frozenset({"__bool__", "__int__", "__index__", "item", "tolist"})
"""Ways in which values become numbers."""

BY_VALUES = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
"""What depends on values, and is compared between the recordings."""


class PlainRecorder(Recorder):
    """Looks into named operations, but those in `WHOLE`."""

    escapes = ESCAPES - NUMBERS
    unrepeatable = {  # noqa: RUF012 (as of the class above)
        tag: reason for tag, reason in UNREPEATABLE.items() if tag not in BY_VALUES
    }

    def operation(self, name: str, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Call a named operation: one node, or those of what it calls."""
        if name not in WHOLE:
            return function(*args, **kwargs)
        if name == "recurrence" and set(kwargs.get("sizes") or ()) == {1}:
            # One sequence, whose steps lie behind each other: nothing is left out of a step.
            states = super().operation(
                name, function, (args[0][:, None], *args[1:]), {**kwargs, "sizes": None}
            )
            return states[:, 0]
        return super().operation(name, function, args, kwargs)

    def leave(self, name: str, value: int | float) -> None:
        """A value became a number: a size, or a truth value."""
        if isinstance(value, float):
            super().leave(name, value)
        elif not isinstance(value, bool):
            self.recording.left.append(value)


@torch.inference_mode()
def plain_program(
    call: Callable[[Any], Mapping[str, Any]], examples: Sequence[dict[str, Any]]
) -> Program:
    """The program of a call in operations of PyTorch, from examples of different sizes.

    Args:
        call: reads a tree of tensors, and returns one.
        examples: what it is called with, each a dict with a `step`, and with `counts`: numbers of
            which sizes of the inputs are multiples. Each size should differ between the examples,
            and none should follow from another.

    Raises:
        NotRecorded: the call cannot be recorded, in a clause that says why.
    """
    return unify([_recording(call, given) for given in examples], inner=True)


def _recording(call: Callable[[Any], Any], given: dict[str, Any]) -> Recording:
    recorder = PlainRecorder()
    given = map_leaves(given, lambda leaf: leaf)  # without spare room
    with kernels("reference"), recorded_call(recorder, given) as recording:
        found = call(given)
    if recorder.reason is not None:
        raise NotRecorded(recorder.reason)
    recording.outputs = recorder.tree(found)
    return recording
