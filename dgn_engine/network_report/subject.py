"""The network of a report, the examples that it is read on, and what its figures say about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import Examples
from dgn_engine.data._preprocessing import Preprocessing
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.importing.from_file import ImportedNetwork
from dgn_engine.importing.saved_network import is_ours
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.regime_entry import copy_weights
from dgn_engine.model.stack import Stack
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.training import RunStarted
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.random_streams import random_stream
from dgn_engine.scene.panel_spec import View
from dgn_engine.session.network_fit import has_same_labels, reason_no_accuracy
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.text.written_numbers import format_number
from dgn_engine.training.layer_infos import count_parameters, layer_infos
from dgn_engine.training.probes import ProbeContext


@dataclass(frozen=True)
class Earlier:
    """The same network at an earlier step of its run.

    Attributes:
        step: That step; 0 is the initial network.
        network: The network.
    """

    step: int
    network: GatedNetwork


@dataclass(frozen=True)
class Subject:
    """The network of a report and the examples that it is read on.

    Attributes:
        name: 'run@900', 'resnet18.pth'.
        listing: What its file contains.
        imported: The network, with what was assumed about it.
        examples: The data as they are stored.
        data: Their configuration.
        prepare: Converts stored images to what the network takes.
        probe_set: The training examples that kernels are computed on.
        x: These examples, (n, *input_shape).
        seed: Seed of random networks, shuffled labels and estimates.
        scored: Number of test examples for the accuracy, at most.
        raw_shape: Shape of a stored image.
        notes: Sentences on how the network was read.
        earlier: The network at initialisation and at the checkpoint before, where known.
        gate_task: Returns the measurement of its gate information; None if it has none.
        is_stopped: Whether the user wants to stop.
    """

    name: str
    listing: CheckpointContents
    imported: ImportedNetwork
    examples: Examples
    data: DataConfig
    prepare: Preprocessing
    probe_set: ProbeSet
    x: Tensor
    seed: int = 0
    scored: int = 1000
    raw_shape: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    gate_task: Callable[[], ReproductionTask | None] = lambda: None
    is_stopped: Callable[[], bool] = lambda: False

    @property
    def network(self) -> GatedNetwork:
        """The network itself."""
        return self.imported.network

    @property
    def labels(self) -> Tensor:
        """(n,) The classes of the examples."""
        return torch.tensor(self.probe_set.labels)

    @property
    def n(self) -> int:
        """The number of examples that kernels are computed on."""
        return len(self.x)

    @property
    def logits(self) -> int:
        """The number of logits that the data need: one per class, or 1 for two classes as ±1."""
        return 1 if self.examples.signed else len(self.examples.class_names)

    @property
    def why_no_accuracy(self) -> str:
        """Why the labels are not what this network predicts; '' if they are."""
        return reason_no_accuracy(self.imported, self.listing, self.logits, self.data)

    def context(self, network: GatedNetwork | None = None) -> ProbeContext:
        """Return the examples and a network as probes read them; by default the network itself."""
        config = self.imported.config
        return ProbeContext(
            *(network or self.network, self.x, self.labels, self.imported.regime),
            classes=self.probe_set.classes,
            loss=None if config is None else config.training.loss,
            own_labels=config is None or has_same_labels(config.data, self.data),
        )

    def view(self, readings: Mapping[str, Reading]) -> View:
        """Return what panels draw their pictures from."""
        started = self._started()
        return View(
            run=started,
            regime=self.imported.regime.name,
            wiring=self.network.wiring,
            step=self.imported.step,
            readings=readings,
            trains=False,
        )

    def _started(self) -> RunStarted:
        """Describe the network to panels, as the window does for the network of a file."""
        network, own = self.network, is_ours(self.listing)
        config = self.imported.config if own and self.imported.config else RunConfig(data=self.data)
        return RunStarted(
            run=1,
            config=replace(config, data=self.data),
            regime=self.imported.regime.name,
            device="cpu",
            layers=layer_infos(network.architecture),
            wiring=network.wiring,
            parameters_value=count_parameters(network.value),
            parameters_feature=0 if network.own_gates else count_parameters(network.feature),
            train_examples=len(self.examples.train_y),
            test_examples=len(self.examples.test_y),
            classes=self.probe_set.classes,
            steps_per_epoch=0,
            total_steps=0,
            probe_set=self.probe_set,
            paused=True,
            inspected="" if own else self.name,
            assuming=self.imported.assuming,
        )

    @property
    def drawing(self) -> str:
        """How the weights of random networks are drawn, in words."""
        net = self._drawn_as
        if net.init == "glorot":
            return "uniformly as in Keras (Glorot)"
        spread = f"σ = {format_number(net.sigma)}" if net.sigma else "σ = √(2/fan-in)"
        return f"as ±σ with {spread}" if net.init == "bernoulli" else f"from N(0, σ²), {spread}"

    @property
    def _drawn_as(self) -> NetConfig:
        """The settings of the run that trained the network, or else the usual ones."""
        config = self.imported.config
        return NetConfig() if config is None else config.net

    def random_networks(self, count: int) -> Iterator[GatedNetwork]:
        """Yield networks of the same architecture and gates with new random weights.

        The weights are drawn like those at the start of the run that trained the network, by
        default N(0, 2/fan-in); biases are 0 and normalisation layers are as new.
        """
        regime, net = self.imported.regime, self._drawn_as
        for number in range(count):
            network = deepcopy(self.network)
            generator = random_stream("report", self.seed, number)
            stacks = [network.value] if network.own_gates else [network.value, network.feature]
            for stack in stacks:
                assert isinstance(stack, Stack)
                stack.init_weights(net.init, generator, net.sigma)
            if regime.on_entry == "share-redrawn":
                copy_weights(network.value, network.feature)
            yield network
