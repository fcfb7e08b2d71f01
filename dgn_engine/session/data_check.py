"""Other data for a listed file: read in a thread while training goes on, then judged."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.data import Examples, load_examples
from dgn_engine.data._preprocessing import as_stored
from dgn_engine.errors import UserError
from dgn_engine.protocol.files import CheckProgress, FileUseCheck, NetworkChecked, ReadingsFound
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.session.file_readings import LabelledExamples, offered_readings
from dgn_engine.session.network_fit import DataFacts, fit_of
from dgn_engine.storage.checkpoints.contents import CheckpointContents


class DataCheck:
    """At most one set of data is held; of several requests the newest counts, the others end."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._lock = threading.Lock()
        self._newest = 0
        self._held: tuple[DataConfig, Examples] | None = None
        self._threads: list[threading.Thread] = []

    def begin(
        self,
        ticket: int,
        listing: CheckpointContents,
        data: DataConfig,
        net: NetConfig,
        known: DataFacts | None,
    ) -> None:
        """Begin to read `data`, unless what they give is `known`; `NetworkChecked` follows."""
        with self._lock:
            self._newest += 1
            number = self._newest
        thread = threading.Thread(
            target=self._guarded,
            args=(number, ticket, listing, data, net, known),
            name="dgn-data-check",
            daemon=True,
        )
        self._threads = [*(one for one in self._threads if one.is_alive()), thread]
        thread.start()

    def examples(self, data: DataConfig) -> Examples | None:
        """What was read of these data, as they are stored; None where that is not held."""
        with self._lock:
            held = self._held
        return held[1] if held is not None and held[0] == as_stored(data) else None

    def forget(self) -> None:
        """Let go what is held, and end what is being read."""
        with self._lock:
            self._newest += 1
            self._held = None

    def close(self) -> None:
        self.forget()
        for thread in self._threads:
            thread.join(timeout=5.0)

    def _guarded(
        self,
        number: int,
        ticket: int,
        listing: CheckpointContents,
        data: DataConfig,
        net: NetConfig,
        known: DataFacts | None,
    ) -> None:
        def report(what: str, fraction: float | None) -> None:
            self._tell(number, CheckProgress(ticket, what, fraction))

        try:
            facts = known or DataFacts.of(self._loaded(number, data, report))
            check, fitted = fit_of(listing, data, facts)
            checked = NetworkChecked(ticket, data, check, fitted)
            self._tell(number, checked)
            if known is None:  # of those that are known, they come with the listing
                self._offer(number, ticket, listing, data, facts, net)
            return
        except _Superseded:
            return
        except UserError as refusal:
            refused = FileUseCheck(False, str(refusal))
            checked = NetworkChecked(ticket, data, refused, data)
        except Exception as error:  # a reader's fault must not end silently
            what = f"Reading {data.name} failed: {error}."
            checked = NetworkChecked(ticket, data, FileUseCheck(False, what), data)
            self._emit(Failed(what, traceback.format_exc()))
        try:
            self._tell(number, checked)
        except _Superseded:
            return

    def _offer(
        self,
        number: int,
        ticket: int,
        listing: CheckpointContents,
        data: DataConfig,
        facts: DataFacts,
        net: NetConfig,
    ) -> None:
        """Say which readings of the file fit these data, where it leaves something open."""
        if (found := self.examples(data)) is None:
            return
        examples = LabelledExamples.of(found)
        readings = offered_readings(listing, data, facts, net, examples)
        if readings is not None:
            self._tell(number, ReadingsFound(ticket, listing.reading, readings, data))

    def _loaded(
        self, number: int, data: DataConfig, report: Callable[[str, float | None], None]
    ) -> Examples:
        found = self.examples(data)
        if found is None:
            stored = as_stored(data)
            report(f"reading {data.name.partition(':')[0]}", None)
            found = load_examples(stored, report)
            with self._lock:
                if number == self._newest:
                    self._held = (stored, found)
        return found

    def _tell(self, number: int, event: Event) -> None:
        """Raises `_Superseded` where a newer request was made, or nobody waits any more."""
        with self._lock:
            if number != self._newest:
                raise _Superseded
            self._emit(event)


class _Superseded(Exception):  # noqa: N818 - no error: what was asked for is not wanted any more
    pass
