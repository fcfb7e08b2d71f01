"""The six steps of the tour: gates, overlap, swap, permutation, undo, dropped checkpoint."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from dgn_engine.protocol.files import OpenFile, SaveWeights, WeightsSaved
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Rewire, SwapRegime, Undo
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.shell.recent_files import TOUR
from dgn_viewer.shell.tour import TourStep
from dgn_viewer.shell.window_context import WindowContext


class TourActs(QObject):
    """Actions of 'Show me', using the same commands as the user."""

    def __init__(
        self,
        context: WindowContext,
        docks: PanelDocks,
        strip: QWidget,
        regime: QWidget,
        leave_page: Callable[[], None],
    ) -> None:
        super().__init__(context.window)
        self._context = context
        self._docks = docks
        self._strip = strip
        self._regime = regime
        self._leave_page = leave_page
        self._before: tuple[str, dict[str, str]] | None = None  # panel and its options
        self._changes = 0  # our changes that can be undone
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._waiting = Path()  # file of weights that is being written

    def build_steps(self) -> tuple[TourStep, ...]:
        return (
            TourStep(
                "Gates",
                "Each row is an image, each column a unit; colour bar: 1 is open, 0 closed. Rows "
                "of one class become similar during training. 'Show me' enlarges the next layer.",
                lambda: self._find_panel("gate_maps"),
                lambda: self._choose_next("gate_maps", "layer"),
                self._restore_choices,
            ),
            TourStep(
                "Overlap",
                "A bright entry means that two images open the same paths, so the network sees "
                "them as similar. Diagonal blocks are classes. 'Show me' changes the colour scale.",
                lambda: self._find_panel("overlap"),
                lambda: self._choose_next("overlap", "scale"),
                self._restore_choices,
            ),
            TourStep(
                "Swap to FR-II",
                "Choose FR-II here: the feature network is reinitialised and frozen, its gates are "
                "noise, and the value network must learn through them. Watch the accuracy drop.",
                lambda: self._regime,
                self._swap_to_noise,
            ),
            TourStep(
                "Drag G2",
                "Drag the chip G2 onto layer 3 to exchange the gates of two layers. The weights "
                "were trained with other gates, so the accuracy drops, then recovers.",
                lambda: self._strip,
                self._exchange_layers,
            ),
            TourStep(
                "Undo",
                "Ctrl+Z restores regime, gate order, weights and optimiser; the step counter keeps "
                "running. 'Show me' undoes the changes of this tour, or else the last change.",
                lambda: self._strip,
                self._undo_changes,
            ),
            TourStep(
                "Drop a checkpoint",
                "Drop a weights file anywhere on this window to use its gates, its weights or the "
                "whole network. 'Show me' opens the weights of this run.",
                lambda: self._find_panel("training"),
                self._open_weights,
                self._discard_weights,
            ),
        )

    def on_event(self, event: Event, _state: RunState) -> None:
        if isinstance(event, WeightsSaved) and Path(event.path) == self._waiting:
            self._waiting = Path()
            self._context.send(OpenFile(event.path))

    def close(self) -> None:
        """Delete the temporary weights of the last step."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _find_panel(self, name: str) -> QWidget | None:
        return self._docks.hosts[name] if self._docks.arrangement.is_open(name) else None

    def _choose_next(self, panel: str, option_id: str) -> None:
        host = self._docks.hosts[panel]
        option = next((choice for choice in host.spec.options if choice.id == option_id), None)
        choices = option.values(self._context.view()) if option is not None else ()
        values = [value for value, _ in choices]
        if len(values) > 1:
            chosen = dict(host.drawn.choices)
            self._before = (panel, chosen)
            index = values.index(chosen[option_id]) if chosen.get(option_id) in values else 0
            host.set_choice(option_id, values[(index + 1) % len(values)])

    def _restore_choices(self) -> None:
        if self._before is not None:
            panel, choices = self._before
            self._before = None
            host = self._docks.hosts[panel]
            for option, value in choices.items():
                if host.drawn.choices.get(option) != value:
                    host.set_choice(option, value)

    def _swap_to_noise(self) -> None:
        now = self._context.run_state()
        entries = now.catalogue.regimes if now.catalogue is not None else ()
        noise = next((entry.id for entry in entries if entry.frozen_noise), "")
        if noise:
            self._changes += now.regime != noise
            self._context.send(SwapRegime(noise))

    def _exchange_layers(self) -> None:
        order = list(self._context.run_state().wiring)
        if len(order) > 2:
            order[1], order[2] = order[2], order[1]
            self._changes += 1
            self._context.send(Rewire(tuple(order)))

    def _undo_changes(self) -> None:
        for _ in range(max(self._changes, 1)):
            self._context.send(Undo())
        self._changes = 0

    def _open_weights(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix=TOUR)
        self._waiting = Path(self._folder.name) / "weights of this run.safetensors"
        self._context.send(SaveWeights(str(self._waiting)))

    def _discard_weights(self) -> None:
        if self._folder is not None:
            self._leave_page()
            self.close()
