"""What tests of commands type: what is printed as JSON, what is written, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgn_engine.cli import main
from dgn_engine.errors import UserError
from dgn_engine.protocol.frames import Array
from tests.refusals import refused_command


def printed_json(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    """The JSON that a command prints."""
    capsys.readouterr()
    assert main([*map(str, words)]) == 0
    return json.loads(capsys.readouterr().out)


def read_arrays(path: Path | str) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def read_settings(path: Path | str) -> dict[str, Any]:
    """What a file of kernels says of how they were computed."""
    settings: dict[str, Any] = json.loads(str(read_arrays(path)["settings"]))
    return settings


def one_line_error(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line of stderr of a command that is refused, with exit code 2, as a user sees it."""
    capsys.readouterr()
    try:
        code: object = main([*map(str, words)])
    except SystemExit as left:  # of the parser
        code = left.code
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.startswith("dgn")
    assert said.err.count("\n") == 1
    return said.err


def refused_command_of_kind(kind: str, *words: object) -> UserError:
    """The refusal of a command, which is of this kind."""
    refusal = refused_command(*words)
    assert refusal.kind == kind, f"{refusal.kind}: {refusal}"
    return refusal
