"""The tangent kernel of a dense network, mean over logits, against structured derivatives."""

from __future__ import annotations

import torch

from benchmarks.case import Case, Faster, Method, Work
from benchmarks.cases import fc_mean
from benchmarks.networks import dense_architecture, draw_examples, make_network
from benchmarks.peer import PeerWork
from dgn_engine.kernels import gram, tangent_kernels

RIVAL = "neural-tangents, structured, jitted"
BAR = 1.4 if gram.onednn_is_faster() else 1.0


def _ours(device: torch.device, n: int) -> Work:
    architecture = dense_architecture(10)
    model, x = make_network(architecture, device), draw_examples(architecture, n, device)
    return lambda: tangent_kernels(model, x, "mean").total_kernel


def _theirs(device: torch.device, n: int) -> Work:
    architecture = dense_architecture(10)
    weights = make_network(architecture, device).value.folded_tensors()[0]
    arrays = {f"weight_{i}": weight.detach() for i, weight in enumerate(weights)}
    return PeerWork("fc_mean", arrays | {"x": draw_examples(architecture, n, device)})


CASE = Case(
    title="FC 784-128×5-10, NTK, mean over logits",
    n=200,
    quick=200,
    methods=(Method("dgn_engine", _ours), Method(RIVAL, _theirs)),
    bars=(Faster(RIVAL, BAR),),
    most_rounds=100,
    floor=fc_mean.CASE.floor,
)
