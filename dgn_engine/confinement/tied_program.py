"""Run an external program that ends with the process that started it, if Linux can do so.

`python -m dgn_engine.confinement.tied_program PROGRAM ARGUMENTS` becomes that program: the kernel
keeps the setting of `end_with_parent`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from dgn_engine.confinement.child_process import python_command
from dgn_engine.confinement.parent_watch import end_with_parent


def tied_command(command: Sequence[str]) -> list[str]:
    """Return the command that runs another one tied; unchanged if that is impossible."""
    if sys.platform != "linux" or getattr(sys, "frozen", False):
        return list(command)
    return python_command("-m", __name__, *command)


if __name__ == "__main__":
    end_with_parent()
    os.execvp(sys.argv[1], sys.argv[1:])
