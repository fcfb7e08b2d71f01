"""Dense networks in numpy: forward passes and kernels written from docs/theory.md, float64."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np

Arrays = Sequence[np.ndarray]


def copy_arrays(tensors: Iterable[Any]) -> list[np.ndarray]:
    """Copies of tensors."""
    return [tensor.detach().numpy().astype(float) for tensor in tensors]


def relu_gates(weights: Arrays, x: np.ndarray) -> list[np.ndarray]:
    """1{q > 0} of each hidden layer of a ReLU network."""
    gates, z = [], x
    for weight in weights[:-1]:
        q = z @ weight.T
        gates.append((q > 0).astype(float))
        z = q * gates[-1]
    return gates


def outputs(weights: Arrays, gates: Arrays, x: np.ndarray) -> np.ndarray:
    """The first logit under given gates, (n,)."""
    z = x
    for weight, gate in zip(weights, gates, strict=False):
        z = (z @ weight.T) * gate
    return (z @ weights[-1].T)[:, 0]


def gradients(weights: Arrays, gates: Arrays, x: np.ndarray) -> list[np.ndarray]:
    """∂ŷ/∂W_l of each example, (n, *shape), by the chain rule."""
    inputs = [x]
    for weight, gate in zip(weights, gates, strict=False):
        inputs.append((inputs[-1] @ weight.T) * gate)
    back = np.ones((len(x), 1))
    found = []
    for layer in reversed(range(len(weights))):
        found.append(back[:, :, None] * inputs[layer][:, None, :])
        if layer:
            back = (back @ weights[layer]) * gates[layer - 1]
    return found[::-1]


def tangent_kernel(weights: Arrays, gates: Arrays, x: np.ndarray) -> np.ndarray:
    """K^V(s, s') = ⟨∇ŷ(x_s), ∇ŷ(x_s')⟩ with the gates held."""
    jacobian = np.concatenate([g.reshape(len(x), -1) for g in gradients(weights, gates, x)], 1)
    return jacobian @ jacobian.T


def path_kernel(gates: Arrays, x: np.ndarray) -> np.ndarray:
    """H = Σ ⊙ Π_l G_l G_lᵀ."""
    kernel = x @ x.T
    for gate in gates:
        kernel = kernel * (gate @ gate.T)
    return kernel


def constant(squares: Sequence[float]) -> float:
    """β = Σ_l Π_{l' ≠ l} σ_l'² of a chain."""
    return sum(
        math.prod(square for other, square in enumerate(squares) if other != layer)
        for layer in range(len(squares))
    )


def distance(kernel: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(kernel - expected) / np.linalg.norm(expected))


def descent(
    weights: Arrays, x: np.ndarray, y: np.ndarray, rate: float, steps: int, gates: Arrays | None
) -> list[tuple[np.ndarray, list[np.ndarray], list[np.ndarray], np.ndarray]]:
    """Errors, weights, gates and K before each step of W ← W − αΣ_s e_s ∂ŷ_s/∂W, and at the end."""
    now, found = [weight.copy() for weight in weights], []
    for _ in range(steps + 1):
        used = list(relu_gates(now, x) if gates is None else gates)
        error = outputs(now, used, x) - y
        kernel = tangent_kernel(now, used, x)
        found.append((error, [weight.copy() for weight in now], used, kernel))
        slopes = gradients(now, used, x)
        now = [
            weight - rate * np.tensordot(error, slope, 1)
            for weight, slope in zip(now, slopes, strict=True)
        ]
    return found


def path_values(weights: Arrays) -> np.ndarray:
    """v(p) of every path."""
    sizes = [weights[0].shape[1], *(weight.shape[0] for weight in weights)]
    return np.array(
        [
            math.prod(weights[i][path[i + 1], path[i]] for i in range(len(weights)))
            for path in product(*map(range, sizes))
        ]
    )


def path_features(gates: Arrays, x: np.ndarray) -> np.ndarray:
    """φ_x(p) of every example and path."""
    sizes = [x.shape[1], *(gate.shape[1] for gate in gates)]
    return np.array(
        [
            x[:, path[0]]
            * math.prod(gate[:, unit] for gate, unit in zip(gates, path[1:], strict=True))
            for path in product(*map(range, sizes))
        ]
    )
