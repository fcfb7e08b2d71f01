"""NPK spectrum: eigenvalues of the neural path kernel and how the labels align with them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import example_pairs
from dgn_engine.scene.compared import (
    compared_reading,
    curve_differences,
    describe_b,
    facts_of_view,
    notes_of_both,
    overlay_charts,
    pair_labels,
    reason_not_compared,
    title_of_side,
    with_difference,
)
from dgn_engine.scene.elements import (
    Array,
    Axis,
    Chart,
    Curve,
    Fact,
    Matrix,
    Scene,
    Shown,
    finite_range,
    largest_magnitude,
)
from dgn_engine.scene.estimates import estimate_note, mark_estimate, standard_errors
from dgn_engine.scene.matrix_colours import SPANS, with_pair_colours
from dgn_engine.scene.overlaid import spectrum_curves, spectrum_steps
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import (
    About,
    ComparedRun,
    Option,
    PanelSpec,
    View,
    always,
    chosen_value,
)
from dgn_engine.scene.trials import blind_value_network, freeze_random_gates
from dgn_engine.text.written_numbers import format_number, format_percent, plus_minus

SHOWN = ("spectrum", "alignment", "kernel")
_IN_SIGHT = ("nu", "bound", "rank")  # scalars in the header; the others are on hover
SHOW = Option("show", "Show", always(*zip(SHOWN, SHOWN, strict=True)))


@draw_reading("npk", "The spectrum of the NPK appears with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw the eigenvalues on a logarithmic axis, and a second view of the same kernel."""
    shown_view, reading_of_b = chosen_value(view, SHOW), compared_reading(view, "npk")
    if reading_of_b is not None and view.compared is not None:
        return _draw_comparison(view, reading, reading_of_b, view.compared, shown_view)
    charts = (
        _draw_over(_draw_eigenvalues(reading), spectrum_curves(view.overlaid, "eigenvalues")),
        _SECOND[shown_view](view, reading),
    )
    note = join_sentences(
        _write_note(reading, shown_view),
        reason_not_compared(view, "npk"),
        spectrum_steps(view.overlaid),
    )
    return Scene(charts, facts_of_view(view, "npk", _list_facts), reading.step, note)


def _draw_over(chart: Chart, others: Iterable[Curve]) -> Chart:
    """Draw other curves behind the chart's own, with axes that reach as far as all of them."""
    behind = tuple(others)
    if not behind:
        return chart
    longest = max(float(curve.x[-1]) for curve in (*behind, *chart.curves))
    x = replace(chart.x, limits=(0.5, longest + 0.5))
    y = chart.y
    if chart.y.log and y.limits is not None:
        counted = [curve.y[curve.y > y.limits[0] / 1e3] for curve in behind]
        highest = [float(values.max()) for values in counted if values.size]
        lowest = [float(values.min()) for values in counted if values.size]
        y = replace(y, limits=(min([y.limits[0], *lowest]), max([y.limits[1], *highest])))
    return replace(chart, curves=(*behind, *chart.curves), x=x, y=y)


def _draw_comparison(
    view: View, reading: Reading, other: Reading, compared: ComparedRun, shown: str
) -> Scene:
    """Draw both spectra in one chart, or both kernels side by side on one scale."""
    names = pair_labels(compared)
    charts: tuple[Chart, ...]
    reason = ""
    ours, theirs = (_SECOND[shown](view, item) for item in (reading, other))
    matrices = [item.matrix for item in (ours, theirs) if item.matrix is not None]
    if matrices:
        every = [item.values for item in matrices]
        pair = []
        for index, chart in enumerate((ours, theirs)):
            matrix = with_pair_colours(matrices[index], every)
            matrix = replace(matrix, bar=matrix.bar * index, of_compared=index > 0)
            chart = replace(
                chart,
                matrix=matrix,
                key=f"kernel_{index}",
                title=title_of_side(compared, index > 0, "$H$"),
                column=index,
            )
            pair.append(replace(chart, narrow=(index, 0, 1, 1)))
        charts, reason = with_difference(pair, "kernel_difference", compared)
    else:
        charts = (
            overlay_charts(_draw_eigenvalues(reading), _draw_eigenvalues(other), names),
            overlay_charts(ours, theirs, names),
            *_draw_ratio(reading, other, compared),
        )
    legend = "" if shown == "kernel" else describe_b(compared)
    notes = notes_of_both(_write_note(reading, shown), _write_note(other, shown), compared)
    note = join_sentences(legend, notes, reason)
    return Scene(charts, facts_of_view(view, "npk", _list_facts), reading.step, note)


def _draw_ratio(reading: Reading, other: Reading, compared: ComparedRun) -> tuple[Chart, ...]:
    """Draw the eigenvalues of A over those of B, where both are above the cut-off.

    Those of kernels of different numbers of examples cannot be compared by index. A figure of two
    steps has their curves only.
    """
    if compared.labels[1] or reading.arrays["eigenvalues"].size != other.arrays["eigenvalues"].size:
        return ()
    pair: list[list[Curve]] = []
    for source in (reading, other):
        values = source.arrays["eigenvalues"].astype(np.float64)
        counted = np.where(values > max(source.scalars.get("cutoff", 0.0), 0.0), values, np.nan)
        pair.append([Curve("", _rank_index(source), counted, role="text", marker=True)])
    curves = curve_differences(pair[0], pair[1], ratio=True)
    if not curves:
        return ()
    a, b = pair_labels(compared)
    return (
        Chart(
            key="ratio",
            title=f"Eigenvalues, {a} / {b}",
            x=_rank_axis(reading),
            y=Axis(log=True),
            curves=curves,
            column=2,
            narrow=(2, 0, 1, 1),
        ),
    )


def _rank_axis(reading: Reading) -> Axis:
    n = reading.arrays["eigenvalues"].size
    return Axis(label="index $i$", limits=(0.5, max(n, 2) + 0.5))


def _rank_index(reading: Reading) -> Array:
    return np.arange(1, reading.arrays["eigenvalues"].size + 1)


def _draw_eigenvalues(reading: Reading) -> Chart:
    values = reading.arrays["eigenvalues"]
    return Chart(
        key="eigenvalues",
        title="Eigenvalues $ρ_i$",
        x=_rank_axis(reading),
        y=Axis(log=True, limits=_eigenvalue_range(reading)),
        curves=(
            *_error_bars(reading),
            Curve("", _rank_index(reading), values, role="text", marker=values.size <= 128),
        ),
        narrow=(0, 0, 1, 1),
    )


def _error_bars(reading: Reading) -> tuple[Curve, ...]:
    """Return a bar of one standard error to both sides of each eigenvalue of an estimate."""
    errors = standard_errors(reading, "eigenvalues")
    if errors is None:
        return ()
    values, index = reading.arrays["eigenvalues"], _rank_index(reading)
    seen = np.isfinite(values)
    low, high = (values - errors)[seen], (values + errors)[seen]
    bars = np.column_stack((low, high, np.full(len(low), np.nan))).ravel()
    return (Curve("± error", np.repeat(index[seen], 3), bars, "text", faint=True, segments=True),)


def _eigenvalue_range(reading: Reading) -> tuple[float, float] | None:
    """Return the range of eigenvalues above the cut-off; below it is rounding noise."""
    values = reading.arrays["eigenvalues"]
    errors = standard_errors(reading, "eigenvalues")
    counted = values > max(reading.scalars.get("cutoff", 0.0), 0.0)
    if not counted.any():
        return None
    around = 0.0 if errors is None else errors[counted]
    low, _ = finite_range(values[counted] - around)
    _, high = finite_range(values[counted] + around)
    return low / 1.6, high * 1.6


def _draw_cumulative(view: View, reading: Reading) -> Chart:
    recorded = () if view.compared is not None else spectrum_curves(view.overlaid, "cumulative")
    chart = Chart(
        key="cumulative",
        title="Cumulative energy",
        x=_rank_axis(reading),
        y=Axis(limits=(0.0, 1.03)),
        curves=(
            Curve("energy", _rank_index(reading), reading.arrays["cumulative"], role="text"),
            *_label_energy(reading),
        ),
        column=1,
        narrow=(1, 0, 1, 1),
    )
    return _draw_over(chart, recorded)


def _label_energy(reading: Reading) -> tuple[Curve, ...]:
    """Return the share of label energy in the first i eigenvectors as a curve."""
    alignment = reading.arrays.get("alignment")
    if alignment is None or not 0 < float(np.sum(alignment)) < np.inf:
        return ()
    # Σ_{j≤i} (u_jᵀy)² / Σ_j (u_jᵀy)²
    share = np.cumsum(alignment) / np.sum(alignment)
    return (Curve("labels", _rank_index(reading), share, role="accent", dash="dash"),)


def _draw_alignment(view: View, reading: Reading) -> Chart:
    alignment = reading.arrays.get("alignment")
    curves: tuple[Curve, ...] = ()
    if alignment is not None:
        curves = (Curve("", _rank_index(reading), alignment, role="accent", marker=True),)
    return Chart(
        key="alignment",
        title="Alignment with the labels",
        x=_rank_axis(reading),
        y=Axis(log=True),
        curves=curves,
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _draw_kernel(view: View, reading: Reading) -> Chart:
    values, labels = reading.arrays["npk"], reading.arrays["labels"]
    matrix = Matrix(
        name="npk",
        values=values,
        ramp="sequential",
        low=0.0,
        high=largest_magnitude(values),
        bar="share of the trace",
        scale="trace 1",
    )
    matrix = with_pair_colours(matrix)
    chart = example_pairs(view, labels, "kernel", "Kernel $H$ / trace $H$", matrix, 1)
    return mark_estimate(replace(chart, narrow=(1, 0, 1, 1)), reading, "npk")


_SECOND = {"spectrum": _draw_cumulative, "alignment": _draw_alignment, "kernel": _draw_kernel}


def _list_facts(reading: Reading) -> tuple[Fact, ...]:
    rows = (
        ("ν", "nu", "ν = tr(Yᵀ Ĥ⁻¹ Y) / C with Ĥ = H / trace H: small where H fits the labels."),
        (
            "ReLU bound",
            "bound",
            "Bound of Cao & Gu, up to constants and logarithms, on the error of a wide ReLU "
            "network of this depth trained on these examples at norm 1, whatever the gates here: "
            "d √(yᵀK⁻¹y / n), K: limit.",
        ),
        ("rank", "rank", "Number of eigenvalues above the cut-off."),
        (
            "left out of ν",
            "outside",
            "Share of label energy along eigenvalues at or below the cut-off, which ν omits.",
        ),
        ("effective rank", "effective_rank", "(Σρ)² / Σρ²"),
        ("$ρ$ max", "rho_max", "Largest eigenvalue of H / trace H."),
        ("$ρ$ min", "rho_min", "Smallest eigenvalue of H / trace H."),
    )
    scalars = reading.scalars
    errors = standard_errors(reading, "eigenvalues")
    if errors is not None:
        largest, error = float(reading.arrays["eigenvalues"][0]), float(errors[0])
        text = plus_minus(largest, error) if np.isfinite(largest) else "not resolved yet"
        about = "Largest eigenvalue of H / trace H; ± is one standard error."
        return (
            Fact(
                "ν", "needs the exact kernel", "ν and the rank depend on the smallest eigenvalues."
            ),
            Fact("$ρ$ max", text, about, aside=True),
        )
    return tuple(
        Fact(name, _format_fact(key, scalars[key]), about, aside=key not in _IN_SIGHT)
        for name, key, about in rows
        if key in scalars
    )


def _format_fact(key: str, value: float) -> str:
    """Format a scalar; that of the bound has an unknown factor of constants and logarithms."""
    text = format_number(value, 3)
    return f"{text}·Õ(1)" if key == "bound" else text


def _describe_estimate(reading: Reading, shown: str) -> str:
    """Describe an estimate and the errors that are drawn."""
    if shown == "kernel":
        return join_sentences(f"{reading.facts.get('estimate', '')}.", estimate_note(reading))
    share = format_number(100 * reading.error, 2)
    resolved = reading.facts.get("estimate", "")
    return f"{resolved}. Estimated, ± {share} % of the kernel; bars: one standard error."


def _write_note(reading: Reading, shown: str) -> str:
    colours = f" Colours: {SPANS['pairs']}." if shown == "kernel" else ""
    if reading.error:
        return f"$H$ scaled to trace 1; {_describe_estimate(reading, shown)}{colours}"
    cutoff = reading.scalars.get("cutoff")
    text = "$H$ scaled to trace 1"
    if cutoff is not None:
        text += f"; ν omits eigenvalues below {format_number(cutoff, 2)}"
    outside = reading.scalars.get("outside")
    if outside is not None:
        text += f" ({format_percent(outside, 2)} of the label energy)"
    if "bound" in reading.scalars:
        text += "; ReLU bound up to constants"
        if (left_out := reading.scalars["bound_outside"]) > 0.0:
            text += f", without {format_percent(left_out, 2)} of the label energy: singular kernel"
    contradictory = int(reading.scalars.get("contradictory", 0))
    if contradictory:
        text += f"; {contradictory} examples share an input with one of another label"
    return text + "." + colours


PANEL = PanelSpec(
    title="NPK spectrum",
    probes=("npk",),
    draw=draw,
    shows_examples=True,
    draws_both=True,
    about=About(
        text=(
            "The neural path kernel compares two examples by the paths active for both. If a few "
            "eigenvalues hold most of the energy, the gates distinguish only a few kinds of "
            "examples. ν measures how hard the labels are to fit with this kernel: it falls as "
            "the gates learn. The dashed line is the share of label energy in the first i "
            "eigenvectors. The ReLU bound beside ν is the same measure of the kernel of an "
            "infinitely wide ReLU network of this depth: up to unknown constants and logarithms it "
            "bounds the test error of that network, not of this one. It does not change in "
            "training."
        ),
        formulas=(
            r"$H = \Sigma \odot \Lambda, \quad \hat{H} = H / \mathrm{tr}\,H$",
            r"$\nu = \frac{1}{C}\,\mathrm{tr}\left(Y^\top \hat{H}^{-1} Y\right)"
            r" = \sum_i (u_i^\top y)^2 / \hat{\rho}_i$",
            r"bound $= d\,\sqrt{\mathrm{tr}(Y^\top (K^{(d)})^{-1} Y) / (Cn)}$, "
            r"$K^{(d)} = (\tilde{K}^{(d)} + \Sigma^{(d)})/2$",
            r"effective rank $= (\sum_i \rho_i)^2 / \sum_i \rho_i^2$",
        ),
        symbols=(
            "$Σ$: inner products of the inputs; $Λ$: active paths shared by two examples; $ρ_i$, "
            "$u_i$: eigenvalues and eigenvectors, with a hat those of Ĥ; $Y$: a column of ±1 for "
            "each of $C$ classes, $y$: one of them; $d$: weight layers, $n$: examples, $K^{(d)}$: "
            "tangent kernel of the wide ReLU network."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529, Figure 2: ν of the path kernel while a network trains; bound: Cao & "
            "Gu, arXiv:1905.13210, Corollary 3.10"
        ),
        computed=(
            "H is the entrywise product of Λ and the inner products of the inputs, divided by its "
            "trace; eigenvalues are computed in float64. ν omits what lies below the stated "
            "cut-off and is not shown for estimates. The bound is for dense networks without "
            "biases, unless an input is zero: inputs are scaled to norm 1."
        ),
        trials=(
            freeze_random_gates("ν jumps up and then stays put: the kernel no longer learns."),
            blind_value_network(
                "The kernel is then Λ alone, since all inputs look alike to the value network."
            ),
        ),
    ),
    area="right",
    options=(SHOW,),
)
