"""Where things lie in the folder of a run, and where run folders lie."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

RUN = "run.json"
CONFIG = "config.toml"
LOG = "log.jsonl"
LOCK = "lock"
FRAMES = "frames"
CHECKPOINTS = "checkpoints"
DAMAGED = "damaged"  # where `repair` puts what is not sound
WEIGHTS = "weights.safetensors"
KEPT = "weights"  # the folder of those that were asked to be kept

# In a checkpoint's folder.
TENSORS = "tensors.safetensors"
STATE = "state.json"
MANIFEST = "manifest.json"
KEEP = "keep"  # an empty file: the user keeps this checkpoint

DIGITS = 9
_CHECKPOINT = re.compile(r"(\d{9,})(?:-(\d+))?")
_FRAME = re.compile(r"(\d{9,})-(\d{6,})-([0-9a-f]{16})\.safetensors")


def runs_root() -> Path:
    """The user's folder of runs: `DGN_RUNS_ROOT`, else in the user's data folder."""
    named = os.environ.get("DGN_RUNS_ROOT", "")
    return Path(named) if named else _user_data() / "runs"


def results_root() -> Path:
    """The user's folder of reproduced experiments: `DGN_RESULTS_ROOT`, else beside the runs."""
    named = os.environ.get("DGN_RESULTS_ROOT", "")
    return Path(named) if named else runs_root().parent / "results"


def _user_data() -> Path:
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "dgn-viewer"


def checkpoint_name(step: int, again: int) -> str:
    """'000000120', and '000000120-1' for another one at the same step."""
    return f"{step:0{DIGITS}}" + (f"-{again}" if again else "")


def checkpoint_key(name: str) -> tuple[int, int] | None:
    """The step and the repetition that a folder's name says; None for other names."""
    found = _CHECKPOINT.fullmatch(name)
    return (int(found[1]), int(found[2] or 0)) if found else None


def frame_name(step: int, serial: int, digest: str) -> str:
    """A frame carries the beginning of its own sha256 in its name: it needs no list."""
    return f"{step:0{DIGITS}}-{serial:06}-{digest[:16]}.safetensors"


def frame_key(name: str) -> tuple[int, int, str] | None:
    """Step, serial number and beginning of the sha256; None for other names."""
    found = _FRAME.fullmatch(name)
    return (int(found[1]), int(found[2]), found[3]) if found else None
