"""How a confined child is started: its command and its small environment."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import dgn_engine


def child_command(seconds: float, module: str) -> list[str]:
    """The command of a reading process: no user site, no current folder on its path."""
    return [sys.executable, "-s", "-P", "-m", module, str(max(1, math.ceil(seconds)))]


def child_environment() -> dict[str, str]:
    """A small environment: where modules lie, one thread, no GPU."""
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP", "HOME")
    engine = str(Path(dgn_engine.__file__).resolve().parents[1])
    places = [engine, *(place for place in sys.path if Path(place).is_absolute())]
    return {
        **{key: os.environ[key] for key in kept if key in os.environ},
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(places)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
