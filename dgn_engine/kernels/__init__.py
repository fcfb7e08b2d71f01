"""Kernels of deep gated networks: pure functions on tensors, without state (THEORY §3–7)."""

from dgn_engine.kernels.gram import input_gram
from dgn_engine.kernels.normalise import Normalise, unit_diagonal
from dgn_engine.kernels.npk import neural_path_kernel, npk_cost
from dgn_engine.kernels.ntk import Logits, TangentKernels, ntk_cost, tangent_kernels
from dgn_engine.kernels.overlap import layer_overlap, overlap
from dgn_engine.kernels.sensitivity import layer_sensitivity, sensitive_overlap
from dgn_engine.kernels.spectra import Spectrum, class_targets, spectrum

__all__ = [
    "Logits",
    "Normalise",
    "Spectrum",
    "TangentKernels",
    "class_targets",
    "input_gram",
    "layer_overlap",
    "layer_sensitivity",
    "neural_path_kernel",
    "npk_cost",
    "ntk_cost",
    "overlap",
    "sensitive_overlap",
    "spectrum",
    "tangent_kernels",
    "unit_diagonal",
]
