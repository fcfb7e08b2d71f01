"""Learning with a constant kernel: ridge regression, gradient flow and gradient descent.

The loss is ½ Σ_s (f(s) − y(s))², summed over the training examples (theory §4), so with e = f − y
ė = −Ke and e_{t+1} = (I − αK)e_t. For the mean over n examples, divide time or rate by n.
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
from dgn_engine.kernels.spectra import NOISE, eigenvalue_rounding

ROUNDING = 1e-8  # largest asymmetry that is accepted, relative to the largest entry
OfEigenvalues = Callable[[Tensor, float], Tensor]


@dataclass(frozen=True)
class KernelRegression(HtmlFields):
    """Result of kernel ridge regression.

    Attributes:
        predictions: Outputs on the test examples, `(m, C)`.
        accuracy: Fraction of test examples with the right sign or largest entry.
        r2: R² averaged over the columns; NaN for a single example.
        ridge: λ as added to the kernel's diagonal.
    """

    predictions: NDArray[np.float64]
    accuracy: float
    r2: float
    ridge: float


def kernel_regression(
    kernel: Tensor, targets: Tensor, train: Tensor, test: Tensor, ridge: float = 1e-3
) -> KernelRegression:
    """Fit kernel ridge regression to ±1 targets and score it on test examples (theory §7).

        f(test) = K(test, train) (K(train, train) + λI)⁻¹ Y,
        λ = ridge · trace K(train, train)/n_train,

    so that `ridge` does not depend on the scale of the kernel.

    Args:
        kernel: Kernel of all examples, `(n, n)`.
        targets: ±1, `(n,)` or `(n, C)`. One column is scored by sign, several by the largest entry.
        train: Indices of the training examples.
        test: Indices of the test examples.
        ridge: Relative ridge, greater than 0.

    Returns:
        Predictions and scores on the test examples.

    Raises:
        ArgumentError: An argument does not fit, the sets overlap, or the kernel is zero on the
          training examples.

    Examples:
        Four points on a line, labelled by their sign; the outer two predict the inner two:

        >>> import torch
        >>> x, y = torch.tensor([-2.0, 2.0, -1.0, 1.0]), torch.tensor([-1.0, 1.0, -1.0, 1.0])
        >>> fitted = kernel_regression(
        ...     x[:, None] * x, y[:, None], train=torch.tensor([0, 1]), test=torch.tensor([2, 3])
        ... )
        >>> fitted.accuracy
        1.0
    """
    # scikit-learn takes a second to import, and only the predictors here need it.
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.metrics import r2_score

    check_number("ridge", ridge, above=0.0)
    values, y, columns, rows = _split_kernel(kernel, targets, train, test)
    inner = values[np.ix_(columns, columns)]
    penalty = ridge * float(np.trace(inner)) / len(columns)
    model = KernelRidge(alpha=penalty, kernel="precomputed").fit(inner, y[columns])
    predicted = np.asarray(model.predict(values[np.ix_(rows, columns)])).reshape(len(rows), -1)
    predicted.flags.writeable = False
    if predicted.shape[1] == 1:
        correct = (predicted > 0) == (y[rows] > 0)
    else:
        correct = predicted.argmax(1) == y[rows].argmax(1)
    r2 = float(r2_score(y[rows], predicted)) if len(rows) > 1 else math.nan
    return KernelRegression(predicted, float(correct.mean()), r2, penalty)


@dataclass(frozen=True)
class KernelSvm(HtmlFields):
    """Result of a support vector machine with a given kernel.

    Attributes:
        classes: Class of each test example, `(m,)`: the column of its target, or for one column 0
          for −1 and 1 for +1.
        accuracy: Fraction of test examples with the right class.
        support: Number of support vectors.
    """

    classes: NDArray[np.int64]
    accuracy: float
    support: int


def kernel_svm(
    kernel: Tensor, targets: Tensor, train: Tensor, test: Tensor, penalty: float = 1.0
) -> KernelSvm:
    """Fit a support vector machine to the classes of ±1 targets and score it on test examples.

    It minimises

        ½‖w‖² + C Σ_s max(0, 1 − y_s(⟨w, φ_s⟩ + b)),   ⟨φ_s, φ_s'⟩ = K(s, s')·n_train/trace K,

    so that C does not depend on the scale of the kernel; one machine for each pair of classes.

    Args:
        kernel: Kernel of all examples, `(n, n)`.
        targets: ±1, `(n,)` or `(n, C)`; several columns are classes.
        train: Indices of the training examples.
        test: Indices of the test examples.
        penalty: C, greater than 0.

    Returns:
        Classes and accuracy on the test examples.

    Raises:
        ArgumentError: An argument does not fit, the sets overlap, the kernel is zero on the
          training examples, or these have one class.

    References:
        Yadav, Ramaswamy & Lakshminarayanan 2024, arXiv:2404.04312, compare networks with machines
        on their path kernels.

    Examples:
        >>> import torch
        >>> x, y = torch.tensor([-2.0, 2.0, -1.0, 1.0]), torch.tensor([-1.0, 1.0, -1.0, 1.0])
        >>> train, test = torch.tensor([0, 1]), torch.tensor([2, 3])
        >>> kernel_svm(x[:, None] * x, y[:, None], train, test).classes.tolist()
        [0, 1]
    """
    from sklearn.svm import SVC  # a second to import

    check_number("penalty", penalty, above=0.0)
    values, y, columns, rows = _split_kernel(kernel, targets, train, test)
    classes = (y[:, 0] > 0).astype(np.int64) if y.shape[1] == 1 else y.argmax(1)
    if len(np.unique(classes[columns])) < 2:
        raise ArgumentError("The training examples have one class only.", kind="singular")
    scale = len(columns) / float(np.trace(values[np.ix_(columns, columns)]))
    model = SVC(C=penalty, kernel="precomputed")
    model.fit(scale * values[np.ix_(columns, columns)], classes[columns])
    predicted: NDArray[np.int64] = model.predict(scale * values[np.ix_(rows, columns)])
    predicted.flags.writeable = False
    accuracy = float((predicted == classes[rows]).mean())
    return KernelSvm(predicted, accuracy, int(model.n_support_.sum()))


_Numbers = NDArray[np.float64]
_Indices = NDArray[np.int64]


def _split_kernel(
    kernel: Tensor, targets: Tensor, train: Tensor, test: Tensor
) -> tuple[_Numbers, _Numbers, _Indices, _Indices]:
    """Check a kernel to learn with; return it, targets (n, C), and training and test indices."""
    check_kernel("kernel", kernel)
    check_targets(targets, len(kernel))
    check_indices("train", train, len(kernel))
    check_indices("test", test, len(kernel))
    values = kernel.detach().to("cpu").double().numpy()
    y = targets.detach().to("cpu").double().numpy().reshape(len(targets), -1)
    rows, columns = test.cpu().numpy(), train.cpu().numpy()
    if not np.isfinite(values).all():
        raise ArgumentError(
            "The kernel contains NaN or infinity, so nothing can be fitted with it.",
            kind="not-finite",
        )
    if set(rows.tolist()) & set(columns.tolist()):
        raise ArgumentError(
            "train and test have examples in common; they must be disjoint.", kind="contradiction"
        )
    if float(np.trace(values[np.ix_(columns, columns)])) <= 0:
        raise ArgumentError(
            "The kernel is zero on the training examples, so nothing can be fitted with it.",
            kind="singular",
        )
    return values, y, columns, rows


@dataclass(frozen=True)
class KernelTrajectory(HtmlFields):
    """Outputs during training with a constant kernel, float64.

    Attributes:
        times: Times of the flow, or steps of descent, `(T,)`.
        train: Outputs on the training examples, `(T, n, C)`.
        test: Outputs on the test examples, `(T, m, C)`, or `None`.
        largest_rate: 2/ρ_max; gradient descent diverges at greater rates.
        smallest: Smallest eigenvalue as computed; within rounding of zero it counts as zero.
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
    """Compute the outputs of gradient flow with a constant kernel.

        f(t)   = y + e^{−Kt} (f_0 − y)                          on the training examples,
        f_*(t) = f_{*0} − K_* K⁻¹ (I − e^{−Kt}) (f_0 − y)       on others,

    evaluated in the basis of eigenvectors, so K may be singular. Eigenvalues at or below the
    cut-off of `spectrum` count as zero: components along them are never learnt. Costs O(n³), or
    O((nC)³).

    Args:
        kernel: Kernel of each logit, `(n, n)`; or of every pair of logits, `(n, C, n, C)`
          (`logits="full"`).
        targets: Outputs to learn, `(n,)` or `(n, C)`.
        times: Finite times t ≥ 0; for t → ∞ use `kernel_regression`.
        block: Kernel of test with training examples, `(m, n)` or `(m, C, n, C)`.
        initial: Outputs f_0 at time 0. Default: zero.
        initial_test: Outputs f_{*0} at time 0. Default: zero.

    Returns:
        The outputs at each time.

    Raises:
        ArgumentError: Shapes do not fit, the kernel is not symmetric positive semi-definite, or
          the test outputs at a time depend on eigenvalues below the cut-off.

    References:
        Jacot et al. 2018; Lee et al. 2019, eq. (8)–(11); [NPF].
    """
    check_sequence("times", times)
    for t in times:
        check_number("An entry of times", t)

    def decay_integral(values: Tensor, t: float) -> Tensor:
        """Evaluate (1 − e^{−ρt})/ρ, which is t for ρ = 0."""
        return torch.where(values > 0, -torch.expm1(-values * t) / values, t)

    def decay_factor(values: Tensor, t: float) -> Tensor:
        """Evaluate e^{−ρt}."""
        return torch.exp(-values * t)

    return _kernel_trajectory(
        kernel, targets, times, 1.0, decay_factor, decay_integral, block, initial, initial_test
    )


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
    """Compute the outputs of full-batch gradient descent with a constant kernel.

        e_t = (I − αK)^t e_0                         on the training examples,
        f_*(t) = f_{*0} − α K_* Σ_{τ<t} e_τ          on others,

    with learning rate α. Above `largest_rate` of the result the outputs diverge, as training does.

    Args:
        kernel: As for `gradient_flow`.
        targets: As for `gradient_flow`.
        rate: Learning rate α.
        steps: Numbers of steps t to evaluate.
        block: As for `gradient_flow`.
        initial: As for `gradient_flow`.
        initial_test: As for `gradient_flow`.

    Returns:
        The outputs after each number of steps.

    Raises:
        ArgumentError: As for `gradient_flow`, or the outputs overflow.
    """
    check_sequence("steps", steps)
    for count in steps:
        check_count("An entry of steps", count, least=0)
    check_number("rate", rate, above=0.0)

    def decay_integral(values: Tensor, t: float) -> Tensor:
        """Evaluate (1 − (1 − αρ)^t)/ρ, which is αt for ρ = 0; αρ may be far below rounding."""
        small = rate * values < 0.5
        logs = torch.log1p(-torch.where(small, rate * values, 0.0))
        slow = -torch.expm1(t * logs) / values
        fast = (1 - (1 - rate * values) ** t) / values
        return torch.where(values > 0, torch.where(small, slow, fast), rate * t)

    def decay_factor(values: Tensor, t: float) -> Tensor:
        """Evaluate (1 − αρ)^t."""
        remaining: Tensor = (1 - rate * values) ** t
        return remaining

    return _kernel_trajectory(
        kernel, targets, steps, rate, decay_factor, decay_integral, block, initial, initial_test
    )


def _kernel_trajectory(
    kernel: Tensor,
    targets: Tensor,
    times: Sequence[float],
    unit: float,
    decay: OfEigenvalues,
    integral: OfEigenvalues,
    block: Tensor | None,
    initial: Tensor | None,
    initial_test: Tensor | None,
) -> KernelTrajectory:
    """Compute outputs at some times, in the basis of eigenvectors.

    `decay`: fraction of e_0 that is left along an eigenvector; `integral`: its integral (or sum
    times α); `unit`: time of the flow per unit of `times`.
    """
    if isinstance(targets, Tensor) and targets.dtype in WHOLE:
        raise ArgumentError(
            f"targets has dtype {targets.dtype}; expected the outputs to learn as floats "
            "(class_targets(labels, classes) converts class numbers).",
            kind="wrong-type",
            value=targets.dtype,
        )
    y = _output_columns("targets", targets)
    K = _kernel_matrix(kernel, y)
    start = torch.zeros_like(y) if initial is None else _output_columns("initial", initial, y)
    values, vectors = torch.linalg.eigh(K)
    largest, smallest = float(values[-1]), float(values[0])
    rounding = eigenvalue_rounding(kernel.reshape(len(K), -1), largest)
    if smallest < -10 * rounding or largest <= 0:
        raise ArgumentError(
            f"kernel has eigenvalues from {smallest:.3g} to {largest:.3g}; it must be positive "
            "semi-definite and not zero (K^X alone need not be).",
            kind="singular",
        )
    cutoff = max(rounding, -NOISE * smallest)
    values = torch.where(values > cutoff, values, 0.0)
    joint = kernel.dim() == 4
    # e_0 in the basis of eigenvectors: e(t) = U·decay(ρ, t)·Uᵀe_0
    initial_error = vectors.T @ (start - y).reshape(len(K), -1)
    instants = [float(t) for t in times]

    def outputs(basis: Tensor, of: OfEigenvalues, t: float, like: Tensor) -> Tensor:
        """Combine eigenvectors to outputs `(n, C)`, also if logits were joined to one column."""
        combined: Tensor = basis @ (of(values, t)[:, None] * initial_error)
        return combined.reshape(like.shape)

    train = torch.stack([y + outputs(vectors, decay, t, y) for t in instants])
    test = None
    if block is not None:
        B, zero = _block_matrix(block, y, joint)
        before = (
            zero if initial_test is None else _output_columns("initial_test", initial_test, zero)
        )
        reach = max(instants) * unit
        to_test = _project_block(B @ vectors, values == 0, cutoff, reach, kernel.dtype)
        # f_*(t) = f_{*0} − K_*U·∫decay·Uᵀe_0
        test = torch.stack([before - outputs(to_test, integral, t, before) for t in instants])
    elif initial_test is not None:
        raise ArgumentError(
            "initial_test was given without block, the kernel of test with train examples.",
            kind="contradiction",
        )
    for part in (train, test):
        if part is not None and not bool(torch.isfinite(part).all()):
            raise ArgumentError(
                "The outputs overflow: training diverges at rates above "
                f"{2 / largest:.3g} (2/ρ_max).",
                kind="not-finite",
            )
    times_tensor = torch.tensor(instants, dtype=torch.float64)
    return KernelTrajectory(times_tensor, train, test, 2 / largest, smallest)


def _project_block(
    to_test: Tensor, null: Tensor, cutoff: float, reach: float, dtype: torch.dtype
) -> Tensor:
    """Express the block `(m, n)` in the basis of eigenvectors, without rounding noise.

    Along eigenvectors of eigenvalue zero noise would grow with time. Since the kernel of both sets
    is positive semi-definite, its block is zero there; if it is not, the eigenvalue is too small to
    be known, and so is its effect up to time `reach`.
    """
    size = to_test.norm(dim=1).max()
    noise = len(null) * torch.finfo(dtype).eps * size
    significant = to_test.norm(dim=0) > noise
    if reach * cutoff > 1 and bool((significant & null).any()):
        raise ArgumentError(
            f"At time {reach:.3g} the test outputs depend on eigenvalues that are lost to rounding "
            f"(at or below {cutoff:.3g}); they are reliable up to time {1 / cutoff:.3g}. Compute "
            "kernel and block in float64, or use kernel_regression with a ridge.",
            kind="overflow",
        )
    return torch.where(null & ~significant, 0.0, to_test)


def _output_columns(name: str, value: Tensor, like: Tensor | None = None) -> Tensor:
    """Return `(n,)` or `(n, C)` as `(n, C)`, float64 on the CPU."""
    check_tensor(name, value, 1)
    columns = value.detach().to("cpu", torch.float64)
    columns = columns[:, None] if columns.dim() == 1 else columns
    wanted = columns.shape if like is None else like.shape
    if columns.dim() > 2 or columns.shape != wanted:
        shape = "(n,) or (n, C)" if like is None else str(tuple(wanted))
        raise ArgumentError(
            f"{name} has shape {tuple(value.shape)}; expected {shape}.", kind="wrong-shape"
        )
    if not bool(torch.isfinite(columns).all()):
        raise ArgumentError(f"{name} contains NaN or infinity.", kind="not-finite")
    return columns


def _kernel_matrix(kernel: Tensor, y: Tensor) -> Tensor:
    """Return the kernel as one symmetric matrix, float64 on the CPU."""
    check_tensor("kernel", kernel)
    n, classes = y.shape
    wanted = [(n, n), (n, classes, n, classes)]
    if tuple(kernel.shape) not in wanted:
        raise ArgumentError(
            f"kernel has shape {tuple(kernel.shape)}; for these targets expected {wanted[0]} "
            f"(logits='mean') or {wanted[1]} (logits='full').",
            kind="wrong-shape",
        )
    size = n if kernel.dim() == 2 else n * classes
    matrix = kernel.detach().to("cpu", torch.float64).reshape(size, size)
    if not bool(torch.isfinite(matrix).all()):
        raise ArgumentError("kernel contains NaN or infinity.", kind="not-finite")
    tolerance = max(ROUNDING, 100 * torch.finfo(kernel.dtype).eps)
    if float((matrix - matrix.T).abs().max()) > tolerance * float(matrix.abs().max()):
        raise ArgumentError(
            "kernel is not symmetric; expected that of the training examples with themselves.",
            kind="not-symmetric",
        )
    return (matrix + matrix.T) / 2


def _block_matrix(block: Tensor, y: Tensor, joint: bool) -> tuple[Tensor, Tensor]:
    """Return the block as a matrix, and zero outputs `(m, C)` of its test examples."""
    check_tensor("block", block)
    n, classes = y.shape
    m = len(block)
    wanted = (m, classes, n, classes) if joint else (m, n)
    if tuple(block.shape) != wanted:
        raise ArgumentError(
            f"block has shape {tuple(block.shape)}; expected {wanted}, test × train.",
            kind="wrong-shape",
        )
    if not bool(torch.isfinite(block).all()):
        raise ArgumentError("block contains NaN or infinity.", kind="not-finite")
    matrix = block.detach().to("cpu", torch.float64)
    return matrix.reshape(m * classes, -1) if joint else matrix, y.new_zeros((m, classes))
