"""Centred alignment of H, K^V and K^F with the labels, over all classes and class by class."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.network_report.panel_figures import describe_figure, name_ticks
from dgn_engine.network_report.probe_readings import (
    NETWORKS,
    cost_of_probe,
    random_contexts,
)
from dgn_engine.network_report.section import Quantity, SectionResult, SectionSpec, not_here
from dgn_engine.network_report.subject import Subject
from dgn_engine.scene.elements import Axis, Chart, Curve, Dash, Role, Scene
from dgn_engine.text.written_numbers import format_decimals
from dgn_engine.training.probes import ProbeContext
from dgn_engine.training.probes.npk import NOTHING_OPEN

PROBE = "alignment"  # whose cost it has
SHOWN: tuple[tuple[str, str, Role, Dash], ...] = (
    ("npk", "H", "text", "solid"),
    ("value", "K^V", "value", "solid"),
    ("feature", "K^F", "feature", "dash"),
)


def measure(subject: Subject, seconds: float) -> SectionResult:
    """Align the kernels with the labels, with shuffled labels, and those of random networks."""
    context = subject.context()
    kernels = _kernels(context)
    if "npk" not in kernels:
        raise not_here(NOTHING_OPEN)
    targets = k.class_targets(subject.labels, context.classes)
    found = {name: k.centred_alignment(kernel, targets) for name, kernel in kernels.items()}
    shuffled = [
        {name: k.centred_alignment(kernel, other) for name, kernel in kernels.items()}
        for other in _shuffled_targets(subject, context.classes)
    ]
    random = [
        {name: k.centred_alignment(kernel, targets) for name, kernel in _kernels(other).items()}
        for other in random_contexts(subject, PROBE, seconds)
    ]
    quantities = []
    for name, title, *_ in SHOWN:
        if name in found:
            quantities += [
                Quantity(
                    f"CKA of {title}",
                    found[name].centred,
                    random=tuple(one[name].centred for one in random if name in one),
                    shuffled=tuple(one[name].centred for one in shuffled),
                ),
                Quantity(f"{title}, not centred", found[name].uncentred),
            ]
    by_class = {name: one.by_class.numpy() for name, one in found.items()}
    band = np.array([one["npk"].by_class.numpy() for one in shuffled])
    return SectionResult(
        (*_describe(quantities), *_describe_classes(by_class["npk"], subject)),
        tuple(quantities),
        _draw(subject, by_class, band),
        f"CKA of each kernel with one class against the rest; grey: the range of H over {NETWORKS} "
        "orders of shuffled labels.",
        f"Exact, on {subject.n:,} training examples.",
    )


def _kernels(context: ProbeContext) -> dict[str, Tensor]:
    """Return the kernels that a network has, that are not zero and do not overflow."""
    tangent = context.kernels.tangent
    parts = {
        "value": tangent.value,
        "feature": tangent.feature,
        "npk": context.kernels.npk("trace"),
    }
    return {
        name: part.detach()
        for name, part in parts.items()
        if part is not None and bool(part.any()) and bool(torch.isfinite(part).all())
    }


def _shuffled_targets(subject: Subject, classes: int) -> list[Tensor]:
    """Return targets with the labels in random order."""
    generator = np.random.default_rng(subject.seed)
    orders = [torch.from_numpy(generator.permutation(subject.n)) for _ in range(NETWORKS)]
    return [k.class_targets(subject.labels[order], classes) for order in orders]


def _describe(quantities: list[Quantity]) -> list[str]:
    """Say how well each kernel knows the labels, and which one does best."""
    sentences = []
    by_name = {quantity.name: quantity for quantity in quantities}
    for _, title, *_ in SHOWN:
        own = by_name.get(f"CKA of {title}")
        if own is None or not math.isfinite(own.value):
            continue
        also = f" and {own.rank}" if own.rank else ""
        sentences.append(
            f"{title} is aligned with the classes by {own.text} (CKA), {own.label_rank}{also}."
        )
    if not sentences:
        return ["No kernel has a defined alignment: the examples do not differ, or have one class."]
    own = by_name["CKA of H"]
    if not own.label_rank.startswith("above"):
        sentences.append("Which paths are open says nothing about the classes here.")
    elif own.rank.startswith("above"):
        sentences.append(
            "Which paths are open tells the classes apart better than in random networks: the "
            "gates have learnt."
        )
    elif own.rank:
        sentences.append(
            "Which paths are open tells the classes apart no better than in random networks."
        )
    return sentences


def _describe_classes(by_class: np.ndarray, subject: Subject) -> list[str]:
    """Name the classes that H knows best and least."""
    known = np.flatnonzero(np.isfinite(by_class))
    if len(known) < 3:
        return []
    names = subject.examples.class_names
    best, worst = known[np.argmax(by_class[known])], known[np.argmin(by_class[known])]
    return [
        f"H knows {names[best]} best ({format_decimals(by_class[best], 3)}) and {names[worst]} "
        f"least ({format_decimals(by_class[worst], 3)})."
    ]


def _draw(subject: Subject, by_class: Mapping[str, np.ndarray], band: np.ndarray) -> FigurePanel:
    """Draw the alignment of each class, with that of shuffled labels behind it."""
    present = np.flatnonzero(np.isfinite(by_class["npk"]))
    place = np.arange(len(present), dtype=float)
    names = [subject.examples.class_names[label] for label in present]
    low, high = (edge[present] for edge in (np.nanmin(band, 0), np.nanmax(band, 0)))
    chart = Chart(
        key="by_class",
        title="CKA with one class against the rest",
        x=Axis(
            "class",
            limits=(-0.5, len(present) - 0.5),
            ticks=name_ticks(names),
        ),
        y=Axis(),
        curves=(
            Curve(
                "shuffled labels",
                np.concatenate((place, place[::-1])),
                np.concatenate((low, high[::-1])),
                "muted",
                filled=True,
            ),
            *(
                Curve(f"${title}$", place, by_class[name][present], role, dash, marker=True)
                for name, title, role, dash in SHOWN
                if name in by_class
            ),
        ),
    )
    context = describe_figure(subject, "Alignment with the labels")
    return FigurePanel("alignment", Scene((chart,), step=subject.imported.step), context)


SECTION = SectionSpec("alignment", "Alignment with the labels", cost_of_probe(PROBE), measure)
