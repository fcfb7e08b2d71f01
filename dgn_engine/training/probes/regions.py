"""A plane through the examples, cut by gates: linear regions and the decision boundary.

Data in the plane, (x, y) or (x, y, 1), are shown directly. For other data, the plane through three
probe examples a, b, c is shown: a + s(b - a) + t(c - a), with the first, middle and last of the
probe set, which is sorted by class.

Arrays on a grid (G, G) whose row 0 has the largest y: `margin`, for two classes the probability of
the second minus the first, in [-1, 1], otherwise of the winner minus the runner-up, in [0, 1];
`winner` (G, G) int64, the predicted class; `switch` (G, G) int64, the first gate layer (from 1)
with a gate on the other side of ½ at the point to the right or below, 0 if there is none. `x`, `y`
(G,), coordinates of columns and rows; `points` (m, 2), probe examples in the plane; `labels` and
`answers` (m,), true and predicted classes. Scalars: `regions`, number of gate patterns on the grid,
a lower bound of the number of regions. Facts: `plane`, 'data' or 'examples'; `soft`, if gates are
soft.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from dgn_engine.model.architecture import Architecture
from dgn_engine.plugins import OptionValue
from dgn_engine.protocol.frames import Array
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy
from dgn_engine.training.probes._trained_layers import pass_cost

FINEST, COARSEST = 96, 16  # points along a side of the grid
BUDGET = 2e9  # FLOP of the grid
AT_ONCE = 256  # points per pass
DRAWN_GATES = "FRG draws gates for the training examples only, so other points have none."


@torch.no_grad()
def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: Unused.

    Returns:
        Arrays, scalars and facts as above.
    """
    if context.network.has_random_gates:
        return ProbeResult(absent=DRAWN_GATES)
    if len(context.x) < 3:
        why = "A plane needs three probe examples; choose more."
        return ProbeResult(facts={"fault": "few examples"}, absent=why)
    side = grid_side(context.architecture)
    flat = lies_in_plane(context.x)
    x, y = _grid_axes(context.x, side) if flat else (np.linspace(-0.5, 1.5, side),) * 2
    y = y[::-1].copy()
    columns, rows = np.meshgrid(x, y)
    at = torch.from_numpy(np.stack([columns.ravel(), rows.ravel()], axis=1)).to(context.x)
    shown = (
        torch.arange(len(context.x), device=context.x.device) if flat else _corner_rows(context.x)
    )
    inputs = _points_in_plane(context.x, at) if flat else _points_through(context.x[shown], at)
    probabilities, patterns = _evaluate_points(context, inputs)
    winner = probabilities.argmax(1)
    answers, _ = _evaluate_points(context, context.x[shown])
    points = context.x[shown, :2] if flat else context.x.new_tensor([[0, 0], [1, 0], [0, 1]])
    arrays: dict[str, Array] = {
        "margin": to_numpy(_decision_margin(probabilities).reshape(side, side)),
        "winner": to_numpy(winner.reshape(side, side)),
        "switch": _switching_layers(patterns, side),
        "x": x,
        "y": y,
        "points": to_numpy(points),
        "labels": to_numpy(context.labels[shown]),
        "answers": to_numpy(answers.argmax(1)),
    }
    whole = np.concatenate(patterns, axis=1)
    scalars = {"regions": float(len(np.unique(whole, axis=0)))}
    facts = {"plane": "data" if flat else "examples"}
    if context.network.gate.soft:
        facts["soft"] = (
            "Soft gates: lines mark where a gate crosses ½; the output is not linear between them."
        )
    return ProbeResult(arrays, scalars, facts)


def lies_in_plane(x: Tensor) -> bool:
    """Return whether examples are points of a plane.

    Args:
        x: Probe examples, (n, *input_shape).

    Returns:
        True for (x, y) and (x, y, 1).
    """
    if x.dim() != 2 or x.shape[1] not in (2, 3):
        return False
    return x.shape[1] == 2 or bool((x[:, 2] == 1).all())


def grid_side(architecture: Architecture) -> int:
    """Return the resolution of the grid, coarser for expensive networks.

    Args:
        architecture: Architecture of the network.

    Returns:
        Points along a side.
    """
    affordable = math.isqrt(int(BUDGET / max(pass_cost(architecture, 2), 1.0)))
    return max(COARSEST, min(FINEST, affordable))


def _grid_axes(x: Tensor, side: int) -> tuple[Array, Array]:
    """Return coordinates of a square around all points, with a margin of a tenth on each side."""
    low, high = (to_numpy(end) for end in (x[:, :2].amin(0), x[:, :2].amax(0)))
    middle, reach = (low + high) / 2, 0.6 * float(max((high - low).max(), 1e-3))
    return tuple(np.linspace(m - reach, m + reach, side) for m in middle.tolist())  # type: ignore[return-value]  # two


def _corner_rows(x: Tensor) -> Tensor:
    return torch.tensor([0, len(x) // 2, len(x) - 1], device=x.device)


def _points_in_plane(like: Tensor, at: Tensor) -> Tensor:
    return at if like.shape[1] == 2 else torch.cat([at, torch.ones_like(at[:, :1])], dim=1)


def _points_through(corners: Tensor, at: Tensor) -> Tensor:
    a, b, c = corners.flatten(1)
    points: Tensor = a + at[:, :1] * (b - a) + at[:, 1:] * (c - a)
    return points.view(-1, *corners.shape[1:])


def _evaluate_points(context: ProbeContext, inputs: Tensor) -> tuple[Tensor, list[Array]]:
    """Return probabilities (m, C), and per layer which gates are open, packed into bytes (m, …)."""
    probabilities: list[Tensor] = []
    patterns: list[list[Array]] = [[] for _ in context.architecture.gated_shapes]
    for part in torch.split(inputs, AT_ONCE):
        trace = context.network.trace(part).value
        probabilities.append(_class_probabilities(trace.output))
        for layer, gates in enumerate(trace.gates):
            patterns[layer].append(np.packbits(to_numpy(gates.flatten(1) >= 0.5), axis=1))
    return torch.cat(probabilities), [np.concatenate(chunks) for chunks in patterns]


def _class_probabilities(logits: Tensor) -> Tensor:
    if logits.shape[1] == 1:
        second = torch.sigmoid(logits)
        return torch.cat([1.0 - second, second], dim=1)
    return torch.softmax(logits, dim=1)


def _decision_margin(probabilities: Tensor) -> Tensor:
    if probabilities.shape[1] == 2:
        return probabilities[:, 1] - probabilities[:, 0]
    best: Tensor = torch.topk(probabilities, 2, dim=1).values
    return best[:, 0] - best[:, 1]


def _switching_layers(patterns: list[Array], side: int) -> Array:
    switches = np.zeros((side, side), dtype=np.int64)
    for layer in range(len(patterns), 0, -1):  # the first layer is written last
        bits = patterns[layer - 1].reshape(side, side, -1)
        right = (bits[:, 1:] != bits[:, :-1]).any(2)
        below = (bits[1:] != bits[:-1]).any(2)
        switches[:, :-1][right] = layer
        switches[:-1][below] = layer
    return switches


def cost(architecture: Architecture, examples: int) -> float:
    """Return the cost of both networks at every point of the grid.

    Args:
        architecture: Architecture of the network.
        examples: Unused: the grid does not depend on it.

    Returns:
        FLOP.
    """
    return 2.0 * pass_cost(architecture, grid_side(architecture) ** 2)


PROBE = Probe("Regions", read, cost)
