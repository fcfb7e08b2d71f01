"""NPK spectrum: the eigenvalues of the neural path kernel and how the labels lie in them."""

from __future__ import annotations

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_viewer.drawing.class_axis import class_names, example_axis, example_labels
from dgn_viewer.drawing.ticks import number
from dgn_viewer.panel import About, Option, PanelSpec, View, choice
from dgn_viewer.scene import (
    Array,
    Axis,
    Chart,
    Curve,
    Empty,
    Fact,
    Matrix,
    Scene,
    Shown,
    finite_range,
)


def _shows(view: View) -> tuple[tuple[str, str], ...]:
    return (("spectrum", "spectrum"), ("alignment", "alignment"), ("kernel", "kernel"))


SHOW = Option("show", "Show", _shows)


def draw(view: View) -> Shown:
    """Eigenvalues on a logarithmic axis beside a second view of the same kernel."""
    reading = view.readings.get("npk")
    if reading is None:
        return Empty("The spectrum of the neural path kernel, with the first frame.")
    if reading.absent:
        return Empty(reading.absent)
    second = {"spectrum": _cumulative, "alignment": _alignment, "kernel": _kernel}
    shown = choice(view, SHOW)
    charts = (_eigenvalues(reading), second[shown](view, reading))
    return Scene(charts, _facts(reading), reading.step, _note(reading))


def _rank_axis(reading: Reading) -> Axis:
    n = reading.arrays["eigenvalues"].size
    return Axis(label="index $i$", limits=(0.5, max(n, 2) + 0.5))


def _index(reading: Reading) -> Array:
    return np.arange(1, reading.arrays["eigenvalues"].size + 1, dtype=np.int64)


def _eigenvalues(reading: Reading) -> Chart:
    values = reading.arrays["eigenvalues"]
    return Chart(
        key="eigenvalues",
        title="Eigenvalues $ρ_i$",
        x=_rank_axis(reading),
        y=Axis(log=True, limits=_reach(values, reading.scalars.get("cutoff", 0.0))),
        curves=(Curve("", _index(reading), values, role="text", marker=values.size <= 128),),
        narrow=(0, 0, 1, 1),
    )


def _reach(values: Array, cutoff: float) -> tuple[float, float] | None:
    """Around the eigenvalues that count: rounding noise below the cut-off is left out."""
    counted = values[values > max(cutoff, 0.0)]
    if counted.size == 0:
        return None
    low, high = finite_range(counted)
    return low / 1.6, high * 1.6


def _cumulative(view: View, reading: Reading) -> Chart:
    return Chart(
        key="cumulative",
        title="Cumulative energy",
        x=_rank_axis(reading),
        y=Axis(limits=(0.0, 1.03)),
        curves=(
            Curve("energy", _index(reading), reading.arrays["cumulative"], role="text"),
            *_aligned(reading),
        ),
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _aligned(reading: Reading) -> tuple[Curve, ...]:
    """Share of the labels' energy in the first i eigenvectors."""
    alignment = reading.arrays.get("alignment")
    if alignment is None or not float(np.sum(alignment)) > 0:
        return ()
    share = np.cumsum(alignment) / np.sum(alignment)
    return (Curve("labels", _index(reading), share, role="accent", dash="dash"),)


def _alignment(view: View, reading: Reading) -> Chart:
    alignment = reading.arrays.get("alignment")
    curves: tuple[Curve, ...] = ()
    if alignment is not None:
        curves = (Curve("", _index(reading), alignment, role="accent", marker=True),)
    return Chart(
        key="alignment",
        title="Alignment with the labels",
        x=_rank_axis(reading),
        y=Axis(log=True),
        curves=curves,
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _kernel(view: View, reading: Reading) -> Chart:
    values, labels = reading.arrays["npk"], reading.arrays["labels"]
    names = class_names(view, labels)
    tags = example_labels(labels, names)
    axis = example_axis(labels, names, "class")
    low, high = finite_range(values)
    signed = low < 0
    reach = max(abs(low), abs(high)) or 1.0
    return Chart(
        key="kernel",
        title="Kernel $H$ / trace $H$",
        x=axis,
        y=axis,
        matrix=Matrix(
            name="npk",
            values=values,
            ramp="diverging" if signed else "sequential",
            low=-reach if signed else 0.0,
            high=reach,
            bar="share of the trace",
            row_name="example",
            column_name="example",
            row_labels=tags,
            column_labels=tags,
        ),
        column=1,
        square=True,
        narrow=(1, 0, 1, 1),
    )


def _facts(reading: Reading) -> tuple[Fact, ...]:
    wanted = (
        ("ν", "nu", "ν = tr(Yᵀ Ĥ⁻¹ Y) / C with Ĥ = H / trace H: small where H fits the labels."),
        ("rank", "rank", "Number of eigenvalues above the cut-off."),
        ("effective rank", "effective_rank", "(Σρ)² / Σρ²"),
        ("$ρ$ max", "rho_max", "Largest eigenvalue of H / trace H."),
        ("$ρ$ min", "rho_min", "Smallest eigenvalue of H / trace H."),
    )
    scalars = reading.scalars
    return tuple(
        Fact(name, number(float(f"{scalars[key]:.3g}")), about)
        for name, key, about in wanted
        if key in scalars
    )


def _note(reading: Reading) -> str:
    cutoff = reading.scalars.get("cutoff")
    text = "$H$ scaled to trace 1"
    if cutoff is not None:
        text += f"; eigenvalues below {number(float(f'{cutoff:.2g}'))} are left out of ν"
    return text + "."


PANEL = PanelSpec(
    title="NPK spectrum",
    probes=("npk",),
    draw=draw,
    about=About(
        text=(
            "The neural path kernel compares two examples by the paths that are active for both. "
            "If few eigenvalues hold most of the energy, the gates see few kinds of examples. "
            "ν measures how hard the labels are to fit with this kernel: it falls as the gates "
            "learn. The dashed line is the share of the labels' energy that lies in the first i "
            "eigenvectors."
        ),
        formulas=(
            r"$H = \Sigma \odot \Lambda, \quad \hat{H} = H / \mathrm{tr}\,H$",
            r"$\nu = \frac{1}{C}\,\mathrm{tr}\left(Y^\top \hat{H}^{-1} Y\right)"
            r" = \sum_i (u_i^\top y)^2 / \hat{\rho}_i$",
            r"effective rank $= (\sum_i \rho_i)^2 / \sum_i \rho_i^2$",
        ),
        source="Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, "
        "arXiv:2006.10529",
    ),
    options=(SHOW,),
    area="right",
    order=0,
)
