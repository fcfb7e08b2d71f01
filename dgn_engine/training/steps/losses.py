"""Losses and accuracy, for C classes and for ±1 problems with one logit."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.config import Loss


def sign_targets(labels: Tensor, classes: int) -> Tensor:
    """Return ±1 targets.

    Args:
        labels: Class numbers, (n,) int.
        classes: Number of logits C; 1 for a ±1 problem.

    Returns:
        (n, 1) for one logit (class 0 is -1, class 1 is +1), else one-versus-rest (n, C), in torch's
        default dtype.
    """
    if classes == 1:
        return (2.0 * labels.to(torch.get_default_dtype()) - 1.0).unsqueeze(1)
    own = labels[:, None] == torch.arange(classes, device=labels.device)
    return 2.0 * own.to(torch.get_default_dtype()) - 1.0


def compute_loss(kind: Loss, logits: Tensor, labels: Tensor) -> Tensor:
    """Compute the mean loss of a batch.

    Squared loss is L = (1/n) Σ_i ½ Σ_c (ŷ_ic - y_ic)² against ±1 targets. With one logit, cross
    entropy is the logistic loss log(1 + exp(-yŷ)).

    Args:
        kind: 'squared' or 'cross_entropy'.
        logits: (n, C), or (n, 1) for a ±1 problem.
        labels: Class numbers, (n,) int.

    Returns:
        The mean over the examples, ().
    """
    classes = logits.shape[1]
    if kind == "squared":
        error = logits - sign_targets(labels, classes).to(logits.dtype)
        return 0.5 * error.square().sum(dim=1).mean()
    if classes == 1:
        return F.softplus(-sign_targets(labels, 1).to(logits.dtype) * logits).mean()
    return F.cross_entropy(logits, labels)


class LossSlope:
    """`compute_loss` and its gradient with respect to the logits, for batches of one shape."""

    def __init__(self, kind: Loss, like: Tensor) -> None:
        """Allocate the buffers.

        Args:
            kind: The loss.
            like: Logits of the batch, (n, C).
        """
        examples, classes = like.shape
        self._kind: Loss = kind
        # dL/dlog p: -1/n in the column of the right class, one row per class.
        self._rows = torch.eye(classes, dtype=like.dtype, device=like.device) / -examples
        self._into_logs = torch.empty_like(like)

    def __call__(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the mean loss and its gradient.

        Args:
            logits: (n, C).
            labels: Class numbers, (n,) int.

        Returns:
            Loss (), and dL/dŷ (n, C), which the next call may overwrite.
        """
        examples, classes = logits.shape
        if self._kind == "squared":
            error = logits - sign_targets(labels, classes).to(logits.dtype)
            return 0.5 * error.square().sum(dim=1).mean(), error / examples  # dL/dŷ = e / n
        if classes == 1:
            margins = -sign_targets(labels, 1).to(logits.dtype)
            value = F.softplus(margins * logits).mean()
            return value, margins * torch.sigmoid(margins * logits) / examples  # -y σ(-yŷ) / n
        logs = torch.log_softmax(logits, dim=1)
        torch.index_select(self._rows, 0, labels, out=self._into_logs)
        # dL/dŷ = (p - y) / n
        slope = torch._log_softmax_backward_data(self._into_logs, logs, 1, logs.dtype)
        return F.nll_loss(logs, labels), slope


def correct_mask(logits: Tensor, labels: Tensor) -> Tensor:
    """Return which examples are classified correctly.

    Args:
        logits: (n, C), or (n, 1) for a ±1 problem.
        labels: Class numbers, (n,) int.

    Returns:
        (n,) bool.
    """
    if logits.shape[1] == 1:
        return (logits[:, 0] > 0).long() == labels
    return logits.argmax(dim=1) == labels


def count_correct(logits: Tensor, labels: Tensor) -> Tensor:
    """Count the correctly classified examples.

    Args:
        logits: (n, C) or (n, 1).
        labels: Class numbers, (n,) int.

    Returns:
        () int64, on the device of the logits.
    """
    return correct_mask(logits, labels).sum()
