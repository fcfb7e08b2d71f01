"""Every command of `dgn` explains itself."""

from __future__ import annotations

import pytest

from dgn_engine.cli import Subcommand, main
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
