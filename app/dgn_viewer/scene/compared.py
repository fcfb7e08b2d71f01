"""The run (A) and what stands beside it (B): names, and B seen as a run of its own."""

from __future__ import annotations

import dataclasses

from dgn_engine.protocol.frames import Reading
from dgn_viewer.scene.panel_spec import ComparedRun, View

A = "A"
_LONGEST = 24


def b_name(beside: ComparedRun) -> str:
    """'B · resnet18.pth', a long name cut in its middle."""
    name = beside.name.replace("$", "_")  # dollars would set the name as a formula
    if len(name) > _LONGEST:
        name = f"{name[: _LONGEST // 2]}…{name[-(_LONGEST // 2 - 1) :]}"
    return f"B · {name}"


def seen_beside(view: View) -> View | None:
    """B as if it were the run; None where nothing stands beside the run."""
    beside = view.beside
    if beside is None:
        return None
    run = view.run
    return dataclasses.replace(
        view,
        run=None if run is None else dataclasses.replace(run, layers=beside.layers),
        regime=beside.regime,
        wiring=beside.wiring,
        step=beside.step,
        readings=beside.readings,
        series=beside.series,
        marks=(),
        beside=None,
    )


def reading_beside(view: View, probe: str) -> Reading | None:
    """B's reading of a probe, where there is something in it."""
    reading = view.beside.readings.get(probe) if view.beside is not None else None
    return None if reading is None or reading.absent else reading


def why_not_beside(view: View, probe: str) -> str:
    """Why B is not shown, in one sentence; '' where it is, or where there is no B."""
    if view.beside is None:
        return ""
    reading = view.beside.readings.get(probe)
    if reading is None:
        return f"{b_name(view.beside)}: no reading yet." if view.beside.layers else ""
    return f"{b_name(view.beside)}: {reading.absent}" if reading.absent else ""
