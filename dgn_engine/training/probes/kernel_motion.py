"""The motion of the tangent kernel K, divided into a part by weights and one by gates (theory §4).

Each reading divides K_t − K_s since the previous reading exactly (`kernels.kernel_motion`); the
parts are summed from the first reading on, so that they add up to K_t − K_0 along the path of
training. They start again if the regime, the wiring, a dial or what is frozen changes; an undone
step counts as a motion. Where kernels are expensive, as for convolutions, every n-th probe example
is used.

Scalars: `moved`, ‖K_t − K_0‖/‖K_0‖ (Frobenius), and `weights` and `gates`, the same of the summed
parts; `share`, that of the gates in the motion since the previous reading that differs, ⟨ΔK_G, ΔK⟩/
‖ΔK‖²; `switched`, share of gates on the other side of ½ since then. Arrays: `labels` (n,). Facts:
`readings`, how many motions were summed; `examples`, a remark on a subset. Missing if K is zero or
slopes of gates train.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dgn_engine import kernels as k
from dgn_engine.errors import ArgumentError
from dgn_engine.kernels.kernel_motion import (
    KernelState,
    mixed_kernel,
    split_motion,
)
from dgn_engine.plugins import OptionValue
from dgn_engine.training.probes._probe import Probe, ProbeContext, ProbeResult, to_numpy

BUDGET = 1e10  # FLOP: half a second on one core
FEWEST = 8  # examples, at least
SWEEPS = 3  # per reading: K(Θ_t, G_t), K(Θ_t, G_s) and K(Θ_s, G_t)


@dataclass(frozen=True)
class _Path:
    """The state at the previous reading, and what was summed since the first."""

    settings: tuple[object, ...]
    state: KernelState
    kernel: Tensor  # at the previous reading
    size: float  # ‖K_0‖
    weights: Tensor
    gates: Tensor
    readings: int = 0
    last: tuple[tuple[str, float], ...] = ()  # 'share' and 'switched' of the last motion

    @property
    def scalars(self) -> dict[str, float]:
        moved = self.weights + self.gates
        parts = {"moved": moved, "weights": self.weights, "gates": self.gates}
        sizes = {name: float(part.norm()) / self.size for name, part in parts.items()}
        return sizes | dict(self.last)


def read(context: ProbeContext, options: Mapping[str, OptionValue], memory: object) -> ProbeResult:
    """Measure the probe; see the module docstring.

    Args:
        context: The step.
        options: Unused.
        memory: The path so far, or None.

    Returns:
        Arrays, scalars and facts as above.
    """
    if not context.architecture.gated_shapes:
        return ProbeResult(absent="This network has no gate layer.")
    every = affordable_stride(context)
    if not every:
        return ProbeResult(absent="A few examples take too long in this network.")
    part = context if every == 1 else context.subsample(every)
    try:
        now = KernelState.from_network(part.network, part.x, part.kernels.trace)
    except ArgumentError as refusal:  # frozen, or slopes train
        return ProbeResult(absent=str(refusal), facts={"fault": refusal.kind})
    path = _continue_path(context, now, memory)
    if not path.size > 0:
        return ProbeResult(
            absent="K is zero on the probe examples, so no motion is relative to it."
        )
    facts = {"readings": str(path.readings)}
    if every > 1:
        facts["examples"] = f"{len(part.x)} of {len(context.x)} probe examples."
    return ProbeResult({"labels": to_numpy(part.labels)}, path.scalars, facts, memory=path)


def affordable_stride(context: ProbeContext) -> int:
    """Return n, to use every n-th probe example.

    Args:
        context: All probe examples.

    Returns:
        The least n that `BUDGET` allows; 0 if not even `FEWEST` examples are left.
    """
    count, every = len(context.x), 1
    while SWEEPS * k.ntk_cost(context.architecture, -(-count // every)) > BUDGET:
        every += 1
        if -(-count // every) < min(FEWEST, count):
            return 0
    return every


def _continue_path(context: ProbeContext, now: KernelState, memory: object) -> _Path:
    """Add the motion since the previous reading; start again if it is of another network."""
    settings = (context.regime.name, *context.network.settings)
    if not isinstance(memory, _Path) or memory.settings != settings or not memory.state.fits(now):
        kernel = mixed_kernel(now, now)
        still = torch.zeros_like(kernel)
        return _Path(settings, now, kernel, float(kernel.norm()), still, still)
    motion = split_motion(memory.state, now, memory.kernel)
    if not bool((motion.kernel != memory.kernel).any()):  # the same step again
        return memory
    switched = _switched_share(memory.state, now)
    return replace(
        memory,
        state=now,
        kernel=motion.kernel,
        weights=memory.weights + motion.weights,
        gates=memory.gates + motion.gates,
        readings=memory.readings + 1,
        last=(("share", motion.gates_share), ("switched", switched)),
    )


def _switched_share(one: KernelState, two: KernelState) -> float:
    """Return the share of gates on the other side of ½."""
    pairs = list(zip(one.gates, two.gates, strict=True))
    switched = sum(int(((a >= 0.5) != (b >= 0.5)).sum()) for a, b in pairs)
    return switched / sum(a.numel() for a, _ in pairs)


PROBE = Probe("Motion of the kernel", read)
