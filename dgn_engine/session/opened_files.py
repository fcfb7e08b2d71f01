"""Checkpoints that the user opened: read in a child process while training goes on, and what is
done with them: gates or weights copied, a network compared, data read for it."""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.data._preprocessing import as_stored
from dgn_engine.errors import UserError
from dgn_engine.importing.file_sequence import bias_by_name
from dgn_engine.importing.fold_batchnorm import EPSILON, fold_normalisation
from dgn_engine.importing.match_layers import LayerMatching, Part, match_layers
from dgn_engine.importing.open_questions import unsaid_of_weights
from dgn_engine.model.architecture import Architecture, weight_shape
from dgn_engine.model.regime_entry import check_entry
from dgn_engine.protocol import files
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.regimes import only_regime
from dgn_engine.session.comparison import Comparison, of_listing
from dgn_engine.session.file_readings import (
    LabelledExamples,
    contradiction_in,
    offered_readings,
    questions_on,
)
from dgn_engine.session.frozen_network import InspectedNetwork, InspectionRequest
from dgn_engine.session.network_fit import DataFacts, fit_of
from dgn_engine.session.readable_network import ReadableNetwork
from dgn_engine.session.reporting_threads import ReportingThreads
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import Array, CheckpointContents
from dgn_engine.training.run import Run

PATIENCE = 5.0  # seconds that a file or data may take to be read to their end


def by_size(listing: CheckpointContents, architecture: Architecture) -> tuple[str, ...]:
    """For each weight layer the next tensor of its very shape, in the order of the file.

    '' where none is left. BatchNorm is folded in first.
    """
    arrays = fold_normalisation(listing.arrays, listing.reading.norm_eps or EPSILON).arrays
    left = [name for name, a in arrays.items() if a.ndim in (2, 4) and a.dtype.kind == "f"]
    found: list[str] = []
    for layer in architecture.weighted:
        wanted = weight_shape(layer)
        place = next((i for i, name in enumerate(left) if arrays[name].shape == wanted), None)
        found.append("" if place is None else left[place])
        if place is not None:
            left = left[place + 1 :]
    return tuple(found)


def picked(listing: CheckpointContents, names: Sequence[str]) -> CheckpointContents:
    """The file as if it held just these weights, in this order, each with its bias.

    '' at the end leaves the output layer out. Raises `UserError` where a name is not in the file,
    occurs twice, or is missing before another.
    """
    chosen = list(names)
    while chosen and not chosen[-1]:
        chosen.pop()
    arrays = fold_normalisation(listing.arrays, listing.reading.norm_eps or EPSILON).arrays
    kept: dict[str, Array] = {}
    for place, name in enumerate(chosen, start=1):
        if not name:
            words = f"No tensor is picked for layer {place}; pick one for each layer."
            raise UserError(words, kind="empty", value=place)
        if name not in arrays:
            words = f"{listing.file_name} holds no tensor '{name}'."
            raise UserError(words, kind="unknown-name", value=name)
        if name in kept:
            words = f"'{name}' is picked for two layers; each needs a tensor of its own."
            raise UserError(words, kind="in-use", value=name)
        kept[name] = arrays[name]
        bias = bias_by_name(name, arrays)
        if bias and len(arrays[bias]) == len(arrays[name]):
            kept[bias] = arrays[bias]
    return replace(listing, arrays=kept, metadata={}, layers=(), picked=True)


@dataclass(frozen=True)
class FileTarget:
    """What a file could become part of: the run that goes on, or the network that is shown.

    `gates`: architecture of the feature network, `values`: of the value network (wider, where
    gates are tiled); `bias`: whether the value network has biases; `trains`: whether it is a run;
    `data` and what they give (`facts`): a file is judged by them where no others are chosen.
    `examples`: on which readings of a file are tried; `net`: of the run.
    """

    gates: Architecture
    values: Architecture
    bias: bool
    trains: bool
    data: DataConfig
    facts: DataFacts
    net: NetConfig
    examples: LabelledExamples


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
    if data.image_size or data.image_channels:  # its examples have them already
        data = replace(data, image_size=0, image_channels=0)
    return FileTarget(
        gates=shown.architecture,
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
    """An open file; `picked`: the tensors that the user picked, one for each layer."""

    path: Path
    listing: CheckpointContents
    purpose: files.Purpose = ""
    picked: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataRequest:
    """Data for a listed file; `known`: what they give, where that is known without reading them."""

    ticket: int
    listing: CheckpointContents
    data: DataConfig
    net: NetConfig
    known: DataFacts | None


class DataCheck:
    """At most one set of data is held; of several requests the newest counts, the others end."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit_now = emit
        self._lock = threading.Lock()
        self._newest: DataRequest | None = None
        self._examples: tuple[DataConfig, Examples] | None = None
        self._threads = ReportingThreads(emit)

    def begin(self, request: DataRequest) -> None:
        """Begin to read the data, unless what they give is known; `NetworkChecked` follows."""
        with self._lock:
            self._newest = request
        self._threads.start("dgn-data-check", lambda: self._answer(request))

    def examples(self, data: DataConfig) -> Examples | None:
        """What was read of these data, as they are stored; None where that is not held."""
        with self._lock:
            kept = self._examples
        return kept[1] if kept is not None and kept[0] == as_stored(data) else None

    def forget(self, ticket: int) -> None:
        """Let go what is held for a file, and end what is being read for it."""
        with self._lock:
            if self._newest is not None and self._newest.ticket == ticket:
                self._newest = self._examples = None

    def close(self) -> None:
        with self._lock:
            self._newest = self._examples = None
        self._threads.close(PATIENCE)

    def _answer(self, asked: DataRequest) -> None:
        ticket, data = asked.ticket, asked.data
        try:
            facts = asked.known or DataFacts.of(self._loaded(asked))
            checked = files.NetworkChecked(ticket, data, *fit_of(asked.listing, data, facts))
            self._emit(asked, checked)
            if asked.known is None:  # of those that are known, they come with the listing
                self._offer(asked, facts)
            return
        except _Superseded:
            return
        except UserError as refusal:
            checked = files.NetworkChecked(
                ticket, data, files.FileUseCheck(False, str(refusal)), data
            )
        except Exception as error:  # a reader's fault must not end silently
            what = f"Reading {data.name} failed: {error}."
            checked = files.NetworkChecked(ticket, data, files.FileUseCheck(False, what), data)
            self._emit_now(Failed(what, traceback.format_exc()))
        with contextlib.suppress(_Superseded):
            self._emit(asked, checked)

    def _offer(self, asked: DataRequest, facts: DataFacts) -> None:
        """Say which readings of the file fit these data, where it leaves something open."""
        examples, data = self.examples(asked.data), asked.data
        if examples is None:
            return
        labelled = LabelledExamples.of(examples)
        readings = offered_readings(asked.listing, data, facts, asked.net, labelled)
        if readings is not None:
            self._emit(
                asked, files.ReadingsFound(asked.ticket, asked.listing.reading, readings, data)
            )

    def _loaded(self, asked: DataRequest) -> Examples:
        def report(what: str, fraction: float | None) -> None:
            self._emit(asked, files.CheckProgress(asked.ticket, what, fraction))

        examples = self.examples(asked.data)
        if examples is None:
            stored = as_stored(asked.data)
            report(f"reading {asked.data.name.partition(':')[0]}", None)
            examples = load_examples(stored, report)
            with self._lock:
                if asked is self._newest:
                    self._examples = (stored, examples)
        return examples

    def _emit(self, asked: DataRequest, event: Event) -> None:
        """Raises `_Superseded` where a newer request was made, or nobody waits any more."""
        with self._lock:
            if asked is not self._newest:
                raise _Superseded
            self._emit_now(event)


class _Superseded(Exception):  # noqa: N818 - no error: what was asked for is not wanted any more
    pass


class OpenedFiles:
    """Files by ticket; each is read in a thread of its own that waits for the child process."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._lock = threading.Lock()
        self._tickets = 0
        self._listed: dict[int, _File] = {}
        self._said: dict[int, FileReading] = {}  # of files whose network is being read so
        self._readers = ReportingThreads(emit)
        self._check = DataCheck(emit)

    def open(self, path: Path, purpose: files.Purpose, target: FileTarget) -> None:
        """Begin to read; `FileListed` or `Refused` follows."""
        self._tickets += 1
        ticket = self._tickets
        self._begin(ticket, path, lambda: self._read(ticket, path, purpose, target))

    def pick(self, ticket: int, tensors: tuple[str, ...], target: FileTarget) -> None:
        """Match a listed file anew with these tensors; `FileListed` follows."""
        file = replace(self._file(ticket), picked=tensors)
        event = listed(ticket, file, target)
        with self._lock:
            self._listed[ticket] = file
        self._emit(event)

    def say(self, ticket: int, reading: FileReading, target: FileTarget) -> None:
        """Begin to read the network of a listed file so; `FileListed` or `ReadingRefused` follows.
        What is said later counts."""
        file = self._file(ticket)
        with self._lock:
            self._said[ticket] = reading
        self._begin(ticket, file.path, lambda: self._read_as(ticket, reading, target))

    def listing(self, ticket: int) -> CheckpointContents:
        """All that a listed file holds, or what was picked of it."""
        return _chosen(self._file(ticket))

    def check(self, command: files.CheckNetwork, target: FileTarget) -> None:
        """Begin to read the data, unless they are those that are shown."""
        listing, data = self.listing(command.ticket), command.data
        known = target.facts if data == target.data else None
        self._check.begin(DataRequest(command.ticket, listing, data, target.net, known))

    def inspection_request(
        self, command: files.InspectFile, shown: ReadableNetwork
    ) -> InspectionRequest:
        """Return what shall be opened as a network, with its data where they have been read."""
        now = shown.asked if isinstance(shown, InspectedNetwork) else shown.config.data
        listing, data = self.listing(command.ticket), command.data or now
        path, examples = self._file(command.ticket).path, self._check.examples(data)
        return InspectionRequest(path, listing, shown.config, data, examples)

    def take_gates(self, command: files.TakeGates, shown: ReadableNetwork) -> None:
        gates = self.gates(command.ticket, file_target_of(shown))
        assert isinstance(shown, Run)  # nothing fits a network that is inspected
        shown.control.take_gates(
            gates, self.listing(command.ticket).file_name, command.restart_value
        )
        self.forget(command.ticket)

    def take_weights(self, command: files.TakeWeights, shown: ReadableNetwork) -> None:
        weights = self.weights(command.ticket, file_target_of(shown))
        assert isinstance(shown, Run)
        shown.control.take_weights(weights, self.listing(command.ticket).file_name)
        self.forget(command.ticket)

    def config_with_biases(self, command: files.BeginWithBiases, run: Run) -> RunConfig:
        """Return the configuration of a run like `run` is now, but with biases.

        Raises `UserError` where the file would not fit it.
        """
        target = replace(file_target_of(run), bias=True)
        if command.purpose == "weights":
            self.weights(command.ticket, target)
        else:
            self.gates(command.ticket, target)
            check_entry(run.trainer.network, run.trainer.regime, only_regime("for_copied_gates"))
        config, regime = run.config, run.trainer.regime
        (wiring, rotation, shift), (rate, beta, value_input) = run.control.wires, run.control.dials
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

    def compare(self, ticket: int, shown: ReadableNetwork, comparison: Comparison) -> None:
        comparison.compare(of_listing(self.listing(ticket)), shown)
        self.forget(ticket)

    def gates(self, ticket: int, target: FileTarget) -> LayerMatching:
        """The match for the feature network; raises `UserError` if it does not fit.

        Matched anew, because another run may have begun since the file was listed.
        """
        match = gates_of(self._file(ticket), target)
        if not match.fits:
            raise UserError(match.verdict, kind="no-fit")
        return match

    def weights(self, ticket: int, target: FileTarget) -> LayerMatching:
        """The match for the value network; raises `UserError` if it does not fit."""
        match, why = weights_of(self._file(ticket), target)
        if why:
            raise UserError(why, kind="no-fit")
        return match

    def forget(self, ticket: int) -> None:
        """Close a file, and let go the data that were read for it."""
        with self._lock:
            known = self._listed.pop(ticket, None)
            self._said.pop(ticket, None)
        if known is not None:
            self._emit(files.FileClosed(ticket))
        self._check.forget(ticket)

    def close(self) -> None:
        """Stop the readers and their child processes, and forget everything."""
        self._check.close()
        self._readers.close(PATIENCE)
        self._listed.clear()

    def _file(self, ticket: int) -> _File:
        with self._lock:
            found = self._listed.get(ticket)
        if found is None:
            words = "That file is no longer open; drop it again."
            raise UserError(words, kind="no-file", value=ticket)
        return found

    def _begin(self, ticket: int, path: Path, read: Callable[[], None]) -> None:
        name, failed = f"dgn-file-{ticket}", f"Opening {path.name} failed"
        self._readers.begin(name, read, f"open {path.name}", failed)

    def _read(self, ticket: int, path: Path, purpose: files.Purpose, target: FileTarget) -> None:
        # What loading it would do is shown on its page.
        file = _File(
            path, read_tensors(path, cancelled=self._readers.closing, warned=False), purpose
        )
        event = listed(ticket, file, target)
        with self._lock:
            self._listed[ticket] = file
        self._emit(event)
        self._offer_readings(ticket, file, target)

    def _read_as(self, ticket: int, reading: FileReading, target: FileTarget) -> None:
        file = self._file(ticket)
        file = replace(file, listing=replace(file.listing, reading=reading))
        contradiction = contradiction_in(_chosen(file))
        event = listed(ticket, file, target) if contradiction is None else None
        with self._lock:
            if self._said.get(ticket) is not reading:
                return  # something else was said meanwhile, or the file was closed
            if event is not None:
                self._listed[ticket] = file
        if contradiction is not None:
            self._emit(files.ReadingRefused(ticket, *contradiction))
        elif event is not None:
            self._emit(event)
            self._offer_readings(ticket, file, target)

    def _offer_readings(self, ticket: int, file: _File, target: FileTarget) -> None:
        """Say which readings fit the data; the listing has not waited for it."""
        listing, said = _chosen(file), file.listing.reading
        found = offered_readings(listing, target.data, target.facts, target.net, target.examples)
        with self._lock:
            known = self._listed.get(ticket)
        if found is None or known is None or known.listing.reading != said:
            return
        if listing.picked:  # as BatchNorm was folded into these
            found = tuple(replace(f, reading=_with_norms(f.reading, said)) for f in found)
        self._emit(files.ReadingsFound(ticket, said, found))


def listed(ticket: int, file: _File, target: FileTarget) -> files.FileListed:
    """What can be done with a file. Raises `UserError` where picked tensors make no sense."""
    listing, chosen, gates = file.listing, _chosen(file), gates_of(file, target)
    weights, why = weights_of(file, target)
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
            why or _copied(listing.file_name, weights),
            weights.rows,
            with_biases=lacks and weights.fits and _biased(weights),
        ),
        network=fit_of(chosen, target.data, target.facts)[0],
        purpose=file.purpose,
        picked=chosen.picked,
        with_biases=lacks and gates.fits and _biased(gates),
        would_call=listing.would_call,
        would_look_up=listing.would_look_up,
        would_import=listing.would_import,
        questions=questions_on(chosen),
        reading=listing.reading,
    )


def gates_of(file: _File, target: FileTarget) -> LayerMatching:
    """Match the picked tensors; else by the order of the file, else by the sizes of its tensors."""
    if not target.trains:
        verdict = "This network is inspected, not trained: begin a run, then copy gates into it."
        return LayerMatching((), False, verdict)
    return _matched(file, target.gates, "gates")


def weights_of(file: _File, target: FileTarget) -> tuple[LayerMatching, str]:
    """The match for the value network, and why it cannot be copied, in one sentence, or ''."""
    if not target.trains:
        verdict = "This network is inspected, not trained: begin a run, then copy weights into it."
        return LayerMatching((), False, verdict), verdict
    match = _matched(file, target.values, "values")
    name = file.listing.file_name
    if not match.fits:
        return match, match.verdict.replace("Gates of", "Weights of", 1)
    if _biased(match) and not target.bias:
        return match, (
            f"{name} has biases and the value network has none; begin a run with biases "
            "to take its weights. Nothing was changed."
        )
    return match, ""


def _matched(file: _File, architecture: Architecture, part: Part) -> LayerMatching:
    listing = _chosen(file)
    match = match_layers(listing, architecture, part)
    if match.fits or listing.picked or unsaid_of_weights(listing):
        return match
    names = by_size(file.listing, architecture)  # so that tensors in between are skipped
    if not all(names[:-1]):
        return match
    sized = match_layers(picked(file.listing, names), architecture)
    if not sized.fits:
        return match
    return replace(sized, verdict=f"{sized.verdict} The tensors were matched by their sizes.")


def _biased(match: LayerMatching) -> bool:
    return any(bias is not None for bias in match.biases)


def _copied(name: str, match: LayerMatching) -> str:
    whole = len(match.weights) == len(match.rows)
    words = f"Weights of {name} fit all {len(match.rows)} layers of the value network."
    if not whole:
        words = (
            f"Weights of {name} fit all layers of the value network but the last, "
            f"which is {match.rows[-1].remark}."
        )
    return f"{words} Its optimiser state is forgotten."


def _with_norms(reading: FileReading, said: FileReading) -> FileReading:
    return replace(reading, batchnorm=said.batchnorm, norm_eps=said.norm_eps)


def _chosen(file: _File) -> CheckpointContents:
    """All that a file holds, or what was picked of it; BatchNorm is folded in for that, which waits
    until it is known how."""
    if not file.picked or unsaid_of_weights(file.listing):
        return file.listing
    reading = replace(file.listing.reading, batchnorm="", norm_eps=None)  # of none that is left
    return replace(picked(file.listing, file.picked), reading=reading)
