"""Reference methods in plain torch: the tutorial's tangent kernel, and pairwise recursions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional as F

from benchmarks.networks import SOFT

EINSUM = {"full": "Naf,Mbf->NMab", "trace": "Naf,Maf->NM"}


def tutorial_kernel(
    module: nn.Module, one: Tensor, two: Tensor, compute: Literal["full", "trace"]
) -> Tensor:
    """Compute the NTK by the Jacobian contraction of the PyTorch tutorial 'Neural Tangent Kernels':
    the Jacobian of each block, even if both blocks are the same, and one einsum per parameter.

    Returns:
        (N, M, C, C) for 'full'; (N, M), summed over the logits, for 'trace'.
    """
    parameters = {key: value.detach() for key, value in module.named_parameters()}

    def single(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
        output: Tensor = functional_call(module, dict(weights), (x.unsqueeze(0),))
        return output.squeeze(0)

    left = vmap(jacrev(single), (None, 0))(parameters, one)
    right = vmap(jacrev(single), (None, 0))(parameters, two)
    pairs = [(left[key].flatten(2), right[key].flatten(2)) for key in parameters]
    parts = [torch.einsum(EINSUM[compute], a, b) for a, b in pairs]
    return torch.stack(parts).sum(0)


Weights = list[Tensor]


def gated_logits(feature: Weights, value: Weights, x: Tensor) -> Tensor:
    """Return the logits of a dense DGN for one input (a,): soft gates, ReLU feature network."""
    feature_z, value_z = x, x
    for f, v in zip(feature[:-1], value[:-1], strict=True):
        q = f @ feature_z
        feature_z = F.relu(q)
        value_z = (v @ value_z) * SOFT(q)
    return value[-1] @ value_z


def gated_kernels(feature: Weights, value: Weights, x: Tensor) -> Tensor:
    """Return H, K^V and K^F (mean over logits) as (3, n, n), by one Jacobian per network."""
    kernels = [_path_kernel(feature, x)]
    for argument in (1, 0):
        jacobian = vmap(jacrev(gated_logits, argnums=argument), (None, None, 0))(feature, value, x)
        parts = [torch.einsum("Naf,Maf->NM", j.flatten(2), j.flatten(2)) for j in jacobian]
        kernels.append(torch.stack(parts).sum(0) / len(value[-1]))
    return torch.stack(kernels)


def _path_kernel(feature: Weights, x: Tensor) -> Tensor:
    kernel = (x @ x.T).double()
    z = x
    for weight in feature[:-1]:
        q = z @ weight.T
        z = F.relu(q)
        gates = SOFT(q)
        kernel = kernel * (gates @ gates.T)
    return kernel


def path_kernel_of_pair(gates: list[Tensor], x: Tensor, s: int, t: int) -> Tensor:
    """Return H[s, t] of a 3×3 convolutional network with global average pooling, each τ divided by
    its width: per layer a Gram matrix of positions, shifted sums and a product."""
    side = x.shape[-1]
    kernel = (x[s].flatten(1).T @ x[t].flatten(1)).reshape((side,) * 4)
    for layer in gates:
        tau = layer[s].flatten(1).T @ layer[t].flatten(1) / layer.shape[1]
        kernel = tau.reshape((side,) * 4) * _box(kernel)
    return kernel.sum(dtype=torch.float64)


def limit_kernel_of_pair(x: Tensor, s: int, t: int, depth: int) -> Tensor:
    """Return the convolutional limit kernel (Arora et al. 2019) of two different examples: ReLU,
    3×3, global average pooling, every layer trained."""
    covariance = torch.einsum("cyx,cvu->yxvu", x[s], x[t])
    tangent = torch.zeros_like(covariance)
    squares = x[[s, t]].square().sum(1)
    for _ in range(depth):
        covariance = _box(covariance) / 9
        tangent = _box(tangent) / 9 + covariance
        squares = F.avg_pool2d(squares, 3, 1, 1)
        scale = torch.einsum("yx,vu->yxvu", squares[0].sqrt(), squares[1].sqrt())
        rho = (covariance / scale).clamp(-1.0, 1.0)
        slope = 1 - torch.acos(rho) / torch.pi
        covariance = scale * ((1 - rho.square()).sqrt() / torch.pi + slope * rho)
        tangent = tangent * slope
    return (tangent + covariance).mean()


def _box(kernel: Tensor) -> Tensor:
    """Return Σ_r K[p + r, p' + r] over 3×3 windows with zero padding, for K (H, W, H, W)."""
    side = len(kernel)
    padded = F.pad(kernel, (1,) * 8)
    rows, both = (torch.zeros_like(part) for part in (padded[:side, :, :side], kernel))
    for r in range(3):
        rows += padded[r : r + side, :, r : r + side]
    for r in range(3):
        both += rows[:, r : r + side, :, r : r + side]
    return both
