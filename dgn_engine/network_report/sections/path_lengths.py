"""Path norms: Σ|v| and √Σv² over all paths, and the distance from the initial network."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.figures.provenance import FigurePanel
from dgn_engine.model.network import GatedNetwork
from dgn_engine.network_report.panel_figures import describe_figure, name_ticks
from dgn_engine.network_report.probe_readings import count_networks, forward_seconds
from dgn_engine.network_report.section import Quantity, SectionCost, SectionResult, SectionSpec
from dgn_engine.network_report.subject import Subject
from dgn_engine.scene.elements import Array, Axis, Chart, Curve, Scene
from dgn_engine.text.written_numbers import format_number
from dgn_engine.training.metrics import evenly_spaced

_PASSES = 8  # forward passes of one example that both norms cost, in float64
_PAIRED = 200  # examples whose logits are compared in pairs, at most


def cost(subject: Subject, limit: float) -> SectionCost:
    """Return the time of the norms of this network and of random ones."""
    each = forward_seconds(subject, _PASSES)
    return SectionCost((1 + count_networks(each, limit)) * each, each)


def measure(subject: Subject, seconds: float) -> SectionResult:
    """Compute the norms of the value network, of random ones, and distances to earlier steps."""
    weights = k.PathWeights.from_stack(subject.network.value)
    norms = k.path_value_norms(weights)
    count = count_networks(forward_seconds(subject, _PASSES), seconds)
    nulls = [
        k.path_value_norms(k.PathWeights.from_stack(network.value))
        for network in subject.random_networks(count)
    ]
    quantities = [
        Quantity("‖v‖₁ over all paths", norms.l1, "number", random=tuple(n.l1 for n in nulls)),
        Quantity("‖v‖₂ over all paths", norms.l2, "number", random=tuple(n.l2 for n in nulls)),
        Quantity(
            "‖v‖₁ over ‖v‖₂",
            norms.l1 / norms.l2 if norms.l2 else float("nan"),
            "number",
            random=tuple(n.l1 / n.l2 for n in nulls if n.l2),
        ),
    ]
    for earlier in subject.earlier:
        distance = k.path_value_distance(k.PathWeights.from_stack(earlier.network.value), weights)
        since = f"step {earlier.step:,}" if earlier.step else "the initial network"
        quantities += [
            Quantity(f"cosine of v with {since}", distance.cosine),
            Quantity(f"‖v − v'‖₂ to {since}", distance.l2, "number"),
        ]
    by_logit = norms.l1_by_logit.numpy()
    sentences = (
        _describe_size(quantities),
        describe_bound(subject.network, subject.x, by_logit),
        _describe_distance(quantities),
    )
    return SectionResult(
        tuple(filter(None, sentences)),
        tuple(quantities),
        _draw(subject, by_logit, np.array([n.l1_by_logit.numpy() for n in nulls])),
        "Σ|v| over the paths that end in each logit"
        + ("; grey: the range of the random networks." if nulls else "."),
        "Exact, in two passes of |θ| and θ² in float64 (Gonon et al. 2024, arXiv:2310.01225), with "
        "BatchNorm folded in; biases count as paths. No rescaling of hidden units changes them.",
    )


def _describe_size(quantities: list[Quantity]) -> str:
    first = quantities[0]
    rank = f", {first.rank}" if first.rank else ""
    sentence = f"The magnitudes of all paths add up to ‖v‖₁ = {first.text}{rank}"
    if first.rank.startswith("above"):
        return f"{sentence}: the weights have grown, whatever the scale of single layers."
    if first.rank.startswith("below"):
        return f"{sentence}: the weights are smaller than at the start of a run."
    return f"{sentence}."


def describe_bound(network: GatedNetwork, x: Tensor, by_logit: Array) -> str:
    """Compare the Lipschitz bound with how much the logits of examples differ.

    Args:
        network: the network.
        x: examples, (n, *input_shape).
        by_logit: Σ|v| of the paths to each logit, (C,).

    Returns:
        A sentence or two; '' where the paths bound nothing, or no example differs.
    """
    if not network.own_gates or network.gate.soft:
        why = "are soft" if network.own_gates else "come from another network"
        return (
            f"As the gates {why}, this bounds how a logit changes with the input of the value "
            "network only while the gates stay as they are."
        )
    # Slopes above 1 (PReLU) make logits steeper than their paths.
    if any(float(slope.detach().abs().max()) > 1.0 for slope in network.value.slopes() or ()):
        return ""
    x = x[evenly_spaced(min(len(x), _PAIRED), len(x))]
    with torch.no_grad():
        logits = network(x).double().numpy()
    if not np.isfinite(logits).all():
        return ""
    x = x.double().flatten(1)
    steepest = 0.0
    for row in range(len(x)):
        moved = (x - x[row]).abs().amax(1).numpy()
        change = np.abs(logits - logits[row])
        near = moved > 0
        if near.any():
            steepest = max(steepest, float((change[near] / moved[near, None]).max()))
    if not steepest:
        return ""
    largest = float(by_logit.max())
    return (
        f"No logit changes by more than {format_number(largest, 3)} times the largest change of "
        f"an input. Between two of {len(x):,} examples here it changes by at most "
        f"{format_number(steepest, 3)} times that, so the bound is "
        f"{format_number(largest / steepest, 2)} times what is seen here."
    )


def _describe_distance(quantities: list[Quantity]) -> str:
    cosines = [q for q in quantities if q.name.startswith("cosine")]
    if not cosines:
        return ""
    words = "; ".join(f"{q.text} {q.name.removeprefix('cosine of v ')}" for q in cosines)
    return f"As one vector over all paths, v has the cosine {words}."


def _draw(subject: Subject, by_logit: Array, nulls: Array) -> FigurePanel:
    """Draw ‖v‖₁ of each logit."""
    place = np.arange(len(by_logit), dtype=float)
    names = subject.examples.class_names
    own = len(by_logit) == len(names) and not subject.why_no_accuracy
    curves = [Curve("this network", place, by_logit, "accent", marker=len(by_logit) < 64)]
    if len(nulls):
        edge = np.concatenate((nulls.min(0), nulls.max(0)[::-1]))
        outline = np.concatenate((place, place[::-1]))
        area = Curve(f"{len(nulls)} random networks", outline, edge, "muted", filled=True)
        curves.insert(0, area)
    chart = Chart(
        key="by_logit",
        title="Path norm $‖v‖_1$ by logit",
        x=Axis(
            "class" if own else "logit",
            limits=(-0.5, len(by_logit) - 0.5),
            ticks=name_ticks(names if own else [str(at) for at in range(len(by_logit))]),
        ),
        y=Axis(log=True),
        curves=tuple(curves),
    )
    context = describe_figure(subject, "Path norms")
    return FigurePanel("path_norms", Scene((chart,), step=subject.imported.step), context)


SECTION = SectionSpec("path-norms", "Path norms", cost, measure)
