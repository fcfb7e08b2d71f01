"""What every command declares, and that the engine carries each of them out."""

from __future__ import annotations

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol.branches import CompareRun
from dgn_engine.protocol.files import OpenFile, SaveWeights
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.runs import ContinueRun
from dgn_engine.protocol.training import Pause, StartRun, SwapRegime
from dgn_engine.session.engine import Engine

COMMANDS = Command.__subclasses__()


def test_the_engine_has_a_handler_for_every_command_and_no_other() -> None:
    engine = Engine(lambda _event: None, lambda _frame: None)
    assert set(engine.handlers) == set(COMMANDS)
    engine.close()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_every_command_has_a_title(command: type[Command]) -> None:
    assert command.title


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (StartRun(RunConfig()), "start this run"),
        (ContinueRun("/runs/20260101-a"), "continue 20260101-a"),
        (SwapRegime("FR-II"), "swap to FR-II"),
        (OpenFile("/tmp/{x}.pt"), "open {x}.pt"),
        (SaveWeights("weights.safetensors"), "save weights.safetensors"),
        (CompareRun("/runs/20260101-a/"), "compare with 20260101-a"),
        (Pause(), "pause"),
    ],
)
def test_a_command_in_words_names_what_it_is_about(command: Command, words: str) -> None:
    assert command.in_words() == words
