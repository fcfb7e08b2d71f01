"""How an overlap or a path kernel is scaled, said explicitly (THEORY §3)."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from dgn_engine.errors import UserError

Normalise = Literal["none", "trace", "width", "cosine"]


def unit_diagonal(kernel: Tensor) -> Tensor:
    """K[s, s'] / √(K[s, s] K[s', s']) for K (n, n).

    Rows and columns of examples with a zero diagonal become NaN: they are shown empty (THEORY §5).
    """
    diagonal = kernel.diagonal()
    root = torch.where(diagonal > 0, diagonal, torch.nan).sqrt()
    scaled = kernel / root[:, None] / root[None, :]
    scaled.diagonal()[diagonal > 0] = 1.0
    return scaled


def normalised(kernel: Tensor, how: Normalise, widths: float) -> Tensor:
    """Scale a kernel (n, n), in place, whose every τ_l was already divided by its width.

    'width' leaves it so, 'none' multiplies by `widths` = Π w_l, 'trace' divides by the trace
    (zero stays zero), 'cosine' makes the diagonal one. Raises `UserError` for any other word.
    """
    match how:
        case "width":
            return kernel
        case "none":
            return kernel.mul_(widths)
        case "trace":
            trace = kernel.trace()
            return kernel.div_(torch.where(trace > 0, trace, 1.0))
        case "cosine":
            return unit_diagonal(kernel)
    raise UserError(f"normalise is {how!r}; it must be one of {', '.join(get_args(Normalise))}.")
