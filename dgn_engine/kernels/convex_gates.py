"""Training two layers with given gates and weight decay as a convex problem (theory §7).

With weights w_j, a_j of hidden unit j and gates g_j (n,) that do not depend on them,

    min  L(Σ_j diag(g_j) X w_j a_jᵀ) + λ/2 Σ_j (‖w_j‖² + ‖a_j‖²)

is, in U_j = w_j a_jᵀ, the group lasso

    min  L(Σ_j diag(g_j) X U_j) + λ Σ_j ‖U_j‖_*,

because ½(‖w‖² + ‖a‖²) ≥ ‖w aᵀ‖_*, with equality for balanced weights; for one logit ‖U_j‖_* is the
Euclidean norm (the gated ReLU problem of Mishkin, Sahiner, Pilanci, ICML 2022, arXiv:2202.01331).
Any V whose blocks Xᵀ diag(g_j) V have spectral norms of at most λ bounds the optimum from below by
−L*(−V), with L* the convex conjugate; that is the certificate.

With several logits, U_j may need as many hidden units as it has singular values: the optimum of
the convex problem is then that of a network whose gates are tiled, and a bound for any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.errors import ArgumentError, UserError
from dgn_engine.kernels.arguments import (
    check_choice,
    check_count,
    check_network_inputs,
    check_number,
    check_targets,
    check_tensor,
)
from dgn_engine.kernels.html_fields import HtmlFields
from dgn_engine.model.architecture import Dense, Flatten
from dgn_engine.model.network import GatedNetwork

Loss = Literal["squared", "cross-entropy"]
EVERY = 10  # steps between two certificates
EASING = 0.8  # the curvature that the line search tries first, relative to that of the last step
KEPT = 1e-6  # singular values above this share of the largest one count for the rank


@dataclass(frozen=True)
class ConvexOptimum(HtmlFields):
    """The best that two layers can do through given gates, with a certificate.

    Attributes:
        value: L + λ Σ_j ‖U_j‖_* at `blocks`, at least the optimum.
        bound: The value of a feasible dual point, at most the optimum.
        loss: L at `blocks`.
        outputs: Logits of the examples, `(n, C)`.
        blocks: U_j of each distinct column of the gates, `(k, d, C)`.
        columns: Which of the k each hidden unit has, `(m,)`.
        attained: Whether the m hidden units reach `value`: no block has a higher rank than units
          have its column. Always for one logit.
        history: Passes so far (a forward or a backward is half of one; those of the bound do not
          count), `value` and `bound`, at the first ten steps and every tenth, `(T, 3)`.
    """

    value: float
    bound: float
    loss: float
    outputs: Tensor
    blocks: Tensor
    columns: Tensor
    attained: bool
    history: Tensor

    @property
    def gap(self) -> float:
        """Return by how much `value` may exceed the optimum, relative to `value`."""
        return (self.value - self.bound) / self.value if self.value > 0 else 0.0

    def to_weights(self) -> tuple[Tensor, Tensor]:
        """Return balanced weights of the hidden units whose regularised loss is `value`.

        Returns:
            The weights of the hidden layer `(m, d)` and of the logits `(C, m)`.

        Raises:
            UserError: A block needs more hidden units than have its gates.
        """
        if not self.attained:
            raise UserError(
                "Units with equal gates are too few for the optimum: with several logits, repeat "
                "each gate (tiling) as often as there are logits.",
                kind="wrong-shape",
            )
        left, sizes, right = torch.linalg.svd(self.blocks, full_matrices=False)
        first = self.blocks.new_zeros(len(self.columns), self.blocks.shape[1])
        second = self.blocks.new_zeros(self.blocks.shape[2], len(self.columns))
        used: dict[int, int] = {}
        for unit, column in enumerate(self.columns.tolist()):
            part = used.get(column, 0)
            used[column] = part + 1
            if part < sizes.shape[1]:
                size = sizes[column, part].sqrt()
                first[unit] = size * left[column, :, part]
                second[:, unit] = size * right[column, part]
        return first, second


@torch.no_grad()
def convex_optimum(
    x: Tensor,
    gates: Tensor,
    targets: Tensor,
    penalty: float,
    *,
    loss: Loss = "squared",
    tolerance: float = 1e-6,
    iterations: int = 20_000,
) -> ConvexOptimum:
    """Find the global optimum of two layers with given gates and weight decay λ.

    Accelerated proximal gradient steps (FISTA) with line search and restarts.

    Args:
        x: X, the value inputs, `(n, d)`.
        gates: g_j of the hidden units, `(n, m)`; hard or soft.
        targets: ±1, `(n,)` or `(n, C)`, as from `class_targets`; for the squared loss any numbers.
        penalty: Weight decay λ, greater than 0.
        loss: Mean over the examples, as in training.
        tolerance: Relative duality gap at which to stop.
        iterations: Most proximal steps; then `gap` says what is left.

    Returns:
        The optimum, float64.

    Raises:
        ArgumentError: An argument does not fit.

    Examples:
        One open gate and one input, where λ takes its share of the target:

        >>> one = torch.ones(1, 1, dtype=torch.float64)
        >>> found = convex_optimum(one, one, one, penalty=0.25)
        >>> round(found.value, 3), round(found.outputs.item(), 3)
        (0.219, 0.75)
    """
    X, all_gates, y = _checked(x, gates, targets)
    check_number("penalty", penalty, above=0.0)
    check_number("tolerance", tolerance, above=0.0)
    check_count("iterations", iterations)
    check_choice("loss", loss, Loss)
    one_class = y.shape[1] == 1 or bool(((y > 0).sum(1) == 1).all())
    if loss == "cross-entropy" and not (bool((y.abs() == 1).all()) and one_class):
        raise ArgumentError(
            "targets of the cross entropy must be ±1, with one +1 for each example (class_targets "
            "creates them).",
            kind="out-of-bounds",
        )
    G, columns = torch.unique(all_gates, dim=1, return_inverse=True)
    problem = _Problem(X, G, y, float(penalty), loss)
    blocks, history, loss_there = problem.solve(tolerance, iterations)
    sizes = singular_values(blocks)
    ranks = (sizes > KEPT * sizes.max().clamp(min=1e-300)).sum(1)
    copies = torch.bincount(columns, minlength=G.shape[1])
    return ConvexOptimum(
        value=history[-1][1],
        bound=history[-1][2],
        loss=loss_there,
        outputs=problem.outputs(blocks),
        blocks=blocks,
        columns=columns,
        attained=bool((ranks <= copies).all()),
        history=torch.tensor(history, dtype=torch.float64, device=x.device),
    )


class _Problem:
    """The convex problem for distinct gate columns, float64."""

    def __init__(self, X: Tensor, G: Tensor, y: Tensor, penalty: float, loss: Loss) -> None:
        self._X, self._G, self._y, self._penalty, self._kind = X, G, y, penalty, loss

    def outputs(self, blocks: Tensor) -> Tensor:
        """Return Σ_j diag(g_j) X U_j, `(n, C)`."""
        k, d, classes = blocks.shape
        products = (self._X @ blocks.permute(1, 0, 2).reshape(d, k * classes)).reshape(
            -1, k, classes
        )
        return torch.einsum("nk,nkc->nc", self._G, products)

    def correlations(self, V: Tensor) -> Tensor:
        """Return Xᵀ diag(g_j) V of every block, `(k, d, C)`."""
        gated = (self._G[:, :, None] * V[:, None, :]).flatten(1)
        return (self._X.T @ gated).reshape(-1, self._G.shape[1], V.shape[1]).permute(1, 0, 2)

    def loss(self, outputs: Tensor) -> Tensor:
        """Return the mean loss."""
        return mean_loss(outputs, self._y, self._kind)

    def residual(self, outputs: Tensor) -> Tensor:
        """Return −∂L/∂outputs, `(n, C)`."""
        n = len(outputs)
        if self._kind == "squared":
            return (self._y - outputs) / n
        if outputs.shape[1] == 1:
            return self._y * torch.sigmoid(-self._y * outputs) / n
        return (_one_hot(self._y) - torch.softmax(outputs, 1)) / n

    def dual(self, residual: Tensor, scale: float) -> float:
        """Return the best −L*(−sR) over 0 ≤ s ≤ `scale`."""
        n = len(residual)
        if self._kind == "squared":
            best = float((residual * self._y).sum()) / (n * float(residual.square().sum()) or 1.0)
            s = min(max(best, 0.0), scale)
            V = s * residual
            return float((V * self._y).sum() - 0.5 * n * V.square().sum())
        V = min(scale, 1.0) * residual * n
        if residual.shape[1] == 1:
            q = (self._y * V).clamp(0.0, 1.0)
            return float((torch.special.entr(q) + torch.special.entr(1 - q)).mean())
        p = (_one_hot(self._y) - V).clamp(0.0, 1.0)
        return float(torch.special.entr(p).sum(1).mean())

    def solve(
        self, tolerance: float, steps: int
    ) -> tuple[Tensor, list[tuple[float, float, float]], float]:
        """Return the best blocks, (passes, value, bound) over time, and their loss."""
        U = self._X.new_zeros(self._G.shape[1], self._X.shape[1], self._y.shape[1])
        outputs = torch.zeros_like(self._y)
        ahead, ahead_outputs, momentum = U, outputs, 1.0
        slopes = self.correlations(self.residual(outputs))
        curvature = self._curvature_along(slopes)
        passes, bound, best = 0.0, -math.inf, (math.inf, U, math.inf)
        history: list[tuple[float, float, float]] = []
        for step in range(steps + 1):
            if step % EVERY == 0 or step < EVERY or step == steps:
                residual, loss = self.residual(outputs), float(self.loss(outputs))
                value = loss + self._penalty * float(singular_values(U).sum())
                best = min(best, (value, U, loss), key=lambda known: known[0])
                largest = float(singular_values(self.correlations(residual)).max())
                bound = max(
                    bound, self.dual(residual, self._penalty / largest if largest else math.inf)
                )
                history.append((passes, best[0], bound))
                if best[0] - bound <= tolerance * best[0]:
                    break
            residual = self.residual(ahead_outputs)
            slopes = self.correlations(residual)
            curvature *= EASING
            while True:
                after = shrink_blocks(ahead + slopes / curvature, self._penalty / curvature)
                after_outputs, change = self.outputs(after), after - ahead
                passes += 0.5
                # ⟨∇L(after) − ∇L(ahead), after − ahead⟩ by outputs: no difference of close losses.
                turned = residual - self.residual(after_outputs)
                along = float((turned * (after_outputs - ahead_outputs)).sum())
                if not math.isfinite(along):
                    raise ArgumentError(
                        "The outputs overflow; scale the inputs down.", kind="not-finite"
                    )
                if along <= curvature * float(change.square().sum()):
                    break
                curvature *= 2.0
            passes += 0.5
            # Restart where the momentum points uphill (O'Donoghue and Candès 2015).
            if float((change * (after - U)).sum()) < 0:
                momentum = 1.0
            following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            weight = (momentum - 1) / following
            ahead = after + weight * (after - U)
            ahead_outputs = after_outputs + weight * (after_outputs - outputs)
            U, outputs, momentum = after, after_outputs, following
        return best[1], history, best[2]

    def _curvature_along(self, direction: Tensor) -> float:
        """Return ‖Φ direction‖²/(n ‖direction‖²), where the line search begins."""
        size = float(direction.square().sum())
        along = float(self.outputs(direction).square().sum()) / (len(self._X) * size or 1.0)
        return max(along, 1e-12)


@torch.no_grad()
def largest_penalty(x: Tensor, gates: Tensor, targets: Tensor, *, loss: Loss = "squared") -> float:
    """Return the least λ at which the optimum is a network of zeros, max_j ‖Xᵀ diag(g_j) ∂L(0)‖.

    Args:
        x, gates, targets, loss: As for `convex_optimum`.

    Returns:
        λ, in whose units the penalties of different data can be compared.
    """
    X, G, y = _checked(x, gates, targets)
    check_choice("loss", loss, Loss)
    problem = _Problem(X, G, y, 0.0, loss)
    return float(singular_values(problem.correlations(problem.residual(0.0 * y))).max())


@dataclass(frozen=True)
class PathFit(HtmlFields):
    """The least squares fit of path features, without weight decay.

    Attributes:
        rank: Rank of the path features; n of them fit any targets.
        loss: The smallest squared loss, mean over the examples of ½Σe².
        outputs: The fitted logits, `(n, C)`.
    """

    rank: int
    loss: float
    outputs: Tensor


@torch.no_grad()
def fit_path_features(x: Tensor, gates: Tensor, targets: Tensor) -> PathFit:
    """Fit targets with the features g_j(s) x(s) of two layers with given gates.

    For one logit this is the smallest squared loss of the network; for several it is that of one
    with tiled gates, and a bound for any other. Costs O(n² m d), by singular values; those below
    max(n, md) rounding units of the largest count as zero.

    Args:
        x: X, the value inputs, `(n, d)`.
        gates: g_j of the hidden units, `(n, m)`.
        targets: Any numbers, `(n,)` or `(n, C)`.

    Returns:
        The fit, float64.

    Raises:
        ArgumentError: An argument does not fit.
    """
    X, G, y = _checked(x, gates, targets)
    features = (G[:, :, None] * X[:, None, :]).flatten(1)
    left, sizes, _ = torch.linalg.svd(features, full_matrices=False)
    cutoff = max(features.shape) * torch.finfo(torch.float64).eps * float(sizes[0])
    basis = left[:, sizes > cutoff]
    fitted = basis @ (basis.T @ y)
    return PathFit(basis.shape[1], float(mean_loss(fitted, y, "squared")), fitted)


def two_layer_gates(network: GatedNetwork, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the value inputs and gates of a network whose two layers have given gates.

    Args:
        network: Two dense layers without biases, with gates that the value network does not make.
        x: Inputs, `(n, *input_shape)`.

    Returns:
        X of the value network `(n, d)`, and the gates as its hidden layer uses them `(n, m)`, times
        the constant factors of both layers.

    Raises:
        UserError: Another network.
    """
    check_network_inputs(network, x)
    nodes = [node for node in network.architecture.nodes if not isinstance(node, Flatten)]
    layers = [node for node in nodes if isinstance(node, Dense)]
    dense = len(nodes) == 2 and [layer.gated for layer in layers] == [True, False]
    if network.own_gates or not dense or any(bias is not None for bias in network.value.biases):
        raise UserError(
            "The convex problem is that of two dense layers without biases whose gates are not "
            "their own (such as FR-II with depth 2).",
            kind="not-supported",
        )
    with torch.no_grad():
        gates = network.trace(x).value.gates[0] * math.prod(layer.factor for layer in layers)
        return network.input_of_value(x).flatten(1), gates.flatten(1)


def regularised_loss(
    network: GatedNetwork, x: Tensor, targets: Tensor, penalty: float, loss: Loss = "squared"
) -> float:
    """Compute L + λ/2 ‖Θ^v‖², what training with weight decay λ minimises.

    Args:
        network: Any network.
        x: Inputs, `(n, *input_shape)`.
        targets: ±1, `(n,)` or `(n, C)`.
        penalty: λ.
        loss: The loss.

    Returns:
        The objective, of the same kind as `ConvexOptimum.value`.
    """
    check_network_inputs(network, x)
    check_targets(targets, len(x))
    with torch.no_grad():
        outputs = network.trace(x).value.output
        norms = sum(float(weight.square().sum()) for weight in network.value.parameters())
        y = targets.to(outputs.dtype).reshape(len(x), -1)
        return float(mean_loss(outputs, y, loss)) + 0.5 * penalty * norms


@torch.no_grad()
def gated_as_relu(
    x: Tensor, gate_weights: Tensor, first: Tensor, second: Tensor
) -> tuple[Tensor, Tensor]:
    """Return a ReLU network of twice the width with the same outputs on these examples.

    With f_j the weights that make a gate, 1{f_j·x > 0} w_j·x = r((w_j + t f_j)·x) − r(t f_j·x) for
    r(q) = max(q, 0) and t ≥ |w_j·x|/|f_j·x| of every example. So without weight decay gated ReLU
    and ReLU networks fit the same (Mishkin, Sahiner, Pilanci).

    Args:
        x: Examples, `(n, d)`, none of them on a boundary f_j·x = 0.
        gate_weights: f_j, `(m, d)`.
        first: w_j, `(m, d)`.
        second: Weights of the logits, `(C, m)`.

    Returns:
        The weights `(2m, d)` and `(C, 2m)`.

    Raises:
        ArgumentError: An example lies on the boundary of a gate.
    """
    for name, value in (("x", x), ("gate_weights", gate_weights), ("first", first)):
        check_tensor(name, value)
    check_tensor("second", second)
    distances = (x @ gate_weights.T).abs()
    if bool((distances == 0).any()):
        raise ArgumentError(
            "An example lies on the boundary of a gate, where no ReLU is equal to it.",
            kind="singular",
        )
    t = ((x @ first.T).abs() / distances).amax(0)[:, None]
    return torch.cat([first + t * gate_weights, t * gate_weights]), torch.cat([second, -second], 1)


def shrink_blocks(blocks: Tensor, amount: float) -> Tensor:
    """Shrink the singular values of each block by `amount`, to zero at least.

    Args:
        blocks: `(k, d, C)`.
        amount: How much.

    Returns:
        The proximal point of the nuclear norms, `(k, d, C)`.
    """
    if blocks.shape[2] == 1:
        size: Tensor = torch.linalg.vector_norm(blocks, dim=(1, 2), keepdim=True)
        return blocks * (1 - amount / size.clamp(min=1e-300)).clamp(min=0.0)
    left, sizes, right = torch.linalg.svd(blocks, full_matrices=False)
    shrunk: Tensor = (left * (sizes - amount).clamp(min=0.0)[:, None, :]) @ right
    return shrunk


def mean_loss(outputs: Tensor, targets: Tensor, loss: Loss) -> Tensor:
    """Compute the mean loss of training for ±1 targets.

    Args:
        outputs: `(n, C)`.
        targets: `(n, C)`.
        loss: 'squared' or 'cross-entropy', for one logit the logistic loss.

    Returns:
        The mean over the examples, ().
    """
    if loss == "squared":
        return 0.5 * (outputs - targets).square().sum(1).mean()
    if outputs.shape[1] == 1:
        return F.softplus(-targets * outputs).mean()
    return F.cross_entropy(outputs, targets.argmax(1))


def _checked(x: Tensor, gates: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Check matrices of the same examples and return them in float64, targets as `(n, C)`."""
    check_tensor("x", x)
    check_tensor("gates", gates, like=x)
    check_targets(targets, len(x))
    if x.dim() != 2 or gates.dim() != 2 or len(gates) != len(x):
        raise ArgumentError(
            f"x {tuple(x.shape)} and gates {tuple(gates.shape)} must be matrices with a "
            "row for each example.",
            kind="wrong-shape",
        )
    return x.double(), gates.double(), targets.double().reshape(len(x), -1)


def _one_hot(targets: Tensor) -> Tensor:
    ones: Tensor = F.one_hot(targets.argmax(1), targets.shape[1])
    return ones.to(targets.dtype)


def singular_values(blocks: Tensor) -> Tensor:
    """Return the singular values of each block, `(k, min(d, C))`."""
    if blocks.shape[2] == 1:
        lengths: Tensor = torch.linalg.vector_norm(blocks, dim=1)
        return lengths
    values: Tensor = torch.linalg.svdvals(blocks)
    return values
