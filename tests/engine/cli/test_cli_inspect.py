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
from tests.engine.cli.typed import printed_json, refused_command_of_kind
from tests.refusals import refused_command


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
    assert "ignored: args (argparse.Namespace)" in lines
    assert any("--activation" in line for line in lines)


def test_json_tells_the_same(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = printed_json(capsys, "inspect", "--json", checkpoint)
    assert (told["kind"], told["finite"]) == ("PyTorch", False)
    first, *_, last = told["tensors"]
    assert first == {"name": "0.weight", "shape": [4, 6], "dtype": "float32", "finite": True}
    assert (last["name"], last["finite"]) == ("2.bias", False)
    assert told["ignored"] == ["args (argparse.Namespace)"]


def test_a_name_that_is_not_called_is_a_warning_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 2))
    network.score = os.popen  # a function of Python, as an attribute
    network.rate = colorsys.rgb_to_hsv  # and one of a module that is imported for it
    torch.save(network, tmp_path / "net.pt")
    assert main(["inspect", str(tmp_path / "net.pt")]) == 0
    lines = capsys.readouterr().err
    for module, name in (("os", "os.popen"), ("colorsys", "colorsys.rgb_to_hsv")):
        assert f" import {module} and look up {name};" in lines
    told = printed_json(capsys, "inspect", "--json", tmp_path / "net.pt")
    assert told["would_call"] == []
    assert told["would_look_up"] == ["os.popen", "colorsys.rgb_to_hsv"]
    assert told["would_import"] == ["os", "colorsys"]


def test_a_page_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.pt").write_text("<html>404</html>")
    told = str(refused_command("inspect", tmp_path / "page.pt"))
    assert told.startswith("page.pt ")
    assert "HTML" in told


def test_what_confines_the_reader_is_said_and_tried(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["inspect", "--confinement", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert set(found["layers"]) >= {"seccomp", "Landlock", "limits", "memory", "audit hook"}
    assert code == (0 if all(one["refused"] for one in found["attempts"].values()) else 1)
    assert main(["inspect", "--confinement"]) == code
    lines = capsys.readouterr().out.splitlines()
    held = "active" if found["layers"]["seccomp"]["holds"] else "missing"
    assert any(line.split()[:2] == ["seccomp", held] for line in lines)
    assert len(lines) == 2 + len(found["layers"]) + len(found["attempts"])


def test_a_layer_that_there_is_not_is_refused(checkpoint: Path) -> None:
    network = nn.Sequential(nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 3))
    torch.save(network.eval(), checkpoint)
    words = ("inspect", checkpoint, "--data", "digits", "--examples", "4", "--layers")
    assert refused_command_of_kind("out-of-bounds", *words, "1,2").value == [1, 2]
    assert main([*map(str, words), "1"]) == 0


def test_rescaled_units_are_no_distance_and_other_layers_none(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 10)).eval()
    torch.save(network, checkpoint)
    one, two = (network[place].weight.detach().double() for place in (0, 2))
    first, last = (network[place].bias.detach().double() for place in (0, 2))
    entries = torch.cat([(two.abs() @ one.abs()).sum(1), two.abs() @ first.abs(), last.abs()])
    scaled, moved = tmp_path / "scaled.pt", tmp_path / "moved.pt"
    with torch.no_grad():
        network[0].weight.mul_(4.0)
        network[0].bias.mul_(4.0)
        network[2].weight.div_(4.0)
        torch.save(network, scaled)
        network[2].weight.neg_()
        network[2].bias.neg_()
        torch.save(network, moved)
    words = ("inspect", checkpoint, "--data", "digits", "--examples", "4", "--against")
    paths = printed_json(capsys, *words, scaled, "--json")["inspection"]["paths"]
    assert paths["l1"] == pytest.approx(float(entries.sum()))
    assert paths["against"]["file"] == "scaled.pt"
    assert paths["against"]["high"] < 1e-12
    assert paths["against"]["same_signs"] == 1.0
    assert paths["against"]["cosine"] == pytest.approx(1.0)
    against = printed_json(capsys, *words, moved, "--json")["inspection"]["paths"]["against"]
    assert (against["high"], against["l2"]) == pytest.approx((1.0, 1.0))
    assert against["low"] < 1.0
    assert against["cosine"] == pytest.approx(-1.0)
    torch.save(nn.Sequential(nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 10)).eval(), moved)
    assert refused_command_of_kind("other-network", *words, moved).value == "moved.pt"


def test_a_file_that_needs_answers_is_compared_with_a_run_that_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = nn.Sequential(nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 10))
    file, run = tmp_path / "net.pt", tmp_path / "run"
    torch.save(network.state_dict(), file)
    sizes = ("--depth", "2", "--width", "4", "--train-limit", "40", "--epochs", "1")
    assert main(["train", "--data", "digits", *sizes, "--bias", "--quiet", "--out", str(run)]) == 0
    capsys.readouterr()
    words = ("inspect", file, "--activation", "relu", "--data", "digits", "--examples", "4")
    found = printed_json(capsys, *words, "--against", run, "--json")
    against = found["inspection"]["paths"]["against"]
    assert against["file"].startswith("run@")
    assert 0.0 < against["low"] <= against["high"] <= 1.0
