"""Entry point of both programs of the bundle, `dgn` and `dgn-viewer`, and of their children.

Elsewhere the engine starts its children as `python -m MODULE`; a bundle has no Python interpreter,
so this program handles `-m MODULE` itself, for our own modules only.
"""

from __future__ import annotations

import multiprocessing
import runpy
import sys
from pathlib import Path

from dgn_engine.confinement.start_folder import distrust_start_folder

OURS = ("dgn_engine.", "dgn_viewer.")


def main() -> int:
    multiprocessing.freeze_support()  # does not return in a child started by multiprocessing
    distrust_start_folder(restart=True)
    if sys.argv[1:2] == ["-m"] and sys.argv[2:3] and sys.argv[2].startswith(OURS):
        module = sys.argv[2]
        del sys.argv[1:3]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return 0
    if Path(sys.argv[0]).stem == "dgn":  # on Linux and macOS a link to the other program
        from dgn_engine.cli import main as command

        return command()
    from dgn_viewer.__main__ import main as window

    return window()


if __name__ == "__main__":
    sys.exit(main())
