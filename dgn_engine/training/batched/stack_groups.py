"""Decide which configurations can be trained as one pack, and which networks share a stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dgn_engine.config import RunConfig
from dgn_engine.importing.from_config import options_of
from dgn_engine.regimes import find_regime
from dgn_engine.training.steps.choice import StepCase, choose_way

STACK = 24  # networks, at most: 48 gain no more where stacks gain (table in `steps/choice.py`)


@dataclass(frozen=True)
class StackGroups:
    """Indices into the given configurations: packs, and runs that must be trained alone."""

    packs: tuple[tuple[int, ...], ...]
    leftovers: tuple[int, ...]


def reason_not_packed(config: RunConfig, members: int | None = None) -> str:
    """Return why a run cannot be stacked.

    Args:
        config: Configuration of the run.
        members: Stack size on a CPU, itself included, which must pay off; None if speed is not the
            question.

    Returns:
        One sentence; '' if it can be stacked.
    """
    case = StepCase.from_config(config, members)
    row = choose_way("networks", case)
    return "" if row.way == "stack" else row.reason_for(case)


def group_into_packs(configs: Sequence[RunConfig]) -> StackGroups:
    """Split configurations into packs and leftovers, keeping the order within each.

    Args:
        configs: Configurations to train.

    Returns:
        Indices of each pack, and of the leftovers.
    """
    packs: dict[object, list[int]] = {}
    leftovers: list[int] = []
    for index, config in enumerate(configs):
        if reason_not_packed(config):
            leftovers.append(index)
        else:
            packs.setdefault(pack_key(config), []).append(index)
    return StackGroups(tuple(tuple(pack) for pack in packs.values()), tuple(leftovers))


def pack_key(config: RunConfig) -> object:
    """Return what all networks of a pack share.

    Args:
        config: Configuration of a run.

    Returns:
        Hashable; equal for runs that can be packed together.
    """
    training = config.training
    return (
        config.data.without_variant(),
        config.net.name,
        tuple(sorted(options_of(config.net).items())),
        config.net.bias,
        config.net.feature_bias,
        config.gating.tiling,
        config.gating.feature_layers,
        training.loss,
        training.optimiser,
        training.momentum,
        training.smoothing,
        training.batch,
        training.epochs,
        training.precision,
        config.device,
    )


def group_into_stacks(configs: Sequence[RunConfig], most: int = STACK) -> list[list[int]]:
    """Group the networks of a pack into stacks of one kind, preferably of one seed and data.

    Depends on the configurations only, so a continued pack has the same stacks.

    Args:
        configs: Configurations of a pack.
        most: Networks per stack, at most.

    Returns:
        Indices of each stack.
    """
    kinds: dict[object, list[int]] = {}
    for index, config in enumerate(configs):
        kinds.setdefault(stack_kind(config), []).append(index)
    stacks: list[list[int]] = []
    for indices in kinds.values():
        ordered = sorted(indices, key=lambda index: _stack_sort_key(configs[index]))
        stacks += [ordered[i : i + most] for i in range(0, len(ordered), most)]
    return stacks


def stack_kind(config: RunConfig) -> object:
    """Return what the networks of a stack share besides `pack_key`: how their gates are made.

    Args:
        config: Configuration of a run.

    Returns:
        Hashable; equal for networks of one kind.
    """
    gating = config.gating
    regime = find_regime(gating.regime)
    return (
        regime.name,
        "image" if regime.own_gates else gating.value_input,
        (gating.beta, gating.epsilon) if regime.soft else None,
    )


def _stack_sort_key(config: RunConfig) -> tuple[object, ...]:
    """Return a sort key that puts networks with equal seed, images and rate next to each other."""
    data = config.data
    pixels = (data.pixels, data.variant_seed if data.pixels == "random" else 0)
    return (config.seed, *pixels, config.training.learning_rate)
