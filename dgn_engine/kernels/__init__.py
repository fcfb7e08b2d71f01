"""Kernels of deep gated networks: pure functions on tensors, without state (THEORY §3–7)."""

from dgn_engine.kernels.architecture_limits import network_limit
from dgn_engine.kernels.budget import check_budget, kernel_bytes
from dgn_engine.kernels.cntk import convolutional_limit
from dgn_engine.kernels.empirical import empirical_ntk
from dgn_engine.kernels.estimator import PathEstimator, estimate_overlap, estimate_path_kernel
from dgn_engine.kernels.expectation import (
    expected_value_kernel,
    random_gating_eigenvalues,
    random_gating_kernel,
    value_kernel_constant,
    weight_sigmas,
)
from dgn_engine.kernels.expected_features import expected_feature_kernel
from dgn_engine.kernels.gradient_flow import KernelTrajectory, gradient_descent, gradient_flow
from dgn_engine.kernels.gram import input_gram
from dgn_engine.kernels.infinite import (
    LimitKernels,
    gated_limit,
    linear_limit,
    relu_limit,
    soft_relu_limit,
)
from dgn_engine.kernels.kernel_average import KernelEstimate
from dgn_engine.kernels.large_kernels import (
    FULL_UP_TO,
    LeadingSpectrum,
    leading_spectrum,
    nu,
)
from dgn_engine.kernels.ntk import Logits, ntk_cost, tangent_kernels
from dgn_engine.kernels.operators import (
    OperatorLogits,
    path_diagonal,
    path_operator,
    tangent_diagonal,
    tangent_operator,
)
from dgn_engine.kernels.path_blocks import PathBlocks
from dgn_engine.kernels.path_inputs import PathInputs
from dgn_engine.kernels.path_kernels import (
    Normalise,
    gate_churn,
    layer_overlap,
    layer_sensitivity,
    neural_path_kernel,
    npk_cost,
    overlap,
    pair_bytes,
    sensitive_overlap,
    unit_diagonal,
)
from dgn_engine.kernels.regression import KernelRegression, kernel_regression
from dgn_engine.kernels.residual import (
    SubNetwork,
    residual_blocks,
    sub_network,
    sub_network_kernel,
    sub_network_shares,
)
from dgn_engine.kernels.shared import SharedKernels
from dgn_engine.kernels.spectra import (
    Nu,
    Spectrum,
    class_targets,
    contradictory_examples,
    spectrum,
)
from dgn_engine.kernels.tangent_estimator import TangentEstimator
from dgn_engine.kernels.tangent_sweep import TangentKernels
from dgn_engine.model.importing.from_module import adapt

__all__ = [
    "FULL_UP_TO",
    "KernelEstimate",
    "KernelRegression",
    "KernelTrajectory",
    "LeadingSpectrum",
    "LimitKernels",
    "Logits",
    "Normalise",
    "Nu",
    "OperatorLogits",
    "PathBlocks",
    "PathEstimator",
    "PathInputs",
    "SharedKernels",
    "Spectrum",
    "SubNetwork",
    "TangentEstimator",
    "TangentKernels",
    "adapt",
    "check_budget",
    "class_targets",
    "contradictory_examples",
    "convolutional_limit",
    "empirical_ntk",
    "estimate_overlap",
    "estimate_path_kernel",
    "expected_feature_kernel",
    "expected_value_kernel",
    "gate_churn",
    "gated_limit",
    "gradient_descent",
    "gradient_flow",
    "input_gram",
    "kernel_bytes",
    "kernel_regression",
    "layer_overlap",
    "layer_sensitivity",
    "leading_spectrum",
    "linear_limit",
    "network_limit",
    "neural_path_kernel",
    "npk_cost",
    "ntk_cost",
    "nu",
    "overlap",
    "pair_bytes",
    "path_diagonal",
    "path_operator",
    "random_gating_eigenvalues",
    "random_gating_kernel",
    "relu_limit",
    "residual_blocks",
    "sensitive_overlap",
    "soft_relu_limit",
    "spectrum",
    "sub_network",
    "sub_network_kernel",
    "sub_network_shares",
    "tangent_diagonal",
    "tangent_kernels",
    "tangent_operator",
    "unit_diagonal",
    "value_kernel_constant",
    "weight_sigmas",
]
