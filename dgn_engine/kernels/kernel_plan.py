"""The plan of a kernel report: which quantities fit into the memory limit, with their bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import nn

from dgn_engine.errors import UserError
from dgn_engine.kernels.ntk import Logits
from dgn_engine.kernels.peak_memory import WORKING, PeakMemory, format_gib, largest_count
from dgn_engine.kernels.quantities import ON_DEMAND, QUANTITIES, QUANTITIES_OF_K, WITH_SPECTRUM
from dgn_engine.model.network import GatedNetwork

# In order of priority; what is derived from kernels comes after them.
_ORDER = ("ntk", "npk", "overlap", "sensitive", "delta", "gram", "gates")
_SPECTRAL = 6  # float64 matrices besides K that its eigenvalues need

Cost = Callable[[frozenset[str], int], int]  # bytes of some quantities for a number of inputs


@dataclass(frozen=True)
class PlannedQuantity:
    """One quantity of a report: 'ntk', 'gates' (τ_1 … τ_L), 'eigenvalues_ntk', 'nu'.

    Attributes:
        name: Its name.
        needed: Bytes for it together with everything computed before it.
        alone: Bytes for it and the kernel that it is derived from.
        is_computed: Whether it fits.
    """

    name: str
    needed: int
    alone: int
    is_computed: bool


@dataclass(frozen=True)
class KernelPlan:
    """All requested quantities, and which of them fit into the memory.

    Attributes:
        quantities: The quantities in order of priority.
        allowed: Bytes allowed.
        whole: Bytes for all of them at once.
        fits: Largest number of inputs for which everything fits.
    """

    quantities: tuple[PlannedQuantity, ...]
    allowed: int
    whole: int
    fits: int

    def computes(self, name: str) -> bool:
        """Check whether a quantity is computed.

        Args:
            name: Its name.

        Returns:
            Whether it is.
        """
        return any(quantity.name == name and quantity.is_computed for quantity in self.quantities)

    def uses(self, kernel: str) -> bool:
        """Check whether a kernel is computed, for itself or for its eigenvalues or ν.

        Args:
            kernel: Name of the kernel.

        Returns:
            Whether it is.
        """
        return any(
            kernel_of(quantity.name) == kernel and quantity.is_computed
            for quantity in self.quantities
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Bytes of the omitted quantities, for a file or JSON.

        Returns:
            `{"left_out": {name: bytes}}`.
        """
        omitted = {
            quantity.name: quantity.needed
            for quantity in self.quantities
            if not quantity.is_computed
        }
        return {"left_out": omitted}

    @property
    def notes(self) -> list[str]:
        """Explain what was omitted, why, and how to get it.

        Returns:
            One sentence or more, or an empty list if everything is computed.
        """
        by_need: dict[str, list[str]] = {}
        alone = []
        for quantity in self.quantities:
            kernel = kernel_of(quantity.name)
            if quantity.is_computed or (quantity.name != kernel and not self.uses(kernel)):
                continue  # its eigenvalues follow from the kernel, which is not computed either
            by_need.setdefault(format_gib(quantity.needed), []).append(quantity.name)
            if quantity.name == kernel and quantity.alone <= self.allowed:
                alone.append(kernel)
        if not by_need:
            return []
        omitted = "; ".join(f"{', '.join(names)} ({need} GiB)" for need, names in by_need.items())
        fewer = f", or at most {self.fits:,} inputs" if self.fits else "; fewer inputs do not help"
        note = (
            f"Omitted to fit {format_gib(self.allowed)} GiB: {omitted}. To compute everything, use "
            f"--memory {_rounded_up(self.whole)}{fewer}."
        )
        if alone:
            note += f" Fits on its own: {', '.join(f'--only {name}' for name in alone)}."
        return [note]


def kernel_of(name: str) -> str:
    """Return the kernel that a quantity is derived from.

    Args:
        name: Name of the quantity, for example 'eigenvalues_ntk' or 'nu'.

    Returns:
        Name of the kernel: 'ntk' for 'eigenvalues_ntk', 'npk' for 'nu'; a kernel's own name for a
        kernel.
    """
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
    """Plan the kernels of a gated network within a memory limit.

    Args:
        network: The network; its parameters have the dtype of the kernels.
        n: Number of inputs.
        allowed: Bytes allowed, as `kernel_bytes` counts them.
        logits: As for `tangent_kernels`.
        only: Names of `QUANTITIES`; all of them if `None`.
        labelled: Whether there are labels, which ν needs.

    Returns:
        The plan.

    Raises:
        UserError: Nothing fits, or a name is unknown or not applicable.
    """

    @cache
    def memory(count: int) -> PeakMemory:
        return PeakMemory(network, logits, count, None)

    def cost(names: frozenset[str], count: int) -> int:
        return WORKING + memory(count).bytes_of(names)

    return _make_plan(quantities_wanted(only, logits, labelled), cost, n, allowed, only)


def plan_tangent_kernel(
    module: nn.Module,
    n: int,
    classes: int,
    allowed: int,
    logits: Logits = "mean",
    only: Iterable[str] | None = None,
    labelled: bool = False,
) -> KernelPlan:
    """Plan the tangent kernel of any module, as computed by `empirical_ntk`.

    `empirical_ntk` has its own budget for what it needs besides K.

    Args:
        module: The module.
        n: Number of inputs.
        classes: Number of logits C.
        allowed: Bytes allowed.
        logits: As for `empirical_ntk`.
        only: Names of `QUANTITIES`; all of them if `None`.
        labelled: Whether there are labels, which ν needs.

    Returns:
        The plan.

    Raises:
        UserError: Nothing fits, or a name is unknown or not applicable.
    """
    item = max([4, *(p.real.element_size() for p in module.parameters())])
    numbers = {"full": classes**2, "perclass": classes}.get(logits, 1)

    def cost(names: frozenset[str], count: int) -> int:
        derived = any(name != "ntk" for name in names)
        return count**2 * numbers * (item + (8 * _SPECTRAL if derived else 0))

    return _make_plan(quantities_wanted(only, logits, labelled, False), cost, n, allowed, only)


def quantities_wanted(
    only: Iterable[str] | None, logits: Logits, labelled: bool, gated: bool = True
) -> tuple[str, ...]:
    """Return the quantities that names of `QUANTITIES` ask for, in order of priority.

    Eigenvalues are those of the kernels that are named, or else of all; ν is that of H, or of K if
    K is named and H is not.

    Args:
        only: The names; all but those `ON_DEMAND` if `None`.
        logits: As for `tangent_kernels`.
        labelled: Whether there are labels.
        gated: Whether there is a gated network; otherwise only K exists.

    Returns:
        Names of quantities.

    Raises:
        UserError: A name is unknown or not applicable.
    """
    usual = tuple(name for name in QUANTITIES if name not in ON_DEMAND)
    names = usual if only is None else tuple(only)
    exist = QUANTITIES if gated else QUANTITIES_OF_K
    for name in names:
        if name not in QUANTITIES:
            raise UserError(
                f"Unknown quantity '{name}'; choose from {', '.join(QUANTITIES)}.",
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
        spectra = [
            kernel
            for kernel in named or WITH_SPECTRUM
            if kernel in exist and kernel in (*named, *usual)
        ]
        for kernel in (item for item in _ORDER if item in spectra):
            if kernel != "ntk" or logits != "perclass":
                wanted.append("eigenvalues" if kernel == "npk" else f"eigenvalues_{kernel}")
    if only is not None:
        if "nu" in names and not labelled:
            raise UserError(
                "--only nu needs --labels, because ν compares a kernel with labels.",
                kind="contradiction",
            )
        for name in ("nu", "eigenvalues"):
            if name in names and not any(item.startswith(name) for item in wanted):
                raise UserError(
                    f"--only {name} is not available for K with --logits {logits}.",
                    kind="contradiction",
                )
    return tuple(wanted)


def _make_plan(
    wanted: tuple[str, ...], cost: Cost, n: int, allowed: int, only: Iterable[str] | None
) -> KernelPlan:
    """Decide in order of priority which quantities fit."""
    computed: frozenset[str] = frozenset()
    planned = []
    for name in wanted:
        needed_together = frozenset((name, kernel_of(name)))
        needed = cost(computed | needed_together, n)
        planned.append(PlannedQuantity(name, needed, cost(needed_together, n), needed <= allowed))
        if needed <= allowed:
            computed |= needed_together
    everything = frozenset(wanted) | {kernel_of(name) for name in wanted}
    whole = cost(everything, n)
    fits = n
    if whole > allowed:
        fits = largest_count(lambda count: cost(everything, count) <= allowed, n)
    if not computed:
        what = "their kernels" if only is None else ", ".join(only)
        raise UserError(
            f"{n:,} inputs need {format_gib(whole)} GiB for {what}, but "
            f"{format_gib(allowed)} GiB are allowed; "
            f"use at most {fits:,} inputs, or more --memory.",
            kind="too-large",
        )
    return KernelPlan(tuple(planned), allowed, whole, fits)


def _rounded_up(count: int) -> str:
    """Format a sufficient number of GiB with at most one decimal."""
    gib = count / 2**30
    return f"{math.ceil(gib)}" if gib > 10 else f"{math.ceil(gib * 10) / 10:g}"
