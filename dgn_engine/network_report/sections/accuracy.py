"""Accuracy on test examples, over all and by class, with intervals."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import torch

from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.network_report.panel_figures import describe_figure, name_ticks
from dgn_engine.network_report.probe_readings import forward_seconds
from dgn_engine.network_report.section import (
    Quantity,
    SectionCost,
    SectionResult,
    SectionSpec,
    join_words,
    not_here,
)
from dgn_engine.network_report.subject import Subject
from dgn_engine.protocol.frames import Array
from dgn_engine.scene.elements import Axis, Chart, Curve, Scene
from dgn_engine.text.written_numbers import format_decimals, format_percent
from dgn_engine.training.metrics import evenly_spaced
from dgn_engine.training.steps.losses import correct_mask

Z = 1.959964  # of a 95 % interval


def wilson_interval(right: int, count: int, z: float = Z) -> tuple[float, float]:
    """Return Wilson's interval of a share.

    Args:
        right: Number of successes k.
        count: Number of trials m.
        z: Quantile of the normal distribution, by default that of a 95 % interval.

    Returns:
        Both ends, in [0, 1]: (k + z²/2 ∓ z√(k(m − k)/m + z²/4))/(m + z²).
    """
    middle = right + z * z / 2
    half = z * math.sqrt(right * (count - right) / count + z * z / 4)
    return (middle - half) / (count + z * z), (middle + half) / (count + z * z)


def cost(subject: Subject, limit: float) -> SectionCost:
    """Return the time of a forward pass of the test examples and as many training examples."""
    seconds = forward_seconds(subject, 2 * min(subject.scored, len(subject.examples.test_y)))
    return SectionCost(seconds, seconds)


def measure(subject: Subject, seconds: float) -> SectionResult:
    """Score evenly spaced test examples, and as many training examples."""
    if subject.why_no_accuracy:
        raise not_here(f"The network has no accuracy here: {subject.why_no_accuracy}.")
    data = subject.examples
    if not len(data.test_y) or not subject.scored:
        raise not_here("There are no test examples.")
    labels, right = _score(subject, data.test_x, data.test_y)
    train_labels, train_right = _score(subject, data.train_x, data.train_y)
    count, correct = len(right), int(right.sum())
    low, high = wilson_interval(correct, count)
    classes = np.unique(labels)
    by_class = {int(c): (int(right[labels == c].sum()), int((labels == c).sum())) for c in classes}
    commonest = max(total for _, total in by_class.values()) / count
    share, train_share = correct / count, float(train_right.mean())
    name = f"{data.name} ({count:,} of {len(data.test_y):,} test examples)"
    wrong = count - correct
    sentences = [
        f"It classifies {format_percent(share)} of {name} correctly and errs on {wrong:,}; the 95 "
        f"% interval for other examples of this kind is {format_percent(low)} to "
        f"{format_percent(high)}.",
        _describe_chance(low, high, commonest),
        _describe_gap(share, train_share, len(train_labels), count),
        *_describe_classes(by_class, data.class_names),
    ]
    quantities = (
        Quantity("test accuracy", share, "percent", low, high),
        Quantity("accuracy of always answering the commonest class", commonest, "percent"),
        Quantity("accuracy on training examples", train_share, "percent"),
    )
    return SectionResult(
        tuple(filter(None, sentences)),
        quantities,
        _draw(subject, by_class),
        "Test accuracy of each class with its 95 % interval (Wilson); the line is the accuracy "
        "over all classes.",
        f"Exact counts on {count:,} evenly spaced test examples.",
    )


def _score(subject: Subject, images: Array, labels: Array) -> tuple[Array, Array]:
    """Return the labels of evenly spaced examples, and which of them are classified correctly."""
    rows = evenly_spaced(min(subject.scored, len(labels)), len(labels))
    right = []
    like = next(subject.network.parameters())
    with torch.no_grad():
        for start in range(0, len(rows), 100):
            part = rows[start : start + 100]
            x = subject.prepare(torch.from_numpy(images[part]).to(like.dtype))
            logits = subject.network(x.reshape(len(x), *subject.network.architecture.input_shape))
            right.append(correct_mask(logits, torch.from_numpy(labels[part])))
    return labels[rows], torch.cat(right).numpy()


def _describe_chance(low: float, high: float, commonest: float) -> str:
    chance = format_percent(commonest)
    if low > commonest:
        return (
            f"Always answering the commonest class would give {chance}, far below."
            if (low > 2 * commonest)
            else f"Always answering the commonest class would give {chance}."
        )
    if high < commonest:
        return f"Always answering the commonest class would give {chance}: it is worse than that."
    return (
        f"Always answering the commonest class would give {chance}: it is not shown that the "
        "network has learnt anything about these data."
    )


def _describe_gap(share: float, train_share: float, train: int, test: int) -> str:
    gap = train_share - share
    error = math.sqrt(share * (1 - share) / test + train_share * (1 - train_share) / max(train, 1))
    points = f"{format_decimals(100 * abs(gap), 1)} points"
    if gap > 2 * error:
        return (
            f"On training examples of these data it has {format_percent(train_share)}, {points} "
            "more: what it learnt does not carry over in full."
        )
    return (
        f"On training examples of these data it has {format_percent(train_share)}, no clear "
        "difference."
    )


def harder_classes(by_class: dict[int, tuple[int, int]]) -> list[int]:
    """Return the classes whose interval lies below the accuracy of the others.

    The intervals hold for all classes together (Bonferroni): of 1,000 equally hard classes, 25
    would lie below it by chance otherwise.

    Args:
        by_class: How many examples of each class are classified correctly, of how many.
    """
    right, count = (sum(column) for column in zip(*by_class.values(), strict=True))
    z = NormalDist().inv_cdf(1.0 - 0.025 / len(by_class))
    return [
        label
        for label, (own, total) in by_class.items()
        if wilson_interval(own, total, z)[1] < (right - own) / max(count - total, 1)
    ]


def _describe_classes(by_class: dict[int, tuple[int, int]], names: tuple[str, ...]) -> list[str]:
    """Name the classes that are clearly harder than the others."""
    worse = []
    for label in harder_classes(by_class):
        own, total = by_class[label]
        worse.append(f"{names[label]} ({format_percent(own / total)} of {total:,})")
    if not worse:
        return ["No class is clearly harder than the others."]
    shown = worse[:5]
    more = f" and {len(worse) - 5} more" if len(worse) > 5 else ""
    return [f"Clearly harder than the others: {join_words(shown)}{more}."]


def _draw(subject: Subject, by_class: dict[int, tuple[int, int]]) -> FigurePanel:
    """Draw the accuracy of each class with its interval."""
    classes = list(by_class)
    position = np.arange(len(classes), dtype=float)
    shares = np.array([100 * right / total for right, total in by_class.values()])
    ends = 100 * np.array([wilson_interval(*counts) for counts in by_class.values()])
    right, total = (sum(column) for column in zip(*by_class.values(), strict=True))
    bars = np.column_stack((ends, np.full(len(classes), np.nan))).ravel()
    names = [subject.examples.class_names[label] for label in classes]
    chart = Chart(
        key="by_class",
        title="Test accuracy by class, %",
        x=Axis(
            "class",
            limits=(-0.5, len(classes) - 0.5),
            ticks=name_ticks(names),
        ),
        y=Axis(limits=(min(float(ends.min()), 100 * right / total) - 2.0, 101.0)),
        curves=(
            Curve(
                "all",
                np.array([-0.5, len(classes) - 0.5]),
                np.full(2, 100 * right / total),
                "muted",
                "dash",
            ),
            Curve("95 % interval", np.repeat(position, 3), bars, "text", segments=True),
            Curve("accuracy", *_apart(position, shares), "accent", marker=True),
        ),
        named_above=True,
    )
    context = describe_figure(subject, "Accuracy")
    return FigurePanel("accuracy", Scene((chart,), step=subject.imported.step), context)


def _apart(x: Array, y: Array) -> tuple[Array, Array]:
    """Return points with gaps between them, so that no line joins the classes."""
    return np.repeat(x, 2), np.column_stack((y, np.full(len(y), np.nan))).ravel()


SECTION = SectionSpec("accuracy", "Accuracy", cost, measure)
