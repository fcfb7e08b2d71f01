"""A branch: a recorded run of its own that goes on from a step of another, changed there.

Until that step its log is its parent's; the first of its checkpoints is the parent's state with the
changes carried out, so that it goes on from its folder like any other run, and needs its parent no
more. It equals, bit for bit, a run that went on from that step and was changed in the same way
between two steps (THEORY §1, 'Swapping in mid-run').
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from dgn_engine.config import RunConfig
from dgn_engine.data import Examples
from dgn_engine.errors import UserError
from dgn_engine.protocol.branches import BranchBegan, BranchChanges
from dgn_engine.protocol.messages import Event
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.branch_origin import BranchOrigin, branch_info, log_before
from dgn_engine.storage.runs.log import is_logged, log_word
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training.replay import RecordedState, recorded_run_at
from dgn_engine.training.run import Report, Run
from dgn_engine.training.run_snapshot import capture


def begin_branch(
    parent: Path,
    step: int | None,
    changes: BranchChanges,
    out: Path,
    emit: Callable[[Event], None],
    report: Report,
    steps: int | None = None,
    examples: Examples | None = None,
    *,
    after_changes: bool = False,
) -> tuple[RunFolder, Run]:
    """A new folder, and the run in it as it begins at `step` of the run in `parent` (None: at its
    newest checkpoint, with what was changed there). What happens to it from then on goes to `emit`;
    what is changed stands in its log. `after_changes`: as of `recorded_run_at`.

    `steps`: how many it takes; 0: until it is stopped; None: up to its parent's end. Raises
    `UserError` where that step cannot be had (`recorded_run_at` says why), its data are others now,
    or the changes cannot be made.
    """
    reader = RunReader(parent)
    if step is None:
        step, after_changes = reader.checkpoint().step, True
    told: list[Event] = []
    begun = False

    def hear(event: Event) -> None:
        if begun:
            emit(event)
        else:
            told.append(event)

    state = recorded_run_at(reader, step, hear, report, examples, after_changes=after_changes)
    run = state.run
    hear(BranchBegan(run.step_count, parent.name, changes, state.remark))
    carry_out(changes, run)
    _set_end(run, steps)
    folder = _folder(reader, state, changes, out)
    try:
        for event in told:
            if is_logged(event):
                folder.note(log_word(event), to_plain(event))
        first = capture(run)
        if first is None:
            raise UserError(f"{parent.name} had diverged at step {step:,}.")
        folder.checkpoint(first, "")
    except OSError as error:
        folder.discard()
        raise UserError(f"Cannot write the branch to {out}: {error.strerror}.") from None
    except BaseException:
        folder.discard()
        raise
    begun = True
    return folder, run


def carry_out(changes: BranchChanges, run: Run) -> None:
    """Make these changes in a run between two steps, the seed first: what a regime draws is drawn
    by it. Raises `UserError` where one cannot be made."""
    if changes.seed is not None:
        run.trainer.reseed(changes.seed)
    if changes.regime and changes.regime != run.trainer.regime.name:
        run.control.swap(changes.regime, changes.restart_value)
    if changes.wiring:
        run.control.rewire(changes.wiring)
    if changes.rotation or changes.shift:
        run.control.rotate(changes.rotation, changes.shift)
    if changes.value_input is not None:
        run.control.set_value_input(changes.value_input)
    if changes.learning_rate is not None:
        run.control.set_learning_rate(changes.learning_rate)
    if changes.beta is not None:
        run.control.set_beta(changes.beta)


def branch_name(config: RunConfig, regime: str, step: int) -> str:
    """Of a folder: time, regime, network, data and where it began."""
    words = f"{regime}-{config.net.short}-{config.data.name.partition(':')[0]}"
    return f"{datetime.now():%Y%m%d-%H%M%S}-{words}-from-{step}"


def _set_end(run: Run, steps: int | None) -> None:
    if steps is not None:
        run.total_steps = run.step_count + steps if steps else 0
    elif not run.total_steps:
        raise UserError(
            "The run has no end, and so its branch has none; say --steps N.", kind="no-end"
        )
    elif run.step_count >= run.total_steps:
        raise UserError(
            f"The run ends at step {run.total_steps:,}, where its branch would begin; "
            "say --steps N.",
            kind="no-end",
            value=run.total_steps,
        )


def _folder(
    reader: RunReader, state: RecordedState, changes: BranchChanges, out: Path
) -> RunFolder:
    parent_id = str(reader.info.get("id", ""))
    origin = BranchOrigin(reader.path.name, parent_id, state.run.step_count, changes)
    info = branch_info(reader.config, reader.info, origin)
    try:
        log = log_before(reader.root / folder_layout.LOG, state.lines, str(info["id"]))
    except OSError as error:
        path = reader.path / folder_layout.LOG
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    return RunFolder.create(out, reader.config, info=info, log=log)
