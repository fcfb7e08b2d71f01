"""A and B of any two: now, a step, a checkpoint, another run at a step, a branch; in the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from dgn_engine.cli import main
from dgn_engine.config import RunConfig
from dgn_engine.data import load_examples
from dgn_engine.protocol.branches import CloseComparison, CompareRun
from dgn_engine.protocol.training import Advance, StartRun
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.scene.elements import Empty, Scene
from dgn_engine.session.comparison import network_at
from dgn_engine.session.engine import Engine
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_viewer.application import Viewer
from dgn_viewer.window import Window
from tests.viewer.conftest import small_run

Gates = list[npt.NDArray[np.bool_]]
PROBES = tuple(ProbeRequest(name) for name in ("gates", "overlap", "npk", "ntk"))


def record(root: Path, config: RunConfig, stops: tuple[int, ...]) -> Path:
    """A run whose frames are of these steps at least."""
    engine = Engine(lambda _: None, lambda _: None, runs_root=str(root))
    engine.handle_command(Watch(PROBES))
    engine.handle_command(StartRun(config, paused=True))
    before = 0
    for stop in stops:
        engine.handle_command(Advance(stop - before))
        while engine.running:
            engine.advance()
        for _ in range(6):  # while it stands still, all that is watched is read and recorded
            engine.advance()
        before = stop
    engine.close()
    [folder] = root.iterdir()
    return folder


def recorded(folder: Path, step: int) -> Gates:
    frame = RecordedSteps(folder).frame_at(step)
    assert frame is not None
    assert frame.step == step
    arrays = frame.readings["gates"].arrays
    return [np.asarray(arrays[f"layer_{layer}"]) >= 0.5 for layer in range(3)]


def network_gates(folder: Path, step: int | None, x: torch.Tensor) -> Gates:
    """Of the network of a checkpoint, by torch alone."""
    found = network_at(RunReader(folder), (1, 8, 8), step)
    return [gate.numpy() >= 0.5 for gate in found.network.trace(x).value.gates]


@dataclass(frozen=True)
class Pairs:
    """The window with a run that stands still, and what it is compared with."""

    window: Window
    folder: Path
    other: Path
    parent: Path
    branch: Path
    x: torch.Tensor
    qtbot: QtBot

    def show_a(self, kind: str) -> Gates:
        """A is now, or a recorded step of this run."""
        cursor, now = self.window.time.cursor, self.window.run_state.step
        if kind == "now":
            cursor.go_live()
            return recorded(self.folder, now)
        step = RecordedSteps(self.folder).steps[0]
        cursor.go_to(step)
        self.qtbot.waitUntil(lambda: cursor.step == step and not cursor.is_waiting)
        return recorded(self.folder, step)

    def show_b(self, kind: str) -> tuple[str, Gates]:
        """What B is called, and its gates."""
        steps = RecordedSteps(self.folder).steps
        command, name, gates = {
            "step": lambda: (
                CompareRun(str(self.folder), steps[1]),
                f"this run at step {steps[1]:,}",
                recorded(self.folder, steps[1]),
            ),
            "checkpoint": lambda: (
                CompareRun(str(self.parent), 8),
                "at step 8",
                network_gates(self.parent, 8, self.x),
            ),
            "recorded run at a step": lambda: (
                CompareRun(str(self.other), 10),
                "at step 10",
                recorded(self.other, 10),
            ),
            "recorded run": lambda: (
                CompareRun(str(self.other)),
                "",
                network_gates(self.other, None, self.x),
            ),
            "branch": lambda: (
                CompareRun(str(self.branch)),
                "FR-II from step",
                network_gates(self.branch, None, self.x),
            ),
        }[kind]()
        self.window.context.send(command)
        return name, gates

    def shown(self, name: str) -> Scene | None:
        """The panel 'A and B', once it is of this B."""
        host = self.window.docks.hosts["agreement"]
        self.window.display.draw_now()
        compared, scene = host.drawn.view.compared, host.shown_content()
        if compared is None or name not in compared.name or not isinstance(scene, Scene):
            return None
        return scene

    def differ(self, name: str, slow: npt.NDArray[np.bool_]) -> bool:
        """Whether the map is of this B and differs just there."""
        scene = self.shown(name)
        matrix = scene.charts[-1].matrix if scene is not None else None
        return matrix is not None and np.array_equal(np.abs(matrix.values), slow)


@pytest.fixture
def pairs(make_viewer: Callable[..., Viewer], qtbot: QtBot, tmp_path: Path) -> Pairs:
    other = record(tmp_path / "other", small_run("FR-II"), (10, 25))
    viewer = make_viewer(small_run(), home="a", paused=True)
    window = viewer.window
    qtbot.waitUntil(lambda: bool(window.time.cursor.folder))
    folder = Path(window.time.cursor.folder)
    for step in (12, 24, 36):
        window.context.send(Advance(12))
        qtbot.waitUntil(lambda step=step: window.run_state.step == step)
        qtbot.waitUntil(lambda step=step: step in RecordedSteps(folder).steps)
    branch = tmp_path / "branch"
    source = record(tmp_path / "parent", small_run("ReLU"), (8,))
    arguments = ["--branch-from", str(source), "--at-step", "8", "--regime", "FR-II"]
    assert main(["train", *arguments, "--steps", "20", "--out", str(branch), "--quiet"]) == 0
    started = window.run_state.run
    assert started is not None
    rows = list(started.probe_set.indices)
    x = torch.from_numpy(load_examples(started.config.data).train_x[rows]).reshape(-1, 64)
    return Pairs(window, folder, other, source, branch, x, qtbot)


@pytest.mark.nightly
def test_all_pairs_show_where_their_gates_differ(pairs: Pairs) -> None:
    window, qtbot = pairs.window, pairs.qtbot
    agreement = window.docks.hosts["agreement"]
    kinds = ("step", "checkpoint", "recorded run at a step", "recorded run", "branch")
    for b, a in product(kinds, ("now", "step j")):
        name, theirs = pairs.show_b(b)
        ours = pairs.show_a(a)
        for layer in range(3):
            qtbot.waitUntil(lambda: "agreement" in window.docks.visible_panels())
            agreement.set_choice("layer", str(layer))
            slow = ours[layer] ^ theirs[layer]

            qtbot.waitUntil(partial(pairs.differ, name, slow))
            scene = pairs.shown(name)
            assert scene is not None
            equal = scene.charts[0].curves[0].y
            np.testing.assert_allclose(equal[layer], 100 * (1 - slow.mean()))


def test_steps_of_other_examples_are_refused_in_a_sentence(
    make_viewer: Callable[..., Viewer], qtbot: QtBot, tmp_path: Path
) -> None:
    other = record(tmp_path / "other", replace(small_run(), seed=3), (10, 20))
    window = make_viewer(small_run(), home="a", paused=True).window
    window.context.send(CompareRun(str(other), 10))
    hosts = window.docks.hosts
    qtbot.waitUntil(lambda: window.run_state.comparison is not None)
    window.docks.show_panel("agreement")

    def refused() -> bool:
        shown = hosts["agreement"].shown_content()
        return isinstance(shown, Empty) and shown.kind == "absent"

    qtbot.waitUntil(refused)
    why = hosts["agreement"].shown_content()
    assert isinstance(why, Empty)
    window.docks.show_panel("overlap")
    qtbot.waitUntil(lambda: "at step 10: " in hosts["overlap"].footer_text())
    assert hosts["overlap"].footer_text().endswith(why.reason)
    assert window.time.compared_bar.isVisible()
    sliders = [bar.slider for bar in (window.time.bar, window.time.compared_bar)]
    qtbot.waitUntil(lambda: len({(s.mapTo(window, QPoint()).x(), s.width()) for s in sliders}) == 1)
    window.context.send(CloseComparison())
    qtbot.waitUntil(lambda: not window.time.compared_bar.isVisible())
