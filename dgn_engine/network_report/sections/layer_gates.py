"""Gates by layer: how open they are, dead units, and how many switched since a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.kernels import gate_churn
from dgn_engine.network_report.panel_figures import draw_panel
from dgn_engine.network_report.probe_readings import (
    cost_of_probe,
    read_probe,
    read_random_networks,
)
from dgn_engine.network_report.section import Quantity, SectionResult, SectionSpec, not_here
from dgn_engine.network_report.subject import Subject
from dgn_engine.network_report.typical import typical_range
from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.scene.elements import Curve
from dgn_engine.text.written_numbers import format_percent
from dgn_engine.training.probes import ProbeContext, ProbeResult

PROBE = "gate_statistics"
CAPTION = "Left: mean gate, dead and always-open units of each layer{}. Right: mean gate by class."
_MOST_ROWS = 12  # layers with a row of their own; of more, the figure has all
_HALF = 0.5  # share of dead units from which a layer is called wasted


def measure(subject: Subject, seconds: float) -> SectionResult:
    """Read the gates of the network, of random ones, and of the checkpoint before."""
    reading = read_probe(subject, PROBE, seconds)
    if reading.absent:
        raise not_here(reading.absent)
    rows: list[dict[str, Array]] = []

    def keep(context: ProbeContext, result: ProbeResult) -> None:
        rows.append({name: result.arrays[name] for name in ("density", "dead", "always")})

    read_random_networks(subject, PROBE, seconds, keep)
    names = subject.network.architecture.gate_names
    density, dead, always = (reading.arrays[name] for name in ("density", "dead", "always"))
    nulls = {
        name: tuple(float(row[name].mean()) for row in rows)
        for name in ("density", "dead", "always")
    }
    regime = subject.imported.regime
    quantities = [
        Quantity(
            "open gates, mean over layers",
            float(density.mean()),
            "percent",
            random=nulls["density"],
            typical=typical_range("open", regime, " %"),
        ),
        Quantity(
            "dead units, mean over layers", float(dead.mean()), "percent", random=nulls["dead"]
        ),
        Quantity(
            "always-open units, mean over layers",
            float(always.mean()),
            "percent",
            random=nulls["always"],
        ),
    ]
    switched = tuple(_churn(subject))
    quantities += [quantity for quantity, _ in switched]
    for layer, name in enumerate(names if len(names) <= _MOST_ROWS else ()):
        quantities.append(
            Quantity(
                f"open gates, {name}",
                float(density[layer]),
                "percent",
                random=tuple(float(row["density"][layer]) for row in rows),
            )
        )
    sentences = (
        _describe_open(quantities[0], density, names, subject.network.gate.soft),
        _describe_dead(dead, always, names, subject.network.architecture.gated_shapes),
        *(sentence for _, sentence in switched),
    )
    return SectionResult(
        tuple(filter(None, sentences)),
        tuple(quantities),
        _draw(subject, reading, [row["density"] for row in rows]),
        CAPTION.format("; grey: the range of the random networks" if rows else ""),
        f"Exact, on {subject.n:,} training examples, balanced over the classes.",
    )


def _describe_open(mean: Quantity, density: Array, names: tuple[str, ...], soft: bool) -> str:
    most, least = int(density.argmax()), int(density.argmin())
    sentence = (
        f"A gate is open by {mean.text} on average over examples and layers"
        if soft
        else f"A gate is open for {mean.text} of the examples on average over layers"
    )
    sentence += f", {mean.rank}" if mean.rank else ""
    if density[least] < density[most]:
        sentence += (
            f"; {names[least]} is the most closed ({format_percent(float(density[least]))}), "
            f"{names[most]} the most open ({format_percent(float(density[most]))})"
        )
    if not mean.rank:
        return f"{sentence}."
    if mean.rank.startswith("within"):
        return f"{sentence}. As a whole, the gates are as open as before any training."
    more = "open" if mean.rank.startswith("above") else "closed"
    return f"{sentence}. Its weights hold the gates more {more} than chance does."


def _describe_dead(
    dead: Array, always: Array, names: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]
) -> str:
    units = np.array([shape[0] for shape in shapes])
    closed, stuck = (int(np.rint(share * units).sum()) for share in (dead, always))
    total = int(units.sum())
    words = [
        f"{closed:,} of {total:,} units are closed for all of these examples, so no path through "
        "them is active here"
        if closed
        else f"Each of the {total:,} units opens for at least one example"
    ]
    words.append(
        f"{stuck:,} are always open, so they are linear here" if stuck else "none is always open"
    )
    sentence = f"{'; '.join(words)}."
    wasted = [name for name, share in zip(names, dead, strict=True) if share > _HALF]
    linear = [name for name, share in zip(names, always, strict=True) if share > _HALF]
    if wasted:
        sentence += f" Most units of {', '.join(wasted[:4])} are dead: that width is wasted here."
    if linear:
        sentence += f" {', '.join(linear[:4])}: mostly linear on these examples."
    return sentence


def _churn(subject: Subject) -> Iterator[tuple[Quantity, str]]:
    """Yield the share of gates that switched since each earlier step, and a sentence about it."""
    now = subject.context().gates
    for earlier in subject.earlier:
        share, by_layer = gate_churn(subject.context(earlier.network).gates, now)
        since = f"step {earlier.step:,}" if earlier.step else "the start of the run"
        sentence = f"Since {since}, {format_percent(share, 2)} of the gates switched"
        if len(by_layer) > 1 and share:
            sentence += (
                f" (by layer {format_percent(min(by_layer), 2)} to "
                f"{format_percent(max(by_layer), 2)})"
            )
        if not share:
            sentence += ": the path features stayed as they were, only the values changed"
        yield Quantity(f"gates switched since {since}", share, "percent"), f"{sentence}."


def _draw(subject: Subject, reading: Reading, densities: list[Array]) -> FigurePanel | None:
    """Draw the panel of gate statistics, with the range of random networks behind it."""
    panel = draw_panel(subject, PROBE, {PROBE: reading}, ("by_layer", "by_class"))
    if panel is None or not densities:
        return panel
    values = 100 * np.array(densities)
    layers = np.arange(1, values.shape[1] + 1, dtype=float)
    outline = np.concatenate((layers, layers[::-1]))
    edge = np.concatenate((values.min(0), values.max(0)[::-1]))
    area = Curve(f"{len(values)} random networks", outline, edge, "muted", filled=True)
    charts = tuple(
        replace(chart, curves=(area, *chart.curves)) if chart.key == "by_layer" else chart
        for chart in panel.scene.charts
    )
    return replace(panel, scene=replace(panel.scene, charts=charts))


SECTION = SectionSpec("gates", "Gates by layer", cost_of_probe(PROBE), measure)
