"""A run on the user's images hands its examples to the next run, while the files are the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.data import Examples
from dgn_engine.protocol.messages import Refused
from dgn_engine.protocol.training import StartRun
from dgn_engine.storage.images import image_files
from dgn_engine.training.run import Run
from tests.engine.session.conftest import Desk
from tests.faults.hostile_images import SOUND, png


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(image_files, "CLOCK_STEP", 0)
    top = tmp_path / "images"
    for name, content in SOUND.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(content)
    return top


def start(desk: Desk, top: Path, **changes: object) -> tuple[Run, Examples]:
    """A new run on the folder, and its examples."""
    data = replace(DataConfig(f"folder:{top}"), **changes)
    desk.handle(StartRun(RunConfig(data=data, net=NetConfig("fc"), device="cpu"), paused=True))
    examples = desk.run.examples_for(data)
    assert examples is not None
    return desk.run, examples


def test_the_next_run_takes_the_examples_over(desk: Desk, top: Path) -> None:
    first, examples = start(desk, top)
    second, again = start(desk, top)
    assert second is not first
    assert again is examples


def test_a_changed_file_or_another_setting_is_loaded(desk: Desk, top: Path) -> None:
    _, examples = start(desk, top)
    run, limited = start(desk, top, train_limit=2)
    assert len(limited.train_y) == 2
    assert run.shares_data(run.config.data)
    (top / "a" / "1.png").write_bytes(png(77))
    assert run.examples_for(run.config.data) is None
    _, changed = start(desk, top)
    assert changed.fingerprint != examples.fingerprint


def test_a_folder_that_is_gone_is_refused(desk: Desk, top: Path) -> None:
    run, _ = start(desk, top)
    top.rename(top.parent / "elsewhere")
    desk.handle(StartRun(run.config))
    assert "images" in desk.last_event(Refused).reason
    assert desk.run is run
