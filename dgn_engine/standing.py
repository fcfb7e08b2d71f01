"""A network that stands still: made of a file, looked at by the probes, never trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dgn_engine.checkpoints.reading import Listing
from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import load_examples
from dgn_engine.devices import choose_device, device_name, set_threads
from dgn_engine.imported import (
    dense_architecture,
    imported_stack,
    in_order,
    is_ours,
    named_architecture,
    our_network,
)
from dgn_engine.layers import layer_infos
from dgn_engine.memory import refused_without_memory
from dgn_engine.network import GatedNetwork
from dgn_engine.observation import Observation
from dgn_engine.probes import Beside, Sight, nobody
from dgn_engine.protocol.commands import ProbeRequest
from dgn_engine.protocol.events import Event, RunStarted, Traced
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.refusal import Refusal
from dgn_engine.regimes import Regime, find_regime
from dgn_engine.residence import choose_probe_set

Report = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Found:
    """A network from a file, the regime that it is shown in and the step that it belongs to."""

    network: GatedNetwork
    regime: Regime
    step: int = 0


def network_of(listing: Listing, input_shape: tuple[int, ...], net: NetConfig) -> Found:
    """The network that a file holds, for inputs of this shape.

    A file of ours knows what it is; others are the network `net` if they fit it, or a chain of
    dense layers. Raises `Refusal` where the file is neither.
    """
    dtype = torch.get_default_dtype()
    if is_ours(listing):
        network = our_network(listing, input_shape, dtype)
        name = listing.metadata.get("regime", "")
        step = listing.metadata.get("step", "0")
        regime = find_regime(name or RunConfig.from_toml(listing.metadata["config"]).gating.regime)
        return Found(network, regime, int(step) if step.isdecimal() else 0)
    ordered = in_order(listing)
    try:
        architecture = dense_architecture(ordered)
        if math.prod(architecture.input_shape) != math.prod(input_shape):
            raise Refusal(
                f"{listing.file_name} takes {math.prod(architecture.input_shape)} inputs, but "
                f"these examples have {math.prod(input_shape)}."
            )
    except Refusal as refusal:
        try:
            architecture = named_architecture(ordered, net, input_shape)
            stack = imported_stack(ordered, architecture, dtype)
        except Refusal:
            raise refusal from None
    else:
        stack = imported_stack(ordered, architecture, dtype)
    network = GatedNetwork(architecture, bias=bool(len(stack.biases)))
    network.value = stack
    return Found(network, find_regime("ReLU"))


class Standing:
    """What the probes see of a network that is not trained, read once for each request.

    `x` (n, …) and `labels` (n,): the probe examples; they are brought into the network's shape.
    """

    def __init__(
        self,
        found: Found,
        x: Tensor,
        labels: Tensor,
        emit: Callable[[Event], None],
        traced: bool = False,
    ) -> None:
        """`traced`: its scalars are told; else they belong to no run, and stay in the readings."""
        if found.regime.drawn_gates:
            raise Refusal(
                f"Its gates are coins thrown for other examples ({found.regime.name}): "
                "they cannot be read here."
            )
        self.regime = found.regime
        self.step = found.step
        self.network = found.network.to(x.device).requires_grad_(False)
        shape = self.network.architecture.input_shape
        if math.prod(shape) != x[0].numel():
            raise Refusal(
                f"It takes {_sides(shape)} inputs, but these examples have {_sides(x.shape[1:])}."
            )
        self._x, self._labels = x.reshape(len(x), *shape), labels
        self.observation = Observation(
            lambda e: None if isinstance(e, Traced) and not traced else emit(e)
        )
        self._gates: tuple[Tensor, ...] | None = None

    def watch(self, requests: tuple[ProbeRequest, ...]) -> None:
        """Read just these from now on."""
        self.observation.watch(requests)

    def look(self, beside: Beside = nobody) -> bool:
        """Read one probe that is wanted and was not read; whether there was one.

        `beside` gives the gates of what it is compared with.
        """
        due = self.observation.due(self.step)[:1]
        if due:
            sight = Sight(self.network, self._x, self._labels, self.regime, beside)
            self.observation.look(due, sight, self.step)
        return bool(due)

    @property
    def gates(self) -> tuple[Tensor, ...]:
        """G_l on the probe examples, kept; hard ones as bytes."""
        if self._gates is None:
            with torch.no_grad():
                found = self.network.trace(self._x).value.gates
            soft = self.network.gate.soft
            self._gates = tuple(gate if soft else gate.to(torch.uint8) for gate in found)
        return self._gates

    @property
    def weights(self) -> int:
        """How many parameters it works with."""
        parts = [self.network.value] if self.regime.own_gates else [self.network]
        return sum(p.numel() for part in parts for p in part.parameters())


def _sides(shape: tuple[int, ...] | torch.Size) -> str:
    return "×".join(str(side) for side in shape)


class Inspection:
    """The network of a file in the place of a run: every panel shows it, nothing trains it.

    Raises `Refusal` where the data cannot be had, or the file is no network for them.
    """

    @refused_without_memory("This network")
    def __init__(
        self,
        number: int,
        listing: Listing,
        config: RunConfig,
        data: DataConfig,
        emit: Callable[[Event], None],
        report: Report,
    ) -> None:
        self.number = number
        self.name = listing.file_name
        self.device = choose_device(config.device)
        examples = load_examples(data, report)
        self.examples = (len(examples.train_y), len(examples.test_y))
        found = network_of(listing, examples.train_x.shape[1:], config.net)
        set_threads(found.network.architecture)
        self.probe_set = choose_probe_set(examples, config.probe_examples, config.seed)
        chosen = list(self.probe_set.indices)
        self.x = torch.from_numpy(examples.train_x[chosen]).to(self.device)
        self.labels = torch.from_numpy(examples.train_y[chosen]).to(self.device)
        self.standing = Standing(found, self.x, self.labels, emit, traced=True)
        gating = replace(config.gating, regime=found.regime.name, wiring=found.network.wiring)
        self.config = replace(config, data=data, gating=gating)

    @property
    def observation(self) -> Observation:
        """Its probes."""
        return self.standing.observation

    def frame(self, beside: Mapping[str, Reading]) -> Frame:
        """What has been read so far."""
        return Frame(
            run=self.number,
            step=self.standing.step,
            epoch=0.0,
            steps_per_second=0.0,
            eta_seconds=None,
            readings=dict(self.observation.readings),
            beside=beside,
        )

    def started(self) -> RunStarted:
        """The event that opens it."""
        network = self.standing.network
        return RunStarted(
            run=self.number,
            config=self.config,
            regime=self.standing.regime.name,
            device=device_name(self.device),
            layers=layer_infos(network.architecture),
            wiring=network.wiring,
            parameters_value=_count(network.value),
            parameters_feature=0 if self.standing.regime.own_gates else _count(network.feature),
            train_examples=self.examples[0],
            test_examples=self.examples[1],
            classes=len(self.probe_set.class_names),
            steps_per_epoch=0,
            total_steps=0,
            probe_set=self.probe_set,
            paused=True,
            inspected=self.name,
        )


def _count(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
