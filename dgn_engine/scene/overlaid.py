"""Curves of recorded runs drawn over those of the current one: each run has its colour and dash."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from dgn_engine.protocol.runs import RunCurves
from dgn_engine.scene.elements import OVERLAYS, Array, Curve, Dash
from dgn_engine.scene.panel_spec import OverlaidRun, Series, View
from dgn_engine.scene.run_text import without_dollars
from dgn_engine.scene.typeset import literal

_LONGEST = 16
_FOLDER = re.compile(r"\d{8}-(\d\d)(\d\d)\d\d-(.+)")  # date, time, regime, network, data
_DASHES: tuple[Dash, ...] = ("dash", "dot", "dashdot")


def overlaid_runs(runs: Iterable[RunCurves]) -> tuple[OverlaidRun, ...]:
    """As many as there are colours; no two have one name."""
    found: list[OverlaidRun] = []
    for place, (run, role) in enumerate(zip(runs, OVERLAYS, strict=False)):
        name, taken = short_name(run.name), {one.name for one in found}
        again = 2
        while name in taken:
            name = f"{short_name(run.name)} {again}"
            again += 1
        found.append(
            OverlaidRun(
                name=name,
                role=role,
                dash=_DASHES[place % len(_DASHES)],
                series={key: Series(*curve) for key, curve in run.scalars.items()},
                spectrum=run.spectrum,
                spectrum_step=run.spectrum_step,
                spectrum_remark=run.spectrum_remark,
                examples=run.examples,
            )
        )
    return tuple(found)


def short_name(name: str) -> str:
    """'FL-cnn4 10:15' of a folder's name; a long one is cut in its middle."""
    found = _FOLDER.fullmatch(name)
    if found is not None:
        name = f"{found[3].rpartition('-')[0] or found[3]} {found[1]}:{found[2]}"
    return without_dollars(name, _LONGEST)


def scalar_curves(
    runs: Iterable[OverlaidRun], source: str, names: tuple[str, ...], scale: float = 1.0
) -> Iterator[Curve]:
    """Of each run the first of these scalars that it has, called as the run."""
    for run in runs:
        for name in names:
            series = run.series.get((source, name))
            if series is not None and series.steps.size:
                yield _curve(run, run.name, series.steps, series.values * scale)
                break


def kernel_curves(
    runs: Iterable[OverlaidRun], measure: str, parts: Iterable[tuple[str, str]]
) -> Iterator[Curve]:
    """Of each run the sizes of the parts of its tangent kernel, for a logarithmic axis."""
    parts = tuple(parts)
    for run in runs:
        for part, title in parts:
            series = run.series.get(("ntk", f"{measure}_{part}"))
            if series is None:
                continue
            size = np.abs(series.values)
            if (size > 0).any():
                values = np.where(size > 0, size, np.nan)
                yield _curve(run, f"{run.name} {title}", series.steps, values)


def spectrum_curves(runs: Iterable[OverlaidRun], name: str) -> Iterator[Curve]:
    """Of each run what was recorded last: 'eigenvalues' or 'cumulative', by index from 1."""
    for run in runs:
        values = run.spectrum.get(name)
        if values is not None and values.size:
            yield _curve(run, run.name, np.arange(1, values.size + 1), values)


def spectrum_steps(runs: Iterable[OverlaidRun]) -> str:
    """'Drawn over it: a at step 300, b at step 1,200.'; '' where there is none."""
    words = [
        f"{run.name} at step {run.spectrum_step:,}"
        f"{f' ({literal(run.spectrum_remark)})' if run.spectrum_remark else ''}"
        for run in runs
        if run.spectrum
    ]
    return f"Drawn over it: {', '.join(words)}." if words else ""


def alike(view: View, probe: str) -> tuple[tuple[OverlaidRun, ...], str]:
    """The runs whose scalars of a probe are of as many examples as those on show (a trace is a sum
    over them), and a sentence about the others."""
    now = view.traced.get(probe, 0)
    others = {
        run.name: run.examples[probe]
        for run in view.overlaid
        if now and run.examples.get(probe, now) != now
    }
    same = tuple(run for run in view.overlaid if run.name not in others)
    words = ", ".join(f"{name} ({count:,})" for name, count in others.items())
    return same, f"Not drawn, of other numbers of probe examples: {words}." if others else ""


def _curve(run: OverlaidRun, name: str, x: Array, y: Array) -> Curve:
    return Curve(name, x, y, run.role, run.dash, marker=bool(x.size == 1))
