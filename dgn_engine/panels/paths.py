"""Paths: the active and sensitive sub-network of one example, and the sum over its paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dgn_engine.protocol.frames import Reading
from dgn_engine.scene.axes import example_values
from dgn_engine.scene.elements import (
    Array,
    Axis,
    Chart,
    Curve,
    Fact,
    Matrix,
    Ramp,
    Role,
    Scene,
    Shown,
    Subjects,
    largest_magnitude,
)
from dgn_engine.scene.layer_curves import layer_axis, layers_by_units
from dgn_engine.scene.network_graph import MOST_LINES, network_graph
from dgn_engine.scene.panel_readings import draw_reading
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, chosen_value
from dgn_engine.scene.scatter import scatter_curve, segment_curve
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import format_number

_MAPS = {
    "through": ("Active paths through each unit", "share of active paths"),
    "through_shared": ("Shared active paths through each unit", "share of shared paths"),
    "near": ("Sensitive gates on paths", "share of sensitive pairs"),
    "contributed": ("Output through each unit", "part of the output"),
}
_LEAST_SHARE = 1e-9  # percent; smaller shares are below the axis


def _first_values(view: View) -> Values:
    """List the probe examples where the paths of a single one are shown."""
    reading = view.readings.get("paths")
    by_sub_networks = (
        _is_residual(reading) and reading is not None and "example" not in reading.facts
    )
    return () if by_sub_networks else example_values(view)


def _is_residual(reading: Reading | None) -> bool:
    """Return whether the reading shows a residual network by its sub-networks."""
    return reading is not None and "shares" in reading.arrays


def _second_values(view: View) -> Values:
    """List the second examples of a chain; none for a residual network."""
    if _is_residual(view.readings.get("paths")):
        return ()
    return (("none", "alone"), *((i, f"and {i}") for i, _ in _first_values(view)))


def _map_values(view: View) -> Values:
    if _is_residual(view.readings.get("paths")):
        return ()
    return (("through", "active"), ("near", "sensitive"), ("contributed", "output"))


def _graph_values(view: View) -> Values:
    """List what the graph can show for this network."""
    reading = view.readings.get("paths")
    arrays = reading.arrays if reading is not None else {}
    if "gates" not in arrays:  # recorded by an earlier version
        return ()
    offered = (
        ("weights", "weights", any(name.startswith("weights_") for name in arrays)),
        ("largest", "largest", "units" in arrays),
        ("each", "φ, v", "feature" in arrays),
    )
    return tuple((value, label) for value, label, available in offered if available)


EXAMPLE = Option("example", "Example", _first_values, True, ("example", 0))
SECOND = Option("second", "Second example", _second_values, True, ("example", 1))
GRAPH = Option("graph", "Right", _graph_values)
SHOW = Option("show", "Units", _map_values)


@draw_reading("paths", "The paths of one example and their sum appear with a reading.")
def draw(view: View, reading: Reading) -> Shown:
    """Draw units by what passes through them, and the largest paths; or the sub-networks."""
    if _is_residual(reading):
        return Scene(
            _draw_sub_networks(reading), _list_facts(reading), reading.step, _share_note(reading)
        )
    charts = [_draw_units(reading, chosen_value(view, SHOW))]
    match chosen_value(view, GRAPH):
        case "weights":
            charts.append(network_graph(reading))
        case "largest":
            charts.append(_draw_largest(reading))
        case "each":
            charts.append(_draw_all_paths(reading))
    note = _write_note(reading, chosen_value(view, GRAPH))
    return Scene(tuple(charts), _list_facts(reading), reading.step, note)


def _draw_units(reading: Reading, what: str) -> Chart:
    if what == "through" and "through_shared" in reading.arrays:
        what = "through_shared"
    values = reading.arrays[what]
    reach = largest_magnitude(values)
    signed = what == "contributed"
    title, bar = _MAPS[what]
    ramp: Ramp = "diverging" if signed else "sequential"
    matrix = Matrix(what, values, ramp, -reach if signed else 0.0, reach, bar)
    return replace(layers_by_units(title, range(len(values)), matrix), narrow=(0, 0, 1, 1))


def _draw_largest(reading: Reading) -> Chart:
    """Draw the paths that contribute most, over the open and closed units."""
    gates, units = reading.arrays["gates"], reading.arrays["units"]
    layers, widest = gates.shape
    layer_axis_x = np.arange(1, layers + 1, dtype=np.float64)
    curves = [
        Curve(
            f"{format_number(contribution, 2)}",
            layer_axis_x,
            units[index].astype(np.float64),
            "value" if contribution >= 0 else "feature",
            "solid" if contribution >= 0 else "dash",
            thick=index == 0,
        )
        for index, contribution in enumerate(reading.arrays["parts"].tolist())
    ]
    kinds: tuple[tuple[str, Array, Role], ...] = (
        ("open", gates >= 0.5, "accent"),
        ("closed", gates < 0.5, "muted"),
    )
    for name, selected, role in kinds:
        rows, columns = np.nonzero(selected)
        if len(rows):
            curves.append(scatter_curve(name, rows + 1, columns, role))
    return Chart(
        key="largest",
        title=f"The {len(units)} largest paths",
        x=layer_axis(layers),
        y=Axis("unit", limits=(-1.0, float(widest)), subjects=Subjects("unit", range(widest))),
        curves=_make_distinct(curves),
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _draw_all_paths(reading: Reading) -> Chart:
    """Plot every path by its feature and value; their products sum to the output."""
    feature, value = reading.arrays["feature"], reading.arrays["value"]
    active = np.abs(feature) > 0
    adds = feature * value > 0
    curves = [
        scatter_curve(name, feature[selected], value[selected], role)  # type: ignore[arg-type]  # a role
        for name, selected, role in (
            ("φ v > 0", active & adds, "value"),
            ("φ v < 0", active & ~adds, "feature"),
            ("not active", ~active, "muted"),
        )
        if selected.any()
    ]
    return Chart(
        key="each",
        title=f"All {len(feature):,} paths",
        x=Axis(label="feature $φ_x(p)$"),
        y=Axis(label="value $v(p)$"),
        curves=tuple(curves),
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _make_distinct(curves: list[Curve]) -> tuple[Curve, ...]:
    """Number paths with equal contributions, so that each curve has its own name."""
    counts: dict[str, int] = {}
    distinct = []
    for curve in curves:
        counts[curve.name] = counts.get(curve.name, 0) + 1
        suffix = f" ({counts[curve.name]})" if counts[curve.name] > 1 else ""
        distinct.append(replace(curve, name=curve.name + suffix))
    return tuple(distinct)


def _draw_sub_networks(reading: Reading) -> tuple[Chart, ...]:
    """Draw each sub-network's share of the kernel and of the paths, and what it adds."""
    arrays = reading.arrays
    parts: tuple[tuple[str, str, Role], ...] = (
        ("paths", "of the paths", "muted"),
        ("shares", "of the path kernel", "value"),
    )
    series = [(label, 100 * arrays[name], role) for name, label, role in parts if name in arrays]
    y = _share_axis(np.concatenate([values for _, values, _ in series]))
    low = y.limits[0] if y.limits is not None else 0.0
    shares = Chart(
        key="shares",
        title="Share of each sub-network, %",
        x=_block_axis(reading),
        y=y,
        curves=tuple(
            curve
            for label, values, role in series
            for curve in _draw_stems(label, values, role, low)
        ),
    )
    if "outputs" not in arrays:
        return (shares,)
    outputs = Chart(
        key="outputs",
        title=f"Contribution to logit {reading.facts.get('logit', '0')}",
        x=shares.x,
        y=Axis(),
        curves=_draw_stems("adds", arrays["outputs"], "feature"),
        column=1,
        narrow=(1, 0, 1, 1),
    )
    return shares, outputs


def _block_axis(reading: Reading) -> Axis:
    names = reading.facts.get("blocks", "").split(",")
    stride = -(-len(names) // 16)
    ticks = tuple(
        (float(position), names[position - 1] or "none")
        for position in range(1, len(names) + 1, stride)
    )
    return Axis("blocks kept", limits=(0.5, len(names) + 0.5), ticks=ticks, places=True)


def _share_axis(percent: Array) -> Axis:
    """Return a logarithmic axis: nearly all paths use every block, but the others differ."""
    above = percent[percent > 0]
    if not above.size:
        return Axis()
    low = max(float(above.min()), _LEAST_SHARE)
    return Axis(log=True, limits=(10.0 ** np.floor(np.log10(low)), 200.0))


def _draw_stems(name: str, values: Array, role: Role, low: float = 0.0) -> tuple[Curve, ...]:
    """Draw a point at each value with a thin stem from zero, or from the lowest shown."""
    positions = np.arange(1.0, len(values) + 1)
    feet, heads = (np.stack([positions, y], axis=1) for y in (np.full(len(positions), low), values))
    stems = replace(segment_curve(f"{name} from zero", feet, heads, role), faint=True)
    return stems, scatter_curve(name, positions, values, role, thick=True)


def _share_note(reading: Reading) -> str:
    facts = reading.facts
    parts = ["Kernel share: trace $H^J$/trace $H$."]
    if "example" in facts:
        parts.append(f"Right: example {facts['example']}, summing to its largest logit.")
    else:
        parts.append("With biases the output is not such a sum.")
    return " ".join(parts)


def _list_facts(reading: Reading) -> tuple[Fact, ...]:
    scalars = reading.scalars
    facts = []
    for name, title, about in (
        ("total", "paths", "Paths to one logit: inputs times units of each layer."),
        ("active", "active", "Sum over paths of the product of their gates."),
        ("sensitive", "sensitive", "Pairs of a path and a sensitive gate on it."),
        ("output", "output", "Sum over all paths, Σ_p x(p_0) A(x, p) v(p): the logit."),
        ("active_second", "active, second", "The same sum for the second example."),
        ("shared", "shared", "Paths active for both, Λ(s, s'): the sum of products of activities."),
        ("output_shared", "via shared", "Part of the first logit that comes through shared paths."),
    ):
        if name in scalars:
            facts.append(Fact(title, _format_count(scalars[name]), about))
    return tuple(facts)


def _format_count(value: float) -> str:
    """Format a count in full where it is exact, else in four digits."""
    if value.is_integer() and abs(value) < 1e12:
        return f"{int(value):,}"
    return format_number(value, 4)


def _write_note(reading: Reading, graph: str) -> str:
    facts = reading.facts
    example, logit = facts.get("example", "0"), facts.get("logit", "0")
    beside = f" with example {facts['second']}" if "second" in facts else ""
    parts = [f"Example {example}{beside}, logit {logit}, the largest."]
    if graph == "weights":
        count = sum(v.size for n, v in reading.arrays.items() if n.startswith("weights_"))
        if count > MOST_LINES:
            parts.append(f"The {MOST_LINES} largest of {count:,} weights.")
        parts.append("Thick: above ⅔ of the layer's largest; grey: on none of these paths.")
    elif graph == "largest":
        parts.append("Paths from all inputs combined; dashed: negative.")
    elif graph == "":
        parts.append("Too many paths to list; the sums are exact.")
    return " ".join(parts)


PANEL = PanelSpec(
    title="Paths",
    probes=("paths",),
    draw=draw,
    about=About(
        text=(
            "A path runs from an input through one unit of each layer to the output. It is active "
            "for an example if all its gates are open, and contributes the input times its gates "
            "times its weights; the contributions of all paths sum to the output. The map shows "
            "how much of the active paths, of the paths with a gate about to switch, or of the "
            "output passes through each unit. On the right a small network is drawn: units by "
            "their gates, weights by sign and size, in colour where active paths run. Choose a "
            "second example: colour and map then show the paths active for both, which Λ counts. "
            "In very small networks every path can be shown by its feature and value. A residual "
            "network is a sum of 2^b sub-networks, one per choice of blocks: the panel shows "
            "their shares of the path kernel and what each adds to the output. Choose another "
            "example to see which units its paths avoid."
        ),
        formulas=(
            r"$\hat{y}(x) = \sum_p x(p_0) A(x,p) v(p) = \langle \varphi_x, v \rangle$",
            r"$\Lambda(s,s') = \sum_p A(s,p) A(s',p), \quad H = \sum_J H^J$",
            r"$A(x,p) = \prod_l G_l(x, p_l), \quad v(p) = \prod_l \Theta(p_{l-1}, p_l)$",
        ),
        symbols=(
            "$x(p_0)$: the input where path $p$ starts; $A$: product of its gates; $v$: product "
            "of its weights $Θ$; $s$, $s'$: two examples; $H^J$: path kernel of the sub-network "
            "that keeps the blocks $J$."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529: paths, their features and values; sub-networks: Deep Learning Is "
            "Composite Kernel Learning, Lemma 4.2"
        ),
        computed=(
            "Exact, by forward and backward sums over the layers. In networks of up to 4,096 "
            "paths all are listed, in networks of up to 200,000 only the largest."
        ),
        trials=(
            freeze_random_gates(
                "An example's active paths stay the same from then on; only what they carry "
                "changes."
            ),
        ),
    ),
    options=(EXAMPLE, SECOND, SHOW, GRAPH),
    area="left",
    order=13,
    opened=False,
)
