"""What every command declares, and that the engine carries each of them out."""

from __future__ import annotations

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol import commands as do
from dgn_engine.session.engine import Engine

COMMANDS = do.Command.__subclasses__()


def test_the_engine_has_a_handler_for_every_command_and_no_other() -> None:
    engine = Engine(lambda _event: None, lambda _frame: None)
    assert set(engine.handlers) == set(COMMANDS)
    engine.close()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_every_command_has_a_title(command: type[do.Command]) -> None:
    assert command.title


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (do.StartRun(RunConfig()), "start this run"),
        (do.ContinueRun("/runs/20260101-a"), "continue 20260101-a"),
        (do.SwapRegime("FR-II"), "swap to FR-II"),
        (do.OpenFile("/tmp/{x}.pt"), "open {x}.pt"),
        (do.SaveWeights("weights.safetensors"), "save weights.safetensors"),
        (do.CompareRun("/runs/20260101-a/"), "compare with 20260101-a"),
        (do.Pause(), "pause"),
    ],
)
def test_a_command_in_words_names_what_it_is_about(command: do.Command, words: str) -> None:
    assert command.in_words() == words
