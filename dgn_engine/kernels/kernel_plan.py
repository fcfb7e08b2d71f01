"""What a report of kernels computes within its memory: every quantity with its bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import nn

from dgn_engine.errors import UserError
from dgn_engine.kernels.ntk import Logits
from dgn_engine.kernels.peak_memory import WORKING, PeakMemory, gib, largest_count
from dgn_engine.kernels.quantities import QUANTITIES, QUANTITIES_OF_K, WITH_SPECTRUM
from dgn_engine.model.network import GatedNetwork

# Who comes first has the memory; what is derived from kernels comes after them.
_ORDER = ("ntk", "npk", "overlap", "sensitive", "gram", "gates")
_SPECTRAL = 6  # matrices of float64 beside K, for its eigenvalues alone

Cost = Callable[[frozenset[str], int], int]  # bytes of these quantities for so many inputs


@dataclass(frozen=True)
class PlannedQuantity:
    """One quantity of a report: `ntk`, `gates` (τ_1 … τ_L), `eigenvalues_ntk`, `nu`.

    `needed`: bytes for it together with what comes before it in the plan and is computed. `alone`:
    for it and the kernel that it is of.
    """

    name: str
    needed: int
    alone: int
    is_computed: bool


@dataclass(frozen=True)
class KernelPlan:
    """Every quantity that was asked for, and whether it is computed within the memory.

    `whole`: bytes for all of them at once; `fits`: the most inputs for which that fits.
    """

    quantities: tuple[PlannedQuantity, ...]
    allowed: int
    whole: int
    fits: int

    def computes(self, name: str) -> bool:
        return any(each.name == name and each.is_computed for each in self.quantities)

    def uses(self, kernel: str) -> bool:
        """Whether a kernel is computed, for itself or for its eigenvalues or ν."""
        return any(kernel_of(each.name) == kernel and each.is_computed for each in self.quantities)

    @property
    def settings(self) -> dict[str, Any]:
        """Bytes of each quantity that was left out, by name, for a file or JSON."""
        left = {each.name: each.needed for each in self.quantities if not each.is_computed}
        return {"left_out": left}

    @property
    def notes(self) -> list[str]:
        """What was left out, why, and how to get it; nothing where all is computed."""
        by_need: dict[str, list[str]] = {}
        alone = []
        for each in self.quantities:
            kernel = kernel_of(each.name)
            if each.is_computed or (each.name != kernel and not self.uses(kernel)):
                continue  # without a kernel there are no eigenvalues of it
            by_need.setdefault(gib(each.needed), []).append(each.name)
            if each.name == kernel and each.alone <= self.allowed:
                alone.append(kernel)
        if not by_need:
            return []
        left = "; ".join(f"{', '.join(names)} ({need} GiB)" for need, names in by_need.items())
        fewer = f", or at most {self.fits:,} inputs" if self.fits else "; fewer inputs do not help"
        note = (
            f"Left out, as {gib(self.allowed)} GiB are allowed: {left}. To have everything: "
            f"--memory {_rounded_up(self.whole)}{fewer}."
        )
        if alone:
            note += f" What fits by itself: {', '.join(f'--only {name}' for name in alone)}."
        return [note]


def kernel_of(name: str) -> str:
    """Return the kernel that a quantity is of: `ntk` of `eigenvalues_ntk`, `npk` of `nu`."""
    first, _, kernel = name.partition("_")
    return (kernel or "npk") if first in ("eigenvalues", "nu") else name


def plan_kernels(
    network: GatedNetwork,
    n: int,
    allowed: int,
    logits: Logits = "mean",
    only: Iterable[str] | None = None,
    labelled: bool = False,
) -> KernelPlan:
    """Return what is computed of the kernels of n inputs.

    Args:
        network: the network; its parameters have the dtype of the kernels.
        n: the number of inputs.
        allowed: bytes that may be taken, as `kernel_bytes` counts them.
        logits: as in `tangent_kernels`.
        only: names of `QUANTITIES`; all of them where it is None.
        labelled: whether there are labels, which ν needs.

    Raises:
        UserError: nothing fits, or a name is unknown or says nothing here.
    """

    @cache
    def memory(count: int) -> PeakMemory:
        return PeakMemory(network, logits, count, None)

    def cost(names: frozenset[str], count: int) -> int:
        return WORKING + memory(count).bytes_of(names)

    return _plan(quantities_wanted(only, logits, labelled), cost, n, allowed, only)


def plan_tangent_kernel(
    module: nn.Module,
    n: int,
    classes: int,
    allowed: int,
    logits: Logits = "mean",
    only: Iterable[str] | None = None,
    labelled: bool = False,
) -> KernelPlan:
    """Return what is computed of K of n inputs by `empirical_ntk`, which has a budget of its own
    for what it needs beside K; arguments and errors as of `plan_kernels`."""
    item = max([4, *(p.real.element_size() for p in module.parameters())])
    numbers = {"full": classes**2, "perclass": classes}.get(logits, 1)

    def cost(names: frozenset[str], count: int) -> int:
        derived = any(name != "ntk" for name in names)
        return count**2 * numbers * (item + (8 * _SPECTRAL if derived else 0))

    return _plan(quantities_wanted(only, logits, labelled, False), cost, n, allowed, only)


def quantities_wanted(
    only: Iterable[str] | None, logits: Logits, labelled: bool, gated: bool = True
) -> tuple[str, ...]:
    """Return the quantities of a plan that names of `QUANTITIES` ask for, in its order.

    Eigenvalues are those of the kernels that are named, or else of all; ν is that of H, or of K
    where K is named and H is not.
    """
    names = tuple(QUANTITIES) if only is None else tuple(only)
    exist = QUANTITIES if gated else QUANTITIES_OF_K
    for name in names:
        if name not in QUANTITIES:
            raise UserError(
                f"There is no quantity '{name}'; there are {', '.join(QUANTITIES)}.",
                kind="unknown-name",
            )
    named = [kernel for kernel in WITH_SPECTRUM if kernel in names and kernel in exist]
    wanted = [name for name in _ORDER if name in names and name in exist]
    if "nu" in names and labelled:
        of_k = "npk" not in named and (not gated or "ntk" in named)
        if not of_k:
            wanted.append("nu")
        elif logits in ("mean", "sumlogit"):
            wanted.append("nu_ntk")
    if "eigenvalues" in names:
        spectra = [kernel for kernel in named or WITH_SPECTRUM if kernel in exist]
        for kernel in (each for each in _ORDER if each in spectra):
            if kernel != "ntk" or logits != "perclass":
                wanted.append("eigenvalues" if kernel == "npk" else f"eigenvalues_{kernel}")
    if only is not None:
        if "nu" in names and not labelled:
            raise UserError(
                "ν compares a kernel with labels: --only nu needs --labels.", kind="contradiction"
            )
        for name in ("nu", "eigenvalues"):
            if name in names and not any(each.startswith(name) for each in wanted):
                raise UserError(
                    f"--only {name}: K has none with --logits {logits}.", kind="contradiction"
                )
    return tuple(wanted)


def _plan(
    wanted: tuple[str, ...], cost: Cost, n: int, allowed: int, only: Iterable[str] | None
) -> KernelPlan:
    computed: frozenset[str] = frozenset()
    found = []
    for name in wanted:
        own = frozenset((name, kernel_of(name)))
        needed = cost(computed | own, n)
        found.append(PlannedQuantity(name, needed, cost(own, n), needed <= allowed))
        if needed <= allowed:
            computed |= own
    everything = frozenset(wanted) | {kernel_of(name) for name in wanted}
    whole = cost(everything, n)
    fits = n
    if whole > allowed:
        fits = largest_count(lambda count: cost(everything, count) <= allowed, n)
    if not computed:
        what = "their kernels" if only is None else ", ".join(only)
        raise UserError(
            f"{n:,} inputs need {gib(whole)} GiB for {what}, more than the {gib(allowed)} GiB "
            f"allowed; {fits:,} inputs fit (or --memory).",
            kind="too-large",
        )
    return KernelPlan(tuple(found), allowed, whole, fits)


def _rounded_up(count: int) -> str:
    """GiB that are enough, with at most one digit behind the point."""
    gib = count / 2**30
    return f"{math.ceil(gib)}" if gib > 10 else f"{math.ceil(gib * 10) / 10:g}"
