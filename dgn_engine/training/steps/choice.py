"""Choose how a training step is computed, and why.

The choice is one table: rows are tried from top to bottom, and the first that applies wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from dgn_engine.config import RunConfig
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


# (widest layer, fewest networks) for which a stack was at least 1.5 times as fast on a CPU as
# training one after another: one core of an AMD EPYC, MNIST, depth 4 and 6, batch 32.
# Speed-up (own or trained gates; frozen gates looked up in a table):
#   width     4 networks          8                   16                  32
#   16     1.0–1.3, 1.3–1.4   1.5–1.6, 1.6–2.0   1.6–1.7, 1.7–2.3   2.0–2.1, 2.3–2.5
#   32     1.0–1.1, 1.3–1.4   1.2–1.6, 1.5–1.8   1.4–1.5, 1.7–2.0   1.7–1.8, 2.0–2.3
#   64     1.0–1.1, 1.3       1.1–1.2, 1.4       1.1–1.4, 1.5       1.3–1.4, 1.7–2.0
#   128                       0.8–1.1, 1.1–1.3                      1.0–1.1, 1.3–1.6
#   512                       1.0–1.1, 1.3–1.4                      1.0–1.2, 1.4–1.6
# Wider networks spend more of a step fetching their weights from memory. Looked-up gates make a
# step cheaper.
GAINING = ((16, 8), (32, 24))
GAINING_LOOKED_UP = ((32, 8), (64, 16))


def _gains_in_stack(case: StepCase) -> bool:
    """Return whether a stack of this size pays off on a CPU; True if that is not the question."""
    if case.members is None:
        return True
    makes_gates = case.regime.own_gates or case.regime.trains_feature  # else they are frozen
    limits = GAINING if makes_gates else GAINING_LOOKED_UP
    return any(case.width <= width and case.members >= least for width, least in limits)


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
            "On a CPU, a stack of so few or so wide networks is less than 1.5 times as fast.",
        ),
        StepRow(
            "stack",
            _always,
            "Stacked networks share the Python overhead of a step and the kernel launches.",
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
