"""What is asked before a run that is not recorded is replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dgn_engine.protocol import commands as do
from dgn_engine.protocol.engine_events import DiscardConfirmation
from dgn_engine.training.recording import Recording
from dgn_engine.training.run import Run


def discard_question(
    command: do.Command, run: Run | None, recording: Recording | None
) -> DiscardConfirmation | None:
    """Ask before an unrecorded run is replaced; None where nothing would be lost."""
    if not isinstance(command, do.RunEnding) or command.discard:
        return None
    if run is None or not run.step_count:
        return None
    safe = run.recorded if recording is None else not recording.paused
    if safe:  # without a recording: it failed, and its folder has the run up to then
        return None
    where = command.path if isinstance(command, do.OpenSession) else command.folder
    shown = not isinstance(command, do.ContinueRun)
    anyway = replace(command, discard=True)
    return DiscardConfirmation(run.step_count, Path(where).name, shown, anyway)
