"""NTK: the value, feature and cross parts of the neural tangent kernel, over steps and now."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import example_pairs
from dgn_engine.scene.compared import (
    b_name,
    compared_reading,
    facts_of_view,
    pair_labels,
    reason_not_compared,
    title_of_side,
    with_difference,
)
from dgn_engine.scene.elements import (
    Array,
    Chart,
    Curve,
    Dash,
    Fact,
    Matrix,
    Role,
    Scene,
    Shown,
    largest_magnitude,
    with_matrix,
)
from dgn_engine.scene.estimates import estimate_note, mark_estimate
from dgn_engine.scene.layer_curves import chart_over_steps
from dgn_engine.scene.matrix_colours import SPANS, share_colours, with_pair_colours
from dgn_engine.scene.overlaid import kernel_curves, matching_runs
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import (
    About,
    ComparedRun,
    Option,
    PanelSpec,
    Series,
    Values,
    View,
    always,
    chosen_value,
)
from dgn_engine.scene.trials import freeze_random_gates, train_gates_alone
from dgn_engine.text.written_numbers import format_number

# (part of the kernel, name, role, dash); the role is one colour everywhere
Part = tuple[str, str, Role, Dash]
_PARTS: tuple[Part, ...] = (
    ("value", "$K^V$", "value", "solid"),
    ("feature", "$K^F$", "feature", "dash"),
    ("cross", "$K^X$", "cross", "dot"),
)


FEWEST_POINTS = 5  # of a trace
_SCALES = {"cross": "by the diagonal of $K^V + K^F$"}

_MEASURES: Values = (("trace", "trace"), ("norm", "norm"))
SCALE = Option("scale", "Matrices", always(("unit", "unit diagonal"), ("raw", "as computed")))
MEASURE = Option("measure", "Over steps", lambda view: _MEASURES if _has_traces(view) else ())


def _compared_parts(view: View) -> Values:
    """List the parts that A and B both have; a comparison has room for one."""
    ours, theirs = view.readings.get("ntk"), compared_reading(view, "ntk")
    if ours is None or theirs is None:
        return ()
    both = ours.arrays.keys() & theirs.arrays.keys()
    return tuple((part, part) for part, *_ in _PARTS if part in both)


PART = Option("part", "Part", _compared_parts)


@draw_reading("ntk", "Traces and matrices of the NTK appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw the traces over steps, and the matrices of the parts that exist."""
    parts = [part for part in _PARTS if part[0] in reading.arrays]
    charts = [_over_steps(view, reading, _chosen_measure(view), len(parts))]
    reading_of_b = compared_reading(view, "ntk")
    of_both = [part for part in parts if reading_of_b and part[0] in reading_of_b.arrays]
    if reading_of_b is not None and view.compared is not None and of_both:
        part = next(part for part in of_both if part[0] == chosen_value(view, PART))
        return _draw_comparison(view, reading, reading_of_b, view.compared, charts[0], part)
    matrices = [_scale_part(view, reading, name) for name, *_ in parts]
    shared = matrices if chosen_value(view, SCALE) == "unit" and share_colours(matrices) else []
    for column, ((name, title, _, _), values) in enumerate(zip(parts, matrices, strict=True), 1):
        bar = not shared or column == len(parts)
        charts.append(_draw_matrix(view, name, title, values, reading, column, bar, shared))
    if parts and not _has_traces(view):
        charts = _without_first(charts)
    why = reason_not_compared(view, "ntk")
    if reading_of_b is not None and view.compared is not None:
        why = f"{b_name(view.compared)} has none of these parts."
    notes = estimate_note(reading), matching_runs(view, "ntk")[1]
    about = f"Mean over logits. Colours: {SPANS['pairs']}." if parts else "Mean over logits."
    note = join_sentences(about, _describe_weights(reading), why, *notes)
    return Scene(tuple(charts), facts_of_view(view, "ntk", _list_facts), reading.step, note)


def _has_traces(view: View) -> bool:
    """Return whether there are enough points over steps to make room for their chart.

    Before that the matrices have the place, and for good where nothing trains.
    """
    inspected = view.run is not None and bool(view.run.inspected)
    alone = view.compared is None and not view.overlaid
    if inspected and alone:
        return False
    if view.overlaid:  # recorded runs have points enough
        return True
    counts = (series.steps.size for (source, _), series in view.series.items() if source == "ntk")
    fewest = FEWEST_POINTS if alone else 2  # with two steps or networks they say the difference
    return max(counts, default=0) >= fewest


def _chosen_measure(view: View) -> str:
    return chosen_value(view, MEASURE) or _MEASURES[0][0]


def _without_first(charts: Sequence[Chart]) -> list[Chart]:
    """Return all charts but the first, one column further to the left."""
    return [replace(chart, column=chart.column - 1, narrow=None) for chart in charts[1:]]


def _describe_weights(reading: Reading) -> str:
    """Describe which weights K is over, and why a part is absent."""
    facts = (reading.facts.get(name, "") for name in ("trains", "value", "feature"))
    return re.sub(r"[KΘ]\^.", r"$\g<0>$", " ".join(word for word in facts if word))


def _over_steps(view: View, reading: Reading, measure: str, parts: int) -> Chart:
    drawn_parts = tuple((part, name) for part, name, _, _ in _PARTS if part in reading.arrays)
    overlaid = kernel_curves(matching_runs(view, "ntk")[0], measure, drawn_parts)
    curves = [*overlaid, *_trace_curves(view.series, measure).values()]
    title = "Trace" if measure == "trace" else "Frobenius norm"
    return chart_over_steps(view, title, curves, (0, 0, 1, max(parts, 1)), log=True)


def _trace_curves(recorded: Mapping[tuple[str, str], Series], measure: str) -> dict[str, Curve]:
    """Return the curve of each part, on a logarithmic axis: |K|, without the zeros."""
    series_by_part = {part: recorded.get(("ntk", f"{measure}_{part}")) for part, *_ in _PARTS}
    steps_read = [series.steps for series in series_by_part.values() if series is not None]
    steps = np.unique(np.concatenate(steps_read)) if steps_read else np.empty(0)
    curves = {}
    for part, name, role, dash in _PARTS:
        series = series_by_part[part]
        if series is None or not series.steps.size:
            continue
        # NaN breaks the curve at steps where another regime had other parts only.
        values_at_steps = np.full(len(steps), np.nan)
        values_at_steps[np.searchsorted(steps, series.steps)] = series.values
        size = np.abs(values_at_steps)  # K^X may be negative
        values = np.where(size > 0, size, np.nan)
        if not np.isfinite(values).any():
            continue
        signed = part == "cross" and measure == "trace" and bool((series.values < 0).any())
        label = f"|{name}|" if signed else name
        marker = bool(series.steps.size == 1)
        curves[part] = Curve(label, steps, values, role, dash, marker=marker)
    return curves


def _draw_comparison(
    view: View, reading: Reading, other: Reading, compared: ComparedRun, traces: Chart, part: Part
) -> Scene:
    """Draw one part of A and of B on one scale, with B's traces as level lines."""
    a, name = pair_labels(compared)[0], b_name(compared)
    named = bool(compared.labels[1])  # B is a step of this run, which is on its curves
    pair = [_scale_part(view, source, part[0]) for source in (reading, other)]
    charts = []
    for index, source in enumerate((reading, other)):
        title, bar = title_of_side(compared, index > 0, part[1]), index == 1
        chart = _draw_matrix(view, part[0], title, pair[index], source, index + 1, bar, pair)
        chart = with_matrix(chart, of_compared=index > 0)
        charts.append(replace(chart, key=f"{part[0]}_{index}"))
    drawn, reason = with_difference(charts, f"{part[0]}_difference", compared)
    same = len(reading.arrays["labels"]) == len(other.arrays["labels"])
    levels = (
        tuple(_traces_of_b(compared, other, _chosen_measure(view), traces))
        if same and not named and _has_traces(view)
        else ()
    )
    curves = (*traces.curves, *levels)
    ends = [float(curve.x[-1]) for curve in levels]
    low, high = traces.x.limits or (0.0, 1.0)
    x = replace(traces.x, limits=(low, max([high, *ends])))
    traces = replace(traces, x=x, curves=curves, narrow=(0, 0, 1, len(drawn)))
    weights = [
        f"{owner}: {_describe_weights(source)}"
        for owner, source in ((a, reading), (name, other))
        if _describe_weights(source)
    ]
    lines = (f"Dash-dotted: {name}.",) if levels else ()
    if not same and _has_traces(view):  # a trace sums over examples, so it grows with them
        lines = (f"No lines for {name}: it uses a different number of examples.",)
    notes = estimate_note(reading, other), matching_runs(view, "ntk")[1]
    note = join_sentences("Mean over logits.", *weights, *lines, reason, *notes)
    facts = facts_of_view(view, "ntk", _list_facts)
    shown = (traces, *drawn) if _has_traces(view) else tuple(_without_first((traces, *drawn)))
    return Scene(shown, facts, reading.step, note)


def _traces_of_b(
    compared: ComparedRun, other: Reading, measure: str, traces: Chart
) -> Iterator[Curve]:
    """Yield B's trace of each nonzero part; a level line if it was read once only."""
    ends, recorded = (
        np.array(traces.x.limits or (0.0, 1.0)),
        _trace_curves(compared.series, measure),
    )
    for part, name, role, _ in _PARTS:
        curve = recorded.get(part)
        if curve is not None and curve.x.size > 1:
            yield replace(curve, name=f"B {curve.name}", dash="dashdot")
            continue
        value = abs(other.scalars.get(f"{measure}_{part}", 0.0))
        if value > 0:
            yield Curve(f"B {name}", ends, np.array([value, value]), role, "dashdot")


def _scale_part(view: View, reading: Reading, part: str) -> Array:
    """Return the part as computed, or K(s,s')/√(d_s d_s') with d its own diagonal.

    For K^X, d is the diagonal of K^V + K^F, which bounds the ratio by 1. Entries of examples whose
    d is not positive and finite are NaN.
    """
    values = reading.arrays[part]
    if chosen_value(view, SCALE) != "unit":
        return values
    names = [p for p in ("value", "feature") if p in reading.arrays] if part == "cross" else [part]
    diagonal = sum(np.diagonal(reading.arrays[name]).astype(np.float64) for name in names)
    positive = np.isfinite(diagonal) & (np.asarray(diagonal) > 0)
    # K(s, s') / √(d_s d_s')
    root = np.sqrt(np.where(positive, diagonal, np.nan))
    return values.astype(np.float64) / root[:, None] / root[None, :]


def _draw_matrix(
    view: View,
    part: str,
    name: str,
    values: Array,
    reading: Reading,
    column: int,
    bar: bool = True,
    every: Sequence[Array] = (),
) -> Chart:
    """Draw one part in colours that span its pairs, or those of all matrices in `every`."""
    labels = reading.arrays["labels"]
    unit = chosen_value(view, SCALE) == "unit"
    reach = largest_magnitude(values)
    matrix = Matrix(
        name=part,
        values=values,
        ramp="diverging",
        low=-reach,
        high=reach,
        bar=("normalised" if unit else "kernel value") if bar else "",
        scale=_SCALES.get(part, "unit diagonal") if unit else "as computed",
    )
    matrix = with_pair_colours(matrix, every)
    chart = example_pairs(view, labels, part, name, matrix, column, column == 1)
    # There are no errors for K^X at unit diagonal.
    chart = mark_estimate(chart, reading, part, f"{part}_unit_error" if unit else "")
    return replace(chart, narrow=(1, column - 1, 1, 1))


def _list_facts(reading: Reading) -> tuple[Fact, ...]:
    facts = []
    for part, name, _, _ in _PARTS:
        trace = reading.scalars.get(f"trace_{part}")
        if trace is not None and (trace != 0 or part in reading.arrays):
            norm = reading.scalars.get(f"norm_{part}")
            norm_text = format_number(norm, 4) if norm is not None else "–"
            about = f"Trace over the probe examples; norm {norm_text}."
            facts.append(Fact(f"tr {name}", format_number(trace, 4), about))
    return tuple(facts)


PANEL = PanelSpec(
    title="NTK",
    probes=("ntk",),
    draw=draw,
    shows_examples=True,
    draws_both=True,
    about=About(
        text=(
            "The tangent kernel predicts how a step on one example moves the output on another. "
            "One part goes through the weights of the paths with the gates held fixed (value), "
            "another through the gates themselves (feature); a soft-ReLU network, which makes its "
            "own gates, has a cross part as well. With hard or frozen gates the feature part is "
            "zero. K covers what the regime trains, as the line below the charts notes: where "
            "the value network is frozen (gates-only), there is no value part. Matrices: mean over "
            "the logits."
        ),
        formulas=(
            r"$K = K^V + K^F + K^X$",
            r"$K^V = \Psi_V^\top \Psi_V, \quad \psi_V = \langle \varphi, \partial v \rangle$",
            r"$K^F = \Psi_F^\top \Psi_F, \quad \psi_F = \langle \partial \varphi, v \rangle$",
            r"$K^X = \Psi_V^\top \Psi_F + \Psi_F^\top \Psi_V$",
        ),
        symbols=(
            "$φ$: path features of an example; $v$: path values of the weights; ∂: derivative "
            "with respect to the weights; $ψ$: gradient for one example, $Ψ$: one column per "
            "example."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529, equation (3), with the cross term as ⟨ψV, ψF⟩ + ⟨ψF, ψV⟩"
        ),
        computed=(
            "Exact, from the gradients of the logits for each probe example, in slices where "
            "memory is short; for large networks first estimated from random directions, marked "
            "by a hatched corner and ±."
        ),
        trials=(
            freeze_random_gates(
                "The feature part vanishes: with frozen gates only the value network trains."
            ),
            train_gates_alone(
                "The value part vanishes, yet the network still learns, through its gates."
            ),
        ),
    ),
    options=(MEASURE, PART, SCALE),
    area="right",
    order=1,
)
