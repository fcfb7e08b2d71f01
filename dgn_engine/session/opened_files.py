"""Checkpoints that the user opened: read in child processes while training continues, then used for
gates, weights, a comparison or a network of their own."""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.data._preprocessing import without_preprocessing
from dgn_engine.errors import UserError
from dgn_engine.importing.file_sequence import bias_by_name
from dgn_engine.importing.fold_batchnorm import EPSILON, fold_normalisation
from dgn_engine.importing.match_layers import (
    LayerMatching,
    Part,
    match_layers,
    reason_other_layout,
)
from dgn_engine.importing.open_questions import unsaid_of_weights
from dgn_engine.model.architecture import Architecture, weight_shape
from dgn_engine.model.regime_entry import check_entry
from dgn_engine.protocol import files
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.regimes import only_regime
from dgn_engine.session.comparison import Comparison, source_from_listing
from dgn_engine.session.file_readings import (
    LabelledExamples,
    contradiction_in,
    offered_readings,
    questions_on,
)
from dgn_engine.session.frozen_network import InspectedNetwork, InspectionRequest
from dgn_engine.session.network_fit import DataFacts, check_fit
from dgn_engine.session.readable_network import ReadableNetwork
from dgn_engine.session.reporting_threads import ReportingThreads
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents
from dgn_engine.training.run import Run

PATIENCE = 5.0  # seconds to wait at the end for files and data that are being read


def match_by_size(listing: CheckpointContents, architecture: Architecture) -> tuple[str, ...]:
    """Return for each weight layer the next tensor of the same shape, in the order of the file.

    '' if none is left. BatchNorm is folded in first.
    """
    arrays = fold_normalisation(listing.arrays, listing.reading.norm_eps or EPSILON).arrays
    remaining = [name for name, a in arrays.items() if a.ndim in (2, 4) and a.dtype.kind == "f"]
    names: list[str] = []
    for layer in architecture.weight_layers:
        wanted = weight_shape(layer)
        index = next((i for i, name in enumerate(remaining) if arrays[name].shape == wanted), None)
        names.append("" if index is None else remaining[index])
        if index is not None:
            remaining = remaining[index + 1 :]
    return tuple(names)


def pick_weights(listing: CheckpointContents, names: Sequence[str]) -> CheckpointContents:
    """Return the file reduced to these weights in this order, each with its bias.

    '' at the end leaves out the output layer. Raises `UserError` if a name is not in the file, is
    repeated, or is missing before another.
    """
    chosen = list(names)
    while chosen and not chosen[-1]:
        chosen.pop()
    arrays = fold_normalisation(listing.arrays, listing.reading.norm_eps or EPSILON).arrays
    picked_arrays: dict[str, Array] = {}
    for layer, name in enumerate(chosen, start=1):
        if not name:
            words = f"No tensor is picked for layer {layer}; pick one for every layer."
            raise UserError(words, kind="empty", value=layer)
        if name not in arrays:
            words = f"{listing.file_name} has no tensor '{name}'."
            raise UserError(words, kind="unknown-name", value=name)
        if name in picked_arrays:
            words = f"'{name}' is picked for two layers; pick a different tensor for each."
            raise UserError(words, kind="in-use", value=name)
        picked_arrays[name] = arrays[name]
        bias = bias_by_name(name, arrays)
        if bias and len(arrays[bias]) == len(arrays[name]):
            picked_arrays[bias] = arrays[bias]
    return replace(listing, arrays=picked_arrays, metadata={}, layers=(), picked=True)


@dataclass(frozen=True)
class FileTarget:
    """The possible target of a file: the current run, the network that is shown, or neither.

    `gates` is the architecture of the feature network, `values` that of the value network (wider if
    gates are tiled), None without either; `bias`: whether the value network has biases; `trains`:
    whether it is a run. `data` and their `facts` are those to check a file against by default.
    `examples` are those to try readings on; `net` is the run's network.
    """

    gates: Architecture | None
    values: Architecture | None
    bias: bool
    trains: bool
    data: DataConfig
    facts: DataFacts
    net: NetConfig
    examples: LabelledExamples


def target_without_network() -> FileTarget:
    """Return the target while nothing is shown: a file can only be opened on its own, on the data
    that the window offers first."""
    config = RunConfig()
    examples = load_examples(without_preprocessing(config.data))
    return FileTarget(
        gates=None,
        values=None,
        bias=False,
        trains=False,
        data=config.data,
        facts=DataFacts.from_examples(examples),
        net=config.net,
        examples=LabelledExamples.from_examples(examples),
    )


def file_target_of(shown: ReadableNetwork) -> FileTarget:
    if isinstance(shown, InspectedNetwork):
        return FileTarget(
            gates=shown.architecture,
            values=shown.architecture,
            bias=False,
            trains=False,
            data=shown.asked,
            facts=shown.facts,
            net=shown.config.net,
            examples=shown.labelled_examples,
        )
    assert isinstance(shown, Run)
    network, examples, data = shown.trainer.network, shown.trainer.data, shown.config.data
    if data.image_size or data.image_channels:  # already applied to its examples
        data = replace(data, image_size=0, image_channels=0)
    return FileTarget(
        gates=network.feature.architecture,
        values=network.architecture,
        bias=bool(len(network.value.biases)),
        trains=True,
        data=data,
        facts=DataFacts(shown.probed.image_shape, shown.architecture.classes),
        net=shown.config.net,
        examples=LabelledExamples(examples.test_x, examples.test_y, normalised=True),
    )


@dataclass(frozen=True)
class _File:
    """An open file; `picked` are the tensors that the user picked, one per layer."""

    path: Path
    listing: CheckpointContents
    purpose: files.Purpose = ""
    picked: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataRequest:
    """Data to check a listed file against; `known` are their facts, if known without reading
    them."""

    ticket: int
    listing: CheckpointContents
    data: DataConfig
    net: NetConfig
    known: DataFacts | None


class DataCheck:
    """Checks files against data, and keeps at most one data set; a newer request replaces an older
    one."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit_now = emit
        self._lock = threading.Lock()
        self._newest: DataRequest | None = None
        self._examples: tuple[DataConfig, Examples] | None = None
        self._threads = ReportingThreads(emit)

    def start_check(self, request: DataRequest) -> None:
        """Start to read the data, unless their facts are known; `NetworkChecked` follows."""
        with self._lock:
            self._newest = request
        self._threads.start_thread("dgn-data-check", lambda: self._check_data(request))

    def cached_examples(self, data: DataConfig) -> Examples | None:
        """Return these data as stored, if they have been read; otherwise None."""
        with self._lock:
            stored = self._examples
        return (
            stored[1] if stored is not None and stored[0] == without_preprocessing(data) else None
        )

    def drop_ticket(self, ticket: int) -> None:
        """Drop the data read for a file, and stop reading more."""
        with self._lock:
            if self._newest is not None and self._newest.ticket == ticket:
                self._newest = self._examples = None

    def close(self) -> None:
        with self._lock:
            self._newest = self._examples = None
        self._threads.close(PATIENCE)

    def _check_data(self, request: DataRequest) -> None:
        ticket, data = request.ticket, request.data
        try:
            facts = request.known or DataFacts.from_examples(self._load_data(request))
            checked = files.NetworkChecked(ticket, data, *check_fit(request.listing, data, facts))
            self._emit_if_newest(request, checked)
            if request.known is None:  # otherwise the readings come with the listing
                self._emit_fitting_readings(request, facts)
            return
        except _Superseded:
            return
        except UserError as refusal:
            checked = files.NetworkChecked(
                ticket, data, files.FileUseCheck(False, refusal.sentence), data
            )
        except Exception as error:  # an error in a reader must not be silent
            what = f"Reading {data.name} failed: {error}."
            checked = files.NetworkChecked(ticket, data, files.FileUseCheck(False, what), data)
            self._emit_now(Failed(what, traceback.format_exc()))
        with contextlib.suppress(_Superseded):
            self._emit_if_newest(request, checked)

    def _emit_fitting_readings(self, request: DataRequest, facts: DataFacts) -> None:
        """Emit the readings of the file that fit these data, if it leaves something open."""
        examples, data = self.cached_examples(request.data), request.data
        if examples is None:
            return
        labelled = LabelledExamples.from_examples(examples)
        readings = offered_readings(request.listing, data, facts, request.net, labelled)
        if readings is not None:
            self._emit_if_newest(
                request,
                files.ReadingsFound(request.ticket, request.listing.reading, readings, data),
            )

    def _load_data(self, request: DataRequest) -> Examples:
        def report(what: str, fraction: float | None) -> None:
            self._emit_if_newest(request, files.CheckProgress(request.ticket, what, fraction))

        examples = self.cached_examples(request.data)
        if examples is None:
            stored = without_preprocessing(request.data)
            report(f"reading {request.data.name.partition(':')[0]}", None)
            examples = load_examples(stored, report)
            with self._lock:
                if request is self._newest:
                    self._examples = (stored, examples)
        return examples

    def _emit_if_newest(self, request: DataRequest, event: Event) -> None:
        """Emit an event; raises `_Superseded` if a newer request was made, or the file was
        closed."""
        with self._lock:
            if request is not self._newest:
                raise _Superseded
            self._emit_now(event)


class _Superseded(Exception):  # noqa: N818 - not an error: the request is obsolete
    pass


class OpenedFiles:
    """Open files by ticket; each is read in a thread that waits for its child process."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._lock = threading.Lock()
        self._tickets = 0
        self._listed: dict[int, _File] = {}
        self._said: dict[int, FileReading] = {}  # answers that are being applied
        self._readers = ReportingThreads(emit)
        self._check = DataCheck(emit)

    def open_file(self, path: Path, purpose: files.Purpose, target: FileTarget) -> None:
        """Start to read a file; `FileListed` or `Refused` follows."""
        self._tickets += 1
        ticket = self._tickets
        self._start_reader(ticket, path, lambda: self._read_file(ticket, path, purpose, target))

    def pick_tensors(self, ticket: int, tensors: tuple[str, ...], target: FileTarget) -> None:
        """Match a listed file again, with these tensors; `FileListed` follows."""
        file = replace(self._listed_file(ticket), picked=tensors)
        event = list_file(ticket, file, target)
        with self._lock:
            self._listed[ticket] = file
        self._emit(event)

    def set_reading(self, ticket: int, reading: FileReading, target: FileTarget) -> None:
        """Start to read the network of a listed file with these answers; `FileListed` or
        `ReadingRefused` follows. Later answers replace earlier ones."""
        file = self._listed_file(ticket)
        with self._lock:
            self._said[ticket] = reading
        self._start_reader(ticket, file.path, lambda: self._apply_reading(ticket, reading, target))

    def listing_of(self, ticket: int) -> CheckpointContents:
        """Return the contents of a listed file, or what was picked of it."""
        return _chosen_contents(self._listed_file(ticket))

    def check_against_data(self, command: files.CheckNetwork, target: FileTarget) -> None:
        """Start to check a file against data, which are read unless they are the current ones."""
        listing, data = self.listing_of(command.ticket), command.data
        known = target.facts if data == target.data else None
        self._check.start_check(DataRequest(command.ticket, listing, data, target.net, known))

    def inspection_request(
        self, command: files.InspectFile, shown: ReadableNetwork | None
    ) -> InspectionRequest:
        """Return what to open as a network, with its data if they have been read."""
        config = RunConfig() if shown is None else shown.config
        now = shown.asked if isinstance(shown, InspectedNetwork) else config.data
        listing, data = self.listing_of(command.ticket), command.data or now
        path, examples = self._listed_file(command.ticket).path, self._check.cached_examples(data)
        return InspectionRequest(path, listing, config, data, examples)

    def take_gates(self, command: files.TakeGates, shown: ReadableNetwork) -> None:
        gates = self.matched_gates(command.ticket, file_target_of(shown))
        assert isinstance(shown, Run)  # `matched_gates` refuses an inspected network
        shown.control.take_gates(
            gates, self.listing_of(command.ticket).file_name, command.restart_value
        )
        self.close_file(command.ticket)

    def take_weights(self, command: files.TakeWeights, shown: ReadableNetwork) -> None:
        weights = self.matched_weights(command.ticket, file_target_of(shown))
        assert isinstance(shown, Run)
        shown.control.take_weights(weights, self.listing_of(command.ticket).file_name)
        self.close_file(command.ticket)

    def config_with_biases(self, command: files.BeginWithBiases, run: Run) -> RunConfig:
        """Return the configuration of the run as it is now, but with biases.

        Raises `UserError` if the file would not fit it.
        """
        target = replace(file_target_of(run), bias=True)
        if command.purpose == "weights":
            self.matched_weights(command.ticket, target)
        else:
            self.matched_gates(command.ticket, target)
            check_entry(run.trainer.network, run.trainer.regime, only_regime("for_copied_gates"))
        config, regime = run.config, run.trainer.regime
        (wiring, rotation, shift), (rate, beta, value_input) = (
            run.control.wiring_state,
            run.control.dials,
        )
        gating = replace(
            config.gating,
            regime=regime.name,
            gates_from=config.gating.gates_from * regime.takes_gates,
            wiring=wiring,
            rotation=rotation,
            shift=shift,
            beta=beta,
            value_input=value_input,
        )
        training = replace(config.training, learning_rate=rate, weights_from="")
        return replace(config, net=replace(config.net, bias=True), gating=gating, training=training)

    def compare_file(self, ticket: int, shown: ReadableNetwork, comparison: Comparison) -> None:
        comparison.compare_with(source_from_listing(self.listing_of(ticket)), shown)
        self.close_file(ticket)

    def matched_gates(self, ticket: int, target: FileTarget) -> LayerMatching:
        """Return the match for the feature network; raises `UserError` if it does not fit.

        It is matched again, because the run may have changed since the file was listed.
        """
        match = match_gates(self._listed_file(ticket), target)
        if not match.fits:
            raise UserError(match.verdict, kind="no-fit")
        return match

    def matched_weights(self, ticket: int, target: FileTarget) -> LayerMatching:
        """Return the match for the value network; raises `UserError` if it does not fit."""
        match, why = match_weights(self._listed_file(ticket), target)
        if why:
            raise UserError(why, kind="no-fit")
        return match

    def close_file(self, ticket: int) -> None:
        """Close a file, and drop the data read for it."""
        with self._lock:
            known = self._listed.pop(ticket, None)
            self._said.pop(ticket, None)
        if known is not None:
            self._emit(files.FileClosed(ticket))
        self._check.drop_ticket(ticket)

    def close(self) -> None:
        """Stop all readers and their child processes, and close all files."""
        self._check.close()
        self._readers.close(PATIENCE)
        self._listed.clear()

    def _listed_file(self, ticket: int) -> _File:
        with self._lock:
            file = self._listed.get(ticket)
        if file is None:
            words = "That file is no longer open; open it again."
            raise UserError(words, kind="no-file", value=ticket)
        return file

    def _start_reader(self, ticket: int, path: Path, read: Callable[[], None]) -> None:
        name, failed = f"dgn-file-{ticket}", f"Opening {path.name} failed"
        self._readers.start_reporting(name, read, f"open {path.name}", failed)

    def _read_file(
        self, ticket: int, path: Path, purpose: files.Purpose, target: FileTarget
    ) -> None:
        # The page of the file shows what loading it would do.
        file = _File(
            path, read_tensors(path, cancelled=self._readers.closing, warned=False), purpose
        )
        event = list_file(ticket, file, target)
        with self._lock:
            self._listed[ticket] = file
        self._emit(event)
        self._offer_readings(ticket, file, target)

    def _apply_reading(self, ticket: int, reading: FileReading, target: FileTarget) -> None:
        file = self._listed_file(ticket)
        file = replace(file, listing=replace(file.listing, reading=reading))
        contradiction = contradiction_in(_chosen_contents(file))
        event = list_file(ticket, file, target) if contradiction is None else None
        with self._lock:
            if self._said.get(ticket) is not reading:
                return  # there is a newer answer, or the file was closed
            if event is not None:
                self._listed[ticket] = file
        if contradiction is not None:
            self._emit(files.ReadingRefused(ticket, *contradiction))
        elif event is not None:
            self._emit(event)
            self._offer_readings(ticket, file, target)

    def _offer_readings(self, ticket: int, file: _File, target: FileTarget) -> None:
        """Emit the readings that fit the data; the listing does not wait for them."""
        listing, answers = _chosen_contents(file), file.listing.reading
        readings = offered_readings(listing, target.data, target.facts, target.net, target.examples)
        with self._lock:
            known = self._listed.get(ticket)
        if readings is None or known is None or known.listing.reading != answers:
            return
        if listing.picked:  # with BatchNorm folded into these tensors
            readings = tuple(replace(f, reading=_with_norms(f.reading, answers)) for f in readings)
        self._emit(files.ReadingsFound(ticket, answers, readings))


def list_file(ticket: int, file: _File, target: FileTarget) -> files.FileListed:
    """Return what can be done with a file; raises `UserError` if the picked tensors are invalid."""
    listing, chosen, gates = file.listing, _chosen_contents(file), match_gates(file, target)
    weights, why = match_weights(file, target)
    lacks = not target.bias and target.trains
    return files.FileListed(
        ticket=ticket,
        path=str(file.path),
        file_name=listing.file_name,
        tensors=tuple(
            files.TensorInfo(name, array.shape, listing.dtypes[name])
            for name, array in listing.arrays.items()
        ),
        matches=gates.rows,
        fits=gates.fits,
        verdict=gates.verdict,
        ignored=listing.ignored,
        weights=files.FileUseCheck(
            not why,
            why or _copy_verdict(listing.file_name, weights),
            weights.rows,
            with_biases=lacks and weights.fits and _has_biases(weights),
        ),
        network=check_fit(chosen, target.data, target.facts)[0],
        purpose=file.purpose,
        picked=chosen.picked,
        with_biases=lacks and gates.fits and _has_biases(gates),
        would_call=listing.would_call,
        would_look_up=listing.would_look_up,
        would_import=listing.would_import,
        questions=questions_on(chosen),
        reading=listing.reading,
    )


def match_gates(file: _File, target: FileTarget) -> LayerMatching:
    """Match the picked tensors, or all tensors by the order of the file, or by their sizes."""
    if not target.trains or target.gates is None:
        verdict = "Nothing is being trained: start a run, then copy gates into it."
        return LayerMatching((), False, verdict)
    return _match_part(file, target.gates, "gates")


def match_weights(file: _File, target: FileTarget) -> tuple[LayerMatching, str]:
    """Return the match for the value network, and why it cannot be copied, one sentence, or ''."""
    if not target.trains or target.values is None:
        verdict = "Nothing is being trained: start a run, then copy weights into it."
        return LayerMatching((), False, verdict), verdict
    match = _match_part(file, target.values, "values")
    name = file.listing.file_name
    if not match.fits:
        return match, match.verdict.replace("Gates of", "Weights of", 1)
    if _has_biases(match) and not target.bias:
        return match, (
            f"{name} has biases but the value network has none: start a run with biases "
            "to use its weights. Nothing was changed."
        )
    return match, ""


def _match_part(file: _File, architecture: Architecture, part: Part) -> LayerMatching:
    if reason_other_layout(file.listing, part, architecture):
        return match_layers(file.listing, architecture, part)
    listing = _chosen_contents(file)
    match = match_layers(listing, architecture, part)
    if match.fits or listing.picked or unsaid_of_weights(listing):
        return match
    names = match_by_size(file.listing, architecture)  # skips tensors in between
    if not all(names[:-1]):
        return match
    sized = match_layers(pick_weights(file.listing, names), architecture)
    if not sized.fits:
        return match
    return replace(sized, verdict=f"{sized.verdict} The tensors were matched by their sizes.")


def _has_biases(match: LayerMatching) -> bool:
    return any(bias is not None for bias in match.biases)


def _copy_verdict(name: str, match: LayerMatching) -> str:
    whole = len(match.weights) == len(match.rows)
    words = f"Weights of {name} fit all {len(match.rows)} layers of the value network."
    if not whole:
        words = (
            f"Weights of {name} fit all layers of the value network except the last, "
            f"which is {match.rows[-1].remark}."
        )
    return f"{words} Its optimiser state will be reset."


def _with_norms(reading: FileReading, answers: FileReading) -> FileReading:
    return replace(reading, batchnorm=answers.batchnorm, norm_eps=answers.norm_eps)


def _chosen_contents(file: _File) -> CheckpointContents:
    """Return the contents of a file, or what was picked of it.

    BatchNorm is folded in for picked tensors, once it is known how.
    """
    if not file.picked or unsaid_of_weights(file.listing):
        return file.listing
    reading = replace(file.listing.reading, batchnorm="", norm_eps=None)  # BatchNorm is folded
    return replace(pick_weights(file.listing, file.picked), reading=reading)
