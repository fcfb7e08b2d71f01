"""A network made of a file: read by the probes, never trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import load_examples
from dgn_engine.data._preprocessing import Preprocessing
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Conv
from dgn_engine.model.importing.from_file import ImportedNetwork, network_of
from dgn_engine.model.importing.saved_network import is_ours, split_of_own, state_of
from dgn_engine.model.network import layer_infos
from dgn_engine.protocol.events import Event, ProbeScalars, RunStarted
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.training.device_data import choose_probe_set
from dgn_engine.training.devices import choose_device, device_name, set_threads
from dgn_engine.training.metrics import test_accuracy
from dgn_engine.training.out_of_memory import refused_without_memory
from dgn_engine.training.probe_schedule import ProbeSchedule
from dgn_engine.training.probes import ComparedGates, ProbeContext, no_comparison

Report = Callable[[str, float | None], None]

SCORED, SCORED_MAPS = 1000, 200  # test examples; fewer of images, which cost more


@dataclass(frozen=True)
class ProbeInputs:
    """What frozen networks are read on.

    `x` (n, *image shape): the probe examples; `labels` (n,): theirs, out of `classes`; `net`: the
    kind of network that a file without a name of its own is taken for.
    """

    x: Tensor
    labels: Tensor
    classes: int
    net: NetConfig

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.x.shape[1:])


class FrozenNetwork:
    """What the probes see of a network that is not trained, read once for each request.

    The examples are brought into the network's shape.
    """

    def __init__(
        self,
        found: ImportedNetwork,
        inputs: ProbeInputs,
        emit: Callable[[Event], None],
        traced: bool = False,
    ) -> None:
        """`traced`: emit its scalars; else they belong to no run, and stay in the readings."""
        if found.regime.drawn_gates:
            raise UserError(
                f"Its gates are coins thrown for other examples ({found.regime.name}): "
                "they cannot be read here."
            )
        self.regime = found.regime
        self.step = found.step
        self.network = found.network.to(inputs.x.device).requires_grad_(False)
        shape = self.network.architecture.input_shape
        if math.prod(shape) != math.prod(inputs.shape):
            raise UserError(
                f"It takes {_sides(shape)} inputs, but these examples have {_sides(inputs.shape)}."
            )
        self._x, self._labels = inputs.x.reshape(len(inputs.x), *shape), inputs.labels
        self._classes = inputs.classes
        self.probe_schedule = ProbeSchedule(
            lambda e: None if isinstance(e, ProbeScalars) and not traced else emit(e), fewer=True
        )
        self._gates: tuple[Tensor, ...] | None = None

    def read_next(self, compared: ComparedGates = no_comparison) -> bool:
        """Read one probe that is watched and was not read; whether there was one.

        `compared` gives the gates of the network that it is compared with.
        """
        due = self.probe_schedule.due(self.step, catch_up=True)[:1]
        if due:
            context = ProbeContext(
                self.network, self._x, self._labels, self.regime, compared, self._classes
            )
            self.probe_schedule.read(due, context, self.step, standing=True)
        return bool(due)

    @property
    def gates(self) -> tuple[Tensor, ...]:
        """G_l on the probe examples, kept; hard ones as bytes."""
        if self._gates is None:
            with torch.no_grad():
                gates = self.network.trace(self._x).value.gates
            soft = self.network.gate.soft
            self._gates = tuple(gate if soft else gate.to(torch.uint8) for gate in gates)
        return self._gates

    @property
    def weights(self) -> int:
        """How many parameters it works with."""
        parts = [self.network.value] if self.regime.own_gates else [self.network]
        return sum(p.numel() for part in parts for p in part.parameters())


def _sides(shape: tuple[int, ...]) -> str:
    return "×".join(str(side) for side in shape)


class InspectedNetwork:
    """The network of a file in the place of a run: every panel shows it, nothing trains it.

    Raises `UserError` where the data cannot be had, or the file is no network for them.
    """

    @refused_without_memory("This network")
    def __init__(
        self,
        number: int,
        listing: CheckpointContents,
        config: RunConfig,
        data: DataConfig,
        emit: Callable[[Event], None],
        report: Report,
    ) -> None:
        self.number = number
        self.name = listing.file_name
        self.device = choose_device(config.device)
        if is_ours(listing):  # its pixels are as those that it was trained on
            data = replace(data, normalise=state_of(listing).config.data.normalise)
            data = split_of_own(listing, data)
        examples = load_examples(data, report)
        self.examples = (len(examples.train_y), len(examples.test_y))
        shape = examples.train_x.shape[1:]
        found = network_of(listing, shape, None, otherwise=config.net, door="window")
        set_threads(found.network.architecture)
        self.probe_set = choose_probe_set(examples, config.probe_examples, config.seed)
        chosen = list(self.probe_set.indices)
        x = torch.from_numpy(examples.train_x[chosen]).to(self.device)
        labels = torch.from_numpy(examples.train_y[chosen]).to(self.device)
        self.inputs = ProbeInputs(x, labels, len(examples.class_names), config.net)
        self.network = FrozenNetwork(found, self.inputs, emit, traced=True)
        self.assuming = found.assuming
        maps = any(isinstance(node, Conv) for node in found.network.architecture.nodes)
        most = SCORED_MAPS if maps else SCORED
        self.accuracy = test_accuracy(found.network, examples, Preprocessing(), most)
        gating = replace(config.gating, regime=found.regime.name, wiring=found.network.wiring)
        self.config = replace(config, data=data, gating=gating)

    @property
    def probe_schedule(self) -> ProbeSchedule:
        return self.network.probe_schedule

    def frame(self, compared: Mapping[str, Reading]) -> Frame:
        return Frame(
            run=self.number,
            step=self.network.step,
            epoch=0.0,
            steps_per_second=0.0,
            eta_seconds=None,
            readings=dict(self.probe_schedule.readings),
            compared=compared,
        )

    def started(self) -> RunStarted:
        network = self.network.network
        return RunStarted(
            run=self.number,
            config=self.config,
            regime=self.network.regime.name,
            device=device_name(self.device),
            layers=layer_infos(network.architecture),
            wiring=network.wiring,
            parameters_value=_count(network.value),
            parameters_feature=0 if self.network.regime.own_gates else _count(network.feature),
            train_examples=self.examples[0],
            test_examples=self.examples[1],
            classes=len(self.probe_set.class_names),
            steps_per_epoch=0,
            total_steps=0,
            probe_set=self.probe_set,
            paused=True,
            inspected=self.name,
            assuming=self.assuming,
            accuracy=None if self.accuracy is None else self.accuracy.share,
            accuracy_of=0 if self.accuracy is None else self.accuracy.examples,
        )


def _count(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
