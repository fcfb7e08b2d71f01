"""The example of 'What a file does not say' in docs/guide/files.md prints what stands there."""

from __future__ import annotations

import contextlib
import re
import runpy
from pathlib import Path

import pytest
import torch

from dgn_engine.cli import main
from documentation.shell_commands import ROOT

TEXT = (ROOT / "docs" / "guide" / "files.md").read_text("utf-8")
SECTION = TEXT.split("\n## What a file does not say\n")[1].split("\n## ")[0]
BLOCK = re.compile(r'^```(\w+)(?: title="(.+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
OPTIONS = re.compile(r"--activation \w+ --geometry \S+$", re.MULTILINE)


def shown_commands() -> list[tuple[list[str], str]]:
    """Return the words of each command of the section, and what stands below it."""
    blocks = "".join(body for kind, _, body in BLOCK.findall(SECTION) if kind == "console")
    parts = re.split(r"^\$ dgn ", blocks, flags=re.MULTILINE)[1:]
    return [(line.split(), below) for line, _, below in (p.partition("\n") for p in parts)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the script of the section writes."""
    folder = tmp_path_factory.mktemp("section")
    ((_, name, script),) = (found for found in BLOCK.findall(SECTION) if found[0] == "python")
    (folder / name).write_text(script, "utf-8")
    with contextlib.chdir(folder), torch.random.fork_rng(devices=[]):
        runpy.run_path(name)
    return folder


@pytest.mark.slow
def test_the_readings_of_the_section_are_printed_and_one_of_them_is_taken(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(made)
    (asking, below), *said = shown_commands()
    assert main(asking) == 2
    printed = OPTIONS.findall(capsys.readouterr().err)
    assert set(OPTIONS.findall(below)) < set(printed)
    taken = "--activation relu --geometry s2p1,p1"
    assert taken in printed
    assert [words[0] for words, _ in said] == ["inspect", "kernels"]
    for words, _ in said:
        assert taken in " ".join(words)
        assert main(words) == 0
    assert (made / "kernels.npz").exists()


@pytest.mark.slow
def test_the_accuracies_of_the_section_do_not_decide(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(made)
    (asking, _), *_ = shown_commands()
    shares = []
    for pixels in ("none", "mnist"):
        assert main([*asking, "--normalise", pixels]) == 2
        found = re.findall(r"([\d.]+) %  --activation (\w+) ", capsys.readouterr().err)
        shares.append({activation: float(share) for share, activation in found})
    right, other = shares
    assert right["relu"] - right["gelu"] < 1.0
    assert max(share for name, share in other.items() if name != "relu") >= other["relu"]
