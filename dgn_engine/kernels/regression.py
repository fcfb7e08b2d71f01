"""Kernel ridge regression with any of these kernels: what the kernel alone generalises to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import (
    check_indices,
    check_kernel,
    check_number,
    check_targets,
)
from dgn_engine.text.html_fields import HtmlFields


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
            "The kernel holds values that are not finite; nothing can be fitted to it."
        )
    if set(rows.tolist()) & set(columns.tolist()):
        raise ArgumentError("Some examples are in both the training and the test part.")
    inner = values[np.ix_(columns, columns)]
    penalty = ridge * float(np.trace(inner)) / len(columns)
    if penalty <= 0:
        raise ArgumentError(
            "The kernel is zero on the training examples; nothing can be fitted to it."
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
