"""What a command asks, in words."""

from __future__ import annotations

from pathlib import Path

from dgn_engine.protocol import commands as do


def in_words(command: do.Command) -> str:
    """As it stands in '… failed' and in a refusal."""
    match command:
        case do.StartRun():
            return "start this run"
        case do.ContinueRun():
            return f"continue {Path(command.folder).name}"
        case do.ListRuns():
            return "list the recorded runs"
        case do.ShowRun():
            return f"show {Path(command.folder).name}"
        case do.OpenSession():
            return f"open {Path(command.path).name}"
        case do.SaveSession():
            return f"save {Path(command.path).name}"
        case do.SwapRegime():
            return f"swap to {command.regime}"
        case do.Rewire():
            return "permute the gate layers"
        case do.Rotate():
            return "rotate the gates"
        case do.TakeGates():
            return "copy the gates"
        case do.TakeWeights():
            return "copy the weights"
        case do.PickTensors():
            return "match these tensors"
        case do.CompareFile():
            return "compare"
        case do.CompareRun():
            return f"compare with {Path(command.folder).name}"
        case do.CloseComparison():
            return "close the comparison"
        case do.InspectFile():
            return "open it as a network"
        case do.OpenFile():
            return f"open {Path(command.path).name}"
        case do.SaveWeights():
            return f"save {Path(command.path).name}"
        case do.SetLearningRate():
            return "set the learning rate"
        case do.SetBeta():
            return "set β"
        case do.SetValueInput():
            return "set the value input"
        case do.SetPace():
            return "set the pace"
        case _:
            return type(command).__name__.lower()
