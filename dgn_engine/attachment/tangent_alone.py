"""K of a module that has no gates we can follow, of as many probe examples as time allows."""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor, nn

from dgn_engine.kernels.empirical import module_kernel
from dgn_engine.kernels.jacobian_rows import differentiable, logits_of
from dgn_engine.protocol.frames import Reading, freeze
from dgn_engine.text.written_numbers import duration

FEWEST = 4  # probe examples
LIMIT = 1.5  # seconds that a reading may take
TOO_LONG = 20.0  # … that one of two examples may be expected to take
MEMORY = 1 << 30  # bytes


class TangentAlone:
    """Reads K, mean over the logits, on evenly spaced examples of x (n, ...), sorted by class.

    It begins with `FEWEST` or, where one row of the Jacobian takes long, fewer; then it takes at
    most twice as many as before, while the next reading is expected to take less than `LIMIT`
    seconds: rows take time by n, their products by n². `remark`: of which outputs of the module it
    is, where that is not plain, or ''; a softmax at the end of the module is left out.
    """

    def __init__(self, x: Tensor, labels: Tensor) -> None:
        self._x, self._labels = x, labels
        self._count = min(FEWEST, len(x))
        self._began = False
        self._classes = 1
        self.remark = ""

    def read(self, module: nn.Module, step: int) -> Reading:
        """Return K of `module` as the probe 'ntk' shows it.

        Raises `ValueError` where there is no K, or it takes too long.
        """
        if not self._began:
            self._count = first_count(self._row_seconds(module) * self._classes, self._count)
            self._began = True
        count, began = self._count, time.monotonic()
        # in the user's default dtype indices of 256 and more might be rounded
        spaced = torch.linspace(0, len(self._x) - 1, count, dtype=torch.float64)
        rows = spaced.round().long().to(self._x.device)
        made = module_kernel(module, self._x[rows], None, "mean", MEMORY, before_softmax=True)
        kernel, self.remark = made.kernel, made.outputs
        seconds = time.monotonic() - began
        self._count = next_count(count, seconds, len(self._x))
        whole = count == len(self._x)
        scalars = {
            "trace_value": float(kernel.diagonal().sum()),
            "norm_value": float(torch.linalg.matrix_norm(kernel)),
        }
        return Reading(
            "ntk",
            step,
            seconds,
            arrays={
                "labels": freeze(self._labels[rows].cpu().numpy()),
                "value": freeze(kernel.detach().cpu().numpy()),
            },
            scalars=scalars,
            facts={
                "trains": f"K over all parameters that train, by autograd. {made.outputs}".strip()
            },
            remark=f"{count} probe examples, exact" if whole else f"{count} of {len(self._x)}",
            examples=0 if whole else count,
        )

    def _row_seconds(self, module: nn.Module) -> float:
        """That the gradient of one logit of one example takes; the first pass is slower."""
        parameters = [p for p in module.parameters() if p.requires_grad]
        seconds = math.inf
        for _ in range(2 if parameters else 0):
            began = time.monotonic()
            with differentiable(module):
                logits = logits_of(module(self._x[:1]), 1)
                self._classes = logits.shape[1]
                grads = torch.autograd.grad(logits[0, 0], parameters, allow_unused=True)
            float(next(g for g in grads if g is not None).abs().sum())  # of a card: waits for it
            seconds = min(seconds, time.monotonic() - began)
            if seconds > TOO_LONG:
                break
        return seconds if parameters else 0.0  # the kernel says that nothing trains


def first_count(seconds: float, most: int) -> int:
    """How many examples the first reading is of, where the rows of one take so many seconds.

    Raises `ValueError` where even two of them take too long.
    """
    count = most
    while count > 2 and count * seconds > LIMIT:
        count //= 2
    if count * seconds > TOO_LONG:
        raise ValueError(
            f"K is left out: of two probe examples it would take about {duration(2 * seconds)}, in "
            "which your training would stand still."
        )
    return count


def next_count(count: int, seconds: float, most: int) -> int:
    """How many examples the next reading is of, where one of `count` took so long."""
    if seconds > LIMIT:
        return max(2, min(count // 2, most))
    doubled = min(2 * count, most)
    growth = (doubled / count) ** 2
    return doubled if growth * seconds <= LIMIT else count
