"""The tour of the papers: the five papers' claims, shown on live runs of a minute each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.catalogue import RegimeEntry
from dgn_engine.protocol.runs import TRAINING
from dgn_engine.protocol.training import StartRun, SwapRegime
from dgn_engine.scene.differences import Measurement
from dgn_engine.scene.panel_spec import View, run_key
from dgn_engine.text.written_numbers import format_percent
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.shell.tour import TourStep
from dgn_viewer.shell.window_context import WindowContext


def tour_run() -> RunConfig:
    """Return a run on digits, four gate layers of 64 units, DL, trained until stopped."""
    return RunConfig(
        data=DataConfig(name="digits"),
        net=NetConfig(name="fc", options=(("depth", 5), ("width", 64))),
        training=TrainingConfig(learning_rate=1e-3, batch=32, epochs=0),
    )


@dataclass
class _CardRun:
    """A run started by a card, or its part after a swap; only its own accuracy counts.

    `config`: configuration sent; `after`: number of the previous run. `run`: its number, 0 until it
    has started. `regime`: the regime it must be in; '' for its initial one. `reached`: the newest
    test accuracy. `over`: another run, regime or gate order has replaced it.
    """

    name: str
    config: RunConfig
    after: int = 0
    run: int = 0
    regime: str = ""
    reached: Measurement | None = None
    over: bool = False

    def is_shown(self, view: View) -> bool:
        """Return whether this run is on show, as the card left it."""
        run = view.run
        if run is None:
            return False
        if not self.run and run.run > self.after and run.config == self.config:
            self.run = run.run
        expected = (self.regime or run.regime, run.wiring)
        return run.run == self.run and (view.regime, view.wiring) == expected

    def update_accuracy(self, view: View) -> None:
        """Update the test accuracy, if it belongs to this run."""
        if view.cursor is not None:  # a past step is shown
            return
        shown = self.is_shown(view)
        has_started = self.reached is not None or (bool(self.run) and not self.regime)
        if not shown or self.over:
            self.over = self.over or has_started
            return
        series = view.series.get(_ACCURACY)
        if series is None or series.run != run_key(view.run) or "test_accuracy" in view.outdated:
            return
        if series.values.size:
            value, step = float(series.values[-1]), int(series.steps[-1])
            self.reached = Measurement(value, series.run, step, _ACCURACY)

    def accuracy_text(self) -> str:
        """Return a text such as 'random gates (FR-II): 93.0% so far'."""
        if self.reached is None:
            return f"{self.name}: not measured{'' if self.over else ' yet'}"
        return f"{self.name}: {format_percent(self.reached.value)}{'' if self.over else ' so far'}"


_ACCURACY = (TRAINING, "test_accuracy")


class ClaimActs(QObject):
    """Actions of 'Show me' on this tour, and the accuracies measured so far."""

    def __init__(
        self,
        context: WindowContext,
        docks: PanelDocks,
        strip: QWidget,
        open_experiment: Callable[[str], None],
        page: QWidget,
    ) -> None:
        super().__init__(context.window)
        self._context = context
        self._docks, self._strip = docks, strip
        self._open_experiment, self._page = open_experiment, page
        self._runs: list[_CardRun] = []  # runs of this tour; the last may still be training

    def build_steps(self) -> tuple[TourStep, ...]:
        """Return the steps; accuracies of an earlier tour are dropped."""
        self._runs = []
        steps = (
            TourStep(
                "Gates learn",
                "From 'Neural Path Features and Neural Path Kernel' [NPF], Figure 2: during "
                "training, the gates learn to separate the classes. ν, which measures how hard the "
                "labels are for the neural path kernel, falls. 'Show me' starts a run of 64 units "
                "in DL, where gates and values learn together. If your current run is recorded, it "
                "stays in Recorded runs.",
                lambda: self._find_panel("spectrum"),
                lambda: self._start_run("learnt gates (DL)", tour_run()),
            ),
            TourStep(
                "Learnt gates are enough",
                "[NPF], Table 2, column FLNPF. Wait until the accuracy levels off. 'Show me' then "
                "freezes the gates and reinitialises the values: the accuracy drops to chance and "
                "recovers. What was learnt is in the gates.",
                lambda: self._find_panel("training"),
                self._keep_gates,
            ),
            TourStep(
                "Random gates are not enough",
                "[NPF], Table 2, columns FRNPF. 'Show me' starts a run whose gates come from a "
                "random network and stay fixed. Only the values learn, and the "
                "accuracy stays below that of learnt gates.",
                lambda: self._find_panel("training"),
                lambda: self._start_run_in(
                    "random gates (FR-II)", lambda entry: entry.frozen_noise
                ),
            ),
            TourStep(
                "Gates alone learn",
                "From 'Deep Gated Networks' [DGN], on adaptable gates. 'Show me' starts a run with "
                "fixed random values; only the gates are trained. The network still learns, by "
                "selecting paths.",
                lambda: self._find_panel("gate_maps"),
                lambda: self._start_run_in("gates alone", lambda entry: entry.gates_alone),
            ),
            TourStep(
                "The order of the gates does not matter",
                "From 'Disentangling deep neural networks … using duality' [DUAL]: each gate layer "
                "determines which inputs look alike, and the kernel is the product over layers: "
                "exactly in dense networks like this one, roughly in convolutional ones. "
                "'Show me' starts a run in DL with the gate layers in reverse order: it reaches "
                "about the same accuracy.",
                lambda: self._strip,
                lambda: self._start_run("gates in reverse", _reversed_gates_run()),
            ),
            TourStep(
                "The value network need not see the image",
                "[DUAL]. 'Show me' starts a run whose value network gets all ones as input, for "
                "every image. It sees the image only through the gates, and still learns about "
                "as well.",
                lambda: self._find_panel("overlap"),
                lambda: self._start_run("ones instead of images", _constant_input_run()),
            ),
            TourStep(
                "Networks with branches add kernels",
                "From 'Deep Learning Is Composite Kernel Learning' [COMP], Lemma 4.2: in a "
                "residual network a path takes or skips each of b blocks, so its neural path "
                "kernel is a sum over 2ᵇ sub-networks. 'Show me' opens the experiment that "
                "measures this. Press Start there: it takes a minute in the background.",
                self._opened_page,
                lambda: self._open_experiment("composite-resnet-kernel"),
            ),
            TourStep(
                "Where gates come from",
                "From the workshop version of [NPF], [WS], Table 4: gates learnt on random labels "
                "are worse than random gates; gates learnt on true labels are better than both. "
                "'Show me' opens the experiment; Start runs it. The Experiments menu has every "
                "table and figure of the papers, with a verdict on each claim.",
                self._opened_page,
                lambda: self._open_experiment("workshop-table4"),
            ),
        )
        return tuple(replace(step, seen=self._measured_so_far) for step in steps)

    def _find_panel(self, name: str) -> QWidget | None:
        return self._docks.hosts[name] if self._docks.arrangement.is_open(name) else None

    def _opened_page(self) -> QWidget | None:
        """Return the page of the experiment, once it is open."""
        return self._page if self._page.isVisible() else None

    def _start_run(self, name: str, config: RunConfig) -> None:
        view = self._finish_last_run()
        before = 0 if view.run is None else view.run.run
        self._runs.append(_CardRun(name, config, after=before))
        self._context.send(StartRun(config))

    def _start_run_in(self, name: str, wanted: Callable[[RegimeEntry], bool]) -> None:
        """Start a run in the first regime of this kind."""
        for entry in [choice for choice in self._context.view().regimes if wanted(choice)][:1]:
            self._start_run(name, replace(tour_run(), gating=GatingConfig(regime=entry.id)))

    def _keep_gates(self) -> None:
        for entry in [choice for choice in self._context.view().regimes if choice.for_copied_gates]:
            last = self._runs[-1] if self._runs else None
            is_own = last is not None and last.is_shown(self._context.view())
            self._finish_last_run()
            if last is not None and is_own:  # only gates learnt by the card's own run count
                name = f"learnt gates, new values ({entry.id})"
                self._runs.append(_CardRun(name, last.config, run=last.run, regime=entry.id))
            self._context.send(SwapRegime(entry.id))

    def _finish_last_run(self) -> View:
        """Record the final accuracy of the last run."""
        view = self._context.view()
        for card_run in self._runs[-1:]:
            card_run.update_accuracy(view)
            card_run.over = True
        return view

    def _measured_so_far(self) -> str:
        """Return one line per run, such as 'random gates (FR-II): 93.0% so far'."""
        for card_run in self._runs[-1:]:
            card_run.update_accuracy(self._context.view())
        parts = [card_run.accuracy_text() for card_run in self._runs]
        return "\n".join(("Test accuracy (one run each)", *parts)) if parts else ""


def _reversed_gates_run() -> RunConfig:
    return replace(tour_run(), gating=GatingConfig(wiring=(3, 2, 1, 0)))


def _constant_input_run() -> RunConfig:
    return replace(tour_run(), gating=GatingConfig(value_input="ones"))
