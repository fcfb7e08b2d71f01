"""How much memory the kernels of n examples take, and a refusal with the n that fits."""

from __future__ import annotations

from math import isqrt, prod

from dgn_engine.errors import UserError
from dgn_engine.kernels.arguments import check_count, check_network, check_word
from dgn_engine.kernels.ntk import Logits
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.network import GatedNetwork

# Of each layer a pass keeps input, pre-activation and gate, a soft gate also two slopes, and a
# sweep holds two deltas; both networks pass.
KEPT = 9
WORKING = 128 << 20  # tiles and streamed logits, whatever n is


def kernel_bytes(network: GatedNetwork, n: int, logits: Logits = "mean") -> int:
    """An upper estimate of the bytes that Σ, τ_l, Λ, S, H, the tangent kernels and their
    eigenvalues take for n examples, all of them held at once."""
    check_network(network)
    check_count("n", n)
    check_word("logits", logits, Logits)
    each, pair = _bytes_each(network, logits)
    return WORKING + n * each + n * n * pair


def check_budget(
    network: GatedNetwork, n: int, budget_bytes: int, logits: Logits = "mean", more: str = ""
) -> None:
    """Raise `UserError` where `kernel_bytes` exceeds the budget, with the n that fits; `more` says
    at the end of the sentence what else one can do."""
    needed = kernel_bytes(network, n, logits)
    check_count("budget_bytes", budget_bytes)
    if needed <= budget_bytes:
        return
    each, pair = _bytes_each(network, logits)
    room = max(0, budget_bytes - WORKING)
    fits = (isqrt(each * each + 4 * pair * room) - each) // (2 * pair)
    raise UserError(
        f"{n:,} inputs need {_gib(needed)} GiB for their kernels, more than the "
        f"{_gib(budget_bytes)} GiB allowed; {fits:,} inputs fit{more}."
    )


def _bytes_each(network: GatedNetwork, logits: Logits) -> tuple[int, int]:
    """Bytes for each example and for each pair of them."""
    item = next(network.parameters()).element_size()
    architecture = network.architecture
    classes, layers = architecture.classes, len(architecture.gated_shapes)
    square = {"full": classes**2, "perclass": classes}.get(logits, 1)
    # Every logit's deltas at once only where pairs of logits meet; else they are streamed.
    deltas = 2 * classes if logits == "full" else 0
    each = item * (KEPT + deltas) * _units(architecture)
    # Σ, τ_l, K^V, K^F, K^X and K; Λ, S, H and the recursion behind them; one of the kernels
    # with what its eigenvalues need.
    pair = item * (1 + layers + 4 * square) + 8 * 7 + 8 * 6 * square
    return each, pair


def _units(architecture: Architecture) -> int:
    """Numbers in one example and all its layers."""
    shapes = (shape for _, shape in architecture.shapes())
    return sum(prod(shape) for shape in (architecture.input_shape, *shapes))


def _gib(count: int) -> str:
    return f"{count / 2**30:,.3g}"
