"""Path norms: Σ|v| and the root of Σv² over all paths, and how far v has moved, over steps."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import spanning_axis
from dgn_engine.scene.elements import Axis, Chart, Curve, Dash, Fact, Scene, Shown
from dgn_engine.scene.layer_curves import (
    chart_over_steps,
    is_from_file,
    is_read_again,
    recorded_curve,
)
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, chosen_value
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import format_number, format_percent


def _measure_values(view: View) -> Values:
    return () if is_from_file(view) else (("norms", "norms"), ("moved", "distance"))


MEASURE = Option("measure", "Over steps", _measure_values)
# (scalar, name, dash)
_NORMS: tuple[tuple[str, str, Dash], ...] = (("l1", "$L_1$", "solid"), ("l2", "$L_2$", "dash"))
_MOVED: tuple[tuple[str, str, Dash], ...] = (
    ("moved_high", "$L_1$, at most", "dot"),
    ("moved_low", "$L_1$, at least", "solid"),
    ("moved_l2", "$L_2$", "dash"),
)


@draw_reading("path_norms", "Path norms appear with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw the norms or the distance from the first reading over steps, and Σ|v| by logit."""
    measure = chosen_value(view, MEASURE)
    charts: list[Chart] = []
    if not is_from_file(view):
        charts.append(_over_steps(view, measure))
    if len(reading.arrays["by_logit"]) > 1 or not charts:
        charts.append(replace(_by_logit(reading), column=len(charts)))
    note = join_sentences(
        "Exact, over all paths of the value network.",
        "L₁ at 100 %: no path has the same sign as at first." if measure == "moved" else "",
    )
    return Scene(tuple(charts), _list_facts(view, reading), reading.step, note)


def _over_steps(view: View, measure: str) -> Chart:
    """Plot norms as multiples of their first values, which differ by orders of magnitude."""
    curves: tuple[Curve, ...] = ()
    norms = measure == "norms"
    for scalar, name, dash in _NORMS if norms else _MOVED:
        source = ("path_norms", scalar)
        scale = _scale_of_first(view, source) if norms else 100.0
        curves += recorded_curve(view, source, name, "value", dash, scale)
    title = "Path norms / 1st reading" if norms else "Distance from 1st reading, %"
    return chart_over_steps(view, title, curves, (0, 0, 1, 1))


def _scale_of_first(view: View, source: tuple[str, str]) -> float:
    """Return one over the first value of a series; NaN if that is zero or not finite."""
    series = view.series.get(source)
    if series is None or not series.steps.size:
        return 1.0
    first = float(series.values[0])
    return 1.0 / first if 0 < first < math.inf else math.nan


def _by_logit(reading: Reading) -> Chart:
    values = reading.arrays["by_logit"]
    curves = (Curve("Σ|v|", np.arange(len(values)), values, "value", marker=True),)
    count = len(values)
    stride = max(1, -(-count // 10))
    return Chart(
        key="by_logit",
        title="$L_1$ path norm by logit",
        x=Axis(
            "logit",
            limits=(-0.5, count - 0.5),
            ticks=tuple((float(place), str(place)) for place in range(0, count, stride)),
        ),
        y=spanning_axis(curves),
        curves=curves,
        narrow=(1, 0, 1, 1),
    )


def _list_facts(view: View, reading: Reading) -> tuple[Fact, ...]:
    facts = []
    for part, name in (("l1", "₁"), ("l2", "₂")):
        if (norm := reading.scalars.get(part)) is not None:
            about = f"L{name} norm of the path values, over all paths and logits."
            facts.append(Fact(f"‖v‖{name}", format_number(norm, 3), about))
    moved = reading.scalars.get("moved_l2")
    if moved is not None and is_read_again(view, ("path_norms", "l2")):
        about = "‖v − v_0‖₂/(‖v‖₂ + ‖v_0‖₂) since the first reading."
        facts.append(Fact("v moved", format_percent(moved), about))
    return tuple(facts)


PANEL = PanelSpec(
    title="Path norms",
    probes=("path_norms",),
    draw=draw,
    about=About(
        text=(
            "The size of the value network as a sum over paths, whatever the scale of single "
            "weights. A path runs from an input or a bias to a logit, and its value is the product "
            "of the weights on it. Multiplying all that a hidden unit receives, and dividing all "
            "that it sends by the same number, changes neither the outputs of a ReLU network nor "
            "any path value. The L₁ norm bounds how fast a ReLU network can change: no logit moves "
            "by more than the norm times the largest change of an input. The distance from the "
            "first reading is that of all path values, as a share of the largest that two networks "
            "with these norms can have: 0 % if they are equal, and in L₁ 100 % if no path has the "
            "same sign in both. In L₁ it has no short formula, so two bounds are shown. Try a "
            "larger learning rate: both norms grow faster."
        ),
        formulas=(
            r"$\| v \|_q = ( \sum_p | v(p) |^q )^{1/q}, \quad "
            r"\| v \|_q^q = 1^\top f_{|\Theta|^q}(1)$",
            r"$\| v - v_0 \|_2^2 = \| v \|_2^2 - 2 \langle v, v_0 \rangle + \| v_0 \|_2^2$",
            r"$\max_l \sum_{i \in l} | N_i - N_{i,0} | \leq \| v - v_0 \|_1$",
            r"$\| v - v_0 \|_1 \leq \| v \|_1 + \| v_0 \|_1 - 2 \| v(\Theta \wedge \Theta_0) \|_1$",
        ),
        symbols=(
            "$p$: path; $v(p)$: product of the weights on it; $f_{|Θ|^q}(1)$: logits for inputs of "
            "ones with all weights replaced by $|Θ|^q$ and max pooling by sums; $Θ ∧ Θ_0$: the "
            "smaller of both weights, 0 where their signs differ; $N_i$: sum of $|v|$ over the "
            "paths through weight $i$ of layer $l$; 0: first reading."
        ),
        source=(
            "Norms: Gonon, Brisebarre, Riccietti & Gribonval, ICLR 2024, arXiv:2310.01225: a "
            "path-norm toolkit for modern networks. Distances: the same authors, ICML 2025, "
            "arXiv:2405.15006: path-metrics. The lower bound is ours"
        ),
        computed=(
            "Exactly, in a few passes of one example in double precision. BatchNorm takes part "
            "with its running statistics, convolutions position by position."
        ),
        trials=(freeze_random_gates("The norms grow on, now that only the values learn."),),
    ),
    options=(MEASURE,),
    area="right",
    order=16,
    opened=False,
)
