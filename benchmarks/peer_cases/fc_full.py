"""The tangent kernel of a dense network, every pair of logits, against structured derivatives."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.case import Case, Faster, Method, Work
from benchmarks.cases import fc_full
from benchmarks.networks import dense_architecture, draw_examples, make_network
from benchmarks.peer import PeerWork
from dgn_engine.kernels import gram, tangent_kernels

RIVAL = "neural-tangents, structured, jitted"
BAR = 2.8 if gram.onednn_is_faster() else 1.0


def _ours(device: torch.device, n: int) -> Work:
    architecture = dense_architecture(10)
    model, x = make_network(architecture, device), draw_examples(architecture, n, device)
    return lambda: tangent_kernels(model, x, "full").total_kernel


def _theirs(device: torch.device, n: int) -> Work:
    architecture = dense_architecture(10)
    weights = make_network(architecture, device).value.folded_tensors()[0]
    arrays = {f"weight_{i}": weight.detach() for i, weight in enumerate(weights)}
    return PeerWork("fc_full", arrays | {"x": draw_examples(architecture, n, device)})


def _pairs_of_examples_first(kernel: Tensor) -> Tensor:
    return kernel.permute(0, 2, 1, 3)


CASE = Case(
    title="FC 784-128×5-10, NTK, full (n, C, n, C)",
    n=200,
    quick=200,
    methods=(
        Method("dgn_engine", _ours, comparable=_pairs_of_examples_first),
        Method(RIVAL, _theirs),
    ),
    bars=(Faster(RIVAL, BAR),),
    most_rounds=100,
    floor=fc_full.CASE.floor,
)
