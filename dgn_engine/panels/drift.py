"""Drift: how far path features and path values have moved since the first reading."""

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
from dgn_engine.scene.layer_curves import (
    chart_over_steps,
    layer_axis,
    layer_positions,
    recorded_curve,
)
from dgn_engine.scene.panel_readings import draw_reading, join_sentences
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, View, always, chosen_value
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import format_number

# (scalar, name, role, dash)
_PARTS: tuple[tuple[str, str, Role, Dash], ...] = (
    ("features", "$Φ$", "feature", "dash"),
    ("values", "$v$", "value", "solid"),
)
MEASURE = Option("measure", "Over steps", always(("moved", "distance"), ("cosine", "cosine")))
_FIRST = "Only one reading so far: keep training."


@draw_reading("drift", "Drift of features and values appears with the first frame.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw both drifts over steps, switched gates by layer and features by example."""
    charts = [_over_steps(view, chosen_value(view, MEASURE)), _by_layer(reading)]
    if "features" in reading.arrays:
        charts.append(_by_example(view, reading))
    note = join_sentences(
        "Relative to the first reading of this run; exact, over all paths.",
        reading.facts.get("features", ""),
        _FIRST if all(len(curve.x) == 1 for curve in charts[0].curves) else "",
    )
    return Scene(tuple(charts), _list_facts(reading), reading.step, note)


def _over_steps(view: View, measure: str) -> Chart:
    curves: tuple[Curve, ...] = ()
    for part, name, role, dash in _PARTS:
        scalar = part if measure == "moved" else f"{part}_cosine"
        curves += recorded_curve(view, ("drift", scalar), name, role, dash)
    titles = {"moved": "Distance from 1st reading", "cosine": "Cosine with 1st reading"}
    return chart_over_steps(view, titles[measure], curves, (0, 0, 1, 2))


def _by_layer(reading: Reading) -> Chart:
    switched = 100 * reading.arrays["switched"]
    top = max(finite_range(switched)[1], 1.0)
    return Chart(
        key="switched",
        title="Switched gates, %",
        x=layer_axis(len(switched)),
        y=Axis(limits=(-0.02 * top, 1.05 * top)),
        curves=(Curve("", layer_positions(len(switched)), switched, "feature", marker=True),),
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _by_example(view: View, reading: Reading) -> Chart:
    labels, moved = reading.arrays["labels"], reading.arrays["features"]
    top = finite_range(moved)[1]
    return Chart(
        key="by_example",
        title="Distance of $φ$ by example",
        x=example_axis(labels, class_names(view, labels), "class"),
        y=Axis(limits=(0.0, 1.05 * top if top > 0 else 1.0)),
        curves=(Curve("", np.arange(len(moved)), moved, "feature", marker=True),),
        column=2,
        narrow=(1, 1, 1, 1),
    )


def _list_facts(reading: Reading) -> tuple[Fact, ...]:
    facts = []
    for part, name, _, _ in _PARTS:
        moved = reading.scalars.get(part, math.nan)
        if math.isfinite(moved):
            about = f"Relative distance of the path {part} from the first reading."
            facts.append(Fact(f"{name} moved", format_number(moved, 3), about))
    return tuple(facts)


PANEL = PanelSpec(
    title="Drift",
    probes=("drift",),
    draw=draw,
    about=About(
        text=(
            "The output of a gated network is the inner product of two vectors: the neural path "
            "features of the example and the neural path values of the weights. Training can move "
            "either. The curves show how far each has moved since the first reading of this run: "
            "features through the gates, values through the weights of all paths. With fixed "
            "gates (FR-II, FL) the features stay put and only the values learn; in a wide network "
            "both barely move; in ReLU and DL they move together. Neither vector is ever built: "
            "norms and inner products of the features come from path kernels of an example with "
            "itself, those of the values from products of the layers' weights. Try the same run "
            "in FR-II and DL."
        ),
        formulas=(
            r"$\hat{y}(x) = \langle \varphi_x, v \rangle$",
            r"$\| \varphi_t - \varphi_0 \|^2 = H_{tt} - 2 H_{t0} + H_{00}$",
            r"$\langle v_t, v_0 \rangle = 1^\top \prod_l (W_{l,t} \circ W_{l,0}) \, 1$",
        ),
        symbols=(
            "$φ_t$, $v_t$: features and values at step $t$ (0: first reading); $H_{t0}$: path "
            "kernel between the gates at both times; $W_l$: weights of layer $l$; ∘: entrywise "
            "product; 1: vector of ones."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529: how features and values change in training"
        ),
        computed=(
            "Exact where Λ is: from path kernels of the gates now and at the first reading, and "
            "from products of the weights at both times."
        ),
        trials=(freeze_random_gates("Feature drift stops; the values keep moving."),),
    ),
    options=(MEASURE,),
    area="right",
    order=11,
    opened=False,
)
