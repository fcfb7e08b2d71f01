"""A pickle reader that makes nothing but lists, tables, numbers and text: it has no import, no
call and no attribute to set, so there is nothing that a pickle could run.

The instructions are those of protocols 0 to 5 as `pickletools` of the standard library has them.
"""

from __future__ import annotations

import struct
from typing import Any

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.pickle_machine import Build, Persistent, PickleMachine
from dgn_engine.storage.checkpoints.pickle_opcodes import STEPS, stop


def read_pickle(
    content: memoryview, start: int, build: Build, persistent: Persistent
) -> tuple[Any, int]:
    """The tree of the pickle that begins at `start`, and the place behind it.

    `build(name, arguments)` says what a call stands for, `persistent(id)` what a reference out of
    the pickle does. Raises `UnreadableFile`.
    """
    machine = PickleMachine(content, start, build, persistent)
    try:
        return _run(machine), machine.at
    except (IndexError, KeyError, struct.error, ValueError, TypeError, AttributeError):
        # its stack, its memo or its text do not hold what an instruction needs
        raise UnreadableFile("has a damaged pickle") from None


def _run(machine: PickleMachine) -> Any:
    """Everything up to the end of the pickle."""
    content, size = machine.content, len(machine.content)
    for _ in range(limits.OPERATIONS):
        if machine.at >= size:
            raise UnreadableFile("is cut off within its pickle")
        step = STEPS.get(content[machine.at])
        if step is None:
            raise UnreadableFile("has a pickle with instructions that no checkpoint needs")
        machine.at += 1
        if step is stop:
            return machine.stack.pop()
        step(machine)
    raise UnreadableFile(f"has a pickle of more than {limits.OPERATIONS:,} instructions")
