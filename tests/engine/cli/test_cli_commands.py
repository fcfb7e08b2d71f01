"""Every command of `dgn` explains itself."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pkgutil import resolve_name

import pytest

from dgn_engine.cli import Subcommand, main, runs
from dgn_engine.plugins import discover
from tests.plugins import each

COMMANDS = discover("dgn_engine.cli", "COMMAND", Subcommand)


@pytest.mark.parametrize("name", each(COMMANDS))
def test_a_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([name.replace("_", "-"), "--help"])
    assert left.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(f"usage: dgn {name.replace('_', '-')}")
    assert " ".join(COMMANDS[name].about.split()) in said


@pytest.mark.discovery
def test_dgn_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert [name for name in COMMANDS if name.replace("_", "-") not in said] == []


@pytest.mark.discovery
def test_what_carries_out_a_command_is_there() -> None:
    named = [command.run for command in COMMANDS.values() if isinstance(command.run, str)]
    named += [runs.run(Namespace(verb=verb)) for verb in verbs()]
    assert len(named) > 10
    assert all(callable(resolve_name(name)) for name in named)


def verbs() -> list[str]:
    parser = ArgumentParser()
    runs.add_arguments(parser)
    (chosen,) = (action for action in parser._actions if action.dest == "verb")
    return [*(chosen.choices or ())]


def test_a_command_hands_over_to_what_it_names() -> None:
    def first(arguments: Namespace) -> str:
        arguments.steps = ["first"]
        return f"{__name__}:second"

    arguments = Namespace()
    assert Subcommand("", lambda _: None, first).carry_out(arguments) == 7
    assert arguments.steps == ["first", "second"]


def second(arguments: Namespace) -> int:
    arguments.steps.append("second")
    return 7
