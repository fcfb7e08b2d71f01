"""A branch that trains alongside the current run, by `dgn train --branch-from` in a low-priority
process. What it writes to its folder is compared with the run as it arrives."""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from dgn_engine.confinement.child_process import (
    DEVNULL,
    PIPE,
    ChildProcess,
    module_command,
)
from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import ImportedNetwork
from dgn_engine.protocol.branches import (
    BranchStatus,
    CheckpointsListed,
    ComparedMoved,
    HoldCheckpoint,
    ListCheckpoints,
    StartBranch,
)
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Measured
from dgn_engine.regimes import find_regime
from dgn_engine.session.comparison import RecordedSource, network_at
from dgn_engine.session.frozen_network import probe_inputs_of
from dgn_engine.session.session_state import SessionState
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.recorded_log import LogTail
from dgn_engine.storage.runs.recorder import WriteMarker
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.text.written_numbers import format_decimals, format_rate
from dgn_engine.training.branch import branch_name
from dgn_engine.training.recording import Recording
from dgn_engine.training.replay import FOR_BRANCH
from dgn_engine.training.run import Run

LOOK_EVERY = 1.0  # seconds between two checks of the branch's folder
SHARED_OVER = 10  # checks over which its processor use is averaged
SAVE_EVERY = "2"  # seconds between two of its checkpoints, by which its panels lag
LOWER = 5  # added to our own niceness
LEAVE = 8.0  # seconds that it has to save its run
_SAVED = (0, 128 + 2, 128 + 10, 128 + 15)  # exit codes after it has saved its run


class BranchChild(ChildProcess):
    """The process that trains a branch. It saves its run and exits when its stdin is closed."""

    def __init__(self, arguments: list[str]) -> None:
        """Start the process; raises `OSError` if that fails."""
        super().__init__(
            [*module_command("dgn_engine.cli._attached"), *arguments],
            stdin=PIPE,
            stdout=DEVNULL,
            keep_errors=True,
            own_group=False,  # it saves its run on Ctrl+C, as we do
            lower_by=LOWER,
        )

    @property
    def processor_seconds(self) -> float | None:
        """Processor seconds so far; None if the system does not report them for other processes."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text("ascii", "replace")
            user, system = fields.rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return None

    def set_pace(self, pace: float) -> None:
        """Limit it to this many steps per second from now on; 0: no limit."""
        with contextlib.suppress(OSError, ValueError):  # it has ended, or its stdin is closed
            self.stdin.write(b"%r\n" % pace)
            self.stdin.flush()


@dataclass(frozen=True)
class _News:
    """The news in the branch's folder; `code` is the exit code once the process has ended."""

    step: int = 0
    scores: tuple[Measured, ...] = ()
    state: RunState | None = None
    network: ImportedNetwork | None = None
    saved: bool = False  # it has a checkpoint, so it can be compared
    cores: float | None = None  # kept busy recently
    code: int | None = None


class _Follower:
    """Polls the folder of a branch in its own thread."""

    def __init__(
        self, child: BranchChild, folder: Path, shape: tuple[int, ...], look_every: float
    ) -> None:
        self.news: queue.SimpleQueue[_News] = queue.SimpleQueue()
        self._look_every = look_every
        self._child, self._folder, self._shape = child, folder, shape
        self._tail = LogTail(folder / folder_layout.LOG)
        self._state = RunState()
        self._seen = ""
        self._over = threading.Event()
        self._busy: deque[tuple[float, float]] = deque(maxlen=SHARED_OVER + 1)
        self._thread = threading.Thread(target=self._follow_folder, name="dgn-branch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def _follow_folder(self) -> None:
        while not self._over.wait(self._look_every):
            code = self._child.exit_code
            self.news.put(replace(self._read_folder(), code=code))
            if code is not None:
                return

    def _read_folder(self) -> _News:
        events = self._tail.read_new_events()
        for event in events:
            self._state = self._state.after(event)
        scores = tuple(event for event in events if isinstance(event, Measured))
        step = max((getattr(event, "step", 0) for event in events), default=0)
        news = _News(step=step, scores=scores, cores=self._busy_cores())
        try:
            reader = RunReader(self._folder)
            if self._state.run is None and reader.start_event is not None:
                self._state = RunState().after(reader.start_event)
                for event in events:
                    self._state = self._state.after(event)
            newest = reader.find_checkpoint()
        except UserError:  # not there yet, or a checkpoint was just replaced
            return news
        news = replace(news, saved=True, state=self._state)
        if newest.path.name != self._seen:
            with contextlib.suppress(UserError, OSError):
                network = network_at(reader, self._shape, newest.step)
                news = replace(news, network=network, step=max(step, newest.step))
                self._seen = newest.path.name
        return news

    def _busy_cores(self) -> float | None:
        busy = self._child.processor_seconds
        if busy is None:
            return None
        self._busy.append((busy, time.monotonic()))
        return cores_of(self._busy)


def cores_of(looks: Sequence[tuple[float, float]]) -> float | None:
    """Return the cores kept busy between the first and the last (processor seconds so far, time).

    A low-priority process may get nothing in one second and a whole core in the next.
    """
    if len(looks) < 2:
        return None
    (before, began), (after, now) = looks[0], looks[-1]
    return (after - before) / max(now - began, 1e-3)


class Branches:
    """Trains at most one branch. Commands raise `UserError`; everything else is reported by
    events."""

    def __init__(
        self,
        state: SessionState,
        child: Callable[[list[str]], BranchChild] = BranchChild,
        look_every: float = LOOK_EVERY,
        save_every: str = SAVE_EVERY,
        leave: float = LEAVE,
    ) -> None:
        self._state = state
        self._look_every, self._save_every, self._leave = look_every, save_every, leave
        self._emit, self._comparison = state.emit, state.comparison
        self._start_child = child
        self._status: BranchStatus | None = None
        self._waiting: tuple[WriteMarker | None, list[str], tuple[int, ...]] | None = None
        self._child: BranchChild | None = None
        self._follower: _Follower | None = None
        self._parent = 0  # the number of its parent run
        self._threads = 1
        self._pace: float | None = None  # of the branch; None: full speed
        self._held = _HeldCheckpoints()

    def list_checkpoints(
        self, command: ListCheckpoints | HoldCheckpoint, seconds_a_step: float | None
    ) -> None:
        """List where the run, or the recorded one that is shown, can be branched;
        `seconds_a_step` is None if not measured."""
        state = self._state
        shown, recording = state.library.shown, state.recording
        folder = None if recording is None else recording.path
        if shown is None:
            number = state.run_for(command).number
        else:
            number, folder = state.number, shown.folder
        listed = _checkpoints_listed(number, folder)
        self._emit(replace(listed, seconds_a_step=seconds_a_step or 0.0))

    def hold_checkpoint(self, command: HoldCheckpoint, seconds_a_step: float | None) -> None:
        """Keep the checkpoint from which a branch at this step would start, for the form."""
        self._held.hold_nearest("form", command.step, self._state.recording)
        if command.step is not None:
            self.list_checkpoints(command, seconds_a_step)

    def start_branch(self, command: StartBranch, run: Run) -> None:
        """Save the present state, or take an existing checkpoint, and start a branch there."""
        recording = self._state.recording
        if self._status is not None and self._status.is_training:
            reason = "A branch is already training: stop it before you start another."
            raise UserError(reason, kind="in-use")
        if recording is None or recording.pause_reason:
            reason = "This run is not recorded; only a recorded run can be branched."
            if self._state.unwritten is not None:
                reason = "This run is not recorded yet: keep it first, then branch it."
            raise UserError(reason, kind="not-recorded")
        changes = command.changes
        regime = find_regime(changes.regime).name if changes.regime else run.trainer.regime.name
        step = None if command.step == run.step_count else command.step
        if step is None:
            if run.diverged:
                reason = "The run has diverged: branch from an earlier checkpoint."
                raise UserError(reason, kind="diverged")
            step = run.step_count
            recording.write_checkpoint(f"{FOR_BRANCH} {regime}")
            marker = recording.mark_checkpoint()
            asked_at: tuple[str, ...] = str(step), "--after-changes"
        else:
            if not 0 <= step < run.step_count:
                reason = f"The run has steps 0 to {run.step_count:,}; {step:,} is not one of them."
                raise UserError(reason, kind="out-of-bounds", value=step)
            self._held.hold_nearest("branch", step, recording)
            marker = recording.flush()  # the branch reads the run's log
            asked_at = (str(step),)
        until = () if run.total_steps > step else ("--steps", "0")
        asked = ["train", "--branch-from", str(recording.path), "--at-step", *asked_at]
        asked += [*changes.command_options(), *until]
        folder = folder_layout.unused_path(
            Path(self._state.runs_root), branch_name(run.config, regime, step)
        )
        arguments = [
            *asked,
            "--out",
            str(folder),
            "--quiet",
            "--checkpoint-every",
            self._save_every,
        ]
        shape = tuple(probe_inputs_of(run).shape)
        self._close_child()
        self._threads = torch.get_num_threads()
        self._parent = run.number
        self._pace = None if command.full_speed else run.control.pace
        self._waiting = marker, arguments, shape
        shortened = [recording.path.name if word == str(recording.path) else word for word in asked]
        self._set_status(
            BranchStatus(
                phase="starting",
                name=folder.name,
                folder=str(folder),
                parent=recording.path.name,
                from_step=step,
                changes=changes,
                step=step,
                sharing=describe_sharing(self._threads, None, self._pace or 0.0),
                command=shlex.join(["dgn", *shortened]),
            )
        )

    def stop_branch(self) -> None:
        if self._status is None or not self._status.is_training:
            raise UserError("No branch is training.", kind="no-branch")
        if self._child is None:
            self._waiting = None
            self._set_status(replace(self._status, phase="stopped", remark="It had not started."))
        else:
            self._set_status(replace(self._status, phase="stopped"))
            self._child.close_input()

    def poll_branch(self, run: Run | None) -> None:
        """Start a waiting branch, and process what is new in its folder; called between two
        steps."""
        if self._waiting is not None:
            self._start_when_ready()
        parent = run if run is not None and run.number == self._parent else None
        if (
            parent is not None
            and self._child is not None
            and self._pace not in (None, parent.control.pace)
        ):
            self._pace = parent.control.pace
            self._child.set_pace(parent.control.pace)
        if self._follower is not None:
            while self._follower is not None and not self._follower.news.empty():
                self._apply_news(self._follower.news.get(), parent)
        compared = self._status is not None and self._is_compared
        if compared and (scalars := self._comparison.take_scalars()):
            self._emit(ComparedMoved(scalars[-1].step, scalars))

    def release_checkpoints(self) -> None:
        """Release all checkpoints: the run is no longer recorded, and its memory is freed."""
        self._held = _HeldCheckpoints()

    def close(self) -> None:
        """End the process, which saves its run."""
        self._waiting = None
        if self._child is not None:
            self._child.close_input()
        self._close_child()

    @property
    def _is_compared(self) -> bool:
        assert self._status is not None
        return self._comparison.source == RecordedSource(Path(self._status.folder))

    def _start_when_ready(self) -> None:
        assert self._waiting is not None
        assert self._status is not None
        marker, arguments, shape = self._waiting
        if marker is not None and not marker.done.is_set():
            return
        self._waiting = None
        if marker is not None and marker.lines < 0:
            reason = "the disk cannot store the checkpoint that it starts from."
            self._set_status(replace(self._status, phase="failed", remark=reason))
            return
        try:
            self._child = self._start_child(arguments)
        except OSError as error:
            reason = f"its process could not be started ({error.strerror or error})."
            self._set_status(replace(self._status, phase="failed", remark=reason))
            return
        if self._pace:
            self._child.set_pace(self._pace)
        folder = Path(self._status.folder)
        self._follower = _Follower(self._child, folder, shape, self._look_every)

    def _apply_news(self, news: _News, parent: Run | None) -> None:
        assert self._status is not None
        assert self._child is not None
        status = replace(self._status, step=max(self._status.step, news.step))
        if news.cores is not None:
            words = describe_sharing(self._threads, news.cores, self._pace or 0.0)
            status = replace(status, sharing=words)
        if news.saved and status.phase == "starting":
            status = replace(status, phase="training")
            if parent is not None:
                status = self._open_comparison(status, parent)
        elif self._is_compared:
            self._update_comparison(news)
        if news.code is not None:
            status = self._end_status(status, news.code)
            self._close_child()
        if status != self._status:
            self._set_status(status)

    def _open_comparison(self, status: BranchStatus, run: Run) -> BranchStatus:
        """Compare with the branch; if that is impossible, it still trains, and the reason is
        reported."""
        try:
            self._comparison.open_source(RecordedSource(Path(status.folder)), probe_inputs_of(run))
        except UserError as refusal:
            status = replace(status, remark=f"It is not compared: {refusal}")
        run.probe_schedule.invalidate_comparing()
        return status

    def _update_comparison(self, news: _News) -> None:
        if news.network is not None:
            with contextlib.suppress(UserError):
                self._comparison.update_network(news.network)
        state = news.state
        if state is not None and (news.scores or news.network is not None):
            step = news.network.step if news.network is not None else news.step
            config = state.current_config()
            self._emit(ComparedMoved(step, news.scores, state.regime, state.wiring, config))

    def _end_status(self, status: BranchStatus, code: int) -> BranchStatus:
        assert self._child is not None
        if status.phase == "stopped":
            return status
        if code == 0:
            return replace(status, phase="finished")
        words = self._child.last_error_line().removeprefix("dgn train: ")
        if code in _SAVED:
            return replace(status, phase="stopped", remark=words)
        return replace(
            status, phase="failed", remark=words or f"its process exited with code {code}."
        )

    def _close_child(self) -> None:
        if self._follower is not None:
            self._follower.close()
            self._follower = None
        if self._child is not None:
            self._child.close(self._leave)
            self._child = None

    def _set_status(self, status: BranchStatus) -> None:
        if status.phase != "starting":
            self._held.release_holder("branch")
        self._status = status
        self._emit(status)


class _HeldCheckpoints:
    """Checkpoints that are kept while a form has selected them, or a branch needs them to start.

    Only the run's writer knows of them: nothing remains on disk when it ends.
    """

    def __init__(self) -> None:
        self._steps: dict[str, int] = {}  # of the kept checkpoint, by holder
        self._recording: Recording | None = None

    def hold_nearest(self, holder: str, step: int | None, recording: Recording | None) -> None:
        """Keep the checkpoint from which a branch at `step` starts, instead of the holder's
        previous one."""
        if recording is not self._recording:
            self._steps, self._recording = {}, recording
        if step is None or recording is None:
            self.release_holder(holder)
            return
        nearest = _checkpoints_listed(0, recording.path).nearest_step(step)
        while nearest is not None and self._steps.get(holder) != nearest:
            self._steps[holder] = nearest
            recording.hold_checkpoints(self._steps.values())
            # It may have been deleted meanwhile.
            nearest = _checkpoints_listed(0, recording.path).nearest_step(step)
        if nearest is None:
            self.release_holder(holder)

    def release_holder(self, holder: str) -> None:
        if self._steps.pop(holder, None) is not None and self._recording is not None:
            self._recording.hold_checkpoints(self._steps.values())
        if not self._steps:
            self._recording = None


def _checkpoints_listed(number: int, folder: Path | None) -> CheckpointsListed:
    checkpoints = () if folder is None else RunReader(folder).checkpoints
    steps = tuple((checkpoint.step, checkpoint.kept) for checkpoint in checkpoints)
    return CheckpointsListed(number, steps, "" if folder is None else str(folder))


def describe_sharing(threads: int, cores: float | None, pace: float = 0.0) -> str:
    """Describe how a branch shares the processor.

    For example: 'low priority, 1 thread on the run's 2 cores, at most 20 steps/s; now using 0.9
    cores'.
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    own = f"{threads} thread{'s' if threads > 1 else ''}"
    where = f"the run's {count} cores" if count and count > 1 else "the run's core"
    share = (
        "less than 0.1" if cores is not None and cores < 0.095 else format_decimals(cores or 0.0, 1)
    )
    now = "" if cores is None else f"; now using {share} cores"
    at = f", at most {format_rate(pace)}" if pace else ""
    return f"low priority, {own} on {where}{at}{now}"
