"""Gradients and updates: how large the gradient of each layer is, and how far its weights move."""

from __future__ import annotations

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.elements import (
    Array,
    Axis,
    Chart,
    Curve,
    Dash,
    Empty,
    Fact,
    Role,
    Scene,
    Shown,
)
from dgn_engine.scene.layer_curves import (
    chart_over_steps,
    layer_axis,
    layers_note,
    over_steps,
    places,
)
from dgn_engine.scene.panel_readings import as_note
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, always, choice
from dgn_engine.scene.trials import train_gates_alone
from dgn_engine.text.written_numbers import number, percent

# Network, its role, its dash.
_NETWORKS: tuple[tuple[str, Role, Dash], ...] = (
    ("value", "value", "solid"),
    ("feature", "feature", "dash"),
)
_TITLES = {
    "gradient": "Gradient norm",
    "update": "Relative update a step",
    "moved": "Moved since the first reading",
}


def _networks(view: View) -> Values:
    """Those that are trained."""
    readings = [view.readings.get(probe) for probe in ("updates", "gradients")]
    known = {name for one in readings if one is not None for name in one.arrays}
    found = [name for name, _, _ in _NETWORKS if {name, f"{name}_norm"} & known]
    return tuple((name, f"{name} network") for name in found)


OVER_STEPS = Option(
    "steps",
    "Over steps",
    always(("gradient", "gradient"), ("update", "update"), ("moved", "moved")),
)
NETWORK = Option("network", "Network", _networks)


def draw(view: View) -> Shown:
    """Gradients and updates by layer, of both networks, and one of them over steps."""
    gradients, updates = view.readings.get("gradients"), view.readings.get("updates")
    if gradients is None and updates is None:
        return Empty("Gradients and updates of each layer, with the first frame.", "no-reading")
    there = [one for one in (gradients, updates) if one is not None and not one.absent]
    if not there:
        absent = gradients or updates
        return Empty(absent.absent if absent is not None else "", "absent")
    count = max(
        len(array) for one in there for name, array in one.arrays.items() if name != "labels"
    )
    network, what = choice(view, NETWORK), choice(view, OVER_STEPS)
    charts = (
        _by_layer("gradient", _of(gradients, ""), count, 0),
        _by_layer("update", _of(updates, "_update"), count, 1),
        _over_steps(view, network, what, count),
    )
    step = max(one.step for one in there)
    return Scene(charts, _facts(gradients, updates), step, _note(gradients, updates, count))


def _of(reading: Reading | None, suffix: str) -> dict[str, Array]:
    if reading is None:
        return {}
    names = (name for name, _, _ in _NETWORKS if f"{name}{suffix}" in reading.arrays)
    return {name: reading.arrays[f"{name}{suffix}"] for name in names}


def _by_layer(what: str, found: dict[str, Array], count: int, column: int) -> Chart:
    """On a logarithmic axis, which has no place for what is zero."""
    curves = [
        Curve(name, places(len(found[name])), _positive(found[name]), role, dash, marker=True)
        for name, role, dash in _NETWORKS
        if name in found and np.isfinite(_positive(found[name])).any()
    ]
    return Chart(
        key=what,
        title=f"{_TITLES[what]} by layer",
        x=layer_axis(count, [*map(str, range(1, count)), "out"]),
        y=Axis(log=True),
        curves=tuple(curves),
        column=column,
        narrow=(0, column, 1, 1),
    )


def _positive(values: Array) -> Array:
    return np.where(values > 0, values, np.nan)


def _over_steps(view: View, network: str, what: str, count: int) -> Chart:
    probe, prefix = "updates", f"{network}_{what}"
    if what == "gradient":
        probe, prefix = "gradients", network
    curves = over_steps(view, probe, prefix, count, log=True)
    title = f"{_TITLES[what]}, {network} network"
    return chart_over_steps(view, title, curves, (1, 0, 1, 2), 2, log=True)


def _facts(gradients: Reading | None, updates: Reading | None) -> tuple[Fact, ...]:
    facts = []
    if gradients is not None and "loss" in gradients.scalars:
        value = number(gradients.scalars["loss"], 4)
        facts.append(Fact("probe loss", value, "Mean loss of the probe examples."))
    for name, gradient in _of(gradients, "").items():
        norm = number(float(np.linalg.norm(gradient)), 3)
        about = f"Norm of the gradient by all weights of the {name} network."
        facts.append(Fact(f"‖∂L‖ {name}", norm, about))
    about = "‖Θ - Θ_0‖/‖Θ_0‖ since the first reading, layers counted alike."
    for name, moved in _of(updates, "_moved").items():
        if np.isfinite(moved).any():
            facts.append(Fact(f"moved {name}", percent(float(np.nanmean(moved)), 2), about))
    return tuple(facts)


def _note(gradients: Reading | None, updates: Reading | None, count: int) -> str:
    parts = [one.absent for one in (gradients, updates) if one is not None]
    if gradients is not None and not gradients.absent:
        parts.append("Gradients: recomputed on the probe examples.")
    if updates is not None and not updates.absent:
        k = int(updates.facts.get("steps", "0"))
        over = {0: "", 1: ", of the last step"}.get(k, f", mean of {k:,} steps")
        since = int(updates.facts.get("since", "0"))
        parts.append(f"Updates: read from the weights{over}; first reading: step {since:,}.")
    return as_note(*parts, layers_note(count))


PANEL = PanelSpec(
    title="Gradients and updates",
    probes=("gradients", "updates"),
    draw=draw,
    about=About(
        text=(
            "Where the training pulls, and where the weights go. Left: the norm of the gradient of "
            "the loss by the weights of each layer. It is computed anew on the probe examples, "
            "because the gradients of the steps themselves are of another batch each time. Middle: "
            "how far the weights of each layer moved since the reading before, relative to their "
            "own size and divided by the steps between, read from the weights alone. Momentum and "
            "Adam make a large update of a small gradient, so that both are worth a look. In wide "
            "networks weights hardly move from where they began ('moved'): that is the regime in "
            "which the tangent kernel stays what it was. Try a larger learning rate, or DL against "
            "gates-only: a frozen network has no curve."
        ),
        formulas=(
            r"$\| \partial L / \partial \Theta_l \|_F$",
            r"$\| \Theta_{l,t} - \Theta_{l,t-k} \|_F \,/\, (k \, \| \Theta_{l,t-k} \|_F)$",
            r"$\| \Theta_{l,t} - \Theta_{l,0} \|_F \,/\, \| \Theta_{l,0} \|_F$",
        ),
        symbols=(
            "$L$: loss on the probe examples; $Θ_{l,t}$: weights of layer $l$ at step $t$; $k$: "
            "steps since the reading before; ‖·‖ with F: root of the sum of squares."
        ),
        source="Our definition; that weights of wide networks stay near their start: "
        "Jacot et al. 2018, arXiv:1806.07572",
        computed=(
            "Gradients are computed anew on the probe examples, apart from training, and are "
            "given to no optimiser; updates are differences of the weights at two readings."
        ),
        trials=(
            train_gates_alone("The curves of the value network end: nothing moves it any more."),
        ),
    ),
    options=(OVER_STEPS, NETWORK),
    area="right",
    order=10,
    opened=False,
)
