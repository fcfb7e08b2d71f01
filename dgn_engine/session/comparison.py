"""A network of a file, or a recorded run, compared with the current run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from dgn_engine.data._preprocessing import channels_wanted
from dgn_engine.errors import UserError
from dgn_engine.model.importing.from_file import ImportedNetwork, architecture_for, network_of
from dgn_engine.model.importing.saved_network import (
    NetworkState,
    listing_of_checkpoint,
    our_network,
)
from dgn_engine.model.network import layer_infos
from dgn_engine.protocol.commands import ProbeRequest
from dgn_engine.protocol.events import ComparisonClosed, ComparisonOpened, Event
from dgn_engine.protocol.frames import Reading
from dgn_engine.session.frozen_network import FrozenNetwork, ProbeInputs
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.drawn_events import drawn_scores
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.text.printable import plain
from dgn_engine.training.probe_schedule import ProbeSchedule
from dgn_engine.training.reading_process.reading_worker import ReadingWorker


class ComparisonSource(Protocol):
    """Makes the network to compare with, for the probe examples of now; may raise `UserError`."""

    def __call__(self, inputs: ProbeInputs) -> tuple[ImportedNetwork | None, ComparisonOpened]:
        """The network, if there is one, and the event that opens the comparison."""


class Comparison:
    """At most one comparison. It outlives the run as long as it fits the examples."""

    def __init__(self, emit: Callable[[Event], None], worker: ReadingWorker) -> None:
        self._emit = emit
        self._worker = worker
        self._source: ComparisonSource | None = None
        self._network: FrozenNetwork | None = None
        self._requests: tuple[ProbeRequest, ...] = ()

    def open(self, source: ComparisonSource, inputs: ProbeInputs) -> None:
        """Begin; where this raises `UserError`, the comparison before stays."""
        imported, opened = source(inputs)
        network = None
        if imported is not None:
            network = FrozenNetwork(imported, inputs, self._emit)
            network.probe_schedule.employ(self._worker)
            network.probe_schedule.watch(self._requests)
            opened = replace(
                opened,
                about=_in_words(network),
                regime=network.regime.name,
                layers=layer_infos(network.network.architecture),
                wiring=network.network.wiring,
                step=network.step,
            )
        self._release()
        self._source, self._network = source, network
        self._emit(opened)

    def renew(self, inputs: ProbeInputs | None) -> None:
        """Another run has begun (None: there is none): compare with it, or say why not."""
        if self._source is None:
            return
        try:
            if inputs is None:
                raise UserError("There is no run to compare with.")
            self.open(self._source, inputs)
        except UserError as refusal:
            self.close(f"The comparison was closed: {refusal}")

    def close(self, reason: str = "") -> None:
        if self._source is not None:
            self._release()
            self._source = self._network = None
            self._emit(ComparisonClosed(reason))

    def watch(self, requests: tuple[ProbeRequest, ...]) -> None:
        """Read the same probes as of the run."""
        self._requests = requests
        if self._network is not None:
            self._network.probe_schedule.watch(requests)

    def read_next(self) -> bool:
        """Read at most one probe, so that a step is never held up by all; whether it did."""
        return self._network is not None and self._network.read_next()

    def gates(self) -> tuple[Tensor, ...] | None:
        """The gates of the other network on the probe examples; None where there is none."""
        return None if self._network is None else self._network.gates

    @property
    def probe_schedule(self) -> ProbeSchedule | None:
        """That of the other network; None where there is none."""
        return None if self._network is None else self._network.probe_schedule

    def _release(self) -> None:
        if self._network is not None:
            self._network.probe_schedule.release()

    @property
    def readings(self) -> Mapping[str, Reading]:
        return {} if self._network is None else dict(self._network.probe_schedule.readings)


def of_listing(listing: CheckpointContents) -> ComparisonSource:
    def source(inputs: ProbeInputs) -> tuple[ImportedNetwork | None, ComparisonOpened]:
        shape = inputs.in_channels(channels_wanted(listing)).shape
        imported = network_of(listing, shape, None, otherwise=inputs.net, door="window")
        return imported, ComparisonOpened(listing.file_name, "", "", ())

    return source


def of_run(folder: Path) -> ComparisonSource:
    """A recorded run: its scores, and its network as the newest checkpoint has it.

    A run without a checkpoint, or on other inputs, is compared by its scores alone, and says so.
    """

    def source(inputs: ProbeInputs) -> tuple[ImportedNetwork | None, ComparisonOpened]:
        reader = RunReader(folder)
        opened = ComparisonOpened(
            name=plain(folder.name, 60),
            about="scores only",
            regime=reader.config.gating.regime,
            layers=(),
            scores=drawn_scores(reader.each_event()),
            step=reader.step,
        )
        try:
            return _last_network(reader, inputs.shape), opened
        except UserError as refusal:
            if not opened.scores:
                raise
            return None, replace(opened, remark=f"Only its scores are compared: {refusal}")

    return source


def _last_network(reader: RunReader, input_shape: tuple[int, ...]) -> ImportedNetwork:
    """Raises `UserError` where there is none, or it is for other inputs."""
    snapshot = run_checkpoints.load(reader.checkpoint())
    state = NetworkState.of_checkpoint(snapshot.state, str(reader.info.get("data_fingerprint", "")))
    listing = listing_of_checkpoint(reader.path.name, snapshot.tensors, state)
    network = our_network(listing, input_shape, torch.get_default_dtype(), architecture_for)
    return ImportedNetwork(network, state.regime, state.step)


def _in_words(network: FrozenNetwork) -> str:
    layers = len(network.network.architecture.gated_shapes)
    step = f" · step {network.step:,}" if network.step else ""
    plural = "" if layers == 1 else "s"
    return (
        f"{network.regime.name} · {layers} gate layer{plural} · {network.weights:,} weights{step}"
    )
