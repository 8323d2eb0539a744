"""Slots of the work space that are used again once nothing reads them: it stays in the cache."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from regard.decode.program.instructions import Instruction, Slot
from regard.decode.program.rows import CONSTANT

__all__ = ["share_slots"]


def share_slots(code: Sequence[Instruction], slots: Sequence[Slot]) -> None:
    """Rename slots of instructions, so that values that are not needed together share one.

    Only slots of one form share: the zeros behind their rows stay zeros. What an instruction
    writes is never where it reads.

    Args:
        code: of a program whose every value is written before it is read; it is changed.
        slots: of which those with a value of their own, or a constant, stay as they are.
    """
    mentioned = [_mentioned(one) for one in code]
    last = {slot: k for k, own in enumerate(mentioned) for slot in own}
    names: dict[int, int] = {}
    free: dict[tuple[object, ...], list[int]] = defaultdict(list)

    def form(number: int) -> tuple[object, ...]:
        own = slots[number]
        return own.space, own.width, own.integers, own.compact, own.times

    for k, own in enumerate(mentioned):
        for number in own:
            if number not in names and _is_free(slots[number]):
                spare = free[form(number)]
                names[number] = spare.pop() if spare else number
        for number in own:
            if last[number] == k and number in names:
                free[form(number)].append(names[number])
    for one in code:
        for name, operand in one.operands.items():
            if operand.slot in names:
                one.operands[name] = replace(operand, slot=names[operand.slot])
        one.memory = {name: names.get(slot, slot) for name, slot in one.memory.items()}


def _mentioned(one: Instruction) -> list[int]:
    """The slots that an instruction names, each once."""
    every = [operand.slot for operand in one.operands.values()] + [*one.memory.values()]
    return [*dict.fromkeys(every)]


def _is_free(slot: Slot) -> bool:
    return slot.value is None and slot.constant is None and slot.space != CONSTANT
