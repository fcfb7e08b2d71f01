"""The playground: one row for each data set of the plane, and what it begins."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from dgn_engine.protocol.catalogue import Catalogue, DataEntry
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import StartRun
from dgn_viewer.actions.help_menu import playground_rows, playground_run


def test_each_set_of_the_plane_has_a_row_that_arranges_the_panels_and_begins() -> None:
    sent: list[Any] = []
    docks = Mock()
    data = (
        DataEntry("moons", "Two moons (2-D)", True, ""),
        DataEntry("xor", "XOR (2-D)", True, "", plane=True),
    )
    (row,) = playground_rows(Catalogue((), (), data, (), ()), docks, sent.append)
    assert (row.id, row.title) == ("playground.xor", "Playground: XOR (2-D)")
    assert not row.enabled(RunState())
    row.callback()
    docks.arrangement.arrange.assert_called_once_with("teach")
    assert sent == [StartRun(playground_run("xor"))]
    assert not sent[0].paused
