"""How fast K^V_0 comes to βH as the width grows: the distance, and the bar of its slope.

Var K_0 falls as 1/w ([WS] Theorem 4.1); a distance that is the root of a mean square falls as
w^(-1/2).
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

THEORY, MARGIN = -0.5, 0.15  # of the log-log slope against the width
DRAWS = 16  # of the value weights, whose mean square is a distance
ABOUT = (
    f"the distance of K^V_0 is the root of the mean square over {DRAWS} draws of the value "
    f"weights; theory has it fall as w^{THEORY:g}, and a slope within ±{MARGIN:g} of that counts "
    "as theory's"
)


def mean_square_distance(network: GatedNetwork, x: Tensor, seed: int, draws: int = DRAWS) -> float:
    """Return the root of the mean of (‖K^V_0 − βH‖/‖βH‖)² over draws of the value weights.

    The gates stay as they are. x: (n, *input_shape). The network is left with the last draw.
    """
    gates = network.trace(x).value.gates
    sigmas = weight_sigmas(network.value.tensors()[0])
    expected = expected_value_kernel(network.architecture, gates, x, sigmas)
    squares = []
    for draw in range(draws):
        network.value.draw("bernoulli", random_stream("value", draws * seed + draw))
        kernel = tangent_kernels(network, x, trains=("value",)).whole
        squares.append(relative_distance(kernel, expected) ** 2)
    return float((sum(squares) / draws) ** 0.5)


def rate_claim(
    words: str,
    widths: Sequence[int],
    curves: Iterable[Sequence[float]],
    design: Design,
    claim: str = "comp-5",
    of: str = "draws",
) -> Claim:
    """Judge that the log-log slope of the distance against the width is theory's.

    `curves`: the distance at each width, for each draw of everything else, which `of` names.
    """
    slopes = Sample(tuple(log_slope(widths, curve) for curve in curves), of)
    words = f"{words}: log-log slope of the distance against width"
    return judge(claim, words, within(slopes, MARGIN, THEORY), design=design)
