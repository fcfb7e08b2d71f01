"""Losses of a stack with their gradient, layer by layer equal to `dgn_engine.training.losses`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from dgn_engine.config import Loss


def scores(kind: Loss, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean losses (B,), right answers (B,), and the gradient of each mean loss, (B, C, m).

    logits (B, C, m), labels (B, m) int.
    """
    examples, classes = labels.shape[1], logits.shape[1]
    chosen = labels[:, None, :]
    if classes == 1:
        right = (logits[:, 0] > 0).long() == labels
        signs = 2.0 * chosen.to(logits.dtype) - 1.0
    else:
        right = logits.argmax(dim=1) == labels
        signs = torch.full_like(logits, -1.0).scatter_(1, chosen, 1.0)
    if kind == "squared":
        error = logits - signs
        losses, delta = 0.5 * error.square().sum(dim=1).mean(dim=1), error
    elif classes == 1:
        losses = F.softplus(-signs * logits).mean(dim=(1, 2))
        delta = -signs * torch.sigmoid(-signs * logits)
    else:
        logs = torch.log_softmax(logits, dim=1)
        losses = -logs.gather(1, chosen).mean(dim=(1, 2))
        delta = logs.exp()
        delta.scatter_add_(1, chosen, delta.new_full((), -1.0).expand(chosen.shape))
    return losses, right.sum(dim=1), delta / examples
