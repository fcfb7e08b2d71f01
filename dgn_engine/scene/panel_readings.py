"""The readings that a panel is made of, and what they say of themselves: below it, in figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.runs import TRAINING
from dgn_engine.scene.compared import pair_labels
from dgn_engine.scene.elements import Empty, Scene, Shown
from dgn_engine.scene.panel_spec import PanelSpec, View

SCORES = ("train_loss",)  # that is measured last, of a panel without probes


def readings_of(spec: PanelSpec, view: View) -> tuple[Reading, ...]:
    """The readings that the panel is made of, as far as they have come."""
    return tuple(view.readings[probe] for probe in spec.probes if probe in view.readings)


def draw_reading(
    probe: str, before: str
) -> Callable[[Callable[[View, Reading], Shown]], Callable[[View], Shown]]:
    """Return a decorator for what draws the reading of one probe.

    Args:
        probe: The probe, whose reading is passed as the second argument.
        before: What is said until there is one; of one that is absent its own words are.
    """

    def decorate(draw: Callable[[View, Reading], Shown]) -> Callable[[View], Shown]:
        @wraps(draw)
        def draw_view(view: View) -> Shown:
            reading = view.readings.get(probe)
            if reading is None:
                return Empty(before, "no-reading")
            if reading.absent:
                return Empty(reading.absent, "absent")
            return draw(view, reading)

        return draw_view

    return decorate


def as_note(*sentences: str) -> str:
    """The line below the charts: what there is to say of these."""
    return " ".join(filter(None, sentences))


def compared_readings(spec: PanelSpec, view: View) -> tuple[Reading, ...]:
    """The readings of B that the panel is made of."""
    known = view.compared.readings if view.compared is not None else {}
    return tuple(known[probe] for probe in spec.probes if probe in known)


def before(spec: PanelSpec, view: View) -> str:
    """'before FR-II': the picture is of the network as it was before this; '' where it is not."""
    later = [view.outdated[name] for name in spec.probes or SCORES if name in view.outdated]
    return f"before {later[0].label}" if later else ""


def diverged(view: View) -> str:
    """'diverged at step 3,007'; '' where the run has not."""
    return "" if view.diverged is None else f"diverged at step {view.diverged:,}"


def left_out(spec: PanelSpec, view: View, scene: Scene) -> tuple[str, ...]:
    """What of the curves and marks of a scene is not drawn, because there were too many."""
    if not any(chart.timed for chart in scene.charts):
        return ()
    said = []
    for source in spec.probes or (TRAINING,):
        if source in view.left_out and any(chart.curves for chart in scene.charts):
            drawn, every = view.left_out[source]
            said.append(f"{drawn:,} of {every:,} points drawn")
    if "" in view.left_out:
        said.append("{:,} of {:,} events marked".format(*view.left_out[""]))
    return tuple(said)


def remarks(spec: PanelSpec, view: View) -> tuple[str, ...]:
    """Of how many probe examples, exact or ±; of B, where it is not what is said of A."""
    ours = [reading.remark for reading in readings_of(spec, view)]
    theirs = [reading.remark for reading in compared_readings(spec, view)]
    b = "B" if view.compared is None else pair_labels(view.compared)[1]
    of_b = (f"{b}: {remark}" for remark in theirs if remark and remark not in ours)
    return tuple(dict.fromkeys([*filter(None, ours), *of_b]))
