"""`dgn inspect`: the listing of a checkpoint as text and as JSON."""

from __future__ import annotations

import argparse
import colorsys
import json
import os
from pathlib import Path

import pytest
import torch
from torch import nn

from dgn_engine.cli import main


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    network = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    network[2].bias.data[1] = torch.nan
    path = tmp_path / "last.ckpt"
    torch.save({"state_dict": network.state_dict(), "args": argparse.Namespace(lr=0.1)}, path)
    return path


def test_text_tells_tensors_what_they_are_and_what_is_ignored(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(checkpoint)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "last.ckpt: PyTorch, 4 tensors, 43 numbers"
    assert lines[1].startswith("a chain of 2 dense layers, 6 inputs, 3 outputs")
    assert "  0.weight  4×6  float32" in lines
    assert "  2.bias    3    float32  not finite" in lines
    place = lines.index("some values are not finite")
    assert lines[place + 1] == "ignored: args (argparse.Namespace)"
    assert any("--activation" in line for line in lines)


def test_json_tells_the_same(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--json", str(checkpoint)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "PyTorch"
    assert told["finite"] is False
    assert told["tensors"][0] == {
        "name": "0.weight",
        "shape": [4, 6],
        "dtype": "float32",
        "finite": True,
    }
    assert told["ignored"] == ["args (argparse.Namespace)"]


class Reboot:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("reboot",)


@pytest.fixture
def trojan(tmp_path: Path) -> Path:
    path = tmp_path / "trojan.pt"
    torch.save({"0.weight": torch.ones(3, 4), "1.weight": torch.ones(2, 3), "n": Reboot()}, path)
    return path


def test_what_a_file_would_call_is_a_warning(
    trojan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(trojan)]) == 0
    name = f"{os.system.__module__}.system"
    warning = f"to load trojan.pt, Python would call {name}; nothing was run"
    assert warning in capsys.readouterr().err
    assert main(["inspect", "--json", str(trojan)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["would_call"], told["would_import"]) == ([name], [])
    assert told["would_look_up"] == []


def test_a_name_that_is_not_called_is_a_warning_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 2))
    network.score = os.popen  # a function of Python, as an attribute
    network.rate = colorsys.rgb_to_hsv  # and one of a module that is imported for it
    torch.save(network, tmp_path / "net.pt")
    assert main(["inspect", str(tmp_path / "net.pt")]) == 0
    lines = capsys.readouterr().err
    start = "to load net.pt, Python would"
    assert f"{start} import os and look up os.popen; nothing was run" in lines
    assert f"{start} import colorsys and look up colorsys.rgb_to_hsv; nothing was run" in lines
    assert main(["inspect", "--json", str(tmp_path / "net.pt")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["would_call"] == []
    assert told["would_look_up"] == ["os.popen", "colorsys.rgb_to_hsv"]
    assert told["would_import"] == ["os", "colorsys"]


def test_a_refusal_is_one_sentence_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.pt").write_text("<html>404</html>")
    assert main(["inspect", str(tmp_path / "page.pt")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "dgn inspect: page.pt is a web page (HTML), saved in the place of a file; download the "
        "file itself.\n"
    )


def test_what_confines_the_reader_is_said_and_tried(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["inspect", "--confinement", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert set(found["layers"]) >= {"seccomp", "Landlock", "limits", "memory", "audit hook"}
    assert code == (0 if all(one["refused"] for one in found["attempts"].values()) else 1)
    assert main(["inspect", "--confinement"]) == code
    lines = capsys.readouterr().out.splitlines()
    held = "holds" if found["layers"]["seccomp"]["holds"] else "missing"
    assert any(line.split()[:2] == ["seccomp", held] for line in lines)
    assert len(lines) == 2 + len(found["layers"]) + len(found["attempts"])


@pytest.mark.parametrize("asked", [[], ["x.pt", "--confinement"], ["--confinement", "--data", "x"]])
def test_a_file_or_the_confinement_is_asked(
    asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", *asked]) == 2
    assert "confinement" in capsys.readouterr().err
