"""What `dgn runs show` says of the changes of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from dgn_engine.cli.run import show_run
from dgn_engine.protocol.training import Rewired
from dgn_engine.storage.runs.run_reader import RunReader


def test_gate_layers_are_counted_as_in_the_window() -> None:
    changes = (Rewired(3, (2, 1, 0)),)
    log = SimpleNamespace(summary=SimpleNamespace(changes=changes))
    reader = cast(RunReader, SimpleNamespace(log=log))
    (line,) = show_run._changes(reader)
    assert "G3 G2 G1 at step 3" in line
