"""NPK, K^V and K^F of a deep gated network, against one Jacobian per network."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.case import Amounts, Case, Faster, Method, Work
from benchmarks.floors import count_path_work, count_tangent_work
from benchmarks.networks import dense_architecture, draw_examples, make_network
from benchmarks.reference import gated_kernels
from dgn_engine.kernels import neural_path_kernel, tangent_kernels

CLASSES = 10


def _ours(device: torch.device, n: int) -> Work:
    architecture = dense_architecture(CLASSES)
    model, x = (
        make_network(architecture, device, gated=True),
        draw_examples(architecture, n, device),
    )

    def work() -> Tensor:
        with torch.no_grad():
            gates = model.trace(x).value.gates
        npk = neural_path_kernel(architecture, gates, x)
        tangent = tangent_kernels(model, x)
        assert tangent.feature is not None
        return torch.stack([npk, tangent.value, tangent.feature])

    return work


def _jacobians(device: torch.device, n: int) -> Work:
    architecture = dense_architecture(CLASSES)
    model, x = (
        make_network(architecture, device, gated=True),
        draw_examples(architecture, n, device),
    )
    feature = [weight.detach() for weight in model.feature.folded_tensors()[0]]
    value = [weight.detach() for weight in model.value.folded_tensors()[0]]
    return lambda: gated_kernels(feature, value, x)


def _each_to_unit_norm(kernels: Tensor) -> Tensor:
    sizes: Tensor = torch.linalg.matrix_norm(kernels.double())
    return kernels / sizes[:, None, None]


def _floor(n: int) -> Amounts:
    """Return the least work of the soft gates' NPK and both tangent kernels, on one input."""
    architecture = dense_architecture(CLASSES)
    paths = count_path_work(architecture, n, bits=False)
    tangent = count_tangent_work(architecture, n, feature=True)
    return Amounts(paths.flops + tangent.flops, paths.bytes + tangent.bytes)


CASE = Case(
    title="DGN 784-128×5-10, NPK + K^V + K^F",
    n=200,
    quick=50,
    methods=(
        Method("dgn_engine", _ours, comparable=_each_to_unit_norm),
        Method("torch.func, one Jacobian per network", _jacobians, comparable=_each_to_unit_norm),
    ),
    bars=(Faster("torch.func, one Jacobian per network", 150),),
    memory=True,
    floor=_floor,
)
