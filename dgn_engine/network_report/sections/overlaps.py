"""Overlap of active and sensitive sub-networks, Λ and S, within and between classes."""

from __future__ import annotations

import numpy as np

from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.network_report.panel_figures import describe_figure, name_ticks
from dgn_engine.network_report.probe_readings import (
    cost_of_probe,
    describe_method,
    read_probe,
    read_random_networks,
)
from dgn_engine.network_report.section import Quantity, SectionResult, SectionSpec, not_here
from dgn_engine.network_report.subject import Subject
from dgn_engine.network_report.typical import typical_range
from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.scene.axes import class_names
from dgn_engine.scene.elements import Axis, Chart, Matrix, Scene, finite_range
from dgn_engine.text.written_numbers import format_decimals
from dgn_engine.training.probes import ProbeContext, ProbeResult

PROBE = "overlap"
KINDS = (("active", "Λ"), ("sensitive", "S"))


def class_means(kernel: Array, labels: Array) -> tuple[Array, Array]:
    """Average a kernel over pairs of different examples, class by class.

    Args:
        kernel: (n, n); NaN entries are left out.
        labels: (n,) Class numbers.

    Returns:
        The classes present (C,), and the means (C, C); NaN where there is no pair.
    """
    classes = np.unique(labels)
    pairs = np.isfinite(kernel) & ~np.eye(len(kernel), dtype=bool)
    members = (labels[None, :] == classes[:, None]).astype(float)
    sums = members @ np.where(pairs, kernel, 0.0) @ members.T
    counts = members @ pairs @ members.T
    return classes, np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def same_and_other(kernel: Array, labels: Array) -> tuple[float, float]:
    """Return the means over pairs of different examples of the same class, and of two classes."""
    pairs = np.isfinite(kernel) & ~np.eye(len(kernel), dtype=bool)
    same = labels[:, None] == labels[None, :]
    means = [
        float(kernel[pairs & chosen].mean()) if (pairs & chosen).any() else float("nan")
        for chosen in (same, ~same)
    ]
    return means[0], means[1]


def measure(subject: Subject, seconds: float) -> SectionResult:
    """Read Λ and S of the network and of random ones."""
    reading = read_probe(subject, PROBE, seconds)
    if reading.absent:
        raise not_here(reading.absent)
    labels = reading.arrays["labels"]
    found = {kind: same_and_other(reading.arrays[kind], labels) for kind, _ in KINDS}
    nulls: dict[str, list[tuple[float, float]]] = {kind: [] for kind, _ in KINDS}

    def keep(context: ProbeContext, result: ProbeResult) -> None:
        for kind, _ in KINDS:
            if kind in result.arrays:
                nulls[kind].append(same_and_other(result.arrays[kind], result.arrays["labels"]))

    if not reading.error:
        read_random_networks(subject, PROBE, seconds, keep)
    regime = subject.imported.regime
    quantities = []
    for kind, letter in KINDS:
        for at, which in enumerate(("same class", "different classes")):
            quantities.append(
                Quantity(
                    f"{letter}, {which}",
                    found[kind][at],
                    random=tuple(pair[at] for pair in nulls[kind]),
                    typical=typical_range(f"{kind}_{('same', 'other')[at]}", regime),
                )
            )
        gaps = tuple(same / other for same, other in nulls[kind] if other)
        same, other = found[kind]
        if other and np.isfinite(same):
            quantities.append(
                Quantity(f"{letter}, same over different", same / other, "number", random=gaps)
            )
    matrices = {kind: class_means(reading.arrays[kind], labels) for kind, _ in KINDS}
    names = class_names(subject.view({}), labels)
    sentences = (
        _describe_gap(quantities, "Λ"),
        *_describe_extremes(*matrices["active"], names),
        _describe_sensitive(quantities),
    )
    return SectionResult(
        tuple(filter(None, sentences)),
        tuple(quantities),
        _draw(subject, reading, matrices, names),
        "Mean overlap of two examples of these classes, unit diagonal before averaging; pairs of "
        "an example with itself are left out.",
        describe_method(reading, len(nulls["active"])),
    )


def _describe_gap(quantities: list[Quantity], letter: str) -> str:
    by_name = {quantity.name: quantity for quantity in quantities}
    same, other = by_name[f"{letter}, same class"], by_name[f"{letter}, different classes"]
    ratio = by_name.get(f"{letter}, same over different")
    if ratio is None:
        return f"Two different examples share {other.text} of their active paths ({letter})."
    sentence = (
        f"Two examples of one class share {same.text} of their active paths ({letter}), two of "
        f"different classes {other.text}: {ratio.text} times as many"
    )
    if not ratio.rank and same.typical:
        return f"{sentence}. Within a class, trained networks have {same.typical}."
    if not ratio.rank:
        return f"{sentence}."
    if ratio.rank.startswith("above"):
        return f"{sentence}, {ratio.rank}. The gates tell the classes apart; chance does so less."
    if ratio.rank.startswith("below"):
        return f"{sentence}, {ratio.rank}. The gates tell the classes apart less than chance does."
    return f"{sentence}, {ratio.rank}. The gates tell the classes apart as random ones do."


def _describe_extremes(classes: Array, means: Array, names: tuple[str, ...]) -> list[str]:
    """Name the two classes that share most paths, and the class that is least alike inside."""
    if len(classes) < 3:
        return []
    between = np.where(np.eye(len(classes), dtype=bool), np.nan, means)
    if not np.isfinite(between).any():
        return []
    a, b = np.unravel_index(np.nanargmax(between), between.shape)
    sentence = (
        f"The classes {names[int(classes[a])]} and {names[int(classes[b])]} share most paths "
        f"({format_decimals(between[a, b], 3)})"
    )
    inside = np.diag(means)
    if np.isfinite(inside).any():
        low = int(np.nanargmin(inside))
        least = format_decimals(inside[low], 3)
        sentence += f"; {names[int(classes[low])]} is the least alike inside ({least})"
    return [f"{sentence}."]


def _describe_sensitive(quantities: list[Quantity]) -> str:
    by_name = {quantity.name: quantity for quantity in quantities}
    same, other = by_name["S, same class"], by_name["S, different classes"]
    if not np.isfinite(other.value):
        return "No gate is about to switch for two examples at once, so S has no entries."
    rank = f", {other.rank}" if other.rank else ""
    return (
        f"The paths with one gate about to switch overlap by {same.text} within a class and "
        f"{other.text} between classes (S{rank}): where S is large, further training can still "
        "change which examples share paths."
    )


def _draw(
    subject: Subject,
    reading: Reading,
    matrices: dict[str, tuple[Array, Array]],
    names: tuple[str, ...],
) -> FigurePanel:
    """Draw the means by class of Λ and S side by side."""
    charts = []
    for column, (kind, letter) in enumerate(KINDS):
        classes, means = matrices[kind]
        labels = tuple(names[int(label)] for label in classes)
        low, high = finite_range(means)
        axis = Axis("class", limits=(-0.5, len(labels) - 0.5), ticks=name_ticks(labels))
        charts.append(
            Chart(
                key=kind,
                title=f"{'Active' if kind == 'active' else 'Sensitive'} ${letter}$ by class",
                x=axis,
                y=axis if column == 0 else Axis("", limits=axis.limits, ticks=()),
                matrix=Matrix(
                    name=f"{kind} by class",
                    values=means,
                    ramp="sequential",
                    low=low,
                    high=high if high > low else low + 1e-9,
                    bar="mean overlap",
                    row_name="class",
                    column_name="class",
                    row_labels=labels,
                    column_labels=labels,
                ),
                column=column,
                square=True,
            )
        )
    context = describe_figure(subject, "Overlap by class", reading.remark)
    return FigurePanel("overlaps", Scene(tuple(charts), step=subject.imported.step), context)


SECTION = SectionSpec("overlaps", "Overlap of paths by class", cost_of_probe(PROBE), measure)
