"""Drift: how far path features and path values have moved from where they began."""

from __future__ import annotations

import math

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import class_names, example_axis
from dgn_engine.scene.elements import (
    Axis,
    Chart,
    Curve,
    Dash,
    Fact,
    Role,
    Scene,
    Shown,
    finite_range,
)
from dgn_engine.scene.layer_curves import chart_over_steps, layer_axis, places, recorded_curve
from dgn_engine.scene.panel_readings import as_note, draw_reading
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, always, choice
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import number

# Scalar, its name, its role, its dash.
_PARTS: tuple[tuple[str, str, Role, Dash], ...] = (
    ("features", "$Φ$", "feature", "dash"),
    ("values", "$v$", "value", "solid"),
)
MEASURE = Option("measure", "Over steps", always(("moved", "distance"), ("cosine", "cosine")))
_FIRST = "This is that reading: train on, and the curves begin."


@draw_reading("drift", "How far features and values have moved, from the first frame on.")
def draw(view: View, reading: Reading) -> Shown:
    """Both drifts over steps; now, gates by layer and features by example."""
    charts = [_over_steps(view, choice(view, MEASURE)), _by_layer(reading)]
    if "features" in reading.arrays:
        charts.append(_by_example(view, reading))
    note = as_note(
        "Relative to the first reading of this run; exact, over all paths.",
        reading.facts.get("features", ""),
        _FIRST if all(len(curve.x) == 1 for curve in charts[0].curves) else "",
    )
    return Scene(tuple(charts), _facts(reading), reading.step, note)


def _over_steps(view: View, measure: str) -> Chart:
    curves: tuple[Curve, ...] = ()
    for part, name, role, dash in _PARTS:
        scalar = part if measure == "moved" else f"{part}_cosine"
        curves += recorded_curve(view, ("drift", scalar), name, role, dash)
    titles = {"moved": "Distance from the first", "cosine": "Cosine with the first"}
    return chart_over_steps(view, titles[measure], curves, (0, 0, 1, 2))


def _by_layer(reading: Reading) -> Chart:
    switched = 100 * reading.arrays["switched"]
    top = max(finite_range(switched)[1], 1.0)
    return Chart(
        key="switched",
        title="Gates switched since, %",
        x=layer_axis(len(switched)),
        y=Axis(limits=(-0.02 * top, 1.05 * top)),
        curves=(Curve("", places(len(switched)), switched, "feature", marker=True),),
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _by_example(view: View, reading: Reading) -> Chart:
    labels, each = reading.arrays["labels"], reading.arrays["features"]
    top = finite_range(each)[1]
    return Chart(
        key="by_example",
        title="Distance of $φ$, by example",
        x=example_axis(labels, class_names(view, labels), "class"),
        y=Axis(limits=(0.0, 1.05 * top if top > 0 else 1.0)),
        curves=(Curve("", np.arange(len(each)), each, "feature", marker=True),),
        column=2,
        narrow=(1, 1, 1, 1),
    )


def _facts(reading: Reading) -> tuple[Fact, ...]:
    facts = []
    for part, name, _, _ in _PARTS:
        moved = reading.scalars.get(part, math.nan)
        if math.isfinite(moved):
            about = f"Distance of the path {part} from the first reading, relative to them."
            facts.append(Fact(f"{name} moved", number(moved, 3), about))
    return tuple(facts)


PANEL = PanelSpec(
    title="Drift",
    probes=("drift",),
    draw=draw,
    about=About(
        text=(
            "The output of a gated network is the product of two vectors, the neural path features "
            "of the example and the neural path values of the weights. Training may move either. "
            "The curves say how far each is from the first reading of this run: the features by "
            "their gates, the values by the weights of all paths. With fixed gates (FR-II, FL) the "
            "features stand still and only the values learn; in a wide network both hardly move. "
            "In ReLU and DL they move together. Neither vector is ever written out: the squares "
            "and the product of features at two times are path kernels of an example with itself, "
            "those of values are products of the layers' weights. Try the same run in FR-II and DL."
        ),
        formulas=(
            r"$\hat{y}(x) = \langle \varphi_x, v \rangle$",
            r"$\| \varphi_t - \varphi_0 \|^2 = H_{tt} - 2 H_{t0} + H_{00}$",
            r"$\langle v_t, v_0 \rangle = 1^\top \prod_l (W_{l,t} \circ W_{l,0}) \, 1$",
        ),
        symbols=(
            "$φ_t$, $v_t$: features and values at step $t$, 0: at the first reading; $H_{t0}$: "
            "path kernel between the gates of both; $W_l$: weights of layer $l$; ∘: entry by "
            "entry; 1: a vector of ones."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529: how features and values change in training"
        ),
        computed=(
            "Exactly where Λ is: by path kernels of the gates now and of the first reading, and "
            "by products of the weights of two times."
        ),
        trials=(freeze_random_gates("The drift of the features stops; the values go on."),),
    ),
    options=(MEASURE,),
    area="right",
    order=11,
    opened=False,
)
