"""What a panel says of itself: the message where there is no picture, the line below one."""

from __future__ import annotations

from typing import Literal

from dgn_engine.protocol.frames import MISFIT, Reading
from dgn_viewer.scene.elements import Empty, Scene
from dgn_viewer.scene.panel_spec import PanelSpec, View

State = Literal["waiting", "live", "paused", "unavailable", "costly", "stale", "failed"]

_AT_ONCE = 0.1  # seconds; shorter intervals of drawing are not worth a word


def readings_of(spec: PanelSpec, view: View) -> tuple[Reading, ...]:
    """The readings that the panel is made of, as far as they have come."""
    found = (view.readings.get(probe) for probe in spec.probes)
    return tuple(reading for reading in found if reading is not None)


def expected_seconds(spec: PanelSpec, view: View) -> float:
    """What a reading would take that is held too expensive; 0 where none is."""
    return max((reading.too_expensive for reading in readings_of(spec, view)), default=0.0)


def message(
    state: State, spec: PanelSpec, view: View, empty: Empty, anyway: bool
) -> tuple[str, str, str]:
    """Heading, sentence, and what a button offers; `anyway`: the costly reading was asked for."""
    if state == "costly":
        cost = f"About {in_seconds(expected_seconds(spec, view))} a reading; training waits for it."
        if anyway:
            return "Computing", cost, ""
        why = f"{cost} Fewer probe examples or smaller images cost less."
        return "Too expensive at this size", why, "Compute anyway"
    faults = {r.facts["fault"] for r in readings_of(spec, view) if r.absent and "fault" in r.facts}
    if view.diverged is not None:
        why = empty.reason if faults else "The loss is no longer finite."
        return f"Diverged at step {view.diverged:,}", why, ""
    if faults:
        return "Out of memory" if MISFIT in faults else "No reading", empty.reason, ""
    if spec.compares:
        return "Nothing to compare", empty.reason, ""
    if state == "unavailable":
        return f"Not in {view.regime or 'this regime'}", empty.reason, ""
    if view.run is not None and view.run.inspected:
        return "Not training", empty.reason, ""
    return f"Waiting for {'the first frame' if view.run else 'a run'}", empty.reason, ""


def footer(state: State, spec: PanelSpec, view: View, scene: Scene, every: float) -> str:
    """Step, interval, what was left out, and note; `every`: seconds between two drawings."""
    parts = {"paused": ["paused"], "stale": ["late"]}.get(state, [])
    if view.run is not None and view.run.inspected:
        parts = ["not training"]
    if view.diverged is not None:
        parts = [f"diverged at step {view.diverged:,}"]
    parts.append(f"step {scene.step:,}")
    readings = readings_of(spec, view)
    intervals = [reading.interval for reading in readings[:1]]
    longest = max([*intervals, every if every > _AT_ONCE else 0.0])
    if longest > 0 and not view.paused:
        parts.append(f"every {in_seconds(longest)}")
    parts.extend(dict.fromkeys(reading.remark for reading in readings if reading.remark))
    return " · ".join([*parts, scene.note] if scene.note else parts)


def in_seconds(seconds: float) -> str:
    """'33 ms', '0.25 s', '140 s'."""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:,.0f} s"
