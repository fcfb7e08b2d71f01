"""The public functions of this package and where each lives; imported when first used."""

from dgn_engine.kernels.architecture_limits import network_limit as network_limit
from dgn_engine.kernels.cntk import convolutional_limit as convolutional_limit
from dgn_engine.kernels.empirical import empirical_ntk as empirical_ntk
from dgn_engine.kernels.estimator import (
    PathEstimator as PathEstimator,
)
from dgn_engine.kernels.estimator import (
    estimate_overlap as estimate_overlap,
)
from dgn_engine.kernels.estimator import (
    estimate_path_kernel as estimate_path_kernel,
)
from dgn_engine.kernels.expectation import (
    expected_value_kernel as expected_value_kernel,
)
from dgn_engine.kernels.expectation import (
    random_gating_eigenvalues as random_gating_eigenvalues,
)
from dgn_engine.kernels.expectation import (
    random_gating_kernel as random_gating_kernel,
)
from dgn_engine.kernels.expectation import (
    value_kernel_constant as value_kernel_constant,
)
from dgn_engine.kernels.expectation import (
    weight_sigmas as weight_sigmas,
)
from dgn_engine.kernels.expected_features import expected_feature_kernel as expected_feature_kernel
from dgn_engine.kernels.gram import input_gram as input_gram
from dgn_engine.kernels.infinite import (
    LimitKernels as LimitKernels,
)
from dgn_engine.kernels.infinite import (
    gated_limit as gated_limit,
)
from dgn_engine.kernels.infinite import (
    linear_limit as linear_limit,
)
from dgn_engine.kernels.infinite import (
    relu_limit as relu_limit,
)
from dgn_engine.kernels.infinite import (
    soft_relu_limit as soft_relu_limit,
)
from dgn_engine.kernels.kernel_average import KernelEstimate as KernelEstimate
from dgn_engine.kernels.kernel_learning import (
    KernelRegression as KernelRegression,
)
from dgn_engine.kernels.kernel_learning import (
    KernelTrajectory as KernelTrajectory,
)
from dgn_engine.kernels.kernel_learning import (
    gradient_descent as gradient_descent,
)
from dgn_engine.kernels.kernel_learning import (
    gradient_flow as gradient_flow,
)
from dgn_engine.kernels.kernel_learning import (
    kernel_regression as kernel_regression,
)
from dgn_engine.kernels.ntk import (
    Logits as Logits,
)
from dgn_engine.kernels.ntk import (
    ntk_cost as ntk_cost,
)
from dgn_engine.kernels.ntk import (
    tangent_kernels as tangent_kernels,
)
from dgn_engine.kernels.operators import (
    OperatorLogits as OperatorLogits,
)
from dgn_engine.kernels.operators import (
    path_diagonal as path_diagonal,
)
from dgn_engine.kernels.operators import (
    path_operator as path_operator,
)
from dgn_engine.kernels.operators import (
    tangent_diagonal as tangent_diagonal,
)
from dgn_engine.kernels.operators import (
    tangent_operator as tangent_operator,
)
from dgn_engine.kernels.path_blocks import PathBlocks as PathBlocks
from dgn_engine.kernels.path_inputs import PathInputs as PathInputs
from dgn_engine.kernels.path_kernels import (
    Normalise as Normalise,
)
from dgn_engine.kernels.path_kernels import (
    gate_churn as gate_churn,
)
from dgn_engine.kernels.path_kernels import (
    layer_overlap as layer_overlap,
)
from dgn_engine.kernels.path_kernels import (
    layer_sensitivity as layer_sensitivity,
)
from dgn_engine.kernels.path_kernels import (
    neural_path_kernel as neural_path_kernel,
)
from dgn_engine.kernels.path_kernels import (
    npk_cost as npk_cost,
)
from dgn_engine.kernels.path_kernels import (
    overlap as overlap,
)
from dgn_engine.kernels.path_kernels import (
    pair_bytes as pair_bytes,
)
from dgn_engine.kernels.path_kernels import (
    sensitive_overlap as sensitive_overlap,
)
from dgn_engine.kernels.path_kernels import (
    unit_diagonal as unit_diagonal,
)
from dgn_engine.kernels.peak_memory import check_budget as check_budget
from dgn_engine.kernels.peak_memory import kernel_bytes as kernel_bytes
from dgn_engine.kernels.residual import (
    SubNetwork as SubNetwork,
)
from dgn_engine.kernels.residual import (
    residual_blocks as residual_blocks,
)
from dgn_engine.kernels.residual import (
    sub_network as sub_network,
)
from dgn_engine.kernels.residual import (
    sub_network_kernel as sub_network_kernel,
)
from dgn_engine.kernels.residual import (
    sub_network_shares as sub_network_shares,
)
from dgn_engine.kernels.shared import SharedKernels as SharedKernels
from dgn_engine.kernels.spectra import (
    FULL_UP_TO as FULL_UP_TO,
)
from dgn_engine.kernels.spectra import (
    LeadingSpectrum as LeadingSpectrum,
)
from dgn_engine.kernels.spectra import (
    Nu as Nu,
)
from dgn_engine.kernels.spectra import (
    Spectrum as Spectrum,
)
from dgn_engine.kernels.spectra import (
    class_targets as class_targets,
)
from dgn_engine.kernels.spectra import (
    contradictory_examples as contradictory_examples,
)
from dgn_engine.kernels.spectra import (
    leading_spectrum as leading_spectrum,
)
from dgn_engine.kernels.spectra import (
    nu as nu,
)
from dgn_engine.kernels.spectra import (
    spectrum as spectrum,
)
from dgn_engine.kernels.tangent_estimator import TangentEstimator as TangentEstimator
from dgn_engine.kernels.tangent_sweep import TangentKernels as TangentKernels
from dgn_engine.model.adapt.from_module import adapt as adapt
