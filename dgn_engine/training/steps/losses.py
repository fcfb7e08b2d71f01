"""Losses and accuracy, for C classes and for the ±1 problem with one logit."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.config import Loss


def signs(labels: Tensor, classes: int) -> Tensor:
    """Targets ±1: (n, 1) for a pair of classes (the first is -1), one-versus-rest (n, C) else."""
    if classes == 1:
        return (2.0 * labels.to(torch.get_default_dtype()) - 1.0).unsqueeze(1)
    own = labels[:, None] == torch.arange(classes, device=labels.device)
    return 2.0 * own.to(torch.get_default_dtype()) - 1.0


def loss(kind: Loss, logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over the examples of the cross entropy, or of ½Σ_c e_c² against ±1 targets.

    logits (n, C) or (n, 1) for a ±1 problem, labels (n,) int. With one logit the cross entropy
    is the logistic loss log(1 + exp(-yŷ)).
    """
    classes = logits.shape[1]
    if kind == "squared":
        error = logits - signs(labels, classes).to(logits.dtype)
        return 0.5 * error.square().sum(dim=1).mean()
    if classes == 1:
        return F.softplus(-signs(labels, 1).to(logits.dtype) * logits).mean()
    return F.cross_entropy(logits, labels)


class LossSlope:
    """`loss` and its gradient by the logits, (n, C), written out for batches of one shape."""

    def __init__(self, kind: Loss, like: Tensor) -> None:
        """`like`: logits (n, C)."""
        examples, classes = like.shape
        self._kind: Loss = kind
        # Of the logarithms: what the mean of those of the right classes moves by.
        self._rows = torch.eye(classes, dtype=like.dtype, device=like.device) / -examples
        self._into_logs = torch.empty_like(like)

    def __call__(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        examples, classes = logits.shape
        if self._kind == "squared":
            error = logits - signs(labels, classes).to(logits.dtype)
            return 0.5 * error.square().sum(dim=1).mean(), error / examples
        if classes == 1:
            margins = -signs(labels, 1).to(logits.dtype)
            value = F.softplus(margins * logits).mean()
            return value, margins * torch.sigmoid(margins * logits) / examples
        logs = torch.log_softmax(logits, dim=1)
        torch.index_select(self._rows, 0, labels, out=self._into_logs)
        slope = torch._log_softmax_backward_data(self._into_logs, logs, 1, logs.dtype)
        return F.nll_loss(logs, labels), slope


def answered_right(logits: Tensor, labels: Tensor) -> Tensor:
    """(n,) bool: which examples are classified as labelled; logits (n, C) or (n, 1)."""
    if logits.shape[1] == 1:
        return (logits[:, 0] > 0).long() == labels
    return logits.argmax(dim=1) == labels


def correct(logits: Tensor, labels: Tensor) -> Tensor:
    """How many of them, a tensor of one number."""
    return answered_right(logits, labels).sum()
