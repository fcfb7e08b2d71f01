"""Commands about opened files: gates, weights, a network beside the run or in its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dgn_engine.errors import UserError
from dgn_engine.protocol import commands as do
from dgn_engine.protocol.events import Event
from dgn_engine.session.comparison import Comparison, of_listing, of_run
from dgn_engine.session.frozen_network import InspectedNetwork, ProbeInputs, Report
from dgn_engine.session.opened_files import FileTarget, OpenedFiles
from dgn_engine.training.run import Run

Shown = Run | InspectedNetwork
OfFiles = (
    do.OpenFile
    | do.CloseFile
    | do.PickTensors
    | do.TakeGates
    | do.TakeWeights
    | do.CompareFile
    | do.CompareRun
    | do.CloseComparison
)


class FileCommands:
    """The files that are open, and what stands beside the run."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._files = OpenedFiles(emit)
        self.beside = Comparison(emit)
        self.forget = self._files.forget
        self.listing = self._files.listing

    def obey(self, command: OfFiles, shown: Shown | None) -> None:
        """Carry it out; raises `UserError` where it cannot be."""
        if isinstance(command, do.CloseFile):
            self._files.forget(command.ticket)
        elif isinstance(command, do.CloseComparison):
            self.beside.close()
            if shown is not None:
                shown.observation.compare_anew()
        elif shown is None:
            raise UserError("There is no run: start one before you open a file.")
        elif isinstance(command, do.OpenFile):
            self._files.open(Path(command.path), command.purpose, wanted_by(shown))
        elif isinstance(command, do.PickTensors):
            self._files.pick(command.ticket, command.tensors, wanted_by(shown))
        elif isinstance(command, do.CompareRun):
            self.beside.open(of_run(Path(command.folder)), ground_of(shown))
            shown.observation.compare_anew()
        elif isinstance(command, do.CompareFile):
            self.beside.open(of_listing(self._files.listing(command.ticket)), ground_of(shown))
            shown.observation.compare_anew()
            self._files.forget(command.ticket)
        else:
            self._copy(command, shown)

    def name_of(self, ticket: int) -> str:
        """The name of a listed file."""
        return self.listing(ticket).file_name

    def close(self) -> None:
        """Stop reading, forget everything."""
        self._files.close()

    def _copy(self, command: do.TakeGates | do.TakeWeights, shown: Shown) -> None:
        wanted = wanted_by(shown)
        name = self._files.listing(command.ticket).file_name
        if isinstance(command, do.TakeGates):
            gates = self._files.gates(command.ticket, wanted)
            assert isinstance(shown, Run)  # nothing fits what is inspected
            shown.take_gates(gates, name, command.restart_value)
        else:
            weights = self._files.weights(command.ticket, wanted)
            assert isinstance(shown, Run)
            shown.take_weights(weights, name)
        self._files.forget(command.ticket)


def wanted_by(shown: Shown) -> FileTarget:
    """What a file could become part of."""
    if isinstance(shown, InspectedNetwork):
        architecture = shown.standing.network.architecture
        shape = shown.ground.shape
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


def ground_of(shown: Shown) -> ProbeInputs:
    """The examples on which two networks are compared."""
    if isinstance(shown, InspectedNetwork):
        return shown.ground
    context = shown.context()
    images = context.x.reshape(len(context.x), *shown.image_shape)
    return ProbeInputs(images, context.labels, len(shown.probe_set.class_names), shown.config.net)


def inspect(
    opening: FileCommands,
    command: do.InspectFile,
    number: int,
    shown: Shown | None,
    emit: Callable[[Event], None],
    report: Report,
) -> InspectedNetwork:
    """The network of a listed file, to be shown in the place of a run; raises `UserError`."""
    if shown is None:
        raise UserError("There is no run whose examples it could be shown on: start one first.")
    data = command.data or shown.config.data
    listing = opening.listing(command.ticket)
    return InspectedNetwork(number, listing, shown.config, data, emit, report)
