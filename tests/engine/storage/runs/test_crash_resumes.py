"""A real run goes on after a crash anywhere, and ends bit for bit as if there had been none."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace

import pytest
import safetensors.numpy

from dgn_engine.config import DataConfig
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.manifest import verify
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.training import recording
from dgn_engine.training.headless_run import HeadlessRun
from tests.daily import nightly
from tests.engine.conftest import SMALL
from tests.engine.storage.crashed_disk import crashes, write_tree

CONFIG = replace(
    SMALL,
    data=DataConfig("digits", train_limit=60, test_limit=20),
    training=replace(SMALL.training, batch=10),
    probe_examples=4,
)


class Patient:
    """Waits after each step until its checkpoint is written."""

    def stepped(self, _):
        assert self.run._recording._recorder.flush()

    def on_event(self, event):
        pass


def headless():
    watcher = Patient()
    watcher.run = HeadlessRun(watcher, lambda: False, ("gates",), checkpoint_every=0.0)
    return watcher.run


def steps_of(tree):
    """What a run can go on from: its checkpoints, and whether its last weights are there."""
    ending = f"/{folder_layout.MANIFEST}"
    names = frozenset(path for path in tree if path.endswith(ending) and ".part" not in path)
    return names, f"run/{folder_layout.WEIGHTS}" in tree


def result(path):
    weights = safetensors.numpy.load((path / folder_layout.WEIGHTS).read_bytes())
    reader = RunReader(path)
    assert reader.status == "finished"
    assert verify(path) == []
    return reader.measured, {name: array.tobytes() for name, array in weights.items()}


@pytest.mark.parametrize("every", [13, *nightly(1)])
def test_a_run_that_crashed_anywhere_ends_as_if_it_had_not(disk, tmp_path, monkeypatch, every):
    monkeypatch.setattr(recording, "COPY_SHARE", math.inf)  # a checkpoint at every step, always
    with disk:
        headless().train(CONFIG, RunFolder.create(disk.root / "run", CONFIG))
    expected = result(disk.root / "run")
    seen = set()
    for crash in crashes(disk.before, disk.operations, every=every):
        key = steps_of(crash.tree)
        if key in seen or f"run/{folder_layout.RUN}" not in crash.tree or not crash.ordered:
            continue
        seen.add(key)
        path = write_tree(crash.tree, tmp_path / "crashed") / "run"
        headless().go_on(RunFolder(path))
        assert result(path) == expected, (disk.operations[: crash.after][-3:], crash.how)
        shutil.rmtree(path.parent)
    assert len(seen) > 4 // every
