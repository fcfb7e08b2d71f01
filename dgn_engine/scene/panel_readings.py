"""The readings behind a panel, and what is noted about them below it and in figures."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.runs import TRAINING
from dgn_engine.scene.compared import pair_labels
from dgn_engine.scene.elements import Empty, Scene, Shown
from dgn_engine.scene.panel_spec import PanelSpec, View
from dgn_engine.text.written_numbers import format_relative_error

SCORES = ("train_loss",)  # the score measured last, for a panel without probes


def available_readings(spec: PanelSpec, view: View) -> tuple[Reading, ...]:
    """Return the panel's readings that have arrived so far."""
    return tuple(view.readings[probe] for probe in spec.probes if probe in view.readings)


def draw_reading(
    probe: str, before: str
) -> Callable[[Callable[[View, Reading], Shown]], Callable[[View], Shown]]:
    """Return a decorator for a function that draws the reading of one probe.

    Args:
        probe: The probe, whose reading is passed as the second argument.
        before: Text shown until there is a reading; an absent one shows its own text.
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


def list_samples(spec: PanelSpec, view: View) -> tuple[str, ...]:
    """Return 'n 64', or 'n 64 · ± 5 %' for an estimate, of the readings; and B's where it differs.

    `n`: the number of examples that were read.
    """
    ours = [_describe_sample(reading) for reading in available_readings(spec, view)]
    theirs = [_describe_sample(reading) for reading in compared_readings(spec, view)]
    b = "B" if view.compared is None else pair_labels(view.compared)[1]
    of_b = (f"{b}: {sample}" for sample in theirs if sample and sample not in ours)
    return tuple(dict.fromkeys([*filter(None, ours), *of_b]))


def _describe_sample(reading: Reading) -> str:
    labels = reading.arrays.get("labels")
    if labels is None:
        return ""
    error = f" · {format_relative_error(reading.error)}" if reading.error else ""
    return f"n {labels.size:,}{error}"


def join_sentences(*sentences: str) -> str:
    """Join the sentences that are not empty into the line below the charts."""
    return " ".join(filter(None, sentences))


def compared_readings(spec: PanelSpec, view: View) -> tuple[Reading, ...]:
    """Return B's readings for the panel."""
    readings = view.compared.readings if view.compared is not None else {}
    return tuple(readings[probe] for probe in spec.probes if probe in readings)


def describe_step_of_b(spec: PanelSpec, view: View) -> str:
    """Return 'B step 900' for the step of what is shown of B; '' if nothing is, or it is unknown.

    The weights of a file may have been saved at any step.
    """
    compared = view.compared
    if compared is None:
        return ""
    if not spec.probes:
        steps = [int(curve.steps[-1]) for curve in compared.series.values() if curve.steps.size]
        steps = [compared.at] if compared.own and compared.at is not None else steps
        return f"B step {max(steps):,}" if steps else ""
    readings = [one for one in compared_readings(spec, view) if not one.absent]
    known = compared.step or compared.at is not None
    return f"B step {readings[0].step:,}" if readings and known else ""


def describe_outdated(spec: PanelSpec, view: View) -> str:
    """Return 'before FR-II' if the picture shows the network before that change; else ''."""
    later = [view.outdated[name] for name in spec.probes or SCORES if name in view.outdated]
    return f"before {later[0].label}" if later else ""


def describe_divergence(view: View) -> str:
    """Return 'diverged at step 3,007'; '' if the run has not diverged."""
    return "" if view.diverged is None else f"diverged at step {view.diverged:,}"


def describe_left_out(spec: PanelSpec, view: View, scene: Scene) -> tuple[str, ...]:
    """Return how many points and marks of a scene are drawn, if there were too many."""
    if not any(chart.has_step_axis for chart in scene.charts):
        return ()
    parts = []
    for source in spec.probes or (TRAINING,):
        if source in view.left_out and any(chart.curves for chart in scene.charts):
            point_count, total = view.left_out[source]
            parts.append(f"{point_count:,} of {total:,} points drawn")
    if "" in view.left_out:
        parts.append("{:,} of {:,} events marked".format(*view.left_out[""]))
    return tuple(parts)


def list_remarks(spec: PanelSpec, view: View) -> tuple[str, ...]:
    """Return the remarks on probe examples, exact or ±; and B's where they differ."""
    ours = [reading.remark for reading in available_readings(spec, view)]
    theirs = [reading.remark for reading in compared_readings(spec, view)]
    if view.compared is None or not any(remark not in ours for remark in theirs if remark):
        return tuple(dict.fromkeys(filter(None, ours)))
    pairs = zip(pair_labels(view.compared), (ours, theirs), strict=True)
    named = [f"{name}: {remark}" for name, side in pairs for remark in side if remark]
    return tuple(dict.fromkeys(named))
