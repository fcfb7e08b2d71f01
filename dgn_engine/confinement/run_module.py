"""Run one of our modules as a program that distrusts the folder it is started in.

`python -s -P -m dgn_engine.confinement.run_module MODULE ARGUMENTS`, as in `module_command`.
"""

from __future__ import annotations

import runpy
import sys

from dgn_engine.confinement.start_folder import distrust_start_folder

if __name__ == "__main__":
    distrust_start_folder()
    module = sys.argv.pop(1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)
