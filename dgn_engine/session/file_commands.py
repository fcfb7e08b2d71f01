"""What is done with opened files: gates or weights copied from them, a network compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dgn_engine.protocol import commands as do
from dgn_engine.protocol.events import Event
from dgn_engine.session.comparison import Comparison, of_listing, of_run
from dgn_engine.session.frozen_network import InspectedNetwork, ProbeInputs
from dgn_engine.session.opened_files import FileTarget, OpenedFiles
from dgn_engine.training.run import Run

Shown = Run | InspectedNetwork


class FileCommands:
    """The files that are open and the comparison. Methods raise `UserError` and change nothing."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._files = OpenedFiles(emit)
        self.comparison = Comparison(emit)
        self.forget = self._files.forget
        self.listing = self._files.listing

    def open(self, command: do.OpenFile, shown: Shown) -> None:
        self._files.open(Path(command.path), command.purpose, file_target_of(shown))

    def pick(self, command: do.PickTensors, shown: Shown) -> None:
        self._files.pick(command.ticket, command.tensors, file_target_of(shown))

    def take_gates(self, command: do.TakeGates, shown: Shown) -> None:
        gates = self._files.gates(command.ticket, file_target_of(shown))
        assert isinstance(shown, Run)  # nothing fits a network that is inspected
        shown.take_gates(gates, self.name_of(command.ticket), command.restart_value)
        self.forget(command.ticket)

    def take_weights(self, command: do.TakeWeights, shown: Shown) -> None:
        weights = self._files.weights(command.ticket, file_target_of(shown))
        assert isinstance(shown, Run)
        shown.take_weights(weights, self.name_of(command.ticket))
        self.forget(command.ticket)

    def compare_file(self, command: do.CompareFile, shown: Shown) -> None:
        self.comparison.open(of_listing(self.listing(command.ticket)), probe_inputs_of(shown))
        shown.probe_schedule.invalidate_comparing()
        self.forget(command.ticket)

    def compare_run(self, command: do.CompareRun, shown: Shown) -> None:
        self.comparison.open(of_run(Path(command.folder)), probe_inputs_of(shown))
        shown.probe_schedule.invalidate_comparing()

    def close_comparison(self, shown: Shown | None) -> None:
        self.comparison.close()
        if shown is not None:
            shown.probe_schedule.invalidate_comparing()

    def name_of(self, ticket: int) -> str:
        return self.listing(ticket).file_name

    def close(self) -> None:
        self._files.close()


def file_target_of(shown: Shown) -> FileTarget:
    """What a file could become part of."""
    if isinstance(shown, InspectedNetwork):
        architecture = shown.network.network.architecture
        shape = shown.inputs.shape
        return FileTarget(architecture, architecture, False, False, shape, shown.config.net)
    network = shown.trainer.network
    return FileTarget(
        gates=shown.architecture,
        values=network.architecture,
        bias=bool(len(network.value.biases)),
        trains=True,
        input_shape=shown.image_shape,
        net=shown.config.net,
    )


def probe_inputs_of(shown: Shown) -> ProbeInputs:
    """The examples on which two networks are compared."""
    if isinstance(shown, InspectedNetwork):
        return shown.inputs
    context = shown.context()
    images = context.x.reshape(len(context.x), *shown.image_shape)
    return ProbeInputs(images, context.labels, len(shown.probe_set.class_names), shown.config.net)
