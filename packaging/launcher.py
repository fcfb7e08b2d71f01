"""What both programs of the bundle start: `dgn`, `dgn-viewer`, or a child process of theirs.

Elsewhere the engine starts its children as `python -m MODULE`; in a bundle there is no python, so
that this program takes `-m MODULE` itself, for our own modules alone.
"""

from __future__ import annotations

import multiprocessing
import runpy
import sys
from pathlib import Path

from dgn_engine.confinement.start_folder import distrust_start_folder

OURS = ("dgn_engine.", "dgn_viewer.")


def main() -> int:
    multiprocessing.freeze_support()  # ends here in a child that multiprocessing started
    distrust_start_folder(restart=True)
    if sys.argv[1:2] == ["-m"] and sys.argv[2:3] and sys.argv[2].startswith(OURS):
        module = sys.argv[2]
        del sys.argv[1:3]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0
    if Path(sys.argv[0]).stem == "dgn":  # on Linux and macOS a link to the other
        from dgn_engine.cli import main as command

        return command()
    from dgn_viewer.__main__ import main as window

    return window()


if __name__ == "__main__":
    sys.exit(main())
