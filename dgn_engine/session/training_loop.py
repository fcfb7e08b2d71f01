"""Step the run in progress, stop it when due, publish and record it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import DataSizes, known_sizes
from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.messages import Failed
from dgn_engine.protocol.training import EstimateRun, Finished, Paused, RunEstimated, Running
from dgn_engine.protocol.watching import ReportWindow, SetWatchShare
from dgn_engine.session.frame_publisher import FramePublisher, StepRate
from dgn_engine.session.session_state import SessionState
from dgn_engine.text.written_numbers import format_number
from dgn_engine.training.devices import check_precision, choose_device
from dgn_engine.training.memory_needed import NUMBER, RunUse, check_memory, memory_needed
from dgn_engine.training.readings.watch_budget import DRAWING, SHARE, SHARED
from dgn_engine.training.run import Run
from dgn_engine.training.step_cost import seconds_a_step

MOMENT = 0.5  # seconds that the probes may take for the last frame of a run
PATIENCE = 4.0  # seconds to wait for the folder of a run to be finished


class TrainingLoop:
    """Steps the run of a session, at the user's pace and with the user's share for watching."""

    def __init__(
        self, state: SessionState, moment: float = MOMENT, patience: float = PATIENCE
    ) -> None:
        self._state = state
        self._moment, self._patience = moment, patience
        self._publisher = FramePublisher(state.publish, state.comparison)
        self._stop_at: int | None = None
        self._share = SHARE

    def attach_run(self, run: Run, paused: bool) -> None:
        """Step this run from now on."""
        run.budget.share = self._share
        self._stop_at, self._state.running = None, not paused
        self._publisher.rate = StepRate()

    def resume_steps(self, run: Run, steps: int | None) -> None:
        """Train for this many steps; None: until it is finished or paused."""
        self._state.way_back.check_not_diverged(run)
        if run.is_finished:
            run.total_steps = 0  # more than planned: continue until stopped
        self._stop_at = None if steps is None else run.step_count + max(1, steps)
        self._state.running = True
        self._publisher.rate = StepRate()
        self._state.emit(Running(run.step_count))

    def pause_run(self, run: Run) -> None:
        self._state.running = False
        self._stop_at = None
        run.wait_for_scores()
        self._state.emit(Paused(run.step_count))

    def take_steps(self, run: Run, until: float, is_idle: Callable[[], bool]) -> None:
        """Take one step, or a part of a test pass, and further steps while `is_idle` before
        `until`."""
        if not run.step_count:
            self._publish_and_record(run, running=False)  # before the first step
        pace, began = run.control.pace, time.perf_counter()
        most = None if self._stop_at is None else self._stop_at - run.step_count
        steps = run.advance_until(until, is_idle, 1 if pace else most)
        if steps:
            self._publisher.rate.record_steps(steps, pace, time.perf_counter() - began)
        if run.diverged:
            self._state.running = False
        elif run.is_finished:
            self._state.running = False
            self._state.emit(Finished(run.step_count))
        elif run.evaluation.has_pending_test:
            return  # the step is complete once its scores are
        elif self._stop_at is not None and run.step_count >= self._stop_at:
            self.pause_run(run)

    def read_due(self, run: Run, heard: bool) -> None:
        """Read, publish and record what is due; `heard`: a reading that was computed elsewhere has
        arrived."""
        state = self._state
        self._publish_and_record(run, state.running, heard)
        began = run.budget.busy()
        if state.comparison.read_next():
            run.budget.charge("readings", run.budget.busy() - began)
        if state.recording is not None:
            state.recording.tick()
        run.budget.update_account(state.running, run.control.pace > 0.0)
        if state.running and not run.control.pace:
            run.budget.overhead.begin_if_due()

    def _publish_and_record(self, run: Run, running: bool, heard: bool = False) -> None:
        """Read, publish and record what is due.

        While the run is paused everything is recorded, so that a reopened run shows what was last
        seen.
        """
        frame = self._publisher.publish_due(run, running, heard)
        if run.diverged:  # a reading may be the first to detect it
            self._state.running = False
        if frame is not None and self._state.recording is not None:
            needed = not running and not run.probe_schedule.is_refining
            self._state.recording.on_frame(frame, needed)

    def record_last_step(self) -> None:
        """Record the last step of a running run, with the readings that are quick enough."""
        run, recording = self._state.run, self._state.recording
        if run is None or not self._state.running or recording is None:
            return
        try:
            if run.probe_schedule.total_seconds < self._moment:
                self._publish_and_record(run, running=False)
        except Exception as error:  # the run ends nevertheless
            failure = Failed.from_exception("The last frame failed", error)
            self._state.emit_unrecorded(failure)

    def end_recording(self, sound: bool = True) -> None:
        """Finish the folder of the run; `sound`: it is between two steps."""
        if sound:
            self.record_last_step()
        recording, self._state.recording = self._state.recording, None
        if recording is not None:
            recording.close(sound, self._patience)

    def make_frame(self) -> Frame | None:
        """Return the frame of what is shown; None for a recorded run, or nothing."""
        state = self._state
        if state.run is not None:
            return self._publisher.make_frame(state.run, state.running)
        if state.inspected is not None:
            return state.inspected.make_frame(state.comparison.readings, state.comparison.number)
        return None

    def next_step_in(self) -> float | None:
        """Return the seconds until the next step at the run's pace; None while nothing runs."""
        if self._state.inspected is not None and self._state.inspected.is_scoring:
            return 0.0
        trains = self._state.run is not None and self._state.running
        return self._publisher.rate.seconds_to_wait() if trains else None

    def seconds_a_step(self) -> float | None:
        """Return the time of a step without a pace; None if unknown."""
        run, rate = self._state.run, self._publisher.rate
        if run is None:
            return None
        if run.device.type == "cpu":
            return rate.seconds_a_step()
        # Steps on a GPU are asynchronous: only the rate at full speed gives their time.
        return 1.0 / rate.per_second() if rate.per_second() and not run.control.pace else None

    def emit_estimate(self, command: EstimateRun) -> None:
        state = self._state
        seconds = self.seconds_a_step() if state.running else None
        event = estimate_run(command.config, state.run, bool(state.runs_root), seconds)
        state.emit_unrecorded(event)

    def set_share(self, command: SetWatchShare) -> None:
        """Set the share for watching, for this and all later runs; raises `UserError` if out of
        bounds."""
        share = command.share
        if not 0.0 < share <= 1.0:
            words = f"The share is {format_number(share)}; it must be above 0 and at most 1."
            raise UserError(words, kind="out-of-bounds", value=share)
        self._share = share
        if self._state.run is not None:
            self._state.run.budget.share = share

    def charge_window(self, command: ReportWindow) -> None:
        """Charge the window's time; one in another process never holds the interpreter lock."""
        run, apart = self._state.run, command.process != os.getpid()
        if run is None:
            return
        delay, name = (1.0, "window's process") if apart else (SHARED, "window")
        run.budget.charge(DRAWING, command.drawing, own=False, delay=delay)
        run.budget.charge(name, command.other, own=False, delay=delay)
        run.budget.charge("relay", command.relay, own=False)


def estimate_run(
    config: RunConfig, run: Run | None, recorded: bool, seconds: float | None
) -> RunEstimated:
    """Estimate the cost of a run, without allocating it or reading further data.

    Args:
        config: The run.
        run: The current run, whose memory would be freed; None if there is none.
        recorded: Whether checkpoints would be written.
        seconds: The time of a step of `run`; None if unknown.

    Returns:
        The estimate: zeros if its data are unknown, the refusal if it cannot be run.
    """
    try:
        sizes = _sizes_of(config.data, run)
        if sizes is None:
            return RunEstimated(config=config)
        device = choose_device(config.device)
        check_precision(config.training.precision, device)
        architecture = architecture_for(config.net, sizes.shape, sizes.classes)
        use = RunUse(live=True, recorded=recorded, card=device.type == "cuda")
        needed = memory_needed(config, architecture, sizes, use)
        at_hand = run is not None and run.shares_data(config.data)
        reclaimed = 0 if run is None else run.memory.reclaimed_at_end
        loaded = needed.data if at_hand else 0
        check_memory(config, architecture, sizes, device, use, loaded, reclaimed)
    except UserError as refusal:
        return RunEstimated(refusal=refusal.sentence, config=config)
    measured = seconds is not None and run is not None and config.is_same_run(run.config)
    if not measured:
        seconds = (
            seconds_a_step(config, architecture, sizes.train) if device.type == "cpu" else None
        )
    return RunEstimated(needed.weights // NUMBER, needed.total, seconds, measured, config=config)


def _sizes_of(data: DataConfig, run: Run | None) -> DataSizes | None:
    """Return the sizes of the current run if its data are alike, or those that follow from the
    options; None if data would have to be read."""
    if run is not None and data.without_variant() == run.config.data.without_variant():
        return DataSizes(*run.examples, run.probed.image_shape, run.architecture.classes)
    return known_sizes(data, balanced=True)
