"""Which configurations may be trained as one pack, and which networks share a stack in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dgn_engine.config import RunConfig
from dgn_engine.importing.from_config import options_of
from dgn_engine.regimes import find_regime
from dgn_engine.training.steps.choice import StepCase, choose_way

# Networks in one stack. Measured (MNIST, w = 128, d = 5, batch 32, network-steps a second of one
# busy core): ReLU 936, 1120, 1090, 1191, 1251 and DL 422, 483, 510, 563, 582 with 4, 8, 12, 24, 48.
STACK = 24


@dataclass(frozen=True)
class StackGroups:
    """Places in the list that was given: each pack, and what must be trained by itself."""

    packs: tuple[tuple[int, ...], ...]
    leftovers: tuple[int, ...]


def why_not(config: RunConfig, members: int | None = None) -> str:
    """Why this run is not packed, in one sentence; empty where it is.

    `members`: so many, itself included, would be a stack on a CPU, which has to be quicker.
    """
    case = StepCase.of(config, members)
    row = choose_way("networks", case)
    return "" if row.way == "stack" else row.reason_for(case)


def packable(configs: Sequence[RunConfig]) -> StackGroups:
    """Split training configurations into packs and leftovers; the order within each stays."""
    packs: dict[object, list[int]] = {}
    leftovers: list[int] = []
    for place, config in enumerate(configs):
        if why_not(config):
            leftovers.append(place)
        else:
            packs.setdefault(pack_key(config), []).append(place)
    return StackGroups(tuple(tuple(pack) for pack in packs.values()), tuple(leftovers))


def pack_key(config: RunConfig) -> object:
    """What all networks of a pack have in common."""
    training = config.training
    return (
        config.data.without_variant(),
        config.net.name,
        tuple(sorted(options_of(config.net).items())),
        config.net.bias,
        config.gating.tiling,
        training.loss,
        training.optimiser,
        training.momentum,
        training.smoothing,
        training.batch,
        training.epochs,
        training.precision,
        config.device,
    )


def stacks_of(configs: Sequence[RunConfig], most: int = STACK) -> list[list[int]]:
    """Places of the networks that are computed together: of one kind, best of one seed and images.

    A function of the configurations alone, so that a pack that goes on has the stacks it had.
    """
    kinds: dict[object, list[int]] = {}
    for place, config in enumerate(configs):
        kinds.setdefault(kind_of(config), []).append(place)
    stacks: list[list[int]] = []
    for places in kinds.values():
        ordered = sorted(places, key=lambda place: _near(configs[place]))
        stacks += [ordered[i : i + most] for i in range(0, len(ordered), most)]
    return stacks


def kind_of(config: RunConfig) -> object:
    """What all networks of a stack have in common besides: how their gates are made."""
    gating = config.gating
    regime = find_regime(gating.regime)
    return (
        regime.name,
        "image" if regime.own_gates else gating.value_input,
        (gating.beta, gating.epsilon) if regime.soft else None,
    )


def _near(config: RunConfig) -> tuple[object, ...]:
    """Neighbours in a stack share what makes it quicker: order of examples, images, rate."""
    data = config.data
    pixels = (data.pixels, data.variant_seed if data.pixels == "random" else 0)
    return (config.seed, *pixels, config.training.learning_rate)
