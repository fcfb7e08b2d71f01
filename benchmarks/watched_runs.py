"""Run the same training headless or in the real window, in blocks of so many seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PySide6.QtCore import QEvent, QEventLoop, QPointF, Qt, QTimer
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication

from dgn_engine.config import RunConfig
from dgn_engine.data import ignore_progress
from dgn_engine.protocol.frames import Frame, Watching
from dgn_engine.protocol.training import Pause, Resume
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.training.run import Run
from dgn_viewer.application import Options, Viewer

SETTLE = 1.0  # seconds after Run in which the panels redraw
LEARN = 12.0  # seconds before the first block, in which the window learns its drawing costs
PATIENCE = 120.0  # seconds until every panel is live
FROZEN = 5.0  # seconds
MOUSE_MS = 16  # between two moves over the charts


@dataclass(frozen=True)
class Block:
    """One block of training: steps per second, processor seconds per step of this process, the
    GUI thread's share of a core, and the cost ledger at the end."""

    rate: float
    processor: float = 0.0
    window: float = 0.0
    watching: Watching | None = None


class Headless:
    """Trains in this thread as `dgn train` does; `probes` are read at each step."""

    def __init__(self, config: RunConfig, probes: tuple[str, ...] = ()) -> None:
        self._run = Run(1, config, lambda _event: None, ignore_progress, live=False)
        self._run.probe_schedule.watch(tuple(ProbeRequest(name) for name in probes))
        self._probes = probes

    def run_block(self, seconds: float) -> Block:
        """Train for so many seconds."""
        run = self._run
        before, began, busy = run.step_count, time.perf_counter(), time.process_time()
        while time.perf_counter() - began < seconds:
            run.step()
            if self._probes:
                run.probe_schedule.read_probes(
                    self._probes, run.probed.probe_context(), run.step_count
                )
        steps = run.step_count - before
        wall = time.perf_counter() - began
        return Block(steps / wall, (time.process_time() - busy) / steps)


class InWindow:
    """The same run in the window with default panels, recording and drawing. Call `close`."""

    def __init__(self, config: RunConfig, data_root: str, folder: Path, process: bool) -> None:
        self._options = Options(
            config,
            data_root,
            size=(1440, 900),
            settings=folder / "settings.ini",
            runs_root=str(folder / "runs"),
            process=process,
        )
        self.viewer = Viewer(self._options)
        self._seen: list[tuple[float, float, Frame]] = []
        self.viewer.pump.frame_arrived.connect(self._record_frame)
        self.viewer.start()
        self._wait_until(self._all_panels_live)
        self.wait(LEARN)
        self.pause()

    def run_block(self, seconds: float, meanwhile: Callable[[], None] | None = None) -> Block:
        """Train for so many seconds; call `meanwhile` at the rate of mouse moves."""
        self.resume()
        self._seen.clear()
        busy, began = time.thread_time(), time.perf_counter()
        mouse = QTimer()
        if meanwhile is not None:
            mouse.timeout.connect(meanwhile)
            mouse.start(MOUSE_MS)
        self.wait(seconds)
        self._wait_until(lambda: len(self._seen) > 1)  # frames come when there is time for them
        mouse.stop()
        window = (time.thread_time() - busy) / (time.perf_counter() - began)
        (start, before, first), (end, after, last) = self._seen[0], self._seen[-1]
        self.pause()
        steps = last.step - first.step
        return Block(steps / (end - start), (after - before) / steps, window, last.watching)

    def run_frozen(self, answers: bool = False) -> Block:
        """Train while the window is frozen, or, with `answers`, responsive, for `FROZEN` seconds.

        The rate is that of the last two seconds as the engine counts it, the same for both.
        """
        self.resume()
        if answers:
            self.wait(FROZEN)
        else:
            time.sleep(FROZEN)
            self._seen.clear()
            self.viewer.pump.tick()
        rate = self._seen[-1][2].steps_per_second
        self.pause()
        return Block(rate)

    def make_scrubber(self) -> Callable[[], None]:
        """Return a function that moves the mouse over the charts of one panel after another."""
        hosts = [
            self.viewer.window.docks.hosts[name]
            for name in self.viewer.window.docks.visible_panels()
        ]
        canvases = [host.charts.view.chart_viewport() for host in hosts]
        count = 0

        def move() -> None:
            nonlocal count
            count += 1
            canvas = canvases[count // 60 % len(canvases)]
            place = QPointF(canvas.width() * (count % 60) / 60, canvas.height() / 2)
            kind, none = QEvent.Type.MouseMove, Qt.MouseButton.NoButton
            there = canvas.mapToGlobal(place)
            event = QMouseEvent(kind, place, there, none, none, Qt.KeyboardModifier.NoModifier)
            QApplication.sendEvent(canvas, event)

        return move

    def wait(self, seconds: float) -> None:
        """Run the event loop for so many seconds."""
        loop = QEventLoop()
        QTimer.singleShot(round(1000 * seconds), loop.quit)
        loop.exec()

    def resume(self) -> None:
        self.viewer.pump.send(Resume())
        self._wait_until(lambda: self.viewer.window.run_state.is_running)
        self.wait(SETTLE)

    def pause(self) -> None:
        self.viewer.pump.send(Pause())
        self._wait_until(lambda: not self.viewer.window.run_state.is_running)
        self.wait(0.5)

    def close(self) -> None:
        self.viewer.close()

    def _record_frame(self, frame: Frame) -> None:
        self._seen.append((time.perf_counter(), time.process_time(), frame))

    def _all_panels_live(self) -> bool:
        docks = self.viewer.window.docks
        states = [docks.hosts[name].panel_state() for name in docks.visible_panels()]
        return bool(states) and all(state == "live" for state in states)

    def _wait_until(self, reached: Callable[[], bool]) -> None:
        limit = time.monotonic() + PATIENCE
        while not reached():
            if time.monotonic() > limit:
                raise RuntimeError("the window did not reach the expected state in time")
            self.wait(0.05)


def write_mnist_like_images(root: Path) -> str:
    """Write 60,000 + 10,000 random 28×28 images of 10 classes in MNIST's file format."""
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    generator = np.random.default_rng(0)
    prototypes = generator.uniform(0, 255, (10, 28, 28)) * (generator.random((10, 28, 28)) < 0.2)
    for kind, count in (("train", 60_000), ("t10k", 10_000)):
        labels = generator.integers(0, 10, count, dtype=np.uint8)
        noise = generator.integers(0, 128, (count, 28, 28), dtype=np.uint8)
        images = (0.5 * prototypes[labels] + noise).astype(np.uint8)
        for name, array, magic in (("images-idx3", images, 2051), ("labels-idx1", labels, 2049)):
            header = np.array([magic, *array.shape], dtype=">u4").tobytes()
            (raw / f"{kind}-{name}-ubyte").write_bytes(header + array.tobytes())
    return str(root)
