"""Whichever command reads a file says on stderr what Python would do to load it."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.cli import main
from dgn_engine.errors import LoadingWarning
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from tests.engine.cli.typed import printed_json

RUN = ("--data", "digits", "--net", "fc", "--width", "8", "--depth", "2", "--epochs", "1")
FEW = ("--train-limit", "40", "--test-limit", "20", "--no-record", "--quiet")


class Reboot:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("reboot",)


@pytest.fixture
def trojan(tmp_path: Path) -> str:
    weights = {"0.weight": torch.ones(8, 64), "1.weight": torch.ones(10, 8)}
    torch.save({**weights, "n": Reboot()}, tmp_path / "trojan.pt")
    torch.save(weights, tmp_path / "net.pt")
    np.save(tmp_path / "x.npy", np.ones((3, 64), np.float32))
    return str(tmp_path / "trojan.pt")


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "FILE"),
        ("inspect", "FILE", "--data", "digits", "--activation", "relu", "--scored", "0"),
        ("kernels", "FILE", "--inputs", "X", "--activation", "relu", "--only", "gates"),
        ("kernels", "NET", "--inputs", "X", "--activation", "relu", "--gates", "FILE"),
        ("kernels", "FILE", "--inputs", "X", "--activation", "relu", "--gates", "FILE"),
        ("train", *RUN, *FEW, "--regime", "FL", "--gates-from", "FILE"),
        ("train", *RUN, *FEW, "--regime", "ReLU", "--weights-from", "FILE"),
    ],
    ids=" ".join,
)
def test_a_command_that_reads_a_file_says_once_what_it_would_call(
    words: tuple[str, ...], trojan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {"FILE": trojan, "NET": str(tmp_path / "net.pt"), "X": str(tmp_path / "x.npy")}
    shown = warnings.showwarning
    for _ in range(2):  # each command says it anew
        assert main([paths.get(word, word) for word in words]) == 0
        said = capsys.readouterr()
        assert said.err.count(f"call {os.system.__module__}.system") == 1
        assert "trojan.pt" in said.err
        assert "would call" not in said.out
    assert warnings.showwarning is shown


def test_warnings_are_no_part_of_json(trojan: str, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = str(Path(trojan).with_name("x.npy"))
    words = ["kernels", trojan, "--inputs", inputs, "--activation", "relu", "--only", "gates"]
    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    assert "kernels" in json.loads(said.out)
    assert "system" in said.err
    told = printed_json(capsys, "inspect", trojan, "--json")
    assert told["would_call"] == [f"{os.system.__module__}.system"]
    assert (told["would_import"], told["would_look_up"]) == ([], [])


def test_the_library_warns(trojan: str) -> None:
    with pytest.warns(LoadingWarning, match="system"):
        read_tensors(Path(trojan))
