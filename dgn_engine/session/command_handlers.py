"""What may be asked of a run that trains, each obeyed between two steps."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from dgn_engine.protocol import commands as do
from dgn_engine.training.run import Run

RunCommand = (
    do.SwapRegime
    | do.Rewire
    | do.Rotate
    | do.SetLearningRate
    | do.SetBeta
    | do.SetValueInput
    | do.SetPace
    | do.SaveWeights
    | do.Undo
    | do.Redo
)
InRun = do.Resume | do.Advance | do.Pause | do.Reset | RunCommand


def why_no_run(what: str, inspected: str, recorded: str) -> str:
    """What to do where something is asked of a run and there is none: a name each, or empty."""
    if inspected:
        return f"{inspected} is inspected, not trained: begin a new run first."
    if recorded:
        return f"{recorded} is only shown: Run goes on with it first."
    return f"There is no run: start one before you {what}."


def execute(run: Run, command: RunCommand) -> None:
    """Carry it out; raises `Refusal` where it cannot be, and then nothing has changed."""
    match command:
        case do.SwapRegime():
            run.swap(command.regime, command.restart_value)
        case do.Rewire():
            run.rewire(command.order)
        case do.Rotate():
            run.rotate(command.rotation, command.shift)
        case do.SetLearningRate():
            run.set_learning_rate(command.learning_rate)
        case do.SetBeta():
            run.set_beta(command.beta)
        case do.SetValueInput():
            run.set_value_input(command.value_input)
        case do.SetPace():
            run.set_pace(command.steps_per_second)
        case do.SaveWeights():
            run.save(Path(command.path))
        case do.Undo() | do.Redo():
            pass  # obeyed by `Undoing`, around all others
        case _:
            assert_never(command)
