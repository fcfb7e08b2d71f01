"""Paths: the active and the sensitive sub-network of one example, and what they add up to."""

from __future__ import annotations

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_viewer.scene.axes import class_names
from dgn_viewer.scene.elements import (
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
from dgn_viewer.scene.layer_curves import layer_axis
from dgn_viewer.scene.panel_spec import About, Option, PanelSpec, Values, View, always, choice
from dgn_viewer.scene.scatter import scattered
from dgn_viewer.scene.ticks import number
from dgn_viewer.scene.trials import freeze_random_gates

_MAPS = {
    "through": ("Active paths through each unit", "share of active paths"),
    "near": ("Sensitive gates on paths", "share of sensitive pairs"),
    "contributed": ("Part of the output through each unit", "part of the output"),
}


def _examples(view: View) -> Values:
    """The probe examples, where the paths of one of them are shown."""
    reading = view.readings.get("paths")
    if view.run is None or (reading is not None and "shares" in reading.arrays):
        return ()
    labels = np.array(view.run.probe_set.labels)
    names = class_names(view, labels)
    return tuple((str(i), f"example {i}, {names[int(one)]}") for i, one in enumerate(labels))


EXAMPLE = Option("example", "Example", _examples, engine=True)
SHOW = Option(
    "show",
    "Units",
    always(("through", "active"), ("near", "sensitive"), ("contributed", "output")),
)


def draw(view: View) -> Shown:
    """Units by what passes them, and the largest paths; or the sub-networks of blocks."""
    reading = view.readings.get("paths")
    if reading is None:
        return Empty("The paths of one example: how many are active, and what they add up to.")
    if reading.absent:
        return Empty(reading.absent)
    if "shares" in reading.arrays:
        return Scene((_shares(reading),), (), reading.step, "By the trace of the path kernel.")
    charts = [_units(reading, choice(view, SHOW))]
    if "units" in reading.arrays:
        charts.append(_graph(reading))
    return Scene(tuple(charts), _facts(reading), reading.step, _note(reading))


def _units(reading: Reading, what: str) -> Chart:
    values = reading.arrays[what]
    low, high = finite_range(values)
    reach = max(abs(low), abs(high)) or 1.0
    signed = what == "contributed"
    title, bar = _MAPS[what]
    layers, widest = values.shape
    return Chart(
        key="units",
        title=title,
        x=Axis(label="unit", limits=(-0.5, widest - 0.5)),
        y=Axis(
            label="layer",
            limits=(-0.5, layers - 0.5),
            ticks=tuple((float(at), str(at + 1)) for at in range(0, layers, -(-layers // 8))),
        ),
        matrix=Matrix(
            name=what,
            values=values,
            ramp="diverging" if signed else "sequential",
            low=-reach if signed else 0.0,
            high=reach,
            bar=bar,
            row_name="layer",
            column_name="unit",
            row_labels=tuple(f"layer {at + 1}" for at in range(layers)),
            column_labels=tuple(f"unit {at}" for at in range(widest)),
        ),
        narrow=(0, 0, 1, 1),
    )


def _graph(reading: Reading) -> Chart:
    """Every unit as a point, open or closed, and the paths with the largest contributions."""
    through, units = reading.arrays["through"], reading.arrays["units"]
    layers, widest = through.shape
    at = np.arange(1, layers + 1, dtype=np.float64)
    curves = [
        Curve(
            f"{number(float(f'{part:+.2g}'))}",
            at,
            units[place].astype(np.float64),
            "value" if part >= 0 else "feature",
            "solid" if part >= 0 else "dash",
            thick=place == 0,
        )
        for place, part in enumerate(reading.arrays["parts"].tolist())
    ]
    found = [np.nonzero(np.isfinite(through) & side) for side in (through > 0, through <= 0)]
    for name, (rows, columns), role in (
        ("open", found[0], "accent"),
        ("closed", found[1], "muted"),
    ):
        if len(rows):
            curves.append(scattered(name, rows + 1, columns, role))  # type: ignore[arg-type]  # a role
    distinct = _distinct(curves)
    return Chart(
        key="graph",
        title=f"The {len(units)} largest paths",
        x=layer_axis(layers),
        y=Axis(label="unit", limits=(-1.0, float(widest))),
        curves=distinct,
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _distinct(curves: list[Curve]) -> tuple[Curve, ...]:
    """Two paths of one contribution are told apart by their place."""
    seen: dict[str, int] = {}
    found = []
    for curve in curves:
        seen[curve.name] = seen.get(curve.name, 0) + 1
        again = f" ({seen[curve.name]})" if seen[curve.name] > 1 else ""
        found.append(Curve(**{**vars(curve), "name": curve.name + again}))
    return tuple(found)


def _shares(reading: Reading) -> Chart:
    shares: Array = 100 * reading.arrays["shares"]
    names = reading.facts.get("blocks", "").split(",")
    at = np.arange(1, len(shares) + 1)
    every = -(-len(shares) // 16)
    ticks = tuple((float(p), names[p - 1] or "none") for p in range(1, len(shares) + 1, every))
    return Chart(
        key="shares",
        title="Share of each sub-network, %",
        x=Axis(label="blocks kept", limits=(0.5, len(shares) + 0.5), ticks=ticks),
        y=Axis(limits=(0.0, 1.05 * max(float(shares.max()), 1e-9))),
        curves=(Curve("", at, shares, "value", marker=True),),
    )


def _facts(reading: Reading) -> tuple[Fact, ...]:
    found = reading.scalars
    facts = []
    for name, title, about in (
        ("total", "paths", "That end in one logit: inputs times units of each layer."),
        ("active", "active", "Sum over paths of the product of their gates."),
        ("sensitive", "sensitive", "Pairs of a path and a sensitive gate on it."),
        ("output", "their sum", "Σ_p x(p_0) A(x, p) v(p), which is the logit."),
    ):
        if name in found:
            facts.append(Fact(title, _counted(found[name]), about))
    return tuple(facts)


def _counted(value: float) -> str:
    """A count in full as far as it is known exactly, else four digits."""
    if value.is_integer() and abs(value) < 1e12:
        return f"{int(value):,}"
    return number(float(f"{value:.4g}"))


def _note(reading: Reading) -> str:
    example, logit = reading.facts.get("example", "0"), reading.facts.get("logit", "0")
    parts = [f"Example {example}, logit {logit}, its largest."]
    if "units" in reading.arrays:
        parts.append("Paths from all inputs together; dashed: below zero.")
    else:
        parts.append("Too many paths to list; the sums are exact.")
    return " ".join(parts)


PANEL = PanelSpec(
    title="Paths",
    probes=("paths",),
    draw=draw,
    about=About(
        text=(
            "A path goes from an input through one unit of each layer to the output. It is active "
            "for an example where all its gates are open, and contributes the input times its "
            "gates times its weights; the contributions of all paths sum to the output. The map "
            "says how much of the active paths, of the paths with a gate about to switch, or of "
            "the output passes each unit. In a small network the largest paths are drawn through "
            "its units. Counts are exact at any size, by sums forwards and backwards. A residual "
            "network is a sum of 2^b sub-networks, one for each choice of blocks: their shares in "
            "the path kernel are shown instead. Choose another example and see which units its "
            "paths leave."
        ),
        formulas=(
            r"$\hat{y}(x) = \sum_p x(p_0) A(x,p) v(p) = \langle \varphi_x, v \rangle$",
            r"$A(x,p) = \prod_l G_l(x, p_l), \quad v(p) = \prod_l \Theta(p_{l-1}, p_l)$",
        ),
        source="Lakshminarayanan & Singh, arXiv:2006.10529, §2; sub-networks: Deep Learning is "
        "Composite Kernel Learning, Lemma 4.2",
        computed=(
            "Exactly, by sums over the layers forwards and backwards; only the largest paths are "
            "written out one by one."
        ),
        trials=(
            freeze_random_gates(
                "The active paths of an example stay the same from then on; only what they carry "
                "changes.",
            ),
        ),
    ),
    options=(EXAMPLE, SHOW),
    area="left",
    order=13,
    opened=False,
)
