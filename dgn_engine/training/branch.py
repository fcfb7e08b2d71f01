"""Branches: a recorded run that continues another from one of its steps, with changes.

Up to that step the log is its parent's. Its first checkpoint is the parent's state with the changes
applied, so a branch continues from its own folder like any run and no longer needs its parent. It
equals, bit for bit, a run that was changed in the same way between the same two steps (theory §1,
'Swapping in mid-run').
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
from dgn_engine.training.run_snapshot import capture_run


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
    """Create a branch: its folder, and its run at the branching step.

    Args:
        parent: Folder of the parent run.
        step: Step of the parent; None for its newest checkpoint, including changes made there.
        changes: Changes of the branch, recorded in its log.
        out: The new folder.
        emit: Takes the events of the branch from then on.
        report: Called with a description of the progress, and the share done or None.
        steps: Number of steps of the branch; 0 to run until stopped; None to end where the parent
            ends.
        examples: Examples of the configuration, if they are loaded already.
        after_changes: As for `recorded_run_at`.

    Returns:
        The folder, held open, and the run.

    Raises:
        UserError: The step cannot be restored (see `recorded_run_at`), the data have changed, or
            the changes cannot be made.
    """
    reader = RunReader(parent)
    if step is None:
        step, after_changes = reader.find_checkpoint().step, True
    events: list[Event] = []
    begun = False

    def collect_event(event: Event) -> None:
        if begun:
            emit(event)
        else:
            events.append(event)

    state = recorded_run_at(
        reader, step, collect_event, report, examples, after_changes=after_changes
    )
    run = state.run
    collect_event(BranchBegan(run.step_count, parent.name, changes, state.remark))
    apply_changes(changes, run)
    _set_end(run, steps)
    folder = _create_folder(reader, state, changes, out)
    try:
        for event in events:
            if is_logged(event):
                folder.write_note(log_word(event), to_plain(event))
        first = capture_run(run)
        if first is None:
            raise UserError(f"{parent.name} had diverged at step {step:,}.")
        folder.add_checkpoint(first, "")
    except OSError as error:
        folder.discard_folder()
        raise UserError(f"Cannot write the branch to {out}: {error.strerror}.") from None
    except BaseException:
        folder.discard_folder()
        raise
    begun = True
    return folder, run


def apply_changes(changes: BranchChanges, run: Run) -> None:
    """Apply changes to a run between two steps, seed first, as a regime draws from it.

    Args:
        changes: The changes.
        run: The run.

    Raises:
        UserError: A change cannot be made.
    """
    if changes.seed is not None:
        run.trainer.set_seed(changes.seed)
    if changes.regime and changes.regime != run.trainer.regime.name:
        run.control.swap_regime(changes.regime, changes.restart_value)
    if changes.wiring:
        run.control.rewire_gates(changes.wiring)
    if changes.rotation or changes.shift:
        run.control.rotate_gates(changes.rotation, changes.shift)
    if changes.value_input is not None:
        run.control.set_value_input(changes.value_input)
    if changes.learning_rate is not None:
        run.control.set_learning_rate(changes.learning_rate)
    if changes.beta is not None:
        run.control.set_beta(changes.beta)


def branch_name(config: RunConfig, regime: str, step: int) -> str:
    """Return a folder name: time, regime, network, data and branching step.

    Args:
        config: Configuration of the parent.
        regime: Regime of the branch.
        step: Branching step.

    Returns:
        For example '20260102-030405-fl-fc-mnist-from-500'.
    """
    parts = f"{regime}-{config.net.display_name}-{config.data.name.partition(':')[0]}"
    return f"{datetime.now():%Y%m%d-%H%M%S}-{parts}-from-{step}"


def _set_end(run: Run, steps: int | None) -> None:
    if steps is not None:
        run.total_steps = run.step_count + steps if steps else 0
    elif not run.total_steps:
        raise UserError(
            "The run has no last step, and neither would its branch; pass --steps N.", kind="no-end"
        )
    elif run.step_count >= run.total_steps:
        raise UserError(
            f"The run ends at step {run.total_steps:,}, where its branch would start; "
            "pass --steps N.",
            kind="no-end",
            value=run.total_steps,
        )


def _create_folder(
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
