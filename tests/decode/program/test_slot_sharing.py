"""Slots that share memory: never two values that are needed together, and only of one form."""

import random

import pytest

from regard.decode.program.instructions import Instruction, Operand, Slot
from regard.decode.program.rows import CONSTANT, PER_ROW
from regard.decode.program.slot_sharing import share_slots


def a_program(seed, count=30):
    """Instructions that each read two earlier values and write a new one."""
    dice = random.Random(seed)
    slots = [Slot(PER_ROW, 8, value=0), Slot(CONSTANT, 8, constant=object())]
    code = []
    for number in range(2, count):
        slots.append(Slot(PER_ROW, dice.choice((8, 16)), compact=dice.random() < 0.2))
        reads = [dice.randrange(max(0, number - 6), number) for _ in "ab"]
        operands = {"y": Operand(number), "a": Operand(reads[0]), "b": Operand(reads[1])}
        memory = {"keys": dice.randrange(number)} if dice.random() < 0.2 else {}
        code.append(Instruction("BINARY", operands, memory=memory))
    slots[-1].value = 1
    return code, slots


def run(code):
    """What every instruction reads: the names of the values that lie in the slots then."""
    held, seen = {}, []
    for k, one in enumerate(code):
        read = [one.operands[name].slot for name in "ab"] + [*one.memory.values()]
        seen.append([held.get(slot, ("given", slot)) for slot in read])
        held[one.operands["y"].slot] = ("made by", k)
    return seen


@pytest.mark.parametrize("seed", range(20))
def test_every_instruction_reads_what_it_read_before(seed):
    code, slots = a_program(seed)
    expected, outputs = run(code), code[-1].operands["y"].slot
    before = {one.operands["y"].slot for one in code}
    forms = [slots[one.operands["y"].slot].width for one in code]
    share_slots(code, slots)
    assert run(code) == expected
    written = [one.operands["y"].slot for one in code]
    assert len(set(written)) < len(before)
    assert [slots[number].width for number in written] == forms
    assert code[-1].operands["y"].slot == outputs
    for one in code:
        assert one.operands["y"].slot not in {one.operands["a"].slot, one.operands["b"].slot}
    assert all(slots[number].value is None for number in written[:-1])
