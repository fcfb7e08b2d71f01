"""Runs a program of somebody else's that ends with whoever started it, where Linux can do so.

`python -m dgn_engine.confinement.tied_program PROGRAM ARGUMENTS` becomes that program: the kernel
keeps what `end_with_parent` asks for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from dgn_engine.confinement.child_process import python_command
from dgn_engine.confinement.parent_watch import end_with_parent


def tied_command(command: Sequence[str]) -> list[str]:
    """Return the command that runs another one so; as it is where that cannot be."""
    if sys.platform != "linux" or getattr(sys, "frozen", False):
        return list(command)
    return python_command("-m", __name__, *command)


if __name__ == "__main__":
    end_with_parent()
    os.execvp(sys.argv[1], sys.argv[1:])
