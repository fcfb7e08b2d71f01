"""A recorded run in a folder: frames of two probes whose arrays say of which step they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.storage.runs import frame_files


def make_frame(step: int, *probes: str, regime: str = "DL") -> Frame:
    arrays = {"layer_0": np.full((4, 3), step, dtype=np.float32)}
    readings = {probe: Reading(probe, step, arrays=arrays) for probe in probes or ("gates",)}
    return Frame(1, step, 0.0, 0.0, None, readings, regime=regime)


def record_frames(folder: Path, *steps: int) -> None:
    for serial, step in enumerate(steps):
        frame_files.write_frame(folder / "frames", make_frame(step), serial)
