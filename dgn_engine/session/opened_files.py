"""Checkpoints that the user opened: read in a child process while training goes on."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.importing.match_layers import LayerMatching, match_layers
from dgn_engine.model.importing.pick_tensors import by_size, picked
from dgn_engine.protocol import events
from dgn_engine.protocol.commands import Purpose
from dgn_engine.session.network_fit import DataFacts, fit_of
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents


@dataclass(frozen=True)
class FileTarget:
    """What a file could become part of: the run that goes on, or the network that is shown.

    `gates`: architecture of the feature network, `values`: of the value network (wider, where
    gates are tiled); `bias`: whether the value network has biases; `trains`: whether it is a run;
    `data` and what they give (`facts`): a file is judged by them where no others are chosen.
    """

    gates: Architecture
    values: Architecture
    bias: bool
    trains: bool
    data: DataConfig
    facts: DataFacts
    net: NetConfig


@dataclass(frozen=True)
class _File:
    """An open file; `picked`: the tensors that the user picked, one for each layer."""

    path: Path
    listing: CheckpointContents
    purpose: Purpose = ""
    picked: tuple[str, ...] = ()


class OpenedFiles:
    """Files by ticket; each is read in a thread of its own that waits for the child process."""

    def __init__(self, emit: Callable[[events.Event], None]) -> None:
        self._emit = emit
        self._lock = threading.Lock()
        self._tickets = 0
        self._listed: dict[int, _File] = {}
        self._readers: list[threading.Thread] = []
        self._closing = threading.Event()

    def open(self, path: Path, purpose: Purpose, target: FileTarget) -> None:
        """Begin to read; `FileListed` or `Refused` follows."""
        self._tickets += 1
        reader = threading.Thread(
            target=self._read,
            args=(self._tickets, path, purpose, target),
            name=f"dgn-file-{self._tickets}",
            daemon=True,
        )
        self._readers = [*(r for r in self._readers if r.is_alive()), reader]
        reader.start()

    def pick(self, ticket: int, tensors: tuple[str, ...], target: FileTarget) -> None:
        """Match a listed file anew with these tensors; `FileListed` follows."""
        file = replace(self._file(ticket), picked=tensors)
        event = listed(ticket, file, target)
        with self._lock:
            self._listed[ticket] = file
        self._emit(event)

    def listing(self, ticket: int) -> CheckpointContents:
        """All that a listed file holds, or what was picked of it."""
        file = self._file(ticket)
        return picked(file.listing, file.picked) if file.picked else file.listing

    def path(self, ticket: int) -> Path:
        return self._file(ticket).path

    def gates(self, ticket: int, target: FileTarget) -> LayerMatching:
        """The match for the feature network; raises `UserError` if it does not fit.

        Matched anew, because another run may have begun since the file was listed.
        """
        match = gates_of(self._file(ticket), target)
        if not match.fits:
            raise UserError(match.verdict)
        return match

    def weights(self, ticket: int, target: FileTarget) -> LayerMatching:
        """The match for the value network; raises `UserError` if it does not fit."""
        match, why = weights_of(self._file(ticket), target)
        if why:
            raise UserError(why)
        return match

    def forget(self, ticket: int) -> None:
        with self._lock:
            known = self._listed.pop(ticket, None)
        if known is not None:
            self._emit(events.FileClosed(ticket))

    def close(self) -> None:
        """Stop the readers and their child processes, and forget everything."""
        self._closing.set()
        for reader in self._readers:
            reader.join(timeout=5.0)
        self._listed.clear()

    def _file(self, ticket: int) -> _File:
        with self._lock:
            found = self._listed.get(ticket)
        if found is None:
            raise UserError("That file is no longer open; drop it again.")
        return found

    def _read(self, ticket: int, path: Path, purpose: Purpose, target: FileTarget) -> None:
        try:
            file = _File(path, read_tensors(path, cancelled=self._closing), purpose)
            event = listed(ticket, file, target)
        except UserError as refusal:
            if not self._closing.is_set():
                self._emit(events.Refused(f"open {path.name}", str(refusal)))
            return
        except Exception as error:  # a reader's fault must not end silently
            self._emit(
                events.Failed(f"Opening {path.name} failed: {error}.", traceback.format_exc())
            )
            return
        with self._lock:
            self._listed[ticket] = file
        self._emit(event)


def listed(ticket: int, file: _File, target: FileTarget) -> events.FileListed:
    """What can be done with a file. Raises `UserError` where picked tensors make no sense."""
    listing, gates = file.listing, gates_of(file, target)
    weights, why = weights_of(file, target)
    lacks = not target.bias and target.trains
    return events.FileListed(
        ticket=ticket,
        path=str(file.path),
        file_name=listing.file_name,
        tensors=tuple(
            events.TensorInfo(name, array.shape, listing.dtypes[name])
            for name, array in listing.arrays.items()
        ),
        matches=gates.rows,
        fits=gates.fits,
        verdict=gates.verdict,
        ignored=listing.ignored,
        weights=events.FileUseCheck(
            not why,
            why or _copied(listing.file_name, weights),
            weights.rows,
            with_biases=lacks and weights.fits and _biased(weights),
        ),
        network=_alone(file, target),
        purpose=file.purpose,
        picked=bool(file.picked),
        with_biases=lacks and gates.fits and _biased(gates),
        would_call=listing.would_call,
        would_import=listing.would_import,
    )


def gates_of(file: _File, target: FileTarget) -> LayerMatching:
    """Match the picked tensors; else by the order of the file, else by the sizes of its tensors."""
    if not target.trains:
        verdict = "This network is inspected, not trained: begin a run, then copy gates into it."
        return LayerMatching((), False, verdict)
    if file.picked:
        return match_layers(picked(file.listing, file.picked), target.gates)
    match = match_layers(file.listing, target.gates)
    return match if match.fits else _by_size(file, target.gates, match)


def weights_of(file: _File, target: FileTarget) -> tuple[LayerMatching, str]:
    """The match for the value network, and why it cannot be copied, in one sentence, or ''."""
    if not target.trains:
        verdict = "This network is inspected, not trained: begin a run, then copy weights into it."
        return LayerMatching((), False, verdict), verdict
    if file.picked:
        match = match_layers(picked(file.listing, file.picked), target.values, "values")
    else:
        match = match_layers(file.listing, target.values, "values")
        match = match if match.fits else _by_size(file, target.values, match)
    name = file.listing.file_name
    if not match.fits:
        return match, match.verdict.replace("Gates of", "Weights of", 1)
    if _biased(match) and not target.bias:
        return match, (
            f"{name} has biases and the value network has none; begin a run with biases "
            "to take its weights. Nothing was changed."
        )
    return match, ""


def _by_size(file: _File, architecture: Architecture, otherwise: LayerMatching) -> LayerMatching:
    """Match by size, so that tensors in between are skipped; `otherwise` where that fails."""
    names = by_size(file.listing, architecture)
    if not all(names[:-1]):
        return otherwise
    match = match_layers(picked(file.listing, names), architecture)
    if not match.fits:
        return otherwise
    return replace(match, verdict=f"{match.verdict} The tensors were matched by their sizes.")


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


def _alone(file: _File, target: FileTarget) -> events.FileUseCheck:
    listing = picked(file.listing, file.picked) if file.picked else file.listing
    return fit_of(listing, target.data, target.facts, target.net)[0]
