"""Choose how a training step is computed, and why.

The choice is one table: rows are tried from top to bottom, and the first that applies wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from dgn_engine.config import RunConfig
from dgn_engine.data import known_sizes
from dgn_engine.importing.from_config import find_net, options_of
from dgn_engine.model.nets import all_nets
from dgn_engine.regimes import Regime, find_regime

Question = Literal["networks", "gradients", "launch"]
Way = Literal["alone", "stack", "autograd", "dense", "graph", "eager"]


@dataclass(frozen=True)
class StepCase:
    """The facts that decide how a step is computed.

    Attributes:
        config: Configuration of the run.
        regime: Regime in force.
        device: Device type as torch spells it: 'cpu', 'cuda', 'mps'.
        dense: Whether both networks are chains of gated dense layers.
        compared: Whether the caller forces autograd, to compare against it.
        members: Number of networks that would form one stack on a CPU, where the stack must beat
            training them one by one. None where a stack was requested, or on a card.
    """

    config: RunConfig
    regime: Regime
    device: str = "cpu"
    dense: bool = False
    compared: bool = False
    members: int | None = None

    @staticmethod
    def from_config(config: RunConfig, members: int | None = None) -> StepCase:
        """Return the case of a run that has not started.

        Args:
            config: Configuration of the run; its regime must exist.
            members: Stack size on a CPU, itself included; None if speed is not the question.

        Returns:
            The case, with the defaults of a run on the CPU.
        """
        return StepCase(config, find_regime(config.gating.regime), members=members)

    @property
    def width(self) -> int:
        """Return the option `width` of the network.

        Returns:
            Units or channels per hidden layer; 0 for a network without that option.
        """
        return int(options_of(self.config.net).get("width", 0))


@dataclass(frozen=True)
class StepRow:
    """One way to compute a step, when it applies, and why.

    `{net}`, `{nets}` and `{regime}` in `reason` are placeholders for names.
    """

    way: Way
    applies: Callable[[StepCase], bool]
    reason: str

    def reason_for(self, case: StepCase) -> str:
        """Return the reason with its placeholders filled in.

        Args:
            case: The case that the row was chosen for.

        Returns:
            One sentence.
        """
        nets = " and ".join(name for name, net in all_nets().items() if net.stackable)
        return self.reason.format(
            net=case.config.net.display_name, nets=nets, regime=case.regime.name
        )


# Where a stack was at least 1.5 times as fast on a CPU as training one after another, in regimes
# whose gates are made in each step and in those whose gates are frozen and looked up in a table:
# `python -m benchmarks.sweep_on_cores` at rest, one core of an AMD EPYC, medians, 29 November 2026.
# Five hidden layers, batch 32; ReLU and DL, then FR-II.
#   inputs   width      8 networks        16                24                48
#     64       32      1.8, 1.9; 2.2    2.6, 2.4; 3.1    3.0, 2.5; 3.4    3.2, 2.6; 3.7
#     64       64      1.5, 1.2; 1.8    1.6, 1.3; 1.9    1.5, 1.3; 2.1    1.5, 1.3; 1.9
#    784        8      1.7, 1.8; 1.9    2.3, 2.3; 2.2    2.5, 2.4; 2.7    2.6, 2.5; 2.5
#    784       16      1.6, 1.6; 1.8    1.9, 1.9; 2.2    2.0, 1.9; 2.2    1.9, 1.9; 2.2
#    784       32      1.4, 1.3; 1.6    1.6, 1.4; 1.9    1.6, 1.3; 1.9    1.5, 1.4; 1.8
#    784       64      1.1, 1.0; 1.4    1.2, 1.0; 1.5    1.1, 1.1; 1.5    1.2, 1.1; 1.5
#    784      128      0.9, 0.8; 1.1    0.9, 0.9; 1.1    0.9, 0.8; 1.1    0.9, 0.9; 1.2
#   3072       16      0.8, 1.0; 1.3    1.3, 1.0; 1.3    1.3, 1.1; 1.3    1.4, 1.1; 1.3
# Smaller batches gain more up to width 32 (2 to 4 times at width 16), larger ones less (batch 64 at
# width 16: 1.4, 1.2; 1.5 with 8 networks). A stack shares the Python overhead of a step; products
# and the optimiser take as long as before, and longer if the weights no longer fit in the cache.
GAINING = ((64, 32, 64), (784, 16, 32))  # most inputs, largest width, largest with frozen gates
FEWEST, LARGEST_BATCH = 8, 32


def _gains_in_stack(case: StepCase) -> bool:
    """Return whether a stack of this size pays off on a CPU; True if that is not the question."""
    if case.members is None:
        return True
    if case.members < FEWEST or case.config.training.batch > LARGEST_BATCH:
        return False
    sizes = known_sizes(case.config.data, balanced=True)
    if sizes is None:  # it may have any number of inputs
        return False
    makes_gates = case.regime.own_gates or case.regime.trains_feature
    return any(
        math.prod(sizes.shape) <= inputs and 0 < case.width <= (widest if makes_gates else frozen)
        for inputs, widest, frozen in GAINING
    )


def _always(_: StepCase) -> bool:
    return True


def _is_stackable(case: StepCase) -> bool:
    net = find_net(case.config.net)
    return net is not None and net.stackable


# 'networks' is decided from configurations, before any trainer exists: when a sweep is scheduled
# and when a stack opens its jobs. `NetworkStep` decides 'gradients' before the first step and
# whenever the regime or the feature network changes. A trainer decides 'launch' once.
TABLE: Mapping[Question, tuple[StepRow, ...]] = {
    "networks": (
        StepRow(
            "alone",
            lambda case: not _is_stackable(case),
            "Only {nets} networks can be stacked, not {net}.",
        ),
        StepRow(
            "alone",
            lambda case: case.regime.drawn_gates,
            "{regime} has no feature network and cannot be stacked.",
        ),
        StepRow(
            "alone",
            lambda case: case.regime.takes_gates and not case.config.gating.gates_from,
            "{regime} without gates_from trains in two stages and cannot be stacked.",
        ),
        StepRow(
            "alone",
            lambda case: case.config.training.augmentation != "none",
            "Augmented images are only supported for networks trained one at a time.",
        ),
        StepRow(
            "alone",
            lambda case: case.config.training.precision == "bf16",
            "bf16 steps are only supported for networks trained one at a time.",
        ),
        StepRow(
            "alone",
            lambda case: case.config.training.epochs == 0,
            "training.epochs is 0: a run without an end cannot be stacked.",
        ),
        StepRow(
            "alone",
            lambda case: not _gains_in_stack(case),
            "On a CPU, a stack of so few or so wide networks, or with such inputs or batches, is "
            "less than 1.5 times as fast; from width 128 on it can be slower.",
        ),
        StepRow(
            "stack",
            _always,
            "Stacks share the Python overhead of a step and the kernel launches, which makes them "
            "at least 1.5 times as fast.",
        ),
    ),
    "gradients": (
        StepRow("autograd", lambda case: case.compared, "Autograd was requested for comparison."),
        StepRow(
            "autograd",
            lambda case: case.config.training.precision == "bf16",
            "Only autograd handles the casts of bf16.",
        ),
        StepRow(
            "autograd",
            lambda case: case.regime.drawn_gates,
            "Each example has its own drawn gates; no network computes them.",
        ),
        StepRow(
            "dense",
            lambda case: case.dense,
            "Dense chains have a closed-form backward pass, which needs no graph or allocation.",
        ),
        StepRow(
            "autograd",
            _always,
            "A hand-written convolution step was only 1.1 times as fast (0.9 to 1.4).",
        ),
    ),
    "launch": (
        StepRow(
            "graph",
            lambda case: case.device == "cuda",
            "Python queues the kernels of a step more slowly than the card runs them.",
        ),
        StepRow("eager", _always, "Only CUDA can launch a whole step at once."),
    ),
}


def choose_way(question: Question, case: StepCase) -> StepRow:
    """Return the first row of a question's table that applies.

    Args:
        question: 'networks' (stack or alone), 'gradients' (autograd or dense), or 'launch' (CUDA
            graph or eager).
        case: The facts of the run.

    Returns:
        The row, with its way and its reason.
    """
    return next(row for row in TABLE[question] if row.applies(case))
