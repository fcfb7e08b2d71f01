"""Curves of recorded runs over those of the current one: each run has one colour and dash."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from dgn_engine.protocol.runs import RunCurves
from dgn_engine.scene.elements import OVERLAYS, Array, Curve, Dash
from dgn_engine.scene.panel_spec import OverlaidRun, Series, View
from dgn_engine.scene.run_text import strip_dollars
from dgn_engine.scene.typeset import escape_label

_LONGEST = 16
_FOLDER = re.compile(r"\d{8}-(\d\d)(\d\d)\d\d-(.+)")  # date, time, regime, network, data
_DASHES: tuple[Dash, ...] = ("dash", "dot", "dashdot")


def overlaid_runs(runs: Iterable[RunCurves]) -> tuple[OverlaidRun, ...]:
    """Return as many runs as there are colours, each with a name of its own."""
    result: list[OverlaidRun] = []
    for index, (run, role) in enumerate(zip(runs, OVERLAYS, strict=False)):
        name, taken = short_name(run.name), {overlaid_run.name for overlaid_run in result}
        copy = 2
        while name in taken:
            name = f"{short_name(run.name)} {copy}"
            copy += 1
        result.append(
            OverlaidRun(
                name=name,
                role=role,
                dash=_DASHES[index % len(_DASHES)],
                series={key: Series(*curve) for key, curve in run.scalars.items()},
                spectrum=run.spectrum,
                spectrum_step=run.spectrum_step,
                spectrum_remark=run.spectrum_remark,
                examples=run.examples,
            )
        )
    return tuple(result)


def is_automatic_name(name: str) -> bool:
    """Return whether the program named this folder of a run."""
    return _FOLDER.fullmatch(name) is not None


def short_name(name: str) -> str:
    """Return '10:15 · FL' for a run's folder, as in the list; a long name is cut in the middle."""
    match = _FOLDER.fullmatch(name)
    if match is not None:
        name = f"{match[1]}:{match[2]} · {match[3].rsplit('-', 2)[0]}"
    return strip_dollars(name, _LONGEST)


def scalar_curves(
    runs: Iterable[OverlaidRun], source: str, names: tuple[str, ...], scale: float = 1.0
) -> Iterator[Curve]:
    """Yield the first available of these scalars for each run, named after the run."""
    for run in runs:
        for name in names:
            series = run.series.get((source, name))
            if series is not None and series.steps.size:
                yield _run_curve(run, run.name, series.steps, series.values * scale)
                break


def kernel_curves(
    runs: Iterable[OverlaidRun], measure: str, parts: Iterable[tuple[str, str]]
) -> Iterator[Curve]:
    """Yield the magnitudes of each run's tangent kernel parts, for a logarithmic axis."""
    parts = tuple(parts)
    for run in runs:
        for part, title in parts:
            series = run.series.get(("ntk", f"{measure}_{part}"))
            if series is None:
                continue
            size = np.abs(series.values)
            if (size > 0).any():
                values = np.where(size > 0, size, np.nan)
                yield _run_curve(run, f"{run.name} {title}", series.steps, values)


def spectrum_curves(runs: Iterable[OverlaidRun], name: str) -> Iterator[Curve]:
    """Yield each run's last recorded 'eigenvalues' or 'cumulative', by index from 1."""
    for run in runs:
        values = run.spectrum.get(name)
        if values is not None and values.size:
            yield _run_curve(run, run.name, np.arange(1, values.size + 1), values)


def spectrum_steps(runs: Iterable[OverlaidRun]) -> str:
    """Return 'Overlaid: a at step 300, b at step 1,200.'; '' if there is none."""
    parts = [
        f"{run.name} at step {run.spectrum_step:,}"
        f"{f' ({escape_label(run.spectrum_remark)})' if run.spectrum_remark else ''}"
        for run in runs
        if run.spectrum
    ]
    return f"Overlaid: {', '.join(parts)}." if parts else ""


def matching_runs(view: View, probe: str) -> tuple[tuple[OverlaidRun, ...], str]:
    """Return the runs with as many probe examples as shown, and a sentence about the others.

    A trace is a sum over examples, so only traces of equally many can be compared.
    """
    shown_count = view.traced.get(probe, 0)
    other_counts = {
        run.name: run.examples[probe]
        for run in view.overlaid
        if shown_count and run.examples.get(probe, shown_count) != shown_count
    }
    matching = tuple(run for run in view.overlaid if run.name not in other_counts)
    listing = ", ".join(f"{name} ({count:,})" for name, count in other_counts.items())
    return (
        matching,
        f"Not drawn (probe example count differs): {listing}." if other_counts else "",
    )


def _run_curve(run: OverlaidRun, name: str, x: Array, y: Array) -> Curve:
    return Curve(name, x, y, run.role, run.dash, marker=bool(x.size == 1))
