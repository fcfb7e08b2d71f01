"""The rate at which K^V_0 approaches βH as the width grows.

Var K_0 falls as 1/w ([WS] Theorem 4.1), so that a root-mean-square distance falls as w^(−1/2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor

from dgn_engine.experiments import Claim
from dgn_engine.experiments._claims import Sample, judge, within
from dgn_engine.experiments._initial_networks import log_slope, relative_distance
from dgn_engine.experiments._power import Design
from dgn_engine.kernels import expected_value_kernel, tangent_kernels, weight_sigmas
from dgn_engine.model.network import GatedNetwork
from dgn_engine.random_streams import random_stream

THEORY, MARGIN = -0.5, 0.15  # log-log slope against width, and its tolerance
DRAWS = 16  # draws of the value weights per distance
ABOUT = (
    f"the distance of K^V_0 is the root mean square over {DRAWS} draws of the value weights; in "
    f"theory it falls as w^{THEORY:g}, and a slope within ±{MARGIN:g} of that counts as agreement"
)


def mean_square_distance(network: GatedNetwork, x: Tensor, seed: int, draws: int = DRAWS) -> float:
    """Return the root mean square of ‖K^V_0 − βH‖/‖βH‖ over draws of the value weights.

    The gates are fixed; the network keeps the last draw.

    Args:
        network: the network.
        x: inputs (n, *input_shape).
        seed: the seed.
        draws: number of draws.
    """
    gates = network.trace(x).value.gates
    sigmas = weight_sigmas(network.value.folded_tensors()[0])
    expected = expected_value_kernel(network.architecture, gates, x, sigmas)
    squares = []
    for draw in range(draws):
        network.value.init_weights("bernoulli", random_stream("value", draws * seed + draw))
        kernel = tangent_kernels(network, x, trains=("value",)).total_kernel
        squares.append(relative_distance(kernel, expected) ** 2)
    return float((sum(squares) / draws) ** 0.5)


def rate_claim(
    label: str,
    widths: Sequence[int],
    curves: Iterable[Sequence[float]],
    design: Design,
    claim: str = "comp-5",
    of: str = "draws",
) -> Claim:
    """Judge that the log-log slope of the distance against the width agrees with theory.

    Args:
        label: start of the description of the statistic.
        widths: the widths.
        curves: the distance at each width, for each replicate.
        design: the design of the claim.
        claim: its id.
        of: what the replicates are.
    """
    slopes = Sample(tuple(log_slope(widths, curve) for curve in curves), of)
    label = f"{label}: log-log slope of the distance against width"
    return judge(claim, label, within(slopes, MARGIN, THEORY), design=design)
