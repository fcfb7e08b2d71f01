"""The networks that this program saves: what their files state besides the weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.importing.match_layers import regime_of
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.choices import ValueInput
from dgn_engine.model.feature_layers import value_and_feature
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.regime_entry import configure_for
from dgn_engine.model.stack import Stack
from dgn_engine.model.wiring import check_shifts, check_wiring, make_routes, rotations_and_shifts
from dgn_engine.regimes import Regime, find_regime
from dgn_engine.storage.checkpoints.contents import CheckpointContents, natural_key
from dgn_engine.text.printable import plain_text

BuildArchitecture = Callable[[NetConfig, tuple[int, ...], int], Architecture]
FORMAT = "dgn-viewer weights 2"
_PARTS = ("value.", "feature.", "random_input")
_DIGITS = 18  # of a number in a file: more would not fit 64 bits
_NOT_WRITTEN = (
    "This file predates the recording of β, value input, rotation and shift: those of its "
    "configuration are used, and changes during training are unknown."
)


@dataclass(frozen=True)
class NetworkState:
    """Everything besides the weights that determines a run's network at one step.

    Attributes:
        config: As at the start of the run; the other fields are as of this step (β, wiring and so
            on can change during training).
        wiring, rotation, shift: One number per gate layer.
        data: Fingerprint of the run's examples; '' if unknown.
        remarks: Sentences on what the file does not state.
        drawn_with: Seed of what is drawn at this step, if not the run's initial one.
    """

    config: RunConfig
    regime: Regime
    step: int
    wiring: tuple[int, ...]
    rotation: tuple[int, ...]
    shift: tuple[int, ...]
    beta: float
    epsilon: float
    value_input: ValueInput
    data: str = ""
    remarks: tuple[str, ...] = ()
    drawn_with: int | None = None

    @property
    def drawn_seed(self) -> int:
        """Seed of what is drawn."""
        return self.config.seed if self.drawn_with is None else self.drawn_with

    @staticmethod
    def from_network(
        network: GatedNetwork,
        config: RunConfig,
        regime: Regime,
        step: int,
        data: str,
        seed: int | None = None,
    ) -> NetworkState:
        rotation, shift = rotations_and_shifts(network.routes)
        gate = network.gate
        return NetworkState(
            *(config, regime, step, network.wiring, rotation, shift),
            *(gate.beta, gate.epsilon, network.value_input, data),
            drawn_with=None if seed == config.seed else seed,
        )

    @staticmethod
    def of_checkpoint(state: Mapping[str, Any], data: str) -> NetworkState:
        """Read the state of a run's checkpoint, as `training.run_snapshot` writes it."""
        dials = state["dials"]
        return NetworkState(
            config=RunConfig.from_dict(state["config"]),
            regime=find_regime(str(state["regime"])),
            step=int(state["step"]),
            wiring=_as_integers(state["wiring"]),
            rotation=_as_integers(state.get("rotation", ())),
            shift=_as_integers(state.get("shift", ())),
            beta=float(dials["beta"]),
            epsilon=float(dials["epsilon"]),
            value_input=dials["value_input"],
            data=data,
            drawn_with=int(state["seed"]) if "seed" in state else None,
        )

    def to_metadata(self) -> dict[str, str]:
        """Return the state as text notes for a file."""
        return {
            "format": FORMAT,
            "regime": self.regime.name,
            "step": str(self.step),
            "wiring": _join_integers(self.wiring),
            "rotation": _join_integers(self.rotation),
            "shift": _join_integers(self.shift),
            "beta": repr(self.beta),
            "epsilon": repr(self.epsilon),
            "value_input": self.value_input,
            "data": self.data,
            "config": self.config.to_toml(),
            **({} if self.drawn_with is None else {"seed": str(self.drawn_with)}),
        }


def is_ours(listing: CheckpointContents) -> bool:
    """Return whether `dgn train` or the viewer wrote the file: both networks and their settings."""
    return "value.weights.0" in listing.arrays and "config" in listing.metadata


def split_of_own(listing: CheckpointContents, data: DataConfig) -> DataConfig:
    """Use the test split of the run that wrote a file, if it was trained on the same data set.

    Test examples of another split were in its training set.
    """
    if not is_ours(listing):
        return data
    own = state_of(listing).config.data
    if own.name != data.name:
        return data
    return replace(data, split_seed=own.split_seed, test_indices=own.test_indices)


def listing_of_checkpoint(
    name: str, tensors: Mapping[str, Tensor], state: NetworkState
) -> CheckpointContents:
    """Return a run's checkpoint as one of our files, without the state of training."""
    arrays = {
        key: tensors[key].numpy()
        for key in sorted(tensors, key=natural_key)
        if key.startswith(_PARTS)
    }
    others = len(tensors) - len(arrays)
    return CheckpointContents(
        name,
        arrays,
        {key: array.dtype.name for key, array in arrays.items()},
        ignored=(f"{others:,} tensors of the optimiser",) * bool(others),
        metadata=state.to_metadata(),
        kind="checkpoint of a run",
    )


def state_of(listing: CheckpointContents) -> NetworkState:
    """Return what one of our files states; raises `UserError` if it states the impossible."""
    notes, file = listing.metadata, listing.file_name
    config = RunConfig.from_toml(notes["config"])
    gating = config.gating
    regime = regime_of(listing) or find_regime(gating.regime)
    stated = notes.get("step", "0")
    step = int(stated) if stated.isdecimal() and len(stated) <= _DIGITS else 0
    try:
        wiring = _parse_integers(notes.get("wiring", "")) or gating.wiring
        if "rotation" not in notes:
            _check_known_turns(listing, config, wiring)
            turns, gate = (gating.rotation, gating.shift), (gating.beta, gating.epsilon)
            return NetworkState(
                *(config, regime, step, wiring, *turns, *gate),
                value_input=gating.value_input,
                remarks=(_NOT_WRITTEN,),
            )
        state = NetworkState(
            *(config, regime, step, wiring),
            *(_parse_integers(notes["rotation"]), _parse_integers(notes["shift"])),
            *(float(notes["beta"]), float(notes["epsilon"])),
            value_input=notes["value_input"],  # type: ignore[arg-type]  # checked below
            data=notes.get("data", ""),
            drawn_with=int(notes["seed"]) if "seed" in notes else None,
        )
    except (KeyError, ValueError) as error:
        raise UserError(
            f"{file} does not say how its gates were used: {plain_text(str(error), 60)}.",
            kind="damaged",
        ) from None
    sound = 0 < state.beta < math.inf and 0 <= state.epsilon < math.inf
    if not sound or state.value_input not in get_args(ValueInput):
        raise UserError(f"{file} has an invalid β, ε or value input.", kind="out-of-bounds")
    return state


def our_network(
    listing: CheckpointContents,
    input_shape: tuple[int, ...],
    dtype: torch.dtype,
    build: BuildArchitecture = build_architecture,
) -> GatedNetwork:
    """Return the network as it was trained: both networks, regime, wiring, β, value input.

    Args:
        build: Makes an architecture from (net, input shape, classes);
            `from_file.architecture_for` also knows networks from files.

    Raises:
        UserError: The file does not hold the network of its configuration, or takes other inputs.
    """
    state = state_of(listing)
    gating = state.config.gating
    base = _saved_architecture(listing, state, input_shape, build)
    wide, makers = value_and_feature(base, gating.tiling, gating.feature_layers)
    network = GatedNetwork(wide, feature_architecture=makers)
    network.value = Stack(wide, "value.biases.0" in listing.arrays)
    network.feature = Stack(makers, "feature.biases.0" in listing.arrays)
    network.to(dtype)
    _fill_weights(network, listing)
    network.set_gate(beta=state.beta, epsilon=state.epsilon)
    configure_for(network, state.regime)
    network.value_input = state.value_input
    if state.wiring:
        check_wiring(base, state.wiring)
        network.wiring = state.wiring
    layers = len(base.gated_shapes)
    network.routes = make_routes(layers, state.rotation, state.shift, gating.tiling)
    check_shifts(base, network.routes)
    return network


def _saved_architecture(
    listing: CheckpointContents,
    state: NetworkState,
    input_shape: tuple[int, ...],
    build: BuildArchitecture,
) -> Architecture:
    """Return the feature network's architecture, with the logits of the last value weight."""
    start = "value.weights."
    weights = {
        int(name.removeprefix(start)): array
        for name, array in listing.arrays.items()
        if name.startswith(start) and name.removeprefix(start).isdecimal()
    }
    shape = weights[max(weights)].shape
    if not shape:
        raise UserError(
            f"The last weight of {listing.file_name} is a number, not a matrix.", kind="wrong-shape"
        )
    base = build(state.config.net, input_shape, shape[0])
    if "random_input" in listing.arrays:
        trained = listing.arrays["random_input"].shape
        if math.prod(trained) != math.prod(base.input_shape):
            raise UserError(
                f"{listing.file_name} takes inputs of shape {trained}, but these have shape "
                f"{tuple(input_shape)}.",
                kind="other-inputs",
            )
    return base


def _fill_weights(network: GatedNetwork, listing: CheckpointContents) -> None:
    """Fill every tensor by name; the file must have exactly those of the network."""
    expected = network.state_dict()
    stored = {n for n in listing.arrays if n.startswith(_PARTS)}
    file = listing.file_name
    for name in sorted(stored ^ set(expected)):
        which = "lacks" if name in expected else "has the unexpected tensor"
        raise UserError(
            f"{file} {which} '{plain_text(name, 60)}': it is not the network of its configuration.",
            kind="other-network",
        )
    for name, target in expected.items():
        array = listing.arrays[name]
        if array.shape != tuple(target.shape):
            raise UserError(
                f"'{name}' of {file} has shape {array.shape}; the network of its configuration "
                f"has {tuple(target.shape)} there.",
                kind="wrong-shape",
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UserError(
                f"'{name}' of {file} has values that are not finite.",
                kind="not-finite",
                value=name,
            )
        target.copy_(torch.from_numpy(np.array(array)))


def _check_known_turns(
    listing: CheckpointContents, config: RunConfig, wiring: tuple[int, ...]
) -> None:
    """Refuse rotations that moved with a rewired gate layer: an old file does not say where to."""
    gating = config.gating
    straight = tuple(range(len(wiring)))
    if (gating.rotation or gating.shift) and wiring != (gating.wiring or straight):
        raise UserError(
            f"The gates of {listing.file_name} were rotated and then rewired, and this old file "
            "does not record the rotation after that; its run folder may.",
            kind="not-recorded",
        )


def _as_integers(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _parse_integers(text: str) -> tuple[int, ...]:
    words = text.split(",") if text else ()
    if any(len(word) > _DIGITS for word in words):
        raise ValueError("a number with too many digits")
    return _as_integers(words)


def _join_integers(values: tuple[int, ...]) -> str:
    return ",".join(str(value) for value in values)
