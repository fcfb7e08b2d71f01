"""The tangent kernel K of a module whose gates cannot be followed, on as many examples as time
allows."""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor, nn

from dgn_engine.kernels.empirical import module_kernel
from dgn_engine.kernels.jacobian_rows import differentiable_backends, logits_of
from dgn_engine.protocol.frames import Reading, read_only_copy
from dgn_engine.text.written_numbers import format_duration

FEWEST = 4  # probe examples
LIMIT = 1.5  # seconds that a reading may take
TOO_LONG = 20.0  # seconds above which even two examples are refused
MEMORY = 1 << 30  # bytes


class TangentAlone:
    """Computes K, the mean over the logits, on evenly spaced probe examples sorted by class.

    It starts with `FEWEST` examples, or fewer if one row of the Jacobian is slow, then at most
    doubles the number while the next reading is expected to take less than `LIMIT` seconds: rows
    cost O(n), their products O(n²).

    Args:
        x: (n, …) The probe examples.
        labels: (n,) Their class numbers.

    Attributes:
        remark: Which outputs of the module K is computed from, if that is not obvious; else ''. A
            softmax at the end of the module is left out.
    """

    def __init__(self, x: Tensor, labels: Tensor) -> None:
        self._x, self._labels = x, labels
        self._count = min(FEWEST, len(x))
        self._began = False
        self._classes = 1
        self.remark = ""

    def read_kernel(self, module: nn.Module, step: int) -> Reading:
        """Compute K of a module, in the form of the probe 'ntk'.

            K(x, x') = 1/C Σ_c ⟨∂f_c(x)/∂θ, ∂f_c(x')/∂θ⟩ over the C logits f_c.

        Args:
            module: The module, in evaluation mode.
            step: The training step of its weights.

        Returns:
            The reading: 'value' (m, m) and 'labels' (m,) of m of the n examples.

        Raises:
            ValueError: The module has no K, or computing it takes too long.
        """
        if not self._began:
            self._count = first_count(self._row_seconds(module) * self._classes, self._count)
            self._began = True
        count, began = self._count, time.monotonic()
        # float64, since a half-precision default dtype would round indices above 256
        spaced = torch.linspace(0, len(self._x) - 1, count, dtype=torch.float64)
        rows = spaced.round().long().to(self._x.device)
        result = module_kernel(module, self._x[rows], None, "mean", MEMORY, before_softmax=True)
        kernel, self.remark = result.kernel, result.outputs
        seconds = time.monotonic() - began
        self._count = next_count(count, seconds, len(self._x))
        is_complete = count == len(self._x)
        scalars = {
            "trace_value": float(kernel.diagonal().sum()),
            "norm_value": float(torch.linalg.matrix_norm(kernel)),
        }
        return Reading(
            "ntk",
            step,
            seconds,
            arrays={
                "labels": read_only_copy(self._labels[rows].cpu().numpy()),
                "value": read_only_copy(kernel.detach().cpu().numpy()),
            },
            scalars=scalars,
            facts={
                "trains": f"K over all trainable parameters, by autograd. {result.outputs}".strip()
            },
            remark=f"{count} probe examples, exact"
            if is_complete
            else f"{count} of {len(self._x)}",
            examples=0 if is_complete else count,
        )

    def _row_seconds(self, module: nn.Module) -> float:
        """Measure the gradient of one logit of one example; the first pass is slower."""
        parameters = [p for p in module.parameters() if p.requires_grad]
        seconds = math.inf
        for _ in range(2 if parameters else 0):
            began = time.monotonic()
            with differentiable_backends(module):
                logits = logits_of(module(self._x[:1]), 1)
                self._classes = logits.shape[1]
                grads = torch.autograd.grad(logits[0, 0], parameters, allow_unused=True)
            float(next(g for g in grads if g is not None).abs().sum())  # synchronises a GPU
            seconds = min(seconds, time.monotonic() - began)
            if seconds > TOO_LONG:
                break
        return seconds if parameters else 0.0  # `module_kernel` reports that nothing trains


def first_count(seconds: float, most: int) -> int:
    """Return the number of examples for the first reading.

    Args:
        seconds: The time that the rows of one example take.
        most: The number of probe examples.

    Returns:
        `most`, halved until the rows take less than `LIMIT` seconds, at least 2.

    Raises:
        ValueError: Even two examples take too long.
    """
    count = most
    while count > 2 and count * seconds > LIMIT:
        count //= 2
    if count * seconds > TOO_LONG:
        raise ValueError(
            f"K is not computed: even for two probe examples it would block your training for "
            f"about {format_duration(2 * seconds)}."
        )
    return count


def next_count(count: int, seconds: float, most: int) -> int:
    """Return the number of examples for the next reading.

    Args:
        count: The number of examples in the last reading.
        seconds: The time that it took.
        most: The number of probe examples.

    Returns:
        `count` doubled, the same or halved, at least 2 and at most `most`.
    """
    if seconds > LIMIT:
        return max(2, min(count // 2, most))
    doubled = min(2 * count, most)
    growth = (doubled / count) ** 2  # of the products J Jᵀ, the larger part
    return doubled if growth * seconds <= LIMIT else count
