"""The tour of the papers: what each of the five claims, on live runs of a minute each."""

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
from dgn_engine.text.written_numbers import percent
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.shell.tour import TourStep
from dgn_viewer.shell.window_context import WindowContext


def tour_run() -> RunConfig:
    """Digits, four gate layers of 64 units, in the usual regime: trained until stopped."""
    return RunConfig(
        data=DataConfig(name="digits"),
        net=NetConfig(name="fc", options=(("depth", 5), ("width", 64))),
        training=TrainingConfig(learning_rate=1e-3, batch=32, epochs=0),
    )


@dataclass
class _CardRun:
    """A run that a card has begun, or its part after a swap: no other gives it an accuracy.

    `config`: that was sent; `after`: the number of the run before it. `run`: its number, 0 until it
    has begun. `regime`: that it has to be in; '' for the one it begins in. `reached`: the newest
    test accuracy; `over`: another run, regime or order of the gates is there instead.
    """

    name: str
    config: RunConfig
    after: int = 0
    run: int = 0
    regime: str = ""
    reached: Measurement | None = None
    over: bool = False

    def is_shown(self, view: View) -> bool:
        """Whether the run on show is this one, as the card left it."""
        run = view.run
        if run is None:
            return False
        if not self.run and run.run > self.after and run.config == self.config:
            self.run = run.run
        as_left = (self.regime or run.regime, run.wiring)
        return run.run == self.run and (view.regime, view.wiring) == as_left

    def follow(self, view: View) -> None:
        """Take the newest test accuracy, where it is of this run."""
        if view.cursor is not None:  # a step from before is shown
            return
        shown = self.is_shown(view)
        began = self.reached is not None or (bool(self.run) and not self.regime)
        if not shown or self.over:
            self.over = self.over or began
            return
        series = view.series.get(_ACCURACY)
        if series is None or series.run != run_key(view.run) or "test_accuracy" in view.outdated:
            return
        if series.values.size:
            value, step = float(series.values[-1]), int(series.steps[-1])
            self.reached = Measurement(value, series.run, step, _ACCURACY)

    def in_words(self) -> str:
        """'random gates (FR-II): 93.0% so far'."""
        if self.reached is None:
            return f"{self.name}: not measured{'' if self.over else ' yet'}"
        return f"{self.name}: {percent(self.reached.value)}{'' if self.over else ' so far'}"


_ACCURACY = (TRAINING, "test_accuracy")


class ClaimActs(QObject):
    """What 'Do it for me' does on this tour, and what has been measured so far."""

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
        self._runs: list[_CardRun] = []  # of this tour; the last may still train

    def steps(self) -> tuple[TourStep, ...]:
        """All of them; what an earlier tour has measured is forgotten."""
        self._runs = []
        steps = (
            TourStep(
                "Gates learn",
                "From 'Neural Path Features and Neural Path Kernel' [NPF], Figure 2: while a "
                "network trains, its gates come to tell the classes apart. ν, which says how hard "
                "the labels are for the neural path kernel, falls. 'Do it for me' begins a run of "
                "64 units in DL, where gates and values learn together; the run before is kept "
                "among the recorded ones.",
                lambda: self._panel("spectrum"),
                lambda: self._begin("learnt gates (DL)", tour_run()),
            ),
            TourStep(
                "Learnt gates are enough",
                "[NPF], Table 2, column FLNPF. Wait until the accuracy hardly rises. Then 'Do it "
                "for me' keeps the gates, freezes them, and draws the values anew: the accuracy "
                "falls to chance and comes back. What was learnt lay in the gates.",
                lambda: self._panel("training"),
                self._keep_gates,
            ),
            TourStep(
                "Random gates are not",
                "[NPF], Table 2, columns FRNPF. 'Do it for me' begins a run whose gates are those "
                "of a random network and stay so. The values alone learn, and end below learnt "
                "gates.",
                lambda: self._panel("training"),
                lambda: self._begin_in("random gates (FR-II)", lambda entry: entry.frozen_noise),
            ),
            TourStep(
                "Gates alone learn",
                "From 'Deep Gated Networks' [DGN], on gates that adapt. 'Do it for me' begins a "
                "run whose values stay as they were drawn; only the gates are trained. The network "
                "learns all the same, by choosing paths.",
                lambda: self._panel("gate_maps"),
                lambda: self._begin_in("gates alone", lambda entry: entry.gates_alone),
            ),
            TourStep(
                "The order of the gates does not matter",
                "From 'Disentangling deep neural networks … using duality' [DUAL]: each gate layer "
                "says which inputs it sees alike, and the kernel is the product over layers. 'Do "
                "it for me' begins a run in DL in which the gate layers are used in reverse: it "
                "ends about as well as in order.",
                lambda: self._strip,
                lambda: self._begin("gates in reverse", _reversed()),
            ),
            TourStep(
                "The value network need not see the image",
                "[DUAL] 'Do it for me' begins a run whose value network is given ones, the same "
                "for every image. All that it knows of an image comes through the gates, and it "
                "learns about as well as before.",
                lambda: self._panel("overlap"),
                lambda: self._begin("ones instead of images", _blind()),
            ),
            TourStep(
                "Networks with branches add kernels",
                "From 'Deep Learning Is Composite Kernel Learning' [COMP], Lemma 4.2: in a "
                "residual network paths take or skip each of b blocks, and its neural path kernel "
                "is a sum over 2ᵇ sub-networks. 'Do it for me' opens the experiment that measures "
                "it. Press Start there: it takes a minute beside this window.",
                self._opened_page,
                lambda: self._open_experiment("composite-resnet-kernel"),
            ),
            TourStep(
                "Where gates come from",
                "From the workshop version of [NPF], [WS], Table 4: gates learnt on random labels "
                "are worse than random gates, and gates learnt on true labels are better than "
                "both. 'Do it for me' opens the experiment; Start begins it. Every table and "
                "figure of the papers is in the menu Experiments, with a verdict on each claim.",
                self._opened_page,
                lambda: self._open_experiment("workshop-table4"),
            ),
        )
        return tuple(replace(step, seen=self._seen) for step in steps)

    def _panel(self, name: str) -> QWidget | None:
        return self._docks.hosts[name] if self._docks.arrangement.is_open(name) else None

    def _opened_page(self) -> QWidget | None:
        """The page of the experiment, once it is there."""
        return self._page if self._page.isVisible() else None

    def _begin(self, name: str, config: RunConfig) -> None:
        view = self._leave_last()
        before = 0 if view.run is None else view.run.run
        self._runs.append(_CardRun(name, config, after=before))
        self._context.send(StartRun(config))

    def _begin_in(self, name: str, wanted: Callable[[RegimeEntry], bool]) -> None:
        """Begin a run in the first regime of this kind."""
        for entry in [one for one in self._context.view().regimes if wanted(one)][:1]:
            self._begin(name, replace(tour_run(), gating=GatingConfig(regime=entry.id)))

    def _keep_gates(self) -> None:
        for entry in [one for one in self._context.view().regimes if one.for_copied_gates]:
            last = self._runs[-1] if self._runs else None
            ours = last is not None and last.is_shown(self._context.view())
            self._leave_last()
            if last is not None and ours:  # gates that another run learnt are not those of the card
                name = f"learnt gates, new values ({entry.id})"
                self._runs.append(_CardRun(name, last.config, run=last.run, regime=entry.id))
            self._context.send(SwapRegime(entry.id))

    def _leave_last(self) -> View:
        """What the last run has reached is what it reached."""
        view = self._context.view()
        for one in self._runs[-1:]:
            one.follow(view)
            one.over = True
        return view

    def _seen(self) -> str:
        """A line for each run: 'learnt gates (DL): 97.1%', 'random gates (FR-II): 93.0% so far'."""
        for one in self._runs[-1:]:
            one.follow(self._context.view())
        parts = [one.in_words() for one in self._runs]
        return "\n".join(("Test accuracy, one run of each", *parts)) if parts else ""


def _reversed() -> RunConfig:
    return replace(tour_run(), gating=GatingConfig(wiring=(3, 2, 1, 0)))


def _blind() -> RunConfig:
    return replace(tour_run(), gating=GatingConfig(value_input="ones"))
