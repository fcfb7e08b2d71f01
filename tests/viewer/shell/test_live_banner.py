"""What the window says of a recorded run that another process writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RunShown
from dgn_engine.protocol.training import RunStarted
from dgn_engine.protocol.watching import ProbeSet
from dgn_viewer.__main__ import _check, parser
from dgn_viewer.shell.banner import recording


def state(shown: RunShown, watched: str = "") -> RunState:
    sizes = (0, 0, 0, 0, 2, 0, 0)
    started = RunStarted(
        1,
        RunConfig(),
        "ReLU",
        "cpu",
        (),
        (),
        *sizes,
        ProbeSet((), (), (), ""),
        True,
        watched=watched,
    )
    return RunState().after(started).after(shown)


def test_a_live_run_says_so_and_cannot_go_on_here() -> None:
    message = recording(state(RunShown("mine", "running", 5, replaced="before")).at(9))
    assert message is not None
    assert message.texts[0][0] == "mine · recorded by another process, live"
    assert message.buttons == ("file.go_back",)


@pytest.mark.parametrize(("watched", "buttons"), [("", ("run.toggle",)), ("Net of a.py", ())])
def test_a_run_that_ended_goes_on_only_where_it_is_ours(
    watched: str, buttons: tuple[str, ...]
) -> None:
    message = recording(state(RunShown("mine", "finished", 5), watched))
    assert message is not None
    assert message.texts[0][0] == "Recorded run mine · step 5 · finished – not training"
    assert message.buttons == buttons


def test_a_run_of_another_program_is_not_controlled_here_and_has_no_epochs() -> None:
    shown = RunShown("mine", "finished", 5)
    assert state(shown).has_run
    assert not state(shown, "Net of a.py").has_run
    assert not state(shown, "Net of a.py").has_epochs


def test_a_session_is_never_live() -> None:
    assert not RunShown("mine", "running", 5, file_name="mine.dgn").live


@pytest.mark.parametrize(
    ("given", "said"),
    [(["nowhere"], "There is no run nowhere"), (["run", "--seed", "1"], "leave out --config")],
)
def test_a_run_that_cannot_be_shown_is_refused_at_the_start(given: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        _check(parser().parse_args(given))


def test_a_run_is_named_by_its_folder(tmp_path: Path) -> None:
    assert parser().parse_args([str(tmp_path)]).run == str(tmp_path)
    assert parser().parse_args([]).run == ""
