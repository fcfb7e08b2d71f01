"""Learning with a constant kernel: ridge regression, gradient flow and gradient descent.

Loss ½ Σ_s (f(s) − y(s))², summed over the training examples (THEORY §4): ė = −Ke with e = f − y,
and e_{t+1} = (I − αK)e_t. For the mean over n examples take time or rate divided by n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    WHOLE,
    check_count,
    check_indices,
    check_kernel,
    check_number,
    check_sequence,
    check_targets,
    check_tensor,
)
from dgn_engine.kernels.html_fields import HtmlFields
from dgn_engine.kernels.spectra import NOISE, rounding_of

ROUNDING = 1e-8  # a kernel whose halves differ by more, relative to its largest entry, is refused
OfEigenvalues = Callable[[Tensor, float], Tensor]


@dataclass(frozen=True)
class KernelRegression(HtmlFields):
    """`predictions` (m, C) on the test examples, `accuracy` of their signs or largest entries
    (a share, 0 to 1), `r2` averaged over the columns, NaN for a single example; `ridge` as added
    to the kernel's diagonal."""

    predictions: NDArray[np.float64]
    accuracy: float
    r2: float
    ridge: float


def kernel_regression(
    kernel: Tensor, targets: Tensor, train: Tensor, test: Tensor, ridge: float = 1e-3
) -> KernelRegression:
    """Fit K(train, train) + λI to ±1 targets (n, C) and score on `test`; both are index vectors.

    λ = ridge · trace K(train, train)/n_train, so that `ridge` does not depend on the kernel's
    scale. C = 1 is scored by sign, more columns by the largest entry (THEORY §7).

    Examples:
        Four points on a line, the label their sign; the outer two predict the inner two:

        >>> import torch
        >>> x, y = torch.tensor([-2.0, 2.0, -1.0, 1.0]), torch.tensor([-1.0, 1.0, -1.0, 1.0])
        >>> fitted = kernel_regression(
        ...     x[:, None] * x, y[:, None], train=torch.tensor([0, 1]), test=torch.tensor([2, 3])
        ... )
        >>> fitted.accuracy
        1.0
    """
    # scikit-learn takes a second to import, and the other kernels do without it.
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.metrics import r2_score

    check_kernel("kernel", kernel)
    check_targets(targets, len(kernel))
    check_indices("train", train, len(kernel))
    check_indices("test", test, len(kernel))
    check_number("ridge", ridge, above=0.0)
    values = kernel.detach().to("cpu").double().numpy()
    y = targets.detach().to("cpu").double().numpy().reshape(len(targets), -1)
    rows, columns = test.cpu().numpy(), train.cpu().numpy()
    if not np.isfinite(values).all():
        raise ArgumentError(
            "The kernel holds values that are not finite; nothing can be fitted to it.",
            kind="not-finite",
        )
    if set(rows.tolist()) & set(columns.tolist()):
        raise ArgumentError(
            "Some examples are in both the training and the test part.", kind="contradiction"
        )
    inner = values[np.ix_(columns, columns)]
    penalty = ridge * float(np.trace(inner)) / len(columns)
    if penalty <= 0:
        raise ArgumentError(
            "The kernel is zero on the training examples; nothing can be fitted to it.",
            kind="singular",
        )
    model = KernelRidge(alpha=penalty, kernel="precomputed").fit(inner, y[columns])
    found = np.asarray(model.predict(values[np.ix_(rows, columns)])).reshape(len(rows), -1)
    found.flags.writeable = False
    if found.shape[1] == 1:
        right = (found > 0) == (y[rows] > 0)
    else:
        right = found.argmax(1) == y[rows].argmax(1)
    r2 = float(r2_score(y[rows], found)) if len(rows) > 1 else math.nan
    return KernelRegression(found, float(right.mean()), r2, penalty)


@dataclass(frozen=True)
class KernelTrajectory(HtmlFields):
    """Outputs along training, float64: `train` (T, n, C) and, where there is a block, `test`
    (T, m, C), at `times` (T,): times of the flow, or steps of descent.

    `largest_rate` = 2/ρ_max: gradient descent at a greater rate diverges. `smallest`: the least
    eigenvalue as it was computed; within rounding of zero it counts as zero.
    """

    times: Tensor
    train: Tensor
    test: Tensor | None
    largest_rate: float
    smallest: float


@torch.no_grad()
def gradient_flow(
    kernel: Tensor,
    targets: Tensor,
    times: Sequence[float],
    *,
    block: Tensor | None = None,
    initial: Tensor | None = None,
    initial_test: Tensor | None = None,
) -> KernelTrajectory:
    """f(t) = y + e^{−Kt}(f_0 − y) on the training examples, and on others
    f_*(t) = f_{*0} − K_* K^{-1}(I − e^{−Kt})(f_0 − y), without an inverse: any K will do.

    `kernel` (n, n) is that of each logit, targets (n,) or (n, C); or (n, C, n, C) for every pair of
    logits (`logits="full"`). `block`: test × train, (m, n) or (m, C, n, C). `initial` and
    `initial_test`: outputs at time 0, zero unless given. Times are finite: for t → ∞ there is
    `kernel_regression`. Eigenvalues at or below the cut-off of `spectrum` are zero: what lies along
    them is never learnt. O(n³), or O((nC)³). Raises `ArgumentError` for shapes that do not fit, for
    a kernel that is not symmetric and positive semi-definite, and for times at which outputs of
    the block hang on eigenvalues below that cut-off.
    Sources: Jacot et al. 2018; Lee et al. 2019, eq. (8)–(11); [NPF].
    """
    check_sequence("times", times)
    for t in times:
        check_number("Each of times", t)

    def grown(values: Tensor, t: float) -> Tensor:
        """(1 − e^{−ρt})/ρ, which is t where ρ is zero."""
        return torch.where(values > 0, -torch.expm1(-values * t) / values, t)

    def left(values: Tensor, t: float) -> Tensor:
        return torch.exp(-values * t)

    return _trajectory(kernel, targets, times, 1.0, left, grown, block, initial, initial_test)


@torch.no_grad()
def gradient_descent(
    kernel: Tensor,
    targets: Tensor,
    rate: float,
    steps: Sequence[int],
    *,
    block: Tensor | None = None,
    initial: Tensor | None = None,
    initial_test: Tensor | None = None,
) -> KernelTrajectory:
    """e_t = (I − αK)^t e_0 after each number of `steps` at learning rate α = `rate`, full batches,
    and f_*(t) = f_{*0} − α K_* Σ_{τ<t} e_τ on the block's examples; all else as `gradient_flow`.

    Above `largest_rate` of the result the outputs diverge, as training does; they are refused where
    they are no longer finite.
    """
    check_sequence("steps", steps)
    for count in steps:
        check_count("Each of steps", count, least=0)
    check_number("rate", rate, above=0.0)

    def grown(values: Tensor, t: float) -> Tensor:
        """(1 − (1 − αρ)^t)/ρ, which is αt where ρ is zero; αρ may be far below rounding."""
        small = rate * values < 0.5
        logs = torch.log1p(-torch.where(small, rate * values, 0.0))
        slow = -torch.expm1(t * logs) / values
        fast = (1 - (1 - rate * values) ** t) / values
        return torch.where(values > 0, torch.where(small, slow, fast), rate * t)

    def left(values: Tensor, t: float) -> Tensor:
        remaining: Tensor = (1 - rate * values) ** t
        return remaining

    return _trajectory(kernel, targets, steps, rate, left, grown, block, initial, initial_test)


def _trajectory(
    kernel: Tensor,
    targets: Tensor,
    times: Sequence[float],
    unit: float,
    left: OfEigenvalues,
    grown: OfEigenvalues,
    block: Tensor | None,
    initial: Tensor | None,
    initial_test: Tensor | None,
) -> KernelTrajectory:
    """`left`: what of e_0 there is along an eigenvector; `grown`: its integral (or sum times α);
    `unit`: what one of `times` is in time of the flow."""
    if isinstance(targets, Tensor) and targets.dtype in WHOLE:
        raise ArgumentError(
            f"targets has dtype {targets.dtype}; outputs to be learnt are needed "
            "(class_targets(labels, classes) makes them of class numbers).",
            kind="wrong-type",
            value=targets.dtype,
        )
    y = _outputs("targets", targets)
    K = _matrix(kernel, y)
    start = torch.zeros_like(y) if initial is None else _outputs("initial", initial, y)
    values, vectors = torch.linalg.eigh(K)
    largest, smallest = float(values[-1]), float(values[0])
    rounding = rounding_of(kernel.reshape(len(K), -1), largest)
    if smallest < -10 * rounding or largest <= 0:
        raise ArgumentError(
            f"kernel has eigenvalues from {smallest:.3g} to {largest:.3g}; training needs one "
            "that is positive semi-definite and not zero (K^X alone need not be).",
            kind="singular",
        )
    cutoff = max(rounding, -NOISE * smallest)
    values = torch.where(values > cutoff, values, 0.0)
    joint = kernel.dim() == 4
    begun = vectors.T @ (start - y).reshape(len(K), -1)
    moments = [float(t) for t in times]

    def outputs(basis: Tensor, of: OfEigenvalues, t: float, like: Tensor) -> Tensor:
        """(n, C), also where the logits were joined to one column."""
        found: Tensor = basis @ (of(values, t)[:, None] * begun)
        return found.reshape(like.shape)

    train = torch.stack([y + outputs(vectors, left, t, y) for t in moments])
    test = None
    if block is not None:
        B, zero = _block(block, y, joint)
        before = zero if initial_test is None else _outputs("initial_test", initial_test, zero)
        reach = max(moments) * unit
        to_test = _seen(B @ vectors, values == 0, cutoff, reach, kernel.dtype)
        test = torch.stack([before - outputs(to_test, grown, t, before) for t in moments])
    elif initial_test is not None:
        raise ArgumentError(
            "initial_test was given without the block of test with train examples.",
            kind="contradiction",
        )
    for part in (train, test):
        if part is not None and not bool(torch.isfinite(part).all()):
            raise ArgumentError(
                "The outputs are no longer finite: training diverges above rate "
                f"{2 / largest:.3g}.",
                kind="not-finite",
            )
    at = torch.tensor(moments, dtype=torch.float64)
    return KernelTrajectory(at, train, test, 2 / largest, smallest)


def _seen(to_test: Tensor, null: Tensor, cutoff: float, reach: float, dtype: torch.dtype) -> Tensor:
    """The block (m, n) in the basis of eigenvectors, without what rounding left along those of
    eigenvalue zero, which would grow with time.

    The kernel of both sets is positive semi-definite, so that its block has nothing there; where
    it has, the eigenvalue is only too small to be known, and so is what comes of it up to time
    `reach`.
    """
    size = to_test.norm(dim=1).max()
    noise = len(null) * torch.finfo(dtype).eps * size
    kept = to_test.norm(dim=0) > noise
    if reach * cutoff > 1 and bool((kept & null).any()):
        raise ArgumentError(
            f"At time {reach:.3g} the test outputs hang on eigenvalues of the kernel that are lost "
            f"in its rounding (at or below {cutoff:.3g}); times to {1 / cutoff:.3g} are known. "
            "Compute kernel and block in float64, or take kernel_regression with a ridge.",
            kind="overflow",
        )
    return torch.where(null & ~kept, 0.0, to_test)


def _outputs(name: str, value: Tensor, like: Tensor | None = None) -> Tensor:
    """(n,) or (n, C) as (n, C), float64 on the CPU."""
    check_tensor(name, value, 1)
    found = value.detach().to("cpu", torch.float64)
    found = found[:, None] if found.dim() == 1 else found
    wanted = found.shape if like is None else like.shape
    if found.dim() > 2 or found.shape != wanted:
        shape = "(n,) or (n, C)" if like is None else str(tuple(wanted))
        raise ArgumentError(
            f"{name} has shape {tuple(value.shape)}; {shape} is needed.", kind="wrong-shape"
        )
    if not bool(torch.isfinite(found).all()):
        raise ArgumentError(f"{name} holds values that are not finite.", kind="not-finite")
    return found


def _matrix(kernel: Tensor, y: Tensor) -> Tensor:
    """The kernel as one symmetric matrix, float64 on the CPU."""
    check_tensor("kernel", kernel)
    n, classes = y.shape
    wanted = [(n, n), (n, classes, n, classes)]
    if tuple(kernel.shape) not in wanted:
        raise ArgumentError(
            f"kernel has shape {tuple(kernel.shape)}; for these targets {wanted[0]} or {wanted[1]} "
            "is needed (logits='mean' or 'full').",
            kind="wrong-shape",
        )
    size = n if kernel.dim() == 2 else n * classes
    found = kernel.detach().to("cpu", torch.float64).reshape(size, size)
    if not bool(torch.isfinite(found).all()):
        raise ArgumentError("kernel holds values that are not finite.", kind="not-finite")
    tolerance = max(ROUNDING, 100 * torch.finfo(kernel.dtype).eps)
    if float((found - found.T).abs().max()) > tolerance * float(found.abs().max()):
        raise ArgumentError(
            "kernel is not symmetric: it is not one of these examples with themselves.",
            kind="not-symmetric",
        )
    return (found + found.T) / 2


def _block(block: Tensor, y: Tensor, joint: bool) -> tuple[Tensor, Tensor]:
    """The block as a matrix, and zero outputs of its test examples (m, C)."""
    check_tensor("block", block)
    n, classes = y.shape
    m = len(block)
    wanted = (m, classes, n, classes) if joint else (m, n)
    if tuple(block.shape) != wanted:
        raise ArgumentError(
            f"block has shape {tuple(block.shape)}; {wanted}, test × train, is needed.",
            kind="wrong-shape",
        )
    if not bool(torch.isfinite(block).all()):
        raise ArgumentError("block holds values that are not finite.", kind="not-finite")
    found = block.detach().to("cpu", torch.float64)
    return found.reshape(m * classes, -1) if joint else found, y.new_zeros((m, classes))
