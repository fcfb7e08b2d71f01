"""The convolutional limit kernel slab by slab, in the cache: the road of `cntk` where numba is.

Σ and T of all pairs of positions never leave the cache (see `slabs`), and the arc cosine is a
polynomial, so that a processor does several at once. Needs numba (the extra `fast`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from dgn_engine.kernels import slabs
from dgn_engine.kernels.compiled import cntk_loops
from dgn_engine.kernels.gram import KernelBlock
from dgn_engine.model.architecture import Architecture

# Numba compiles once per process, a few seconds; less work than this is done sooner without it.
WORTH_COMPILING = 1e8  # pairs of positions over all layers and pairs of examples


def map_limits(
    architecture: Architecture,
    images: Tensor,
    variances: Sequence[Tensor],
    block: KernelBlock | None = None,
) -> tuple[Tensor, Tensor] | None:
    """Σ and T of a block of pairs after global average pooling, for images (n, C, H, W), float64 on
    the CPU.

    `variances[l]` (n, H, W) is E[q_l(p)²] of convolution l. Agrees with the plain road to 1e-12,
    and to 1e-8 where two different examples look the same through a window: there arccos near one
    halves the digits of either road. None where this road does not apply: no numba, little work,
    flattening (the plain road needs p = p' alone), paddings that alternate or exceed the window.
    """
    block = block or KernelBlock.whole(len(images))
    route = slabs.route(architecture)
    if route is None or route.flat or not route.complete or route.work(block) < WORTH_COMPILING:
        return None
    if not slabs.available():  # last: numba takes half a second and 60 MB
        return None
    both = []
    for layer in variances:
        deviation = layer.sqrt()
        inverse = torch.where(deviation > 0, 1.0 / deviation, 0.0)
        both.append(torch.stack([deviation, inverse], dim=1).flatten(1))
    deviations = np.ascontiguousarray(torch.cat(both, dim=1).numpy())
    inputs = np.ascontiguousarray(images.numpy())
    loop = cntk_loops.pairs()
    covariance, tangent = np.zeros(block.shape), np.zeros(block.shape)

    def pairs(row: int, left: int, right: int) -> None:
        place, span = row - block.rows.start, block.column_places(slice(left, right))
        loop(
            row, left, inputs, deviations, route.levels, route.layers, route.shifts, route.floats,
            covariance[place, span], tangent[place, span],
        )  # fmt: skip
        if block.symmetric:
            covariance[span, place] = covariance[place, span]
            tangent[span, place] = tangent[place, span]

    route.fill(pairs, block)
    pooled = float(variances[-1][0].numel()) ** 2
    return torch.from_numpy(covariance / pooled), torch.from_numpy(tangent / pooled)
