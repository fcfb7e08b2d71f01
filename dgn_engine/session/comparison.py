"""Compare a network of a file, or a recorded run, with the current run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.data._preprocessing import channels_wanted
from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import ImportedNetwork, architecture_for, network_of
from dgn_engine.importing.saved_network import (
    NetworkState,
    listing_of_checkpoint,
    our_network,
)
from dgn_engine.model.network import GatedNetwork
from dgn_engine.protocol.branches import (
    ComparedFrames,
    CompareHeld,
    CompareRun,
    ComparisonClosed,
    ComparisonOpened,
)
from dgn_engine.protocol.frames import Reading
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Change, Measured, RunStarted
from dgn_engine.protocol.watching import ProbeRequest, ProbeScalars
from dgn_engine.session.frozen_network import FrozenNetwork, ProbeInputs, probe_inputs_of
from dgn_engine.session.readable_network import ReadableNetwork
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.runs import run_checkpoints
from dgn_engine.storage.runs.branch_origin import origin_of
from dgn_engine.storage.runs.drawn_events import drawn_history
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.session_file.untrusted_run import plain_event
from dgn_engine.text.printable import plain_text
from dgn_engine.training.layer_infos import layer_infos
from dgn_engine.training.readings.executor_choice import ExecutorChoice
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.run import Run

_ONLY_SHOWN = "the recorded run is not training, so no other network can be read on its examples."
MOST_SCALARS = 1000  # waiting to be taken
ATTEMPTS = 5  # to read a checkpoint of a run that is being written


class ComparisonSource(Protocol):
    """Makes the network to compare with, for the current probe examples; may raise `UserError`."""

    def __call__(
        self, inputs: ProbeInputs | None
    ) -> tuple[ImportedNetwork | None, ComparisonOpened]:
        """Return the network, if there is one, and the event that opens the comparison.

        `inputs` is None while a recorded run is shown: no network is read on its examples.
        """


class Comparison:
    """The comparison of a session, at most one. It outlives the run as long as it fits the
    examples."""

    def __init__(self, emit: Callable[[Event], None], executors: ExecutorChoice) -> None:
        self._emit = emit
        self._executors = executors
        self.source: ComparisonSource | None = None
        self._network: FrozenNetwork | None = None
        self._requests: tuple[ProbeRequest, ...] = ()
        self._scalars: list[ProbeScalars] = []  # since the last `take_scalars`
        self.number = 0  # of the newest comparison, from 1

    def open_source(
        self, source: ComparisonSource, inputs: ProbeInputs | None, needs_network: bool = False
    ) -> None:
        """Open a comparison; if this raises `UserError`, the previous one stays open.

        `needs_network`: refuse what can only be compared by its frames or scores.
        """
        imported, opened = source(inputs)
        if needs_network and imported is None:
            raise UserError("Its network does not fit the new run.", kind="does-not-fit")
        recorded = None
        if isinstance(source, RecordedSource | HeldSource):
            recorded = source.compared_frames(imported)
        network = None
        if imported is not None and inputs is not None:
            network = FrozenNetwork(imported, inputs, self._collect_scalars, traced=True)
            network.probe_schedule.use_executor(self._executors.executor)
            network.probe_schedule.watch(self._requests)
            opened = replace(
                opened,
                about=_describe_network(network, imported.assuming),
                regime=network.regime.name,
                layers=layer_infos(network.architecture),
                wiring=network.network.wiring,
                step=network.step_count,
            )
        self._release_network()
        self.source, self._network = source, network
        self.number += 1
        self._emit(replace(opened, number=self.number))
        if recorded is not None:
            self._emit(recorded)

    def compare_run(
        self, command: CompareRun, shown: ReadableNetwork | None, recorded: bool
    ) -> None:
        """Compare with a recorded run.

        `recorded`: the shown run is a recorded one too, so that frames are compared with frames.
        """
        if shown is None and not recorded:
            raise UserError(
                f"There is no run: start one or open a recorded one before you "
                f"{command.in_words()}.",
                kind="no-run",
            )
        self.compare_with(RecordedSource(Path(command.folder), command.step), shown)

    def compare_earlier_step(
        self, command: CompareHeld, run: Run, current: Callable[[], int]
    ) -> None:
        """Compare with an earlier step of `run`; `current` returns the number of the run in
        progress."""
        started = run.started_event(paused=True)
        self.compare_with(HeldSource(started, run.config, command.step, current), run)

    def compare_with(self, source: ComparisonSource, shown: ReadableNetwork | None) -> None:
        """Compare what is shown (None: a recorded run) with another network or run.

        Raises:
            UserError: They cannot be compared; the previous comparison stays open.
        """
        self.open_source(source, None if shown is None else probe_inputs_of(shown))
        if shown is not None:
            shown.probe_schedule.invalidate_comparing()

    def update_network(self, imported: ImportedNetwork) -> None:
        """Use the new weights of a network that trains elsewhere for all further readings.

        Existing readings are kept until then. Raises `UserError`.
        """
        if self._network is not None:
            self._network.update_network(imported)

    def take_scalars(self) -> tuple[ProbeScalars, ...]:
        """Return the scalars of the readings since the last call."""
        taken, self._scalars = self._scalars, []
        return tuple(taken)

    def _collect_scalars(self, event: Event) -> None:
        """Keep scalars for `take_scalars`, since they belong to no run here; emit other events."""
        if not isinstance(event, ProbeScalars):
            self._emit(event)
        elif len(self._scalars) < MOST_SCALARS:
            self._scalars.append(event)

    def reopen_for(self, inputs: ProbeInputs | None) -> None:
        """Reopen the comparison for a new run (None: there is none), or say why it was closed."""
        if self.source is None:
            return
        try:
            if inputs is None:
                raise UserError("There is no run to compare with.")
            # Scores and frames of other data would be compared with nothing.
            self.open_source(self.source, inputs, needs_network=self._network is not None)
        except UserError as refusal:
            self.close(f"The comparison was closed: {refusal}")

    def close(self, reason: str = "", shown: ReadableNetwork | None = None) -> None:
        """End the comparison; `shown` drops its readings that depend on it."""
        if self.source is not None:
            self._release_network()
            self.source = self._network = None
            self._emit(ComparisonClosed(reason))
        if shown is not None:
            shown.probe_schedule.invalidate_comparing()

    def watch_probes(self, requests: tuple[ProbeRequest, ...]) -> None:
        """Compute the same probes as for the run."""
        self._requests = requests
        if self._network is not None:
            self._network.probe_schedule.watch(requests)

    def read_next(self) -> bool:
        """Compute at most one probe, so that the next step is not delayed; return whether one was
        due."""
        return self._network is not None and self._network.read_next()

    def other_gates(self) -> tuple[Tensor, ...] | None:
        """Return the gates of the compared network on the probe examples; None if there is none."""
        return None if self._network is None else self._network.gates

    def other_network(self) -> GatedNetwork | None:
        """Return the compared network; None if there is none."""
        return None if self._network is None else self._network.network

    @property
    def probe_schedule(self) -> ProbeSchedule | None:
        """The schedule of the compared network; None if there is none."""
        return None if self._network is None else self._network.probe_schedule

    def _release_network(self) -> None:
        self._scalars = []
        if self._network is not None:
            self._network.probe_schedule.release()

    @property
    def readings(self) -> Mapping[str, Reading]:
        return {} if self._network is None else dict(self._network.probe_schedule.readings)


def source_from_listing(listing: CheckpointContents) -> ComparisonSource:
    def open_listing(inputs: ProbeInputs | None) -> tuple[ImportedNetwork | None, ComparisonOpened]:
        if inputs is None:
            raise UserError(_ONLY_SHOWN, kind="only-shown")
        shape = inputs.in_channels(channels_wanted(listing)).shape
        imported = network_of(listing, shape, door="window")
        return imported, ComparisonOpened(listing.file_name, "", "", ())

    return open_listing


@dataclass(frozen=True)
class RecordedSource:
    """A recorded run: its scores, and its network from a checkpoint (`step` None: the newest).

    Without a checkpoint of that step, or if its network takes other inputs, its recorded frames are
    compared; without frames, only its scores. Either is reported.
    """

    folder: Path
    step: int | None = None

    def __call__(
        self, inputs: ProbeInputs | None
    ) -> tuple[ImportedNetwork | None, ComparisonOpened]:
        reader = RunReader(self.folder)
        state = RunState()
        if reader.start_event is not None:
            state = state.after(reader.start_event)
        history = drawn_history(self._events_to_compare(reader))
        for event in history.events:
            state = state.after(event)
        name = _source_name(reader)
        opened = ComparisonOpened(
            name=name if self.step is None else f"{name} at step {self.step:,}",
            about="scores only",
            regime=state.regime or reader.config.gating.regime,
            layers=(),
            scores=tuple(event for event in history.events if isinstance(event, Measured)),
            step=reader.step,
            config=state.current_config() or reader.config,
            remark=f"{reader.log.lost_in_words}." if reader.log.lost_in_words else "",
            folder=str(self.folder),
            at_step=self.step,
        )
        try:
            if inputs is None:
                raise UserError(_ONLY_SHOWN, kind="only-shown")
            snapshot = _load_checkpoint(reader, self.step)
            if self.step is not None:  # a change at that step may come after the checkpoint
                opened = replace(opened, config=_config_at(snapshot, opened.config))
            return _network_of(reader, snapshot, inputs.shape), opened
        except UserError as refusal:
            frames = (
                frame for frame in reader.frames if self.step is None or frame.step <= self.step
            )
            if reader.start_event is not None and any(True for _ in frames):
                return None, replace(opened, about="recorded frames", name=name)
            if not opened.scores or self.step is not None:
                raise
            lost = f" {opened.remark}" if opened.remark else ""
            return None, replace(opened, remark=f"Only its scores are compared: {refusal}{lost}")

    def _events_to_compare(self, reader: RunReader) -> Iterator[Event]:
        """Yield the events up to the compared step; all of them if there is none."""
        for event in reader.log.each_event():
            if self.step is None or getattr(event, "step", 0) <= self.step:
                yield event

    def compared_frames(self, network: ImportedNetwork | None) -> ComparedFrames | None:
        """Return where its frames are, to be shown if `network` is None; None if it has none."""
        reader = RunReader(self.folder)
        if reader.start_event is None or not reader.frames:
            return None
        changes = tuple(
            event
            for event in map(plain_event, reader.log.each_event())
            if isinstance(event, Change)
        )
        step = None
        if network is None:
            step = reader.frames[-1].step if self.step is None else self.step
        return ComparedFrames(
            _source_name(reader), str(self.folder), reader.start_event, changes, step
        )


@dataclass(frozen=True)
class HeldSource:
    """An earlier step of an unrecorded run; the window has its frames in memory.

    `started` and `config` are the run's; `current` returns the number of the run in progress.
    """

    started: RunStarted
    config: RunConfig
    step: int
    current: Callable[[], int]

    def __call__(
        self, inputs: ProbeInputs | None
    ) -> tuple[ImportedNetwork | None, ComparisonOpened]:
        if self.current() != self.started.run:
            words = "its steps existed only in memory and were lost when that run ended."
            raise UserError(words, kind="other-run")
        about, regime = "in memory", self.config.gating.regime
        opened = ComparisonOpened("this run", about, regime, (), config=self.config)
        return None, replace(opened, step=self.step, at_step=self.step)

    def compared_frames(self, _network: ImportedNetwork | None) -> ComparedFrames:
        return ComparedFrames("this run", "", self.started, (), self.step)


def _source_name(reader: RunReader) -> str:
    """Return the name of its folder, or its changes if it is a branch."""
    origin = origin_of(reader.info)
    if origin is not None:
        return origin.changes.name_from(origin.step)
    return plain_text(reader.path.name, 60)


def network_at(
    reader: RunReader, input_shape: tuple[int, ...], step: int | None = None
) -> ImportedNetwork:
    """Return the network of a recorded run from a checkpoint.

    Raises `UserError` if there is none, or it takes other inputs.
    """
    return _network_of(reader, _load_checkpoint(reader, step), input_shape)


def _network_of(
    reader: RunReader, snapshot: run_checkpoints.Snapshot, input_shape: tuple[int, ...]
) -> ImportedNetwork:
    state = NetworkState.of_checkpoint(snapshot.state, str(reader.info.get("data_fingerprint", "")))
    listing = listing_of_checkpoint(reader.path.name, snapshot.tensors, state)
    network = our_network(listing, input_shape, torch.get_default_dtype(), architecture_for)
    return ImportedNetwork(network, state.regime, state.step, config=state.config)


def _config_at(snapshot: run_checkpoints.Snapshot, known: RunConfig | None) -> RunConfig | None:
    """Return `known` with the settings of the checkpoint that can change while a run trains."""
    if known is None:
        return None
    state, dials = snapshot.state, snapshot.state["dials"]
    gating = replace(
        known.gating,
        regime=str(state["regime"]),
        wiring=tuple(map(int, state["wiring"])),
        rotation=_normalise_turns(state.get("rotation", ())),
        shift=_normalise_turns(state.get("shift", ())),
        beta=float(dials["beta"]),
        value_input=dials["value_input"],
    )
    training = replace(known.training, learning_rate=float(dials["learning_rate"]))
    return replace(known, gating=gating, training=training)


def _normalise_turns(turns: Sequence[int]) -> tuple[int, ...]:
    """Return rotations as `Rewired` has them: empty if nothing is rotated."""
    return tuple(map(int, turns)) if any(turns) else ()


def _load_checkpoint(reader: RunReader, step: int | None) -> run_checkpoints.Snapshot:
    """Load a checkpoint; while a run is written it may vanish, and then a newer one is loaded."""
    for _ in range(ATTEMPTS - 1):
        checkpoint = reader.find_checkpoint(step)
        try:
            return run_checkpoints.load_checkpoint(checkpoint)
        except UserError:
            if checkpoint.path.exists():
                raise
            reader = RunReader(reader.path)
    return run_checkpoints.load_checkpoint(reader.find_checkpoint(step))


def _describe_network(network: FrozenNetwork, assuming: str) -> str:
    """Describe a network. `assuming`: its activation, if the user gave it and the file does not."""
    source = " (assumed)" if assuming else ""
    layers = len(network.architecture.gated_shapes)
    step = f" · step {network.step_count:,}" if network.step_count else ""
    gates = f"{layers} gate layer{'' if layers == 1 else 's'}"
    if not network.regime.own_gates and network.network.feature_layers == "parallel":
        gates += " · parallel feature layers"
    return f"{network.regime.name}{source} · {gates} · {network.total_weights:,} weights{step}"
