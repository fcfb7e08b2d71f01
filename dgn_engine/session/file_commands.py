"""What is done with opened files: gates or weights copied from them, a network compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.model.regime_entry import check_entry
from dgn_engine.model.wiring import turned
from dgn_engine.protocol.branches import CompareFile, CompareHeld, CompareRun
from dgn_engine.protocol.files import (
    BeginWithBiases,
    CheckNetwork,
    InspectFile,
    OpenFile,
    PickTensors,
    SayReading,
    TakeGates,
    TakeWeights,
)
from dgn_engine.protocol.messages import Event
from dgn_engine.regimes import only_regime
from dgn_engine.session.comparison import Comparison, HeldSource, RecordedSource, of_listing
from dgn_engine.session.data_check import DataCheck
from dgn_engine.session.file_readings import LabelledExamples
from dgn_engine.session.frozen_network import InspectedNetwork, InspectionRequest, ProbeInputs
from dgn_engine.session.network_fit import DataFacts
from dgn_engine.session.opened_files import FileTarget, OpenedFiles
from dgn_engine.training.readings.executor_choice import ExecutorChoice
from dgn_engine.training.run import Run

Shown = Run | InspectedNetwork


class FileCommands:
    """The files that are open and the comparison. Methods raise `UserError` and change nothing."""

    def __init__(self, emit: Callable[[Event], None], readings: ExecutorChoice) -> None:
        self._files = OpenedFiles(emit)
        self._check = DataCheck(emit)
        self.comparison = Comparison(emit, readings)
        self.listing = self._files.listing

    def open(self, command: OpenFile, shown: Shown) -> None:
        self._files.open(Path(command.path), command.purpose, file_target_of(shown))

    def pick(self, command: PickTensors, shown: Shown) -> None:
        self._files.pick(command.ticket, command.tensors, file_target_of(shown))

    def say(self, command: SayReading, shown: Shown) -> None:
        self._files.say(command.ticket, command.reading, file_target_of(shown))

    def check(self, command: CheckNetwork, shown: Shown) -> None:
        """Begin to read the data, unless they are those that are shown."""
        listing, target = self.listing(command.ticket), file_target_of(shown)
        known = target.facts if command.data == target.data else None
        self._check.begin(command.ticket, listing, command.data, target.net, known)

    def opened(self, command: InspectFile, shown: Shown) -> InspectionRequest:
        """What shall be opened as a network, with its data where they have been read."""
        now = shown.asked if isinstance(shown, InspectedNetwork) else shown.config.data
        data = command.data or now
        listing = self.listing(command.ticket)
        path = self._files.path(command.ticket)
        return InspectionRequest(path, listing, shown.config, data, self._check.examples(data))

    def forget(self, ticket: int) -> None:
        """Close a file, and let go the data that were read for it."""
        self._files.forget(ticket)
        self._check.forget()

    def take_gates(self, command: TakeGates, shown: Shown) -> None:
        gates = self._files.gates(command.ticket, file_target_of(shown))
        assert isinstance(shown, Run)  # nothing fits a network that is inspected
        shown.take_gates(gates, self.name_of(command.ticket), command.restart_value)
        self.forget(command.ticket)

    def take_weights(self, command: TakeWeights, shown: Shown) -> None:
        weights = self._files.weights(command.ticket, file_target_of(shown))
        assert isinstance(shown, Run)
        shown.take_weights(weights, self.name_of(command.ticket))
        self.forget(command.ticket)

    def check_with_biases(self, command: BeginWithBiases, run: Run) -> RunConfig:
        """The configuration of `run` as it is now, with biases; raises `UserError` where the file
        would not fit it."""
        target = replace(file_target_of(run), bias=True)
        network, config = run.trainer.network, run.config
        if command.purpose == "weights":
            self._files.weights(command.ticket, target)
        else:
            self._files.gates(command.ticket, target)
            check_entry(network, run.trainer.regime, only_regime("for_copied_gates"))
        rotation, shift = turned(network.routes)
        gating = replace(
            config.gating,
            regime=run.trainer.regime.name,
            gates_from=config.gating.gates_from * run.trainer.regime.takes_gates,
            wiring=network.wiring,
            rotation=rotation,
            shift=shift,
            beta=network.gate.beta,
            value_input=network.value_input,
        )
        training = replace(config.training, learning_rate=run.learning_rate, weights_from="")
        net = replace(config.net, bias=True)
        return replace(config, net=net, gating=gating, training=training)

    def compare_file(self, command: CompareFile, shown: Shown) -> None:
        self.comparison.open(of_listing(self.listing(command.ticket)), probe_inputs_of(shown))
        shown.probe_schedule.invalidate_comparing()
        self.forget(command.ticket)

    def compare_run(self, command: CompareRun, shown: Shown | None, recorded: bool) -> None:
        """`recorded`: a recorded run is shown; then recorded frames are compared with its own."""
        if shown is None and not recorded:
            raise UserError(
                f"There is no run: start one, or open a recorded one, before you "
                f"{command.in_words()}."
            )
        source = RecordedSource(Path(command.folder), command.step)
        self.comparison.open(source, None if shown is None else probe_inputs_of(shown))
        if shown is not None:
            shown.probe_schedule.invalidate_comparing()

    def compare_held(self, command: CompareHeld, run: Run, current: Callable[[], int]) -> None:
        """`current`: the number of the run that is trained now."""
        source = HeldSource(run.started(paused=True), run.config, command.step, current)
        self.comparison.open(source, probe_inputs_of(run))
        run.probe_schedule.invalidate_comparing()

    def close_comparison(self, shown: Shown | None) -> None:
        self.comparison.close()
        if shown is not None:
            shown.probe_schedule.invalidate_comparing()

    def name_of(self, ticket: int) -> str:
        return self.listing(ticket).file_name

    def close(self) -> None:
        self._check.close()
        self._files.close()


def file_target_of(shown: Shown) -> FileTarget:
    """What a file could become part of."""
    if isinstance(shown, InspectedNetwork):
        architecture = shown.network.network.architecture
        data, facts = shown.asked, shown.facts
        return FileTarget(
            *(architecture, architecture, False, False, data, facts, shown.config.net),
            examples=shown.labelled_examples,
        )
    network = shown.trainer.network
    return FileTarget(
        gates=shown.architecture,
        values=network.architecture,
        bias=bool(len(network.value.biases)),
        trains=True,
        data=replace(shown.config.data, image_size=0, image_channels=0),  # they have it already
        facts=DataFacts(shown.image_shape, shown.architecture.classes),
        net=shown.config.net,
        examples=LabelledExamples(
            shown.trainer.data.test_x, shown.trainer.data.test_y, normalised=True
        ),
    )


def probe_inputs_of(shown: Shown) -> ProbeInputs:
    """The examples on which two networks are compared."""
    if isinstance(shown, InspectedNetwork):
        return shown.inputs
    context = shown.context()
    images = context.x.reshape(len(context.x), *shown.image_shape)
    return ProbeInputs(images, context.labels, shown.probe_set.classes)
