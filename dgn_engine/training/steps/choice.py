"""Which way a training step is taken, and why: one table, read from its first row to its last."""

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
    """What decides how a step is taken.

    Attributes:
        config: Of the run.
        regime: That it is in.
        device: Its type, as torch names it.
        dense: Both networks are chains of gated dense layers.
        compared: Autograd is asked for, to compare with.
        members: Networks that would be one stack on a CPU, where it must be quicker than they are
            one by one; None where a stack was asked for, or they are trained on a card.
    """

    config: RunConfig
    regime: Regime
    device: str = "cpu"
    dense: bool = False
    compared: bool = False
    members: int | None = None

    @staticmethod
    def of(config: RunConfig, members: int | None = None) -> StepCase:
        """Return the case of a run that has not begun."""
        return StepCase(config, find_regime(config.gating.regime), members=members)

    @property
    def width(self) -> int:
        return int(options_of(self.config.net).get("width", 0))


@dataclass(frozen=True)
class StepRow:
    """A way, where it is taken, and the reason in words.

    `{net}`, `{nets}` and `{regime}` in a reason stand for names.
    """

    way: Way
    applies: Callable[[StepCase], bool]
    reason: str

    def reason_for(self, case: StepCase) -> str:
        nets = " and ".join(name for name, net in all_nets().items() if net.stackable)
        return self.reason.format(net=case.config.net.short, nets=nets, regime=case.regime.name)


# The widest layer, and the fewest networks, of which a stack was at least 1.5 times as quick on a
# CPU as they are one after another: on one core of an AMD EPYC, MNIST, depth 4 and 6, batch 32.
# Times as quick (gates of its own, or trained; looked up):
#   width     4 networks          8                   16                  32
#   16     1.0–1.3, 1.3–1.4   1.5–1.6, 1.6–2.0   1.6–1.7, 1.7–2.3   2.0–2.1, 2.3–2.5
#   32     1.0–1.1, 1.3–1.4   1.2–1.6, 1.5–1.8   1.4–1.5, 1.7–2.0   1.7–1.8, 2.0–2.3
#   64     1.0–1.1, 1.3       1.1–1.2, 1.4       1.1–1.4, 1.5       1.3–1.4, 1.7–2.0
#   128                       0.8–1.1, 1.1–1.3                      1.0–1.1, 1.3–1.6
#   512                       1.0–1.1, 1.3–1.4                      1.0–1.2, 1.4–1.6
# The wider they are, the more of a step is to fetch the weights of each network from memory. Gates
# that are looked up make a step cheaper.
GAINING = ((16, 8), (32, 24))
GAINING_LOOKED_UP = ((32, 8), (64, 16))


def _gains_in_stack(case: StepCase) -> bool:
    """Whether a stack of so many is quicker on a CPU, or nobody asks."""
    if case.members is None:
        return True
    makes_gates = case.regime.own_gates or case.regime.trains_feature  # else they are frozen
    known = GAINING if makes_gates else GAINING_LOOKED_UP
    return any(case.width <= width and case.members >= least for width, least in known)


def _always(_: StepCase) -> bool:
    return True


def _is_stackable(case: StepCase) -> bool:
    net = find_net(case.config.net)
    return net is not None and net.stackable


# 'networks' is asked of configurations, before there is a trainer: by whoever hands out a sweep,
# and of the jobs of a stack. 'gradients' is asked by `NetworkStep` before the first step, and again
# once the regime, or the feature network, is another one. 'launch' is asked once of a trainer.
TABLE: Mapping[Question, tuple[StepRow, ...]] = {
    "networks": (
        StepRow(
            "alone",
            lambda case: not _is_stackable(case),
            "Only {nets} networks are packed, not {net}.",
        ),
        StepRow(
            "alone",
            lambda case: case.regime.drawn_gates,
            "{regime} has no feature network; it is not packed.",
        ),
        StepRow(
            "alone",
            lambda case: case.regime.takes_gates and not case.config.gating.gates_from,
            "{regime} without gates_from trains in two stages; it is not packed.",
        ),
        StepRow(
            "alone",
            lambda case: case.config.training.augmentation != "none",
            "Augmented images are shown one network at a time; they are not packed.",
        ),
        StepRow(
            "alone",
            lambda case: case.config.training.precision == "bf16",
            "Steps in bf16 are those of one network at a time; they are not packed.",
        ),
        StepRow(
            "alone",
            lambda case: case.config.training.epochs == 0,
            "training.epochs is 0, which never ends; it is not packed.",
        ),
        StepRow(
            "alone",
            lambda case: not _gains_in_stack(case),
            "So few networks, or so wide, are less than 1.5 times as quick in a stack on a CPU.",
        ),
        StepRow(
            "stack", _always, "Networks share the Python of a step and the launches of a card."
        ),
    ),
    "gradients": (
        StepRow("autograd", lambda case: case.compared, "It is asked for, to compare with."),
        StepRow(
            "autograd",
            lambda case: case.config.training.precision == "bf16",
            "Only autograd follows what bf16 casts.",
        ),
        StepRow(
            "autograd",
            lambda case: case.regime.drawn_gates,
            "Each example has gates of its own, which no network makes.",
        ),
        StepRow(
            "dense",
            lambda case: case.dense,
            "The backward pass of dense chains is known; without a graph a step allocates nothing.",
        ),
        StepRow(
            "autograd",
            _always,
            "Written out by hand, convolutions were 1.1 times as quick (0.9 to 1.4): too little.",
        ),
    ),
    "launch": (
        StepRow(
            "graph",
            lambda case: case.device == "cuda",
            "Python names the kernels of a step more slowly than a card runs them.",
        ),
        StepRow("eager", _always, "Only a CUDA card launches a whole step at once."),
    ),
}


def choose_way(question: Question, case: StepCase) -> StepRow:
    return next(row for row in TABLE[question] if row.applies(case))
