"""A call that works of every public function of `dgn_engine.kernels`, by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor, nn

import dgn_engine.kernels as k
from dgn_engine.model.gates import Gate
from tests.engine.kernels.tiny import (
    ARCHITECTURES,
    draw_images,
    make_network,
    random_gates,
    random_masks,
)

N = 4
POOLED = ARCHITECTURES["max-gap"]
DENSE = ARCHITECTURES["fc-deep"]
BLOCKS = ARCHITECTURES["residual-dense"]
CONVOLUTIONS = ARCHITECTURES["conv-gap"]

Call = dict[str, Any]


def tensors(found: Any) -> Iterator[Tensor]:
    """Every number of a result."""
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, (float, int, np.ndarray)):
        yield torch.from_numpy(np.array(found))
    elif isinstance(found, LinearOperator):
        yield torch.as_tensor(found @ np.eye(found.shape[1]))
    elif isinstance(found, (list, tuple)):
        for each in found:
            yield from tensors(each)
    elif is_dataclass(found):
        for field in fields(found):
            yield from tensors(getattr(found, field.name))


def others(architecture: Any = POOLED, **more: Any) -> k.PathInputs:
    gates = random_gates(architecture, 3, hard=True, seed=5)
    masks = random_masks(architecture, 3)
    return k.PathInputs(gates, draw_images(architecture, 3, 1), masks, **more)


def _paths(architecture: Any = POOLED, **more: Any) -> Call:
    return {
        "architecture": architecture,
        "gates": random_gates(architecture, N, hard=True),
        "x_value": draw_images(architecture, N),
        "masks": random_masks(architecture, N),
        "other": others(architecture),
        **more,
    }


def a_kernel() -> Tensor:
    x = draw_images(DENSE, N)
    return x @ x.T + torch.eye(N, dtype=torch.float64)


def a_target() -> Tensor:
    return torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)


def _trajectory() -> Call:
    start = torch.zeros(N, dtype=torch.float64)
    return {
        "kernel": a_kernel(),
        "targets": a_target(),
        "block": a_kernel()[:2],
        "initial": start,
        "initial_test": start[:2],
    }


def _two_layers() -> Call:
    gates = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    return {"x": draw_images(DENSE, N), "gates": gates, "targets": a_target()}


def _network(**more: Any) -> Call:
    network = make_network(DENSE, own=False, soft=True)
    x = draw_images(DENSE, N)
    other = draw_images(DENSE, 3, 1)
    known = {"network": network, "x": x, "other": other, "logits": "mean"}
    return {**known, "trains": ("value",), "folded": False, **more}


def kernel_state(scale: float = 1.0) -> k.KernelState:
    network = make_network(DENSE, own=False, soft=True)
    for weight in network.value.weights:
        weight.data.mul_(scale)
    return k.KernelState.from_network(network, draw_images(DENSE, N))


def path_weights(seed: float = 1.0) -> k.PathWeights:
    found = k.PathWeights.from_stack(make_network(BLOCKS, bias=True).value)
    return replace(found, weights=tuple(seed * weight for weight in found.weights))


def _limit(**more: Any) -> Call:
    return {"x": draw_images(DENSE, N), "other": draw_images(DENSE, 3, 1), "depth": 3, **more}


def a_module() -> nn.Sequential:
    layers = (nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False))
    return nn.Sequential(*layers).double()


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _without(call: Call, *names: str) -> Call:
    return {name: value for name, value in call.items() if name not in names}


CALLS: dict[str, Callable[[], Call]] = {
    "SharedKernels": lambda: _network(budget_bytes=1 << 30),
    "adapt": lambda: {"module": a_module(), "input_shape": (3,), "gates_from": a_module(),
              "gate": Gate()},
    "check_budget": lambda: {
        "network": make_network(DENSE), "n": 3, "budget_bytes": 1 << 30, "logits": "mean",
        "others": 2,
    },
    "centred_alignment": lambda: {"kernel": a_kernel(), "targets": a_target()},
    "class_targets": lambda: {"labels": torch.tensor([0, 1, 2, 1]), "classes": 3},
    "contradictory_examples": lambda: {
        "x": draw_images(DENSE, N), "labels": torch.tensor([0, 1, 2, 1]),
    },
    "convolutional_limit": lambda: {
        "architecture": CONVOLUTIONS, "x": draw_images(CONVOLUTIONS, N),
        "other": draw_images(CONVOLUTIONS, 3, 1),
    },
    "cut_distances": lambda: {"hyperplanes": torch.ones(N, 3), "cuts": torch.ones(3, 3)},
    "effective_hyperplanes": lambda: {
        "network": make_network(DENSE), "example": draw_images(DENSE, 1), "most": 64,
    },
    "convex_optimum": lambda: {
        **_two_layers(), "penalty": 0.05, "loss": "squared", "tolerance": 1e-3, "iterations": 50,
    },
    "empirical_ntk": lambda: {
        "module": a_module(), "x": draw_images(DENSE, N), "other": draw_images(DENSE, 3, 1),
        "logits": "mean", "budget_bytes": 1 << 30,
    },
    "estimate_overlap": lambda: {
        "architecture": POOLED, "draws": 2, "generator": _generator(), "normalise": "width",
        "inputs": others(sensitivities=random_gates(POOLED, 3, hard=False)),
        "other": others(sensitivities=random_gates(POOLED, 3, hard=False)),
    },
    "estimate_path_kernel": lambda: _paths(draws=2, generator=_generator(), normalise="width"),
    "expected_feature_kernel": lambda: {
        **_without(_network(), "logits", "trains", "folded"),
        "sigmas": [0.5] * len(DENSE.weight_layers),
    },
    "expected_value_kernel": lambda: _paths(sigmas=[0.5] * len(POOLED.weight_layers)),
    "fit_path_features": lambda: _two_layers(),
    "gate_churn": lambda: {
        "before": random_gates(DENSE, N, hard=True), "after": random_gates(DENSE, N, hard=True),
    },
    "gated_limit": lambda: _limit(
        beta=4.0, epsilon=0.1, value_input="ones", linear_features=True,
        parallel_features=True,
    ),
    "gradient_descent": lambda: {**_trajectory(), "rate": 0.1, "steps": (1, 2)},
    "gradient_flow": lambda: {**_trajectory(), "times": (0.0, 0.5)},
    "input_gram": lambda: _without(_limit(), "depth"),
    "input_spread": lambda: {"x": draw_images(DENSE, N)},
    "kernel_bytes": lambda: {
        "network": make_network(DENSE), "n": 3, "logits": "mean", "others": 2,
    },
    "kernel_regression": lambda: {
        "kernel": a_kernel(), "targets": a_target(), "train": torch.tensor([0, 1]),
        "test": torch.tensor([2, 3]), "ridge": 0.1,
    },
    "kernel_svm": lambda: {
        "kernel": a_kernel(), "targets": a_target(), "train": torch.tensor([0, 1]),
        "test": torch.tensor([2, 3]), "penalty": 2.0,
    },
    "layer_overlap": lambda: {"gates": torch.ones(N, 3), "other": torch.ones(2, 3)},
    "layer_sensitivity": lambda: {
        "sensitivities": torch.ones(N, 3), "other": torch.ones(2, 3),
    },
    "leading_spectrum": lambda: {"kernel": a_kernel(), "count": 2},
    "linear_limit": lambda: _limit(sigma_w=1.0, sigma_b=[0.1, 0.0, 0.2]),
    "local_complexity": lambda: {
        "network": make_network(DENSE), "x": draw_images(DENSE, N),
        "directions": draw_images(DENSE, 2, 1), "radius": 0.1,
    },
    "mixed_kernel": lambda: {"weights": kernel_state(), "gates": kernel_state(2.0)},
    "network_limit": lambda: {
        "architecture": CONVOLUTIONS, "x": draw_images(CONVOLUTIONS, N),
        "other": draw_images(CONVOLUTIONS, 3, 1), "sigma_w": 1.0, "sigma_b": 0.1,
    },
    "neural_path_kernel": lambda: _paths(normalise="width"),
    "npk_cost": lambda: {"architecture": DENSE, "n": 3},
    "ntk_cost": lambda: {"architecture": DENSE, "n": 3},
    "nu": lambda: {"kernel": a_kernel(), "targets": a_target(), "ridge": 0.1},
    "orthonormal_directions": lambda: {"shape": (3, 2), "count": 4, "seed": 1},
    "overlap": lambda: _without(_paths(normalise="width"), "x_value"),
    "path_diagonal": lambda: {
        "architecture": POOLED, "inputs": others(), "normalise": "width",
    },
    "path_operator": lambda: {
        "architecture": POOLED, "inputs": others(), "other": others(), "normalise": "width",
        "budget_bytes": 1 << 20,
    },
    "path_value_distance": lambda: {"weights": path_weights(), "other": path_weights(0.5)},
    "path_value_norms": lambda: {"weights": path_weights()},
    "pair_bytes": lambda: {"architecture": DENSE},
    "path_gradient_overlap": lambda: {
        **_without(_network(), "logits", "trains", "folded"), "normalise": "width",
    },
    "random_gating_eigenvalues": lambda: {"n": 3, "p": 0.5, "depth": 2},
    "random_gating_kernel": lambda: {"n": 3, "p": 0.5, "depth": 2},
    "relu_bound": lambda: {
        "x": draw_images(DENSE, N), "targets": a_target(), "depth": 3, "ridge": 0.1,
    },
    "relu_limit": lambda: _limit(sigma_w=[1.0, 1.2, 0.9], sigma_b=0.1),
    "residual_blocks": lambda: {"architecture": BLOCKS},
    "sensitive_overlap": lambda: _without(
        _paths(
            sensitivities=random_gates(POOLED, N, hard=False), normalise="width",
            other=others(sensitivities=random_gates(POOLED, 3, hard=False)),
        ),
        "x_value",
    ),
    "shape_distance": lambda: {"kernel": a_kernel(), "other": 2.0 * a_kernel()},
    "soft_relu_limit": lambda: _limit(
        beta=4.0, epsilon=0.1, as_printed=False, sigma_w=1.0, sigma_b=0.1,
    ),
    "spectrum": lambda: {"kernel": a_kernel(), "targets": a_target(), "ridge": 0.1},
    "split_motion": lambda: {
        "before": kernel_state(), "now": kernel_state(2.0),
        "kernel_before": k.mixed_kernel(kernel_state(), kernel_state()),
    },
    "sub_network": lambda: {"architecture": BLOCKS, "kept": (0,)},
    "sub_network_kernel": lambda: _paths(BLOCKS, kept=(0,)),
    "sub_network_shares": lambda: _without(_paths(BLOCKS), "other"),
    "tangent_kernels": lambda: _network(
        budget_bytes=1 << 20,
        trace=make_network(DENSE, own=False, soft=True).trace(draw_images(DENSE, N)),
        other_trace=make_network(DENSE, own=False, soft=True).trace(draw_images(DENSE, 3, 1)),
    ),
    "tangent_diagonal": lambda: _without(_network(), "other"),
    "tangent_operator": lambda: _network(budget_bytes=1 << 20),
    "unit_diagonal": lambda: {"kernel": a_kernel()},
    "value_kernel_constant": lambda: {"architecture": DENSE, "sigmas": [0.5] * 4},
    "weight_sigmas": lambda: {"weights": [torch.ones(2, 3)]},
}  # fmt: skip
