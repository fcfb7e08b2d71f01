"""The playground: start it, restart it with each edit, keep it, copy and open its link."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.messages import Event, Failed, Refused
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import KeepRun
from dgn_engine.protocol.training import RunStarted, StartRun
from dgn_engine.views.event_notices import Notice
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.playground import (
    LAYOUT,
    NET,
    Playground,
    parse_link,
    playground_of,
    settings_left_out,
)
from dgn_viewer.shell.window_context import WindowContext


class PlaygroundControl(QObject):
    """Restarts a small network on points of the plane with each edit; its runs are not recorded.

    While an edit is being carried out, later ones wait and only the last of them is started.
    """

    changed = Signal()

    def __init__(self, context: WindowContext, docks: PanelDocks) -> None:
        super().__init__(context.window)
        self._context, self._docks = context, docks
        self._asked: Playground | None = None  # its run has not started yet
        self._next: Playground | None = None  # the last edit since
        docks.arrangement.arranged.connect(self.changed)

    # What is shown

    @property
    def shown(self) -> Playground | None:
        """The playground as edited, or None if another kind of run is shown."""
        return self._next or self._asked or self._running()

    @property
    def is_open(self) -> bool:
        """True if its bar is shown: in the Teach layout, or with a run that is not recorded."""
        now = self._context.run_state()
        in_layout = self._docks.arrangement.is_showing_preset(LAYOUT)
        return self._running() is not None and (in_layout or now.unrecorded)

    @property
    def is_unrecorded(self) -> bool:
        return self._context.run_state().unrecorded

    def _running(self) -> Playground | None:
        config = self._current_config()
        return None if config is None else playground_of(config)

    def _current_config(self) -> RunConfig | None:
        """Return the configuration of the run as it is now, if it is a playground."""
        now = self._context.run_state()
        config, run = now.current_config(), now.run
        if config is None or run is None or not now.has_run:
            return None
        if config.net.name != NET or config.data.name not in self._data_names():
            return None
        if now.regime == run.regime:  # FL begins with ReLU, to pre-train its gates
            gating = replace(config.gating, regime=run.config.gating.regime)
            config = replace(config, gating=gating)
        return config

    def _data_names(self) -> tuple[str, ...]:
        catalogue = self._context.run_state().catalogue
        data = catalogue.data if catalogue is not None else ()
        return tuple(entry.id for entry in data if entry.plane)

    # Starting and editing

    def start(self, config: RunConfig) -> None:
        """Start a playground in the Teach layout."""
        self._docks.arrangement.arrange_preset(LAYOUT)
        self._asked = self._next = None
        self._context.send(StartRun(config, recorded=False))

    def start_on(self, data: str) -> None:
        self.start(Playground(data).run_config())

    def edit(self, **changes: Any) -> None:
        """Restart the network with these changes, from the same seed; a paused one stays paused."""
        before = self.shown
        if before is None:
            return
        edited = replace(before, **changes)
        if edited == before:
            return
        if self._asked is not None:
            self._next = edited
        else:
            self._send_edit(edited)
        self.changed.emit()

    def draw_seed(self) -> None:
        """Restart with the next seed: other initial weights and another order of the points."""
        if (shown := self.shown) is not None:
            self.edit(seed=shown.seed + 1)

    def _send_edit(self, edited: Playground) -> None:
        self._asked = edited
        now = self._context.run_state()
        config = edited.run_config()
        if now.settings is not None:
            pace = replace(config.training, pace=now.settings.pace)
            config = replace(config, training=pace)
        self._context.send(StartRun(config, paused=not now.is_running, recorded=False))

    def on_event(self, event: Event, _state: RunState) -> None:
        """Send the edit that waits, once the run before it has started."""
        if isinstance(event, RunStarted | Refused | Failed):
            waiting, self._asked, self._next = self._next, None, None
            if waiting is not None and isinstance(event, RunStarted):
                self._send_edit(waiting)
        self.changed.emit()

    # Keeping and sharing

    def keep(self) -> None:
        """Record the run from its first step on."""
        self._context.send(KeepRun())

    def copy_link(self) -> None:
        """Copy a link that starts the same network elsewhere."""
        config = self._current_config()
        if config is None:
            self._context.notify_refusal(
                "Only a fully connected network on points of the plane has a link; for this run, "
                "choose File ▸ Save ▸ Save session…"
            )
            return
        if left_out := settings_left_out(config):
            self._context.notify_refusal(
                f"A link cannot carry {', '.join(left_out)}: choose File ▸ Save ▸ Save session… "
                "instead."
            )
            return
        link = playground_of(config).link
        QGuiApplication.clipboard().setText(link)
        self._context.notify(Notice("info", f"Copied {link}", listed=False))

    def paste_link(self) -> None:
        """Open the playground whose link is on the clipboard."""
        self.open_link(QGuiApplication.clipboard().text())

    def open_link(self, text: str) -> None:
        try:
            playground = parse_link(text, self._data_names())
        except UserError as refusal:
            self._context.notify_refusal(str(refusal), refusal.kind)
            return
        self.start(playground.run_config())
