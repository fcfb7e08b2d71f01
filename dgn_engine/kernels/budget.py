"""How much memory the kernels of n examples take, and a refusal with the n that fits."""

from __future__ import annotations

from collections.abc import Callable

from dgn_engine.errors import UserError
from dgn_engine.kernels.arguments import check_count, check_network, check_word
from dgn_engine.kernels.ntk import Logits
from dgn_engine.kernels.peak_memory import PeakMemory
from dgn_engine.model.network import GatedNetwork

WORKING = 32 << 20  # of libraries, and of what is made once, whatever n is


def kernel_bytes(
    network: GatedNetwork, n: int, logits: Logits = "mean", others: int | None = None
) -> int:
    """An upper bound on the bytes that Σ, τ_l, Λ, S, H, the tangent kernels and their eigenvalues
    take for n examples, or for their block with so many `others`, all of them held at once:
    passes, deltas, per-example gradients, tiles of pairs and copies on the way included; inputs
    and weights, which are there before, not."""
    check_network(network)
    check_count("n", n)
    check_word("logits", logits, Logits)
    if others is not None:
        check_count("others", others)
    return WORKING + PeakMemory(network, logits, n, others).total


def check_budget(
    network: GatedNetwork,
    n: int,
    budget_bytes: int,
    logits: Logits = "mean",
    more: str = "",
    others: int | None = None,
) -> None:
    """Raise `UserError` where `kernel_bytes` exceeds the budget, with the n that fits; `more` says
    at the end of the sentence what else one can do."""
    needed = kernel_bytes(network, n, logits, others)
    check_count("budget_bytes", budget_bytes)
    if needed <= budget_bytes:
        return
    fits = largest_count(
        lambda count: kernel_bytes(network, count, logits, others) <= budget_bytes, n
    )
    beside = "" if others is None else f" beside {others:,} others"
    raise UserError(
        f"{n:,} inputs{beside} need {_gib(needed)} GiB for their kernels, more than the "
        f"{_gib(budget_bytes)} GiB allowed; {fits:,} inputs fit{more}."
    )


def largest_count(fits: Callable[[int], bool], above: int) -> int:
    """Return the largest number of inputs that fits, given one `above` that does not; or 0."""
    most = 0
    while above - most > 1:
        middle = (most + above) // 2
        if fits(middle):
            most = middle
        else:
            above = middle
    return most


def _gib(count: int) -> str:
    return f"{count / 2**30:,.3g}"
