"""Paths: the active and the sensitive sub-network of one example, and what they add up to."""

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
    reach_of,
)
from dgn_engine.scene.layer_curves import layer_axis, layers_by_units
from dgn_engine.scene.network_graph import MOST_LINES, network_graph
from dgn_engine.scene.panel_readings import draw_reading
from dgn_engine.scene.panel_spec import About, Option, PanelSpec, Values, View, choice
from dgn_engine.scene.scatter import lines, scattered
from dgn_engine.scene.trials import freeze_random_gates
from dgn_engine.text.written_numbers import number

_MAPS = {
    "through": ("Active paths through each unit", "share of active paths"),
    "through_shared": ("Shared active paths through each unit", "share of shared paths"),
    "near": ("Sensitive gates on paths", "share of sensitive pairs"),
    "contributed": ("Part of the output through each unit", "part of the output"),
}
_LEAST_SHARE = 1e-9  # percent; what is less lies below the axis


def _examples(view: View) -> Values:
    """The probe examples, where the paths of one of them are shown."""
    reading = view.readings.get("paths")
    whole = _apart(reading) and reading is not None and "example" not in reading.facts
    return () if whole else example_values(view)


def _apart(reading: Reading | None) -> bool:
    """Whether it is of a residual network, by its sub-networks."""
    return reading is not None and "shares" in reading.arrays


def _second(view: View) -> Values:
    """Another example, beside the first one, of a chain."""
    if _apart(view.readings.get("paths")):
        return ()
    return (("none", "alone"), *((i, f"and {i}") for i, _ in _examples(view)))


def _maps(view: View) -> Values:
    if _apart(view.readings.get("paths")):
        return ()
    return (("through", "active"), ("near", "sensitive"), ("contributed", "output"))


def _pictures(view: View) -> Values:
    """What the graph can show of this network."""
    reading = view.readings.get("paths")
    found = reading.arrays if reading is not None else {}
    if "gates" not in found:  # of a frame that an earlier version recorded
        return ()
    offered = (
        ("weights", "weights", any(name.startswith("weights_") for name in found)),
        ("largest", "largest", "units" in found),
        ("each", "φ, v", "feature" in found),
    )
    return tuple((value, words) for value, words, there in offered if there)


EXAMPLE = Option("example", "Example", _examples, True, ("example", 0))
SECOND = Option("second", "Second example", _second, True, ("example", 1))
GRAPH = Option("graph", "Right", _pictures)
SHOW = Option("show", "Units", _maps)


@draw_reading("paths", "The paths of one example: how many are active, and what they add up to.")
def draw(view: View, reading: Reading) -> Shown:
    """Units by what passes them, and the largest paths; or the sub-networks of blocks."""
    if _apart(reading):
        return Scene(_sub_networks(reading), _facts(reading), reading.step, _share_note(reading))
    charts = [_units(reading, choice(view, SHOW))]
    match choice(view, GRAPH):
        case "weights":
            charts.append(network_graph(reading))
        case "largest":
            charts.append(_largest(reading))
        case "each":
            charts.append(_each(reading))
    note = _note(reading, choice(view, GRAPH))
    return Scene(tuple(charts), _facts(reading), reading.step, note)


def _units(reading: Reading, what: str) -> Chart:
    if what == "through" and "through_shared" in reading.arrays:
        what = "through_shared"
    values = reading.arrays[what]
    reach = reach_of(values)
    signed = what == "contributed"
    title, bar = _MAPS[what]
    ramp: Ramp = "diverging" if signed else "sequential"
    matrix = Matrix(what, values, ramp, -reach if signed else 0.0, reach, bar)
    return replace(layers_by_units(title, range(len(values)), matrix), narrow=(0, 0, 1, 1))


def _largest(reading: Reading) -> Chart:
    """The paths with the largest contributions, through the units that are open or closed."""
    gates, units = reading.arrays["gates"], reading.arrays["units"]
    layers, widest = gates.shape
    at = np.arange(1, layers + 1, dtype=np.float64)
    curves = [
        Curve(
            f"{number(part, 2)}",
            at,
            units[place].astype(np.float64),
            "value" if part >= 0 else "feature",
            "solid" if part >= 0 else "dash",
            thick=place == 0,
        )
        for place, part in enumerate(reading.arrays["parts"].tolist())
    ]
    kinds: tuple[tuple[str, Array, Role], ...] = (
        ("open", gates >= 0.5, "accent"),
        ("closed", gates < 0.5, "muted"),
    )
    for name, mine, role in kinds:
        rows, columns = np.nonzero(mine)
        if len(rows):
            curves.append(scattered(name, rows + 1, columns, role))
    return Chart(
        key="largest",
        title=f"The {len(units)} largest paths",
        x=layer_axis(layers),
        y=Axis("unit", limits=(-1.0, float(widest)), subjects=Subjects("unit", range(widest))),
        curves=_distinct(curves),
        column=1,
        narrow=(1, 0, 1, 1),
    )


def _each(reading: Reading) -> Chart:
    """Every path by its feature and its value; their products sum to the output."""
    feature, value = reading.arrays["feature"], reading.arrays["value"]
    active = np.abs(feature) > 0
    adds = feature * value > 0
    curves = [
        scattered(name, feature[mine], value[mine], role)  # type: ignore[arg-type]  # a role
        for name, mine, role in (
            ("φ v > 0", active & adds, "value"),
            ("φ v < 0", active & ~adds, "feature"),
            ("not active", ~active, "muted"),
        )
        if mine.any()
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


def _distinct(curves: list[Curve]) -> tuple[Curve, ...]:
    """Two paths of one contribution are told apart by their place."""
    seen: dict[str, int] = {}
    found = []
    for curve in curves:
        seen[curve.name] = seen.get(curve.name, 0) + 1
        again = f" ({seen[curve.name]})" if seen[curve.name] > 1 else ""
        found.append(replace(curve, name=curve.name + again))
    return tuple(found)


def _sub_networks(reading: Reading) -> tuple[Chart, ...]:
    """The share of each in the path kernel and in the number of paths, and what it adds."""
    arrays = reading.arrays
    parts: tuple[tuple[str, str, Role], ...] = (
        ("paths", "of the paths", "muted"),
        ("shares", "of the path kernel", "value"),
    )
    found = [(words, 100 * arrays[name], role) for name, words, role in parts if name in arrays]
    y = _share_axis(np.concatenate([values for _, values, _ in found]))
    low = y.limits[0] if y.limits is not None else 0.0
    shares = Chart(
        key="shares",
        title="Share of each sub-network, %",
        x=_blocks(reading),
        y=y,
        curves=tuple(
            curve for words, values, role in found for curve in _bars(words, values, role, low)
        ),
    )
    if "outputs" not in arrays:
        return (shares,)
    outputs = Chart(
        key="outputs",
        title=f"What each adds to logit {reading.facts.get('logit', '0')}",
        x=shares.x,
        y=Axis(),
        curves=_bars("adds", arrays["outputs"], "feature"),
        column=1,
        narrow=(1, 0, 1, 1),
    )
    return shares, outputs


def _blocks(reading: Reading) -> Axis:
    names = reading.facts.get("blocks", "").split(",")
    every = -(-len(names) // 16)
    ticks = tuple((float(p), names[p - 1] or "none") for p in range(1, len(names) + 1, every))
    return Axis("blocks kept", limits=(0.5, len(names) + 0.5), ticks=ticks, places=True)


def _share_axis(percent: Array) -> Axis:
    """In powers of ten: of the paths nearly all take every block, and the others differ too."""
    above = percent[percent > 0]
    if not above.size:
        return Axis()
    low = max(float(above.min()), _LEAST_SHARE)
    return Axis(log=True, limits=(10.0 ** np.floor(np.log10(low)), 200.0))


def _bars(name: str, values: Array, role: Role, low: float = 0.0) -> tuple[Curve, ...]:
    """A point at each value, and a thin line to it from zero, or from the lowest shown."""
    at = np.arange(1.0, len(values) + 1)
    feet, heads = (np.stack([at, y], axis=1) for y in (np.full(len(at), low), values))
    stems = replace(lines(f"{name} from zero", feet, heads, role), faint=True)
    return stems, scattered(name, at, values, role, thick=True)


def _share_note(reading: Reading) -> str:
    facts = reading.facts
    parts = ["Of the kernel: trace $H^J$/trace $H$."]
    if "example" in facts:
        parts.append(f"Right: example {facts['example']}; together they are its largest logit.")
    else:
        parts.append("With biases the output is no sum over sub-networks.")
    return " ".join(parts)


def _facts(reading: Reading) -> tuple[Fact, ...]:
    found = reading.scalars
    facts = []
    for name, title, about in (
        ("total", "paths", "That end in one logit: inputs times units of each layer."),
        ("active", "active", "Sum over paths of the product of their gates."),
        ("sensitive", "sensitive", "Pairs of a path and a sensitive gate on it."),
        ("output", "output", "What all paths add up to: Σ_p x(p_0) A(x, p) v(p), the logit."),
        ("active_second", "active of the second", "Sum over paths of the product of its gates."),
        ("shared", "shared", "Paths active for both, Λ(s, s'): the sum of products of activities."),
        ("output_shared", "along these", "Part of the first's logit along the shared paths."),
    ):
        if name in found:
            facts.append(Fact(title, _counted(found[name]), about))
    return tuple(facts)


def _counted(value: float) -> str:
    """A count in full as far as it is known exactly, else four digits."""
    if value.is_integer() and abs(value) < 1e12:
        return f"{int(value):,}"
    return number(value, 4)


def _note(reading: Reading, graph: str) -> str:
    facts = reading.facts
    example, logit = facts.get("example", "0"), facts.get("logit", "0")
    beside = f" beside example {facts['second']}" if "second" in facts else ""
    parts = [f"Example {example}{beside}, logit {logit}, its largest."]
    if graph == "weights":
        count = sum(v.size for n, v in reading.arrays.items() if n.startswith("weights_"))
        if count > MOST_LINES:
            parts.append(f"The {MOST_LINES} largest of {count:,} weights.")
        parts.append("Thick: above ⅔ of the layer's largest; grey: no path of these runs there.")
    elif graph == "largest":
        parts.append("Paths from all inputs together; dashed: below zero.")
    elif graph == "":
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
            "the output passes each unit. Right a small network is drawn: units by their gates, "
            "weights by sign and size, in colour where active paths run. Choose a second example: "
            "colour and map then show the paths that are active for both, which Λ counts. Of very "
            "small networks every path can be shown by its feature and its value. A residual "
            "network is a sum of 2^b sub-networks, one for each choice of blocks: shown are their "
            "shares in the path kernel, and what each adds to the output. Choose another example "
            "and see which units its paths leave."
        ),
        formulas=(
            r"$\hat{y}(x) = \sum_p x(p_0) A(x,p) v(p) = \langle \varphi_x, v \rangle$",
            r"$\Lambda(s,s') = \sum_p A(s,p) A(s',p), \quad H = \sum_J H^J$",
            r"$A(x,p) = \prod_l G_l(x, p_l), \quad v(p) = \prod_l \Theta(p_{l-1}, p_l)$",
        ),
        symbols=(
            "$x(p_0)$: the input that path $p$ begins at; $A$: product of its gates; $v$: product "
            "of its weights $Θ$; $s$, $s'$: two examples; $H^J$: path kernel of the sub-network "
            "that keeps the blocks $J$."
        ),
        source=(
            "Lakshminarayanan & Singh, Neural Path Features and Neural Path Kernel, NeurIPS 2020, "
            "arXiv:2006.10529: paths, their features and values; sub-networks: Deep Learning Is "
            "Composite Kernel Learning, Lemma 4.2"
        ),
        computed=(
            "Exactly, by sums over the layers forwards and backwards; paths are written out one by "
            "one where there are at most 4,096, the largest of them up to 200,000."
        ),
        trials=(
            freeze_random_gates(
                "The active paths of an example stay the same from then on; only what they carry "
                "changes."
            ),
        ),
    ),
    options=(EXAMPLE, SECOND, SHOW, GRAPH),
    area="left",
    order=13,
    opened=False,
)
