"""The generalisation bound of Cao & Gu (2019), for wide ReLU networks (theory §7)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.arguments import check_tensor
from dgn_engine.kernels.html_fields import HtmlFields
from dgn_engine.kernels.infinite import relu_limit
from dgn_engine.kernels.spectra import nu
from dgn_engine.model.architecture import Dense, is_gated
from dgn_engine.model.network import GatedNetwork

PARALLEL = 1e-14  # from a cosine of 1, at which arccos has lost all digits


@dataclass(frozen=True)
class ReluBound(HtmlFields):
    """The bound of Cao & Gu up to constants, and how K^(d) was inverted.

    Attributes:
        value: d·√(tr(Yᵀ(K^(d))⁻¹Y)/(Cn)).
        rank: Number of eigenvalues of K^(d) above the cut-off; n with a ridge.
        cutoff: Eigenvalues at or below it, at trace 1, count as zero; 0 with a ridge.
        outside: Fraction of the targets' energy below the cut-off. If it is not zero, K^(d) is
          singular, and `value` leaves that part out: it bounds nothing.
        ridge: The ridge.
    """

    value: float
    rank: int
    cutoff: float
    outside: float
    ridge: float


@torch.no_grad()
def relu_bound(x: Tensor, targets: Tensor, depth: int, ridge: float = 0.0) -> ReluBound:
    """Compute the generalisation bound of a wide ReLU network, up to constants and logarithms.

    With probability 1 − p over n training examples, the expected 0-1 loss of a wide dense ReLU
    network without biases, trained by one pass of SGD, is at most

        Õ(d √(yᵀ(K^(d))⁻¹y / n)) + O(√(log(1/p)/n)),   K^(d) = (K̃^(d) + Σ^(d))/2,

    for inputs of norm 1 and labels y of ±1. The constants are not known, so compare values for the
    same n. With C columns of targets the square is averaged over them, as ν is, which bounds the
    mean of the C losses.

    Args:
        x: Inputs, `(n, ...)`, which are scaled to norm 1.
        targets: ±1, `(n,)` or `(n, C)`.
        depth: Number of weight layers d.
        ridge: Ridge that is added to the eigenvalues of K^(d)/trace K^(d).

    Returns:
        The first term without its constant, and how K^(d) was inverted.

    Raises:
        ArgumentError: As for `relu_limit` and `nu`, or an input is zero.

    References:
        Cao & Gu 2019, arXiv:1905.13210, Corollary 3.10 at ỹ = y; [NPF]. [WS] prints it without the
        inverse.

    Examples:
        Orthogonal inputs and two layers: K^(2) has 3/2 on its diagonal and 1/π off it.

        >>> x, y = torch.eye(2, dtype=torch.float64), torch.tensor([1.0, -1.0])
        >>> round(relu_bound(x, y, depth=2).value, 4)
        1.8398
    """
    check_tensor("x", x)
    inputs = x.detach().to("cpu", torch.float64, copy=True).flatten(1)
    norms = inputs.norm(dim=1, keepdim=True)
    if not bool((norms > 0).all()):
        raise ArgumentError(
            "An input is zero, but the bound of Cao & Gu assumes inputs of norm 1.",
            kind="singular",
        )
    inputs /= norms
    # Parallel inputs become equal, as the limit expects of duplicates, not equal but for rounding.
    inputs = inputs[(inputs @ inputs.T > 1.0 - PARALLEL).to(torch.uint8).argmax(1)]
    kernel = relu_limit(inputs, depth).average_kernel
    found = nu(kernel, targets, ridge)
    # ν = tr(Yᵀ(K/tr K)⁻¹Y)/C, so that tr(YᵀK⁻¹Y)/C = ν/tr K
    value = depth * math.sqrt(found.value / (float(kernel.trace()) * len(kernel)))
    return ReluBound(value, found.rank, found.cutoff, found.outside, found.ridge)


def has_relu_bound(network: GatedNetwork) -> bool:
    """Return whether the bound is about ReLU networks of this architecture.

    Args:
        network: The network; its gates do not matter.

    Returns:
        True for dense layers without biases, gated but for the last.
    """
    *hidden, last = network.architecture.nodes
    dense = all(isinstance(node, Dense) and node.factor == 1.0 for node in (*hidden, last))
    gated = all(is_gated(node) for node in hidden) and not is_gated(last)
    return dense and gated and not len(network.value.biases)
