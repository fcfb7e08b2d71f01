"""K_0 under fixed random gates, and gradient descent on it by its eigenvalues ([DGN])."""

from __future__ import annotations

import torch
from torch import Tensor

from dgn_engine.experiments import _initial
from dgn_engine.kernels import tangent_kernels
from dgn_engine.random_streams import random_stream


def coin_kernel(n: int, width: int, depth: int, p: float, seed: int) -> Tensor:
    """K_0/d (n, n) of one draw: identical unit inputs, a coin p for each gate and example,
    weights ±√(1/(pw))."""
    architecture = _initial.dense(10, width, depth)
    network = _initial.gated(architecture, seed, sigma=(1 / (p * width)) ** 0.5)
    coins = random_stream("coins", seed)
    gates = tuple((torch.rand(n, width, generator=coins) < p).double() for _ in range(depth - 1))
    x = _initial.unit_inputs(1, (10,), seed).expand(n, -1)
    kernel = tangent_kernels(network.with_gates(gates), x, feature_trained=False).value
    return kernel / depth


def targets(n: int, seed: int) -> Tensor:
    """y ~ U[-1, 1], (n,)."""
    return 2 * torch.rand(n, generator=random_stream("targets", seed), dtype=torch.float64) - 1


def descended(kernel: Tensor, y: Tensor, steps: int) -> list[float]:
    """‖e_t‖²/‖e_0‖² for t = 0 … steps of e ← (I - αK)e from e = y, α = 0.1/ρ_max: gradient
    descent of a network whose kernel stays what it is."""
    values, vectors = torch.linalg.eigh(kernel)
    share = (vectors.T @ y).square() / y.square().sum()
    rate = (1 - 0.1 * values.clamp(min=0) / values[-1]).square()
    return [float((share * rate**t).sum()) for t in range(steps + 1)]


def distribution(kernel: Tensor) -> Tensor:
    """Eigenvalues, ascending, of the kernel over its trace: steps of the e.c.d.f. (THEORY §7)."""
    values = torch.linalg.eigvalsh(kernel)
    shares: Tensor = values / values.sum()
    return shares
