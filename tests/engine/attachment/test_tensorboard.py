"""Runs in TensorBoard: the numbers of the record under its steps, live and exported."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from dgn_engine.figures import tensorboard_log
from dgn_engine.figures.tensorboard_log import event_scalars, export_to_tensorboard
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.attachment.loops import last_reading, mlp, train, watch_closely
from tests.refusals import refused

Points = dict[str, list[tuple[int, float]]]


class KeptCalls:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.scalars: Points = {}
        self.images: dict[str, list[tuple[int, np.ndarray]]] = {}

    def add_scalar(self, tag: str, value: float, step: int, walltime: float | None = None) -> None:
        self.scalars.setdefault(tag, []).append((step, value))

    def add_image(self, tag: str, image: np.ndarray, step: int, **_: Any) -> None:
        self.images.setdefault(tag, []).append((step, image))


class FullDisk(KeptCalls):
    def add_scalar(self, tag: str, value: float, step: int, walltime: float | None = None) -> None:
        raise OSError("no space left")


def recorded_points(folder: Path, prefix: str = "") -> Points:
    """The scalars of a run's log, as they are there; an unknown accuracy is none."""
    points: Points = {}
    for event in RunReader(folder).events:
        for tag, value in event_scalars(event).items():
            points.setdefault(f"{prefix}{tag}", []).append((event.step, value))  # type: ignore[attr-defined]
    return points


def read_back(folder: Path) -> EventAccumulator:
    log = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0})
    log.Reload()
    return log


def test_an_export_has_every_recorded_scalar_at_its_step_and_the_panels(tmp_path: Path) -> None:
    model = mlp()
    with watch_closely(model, tmp_path / "run") as watcher:
        train(model, 3, lambda loss: watcher.step(loss=loss))
        watcher.test(accuracy=0.5)
    sentence = export_to_tensorboard(tmp_path / "run", tmp_path / "log")
    log, recorded = read_back(tmp_path / "log"), recorded_points(tmp_path / "run")
    written = {
        tag: [(point.step, point.value) for point in log.Scalars(tag)]
        for tag in log.Tags()["scalars"]
    }
    assert set(written) == set(recorded)
    assert {"npk/nu", "ntk/trace_value", "overlap/mean_active", "training/train_loss"} <= set(
        written
    )
    for tag, points in recorded.items():
        assert [step for step, _ in written[tag]] == [step for step, _ in points]
        values = np.float32([value for _, value in points])  # as event files store them
        np.testing.assert_array_equal([value for _, value in written[tag]], values)
    images = log.Tags()["images"]
    assert {"panels/overlap", "panels/spectrum", "panels/training"} <= set(images)
    assert log.Images("panels/overlap")[-1].step == 3
    assert f"{sum(map(len, recorded.values())):,} scalars" in sentence


def test_the_trace_in_tensorboard_is_that_of_the_recorded_kernel(tmp_path: Path) -> None:
    model = mlp()
    with watch_closely(model, tmp_path / "run") as watcher:
        train(model, 2, lambda loss: watcher.step(loss=loss))
    kernel = last_reading(tmp_path / "run", 2).arrays["value"]
    overlap = last_reading(tmp_path / "run", 2, "overlap").arrays["active"]
    points = {tag: dict(values) for tag, values in recorded_points(tmp_path / "run").items()}
    assert points["ntk/trace_value"][2] == pytest.approx(np.trace(kernel), rel=1e-5)
    pairs = [overlap[i, j] for i in range(len(overlap)) for j in range(len(overlap)) if i != j]
    assert points["overlap/mean_active"][2] == pytest.approx(np.nanmean(pairs), rel=1e-6)


def test_a_run_without_frames_has_the_picture_of_its_scores(tmp_path: Path) -> None:
    model = mlp()
    with watch_closely(model, tmp_path / "run") as watcher:
        train(model, 3, lambda loss: watcher.step(loss=loss))
    for frame in (tmp_path / "run" / "frames").iterdir():
        frame.unlink()
    export_to_tensorboard(tmp_path / "run", tmp_path / "log")
    log = read_back(tmp_path / "log")
    assert log.Tags()["images"] == ["panels/training"]
    assert [image.step for image in log.Images("panels/training")] == [3]


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    model = mlp()
    with watch_closely(model, tmp_path / "run") as watcher:
        train(model, 1, lambda loss: watcher.step(loss=loss))
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "mine").write_text("notes")
    with refused("exists"):
        export_to_tensorboard(tmp_path / "run", tmp_path / "log")
    with refused("not-a-folder"):
        export_to_tensorboard(tmp_path / "run", tmp_path / "log" / "mine")
    assert [file.name for file in (tmp_path / "log").iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = mlp()
    with watch_closely(model, tmp_path / "run") as watcher:
        train(model, 1, lambda loss: watcher.step(loss=loss))
    with refused("in-run"):
        export_to_tensorboard(tmp_path / "run", tmp_path / "run" / "log")
    with refused("not-writable"):
        export_to_tensorboard(tmp_path / "run", tmp_path / ("x" * 300))

    class Full(KeptCalls):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        close = flush

    monkeypatch.setattr(tensorboard_log, "new_writer", lambda _out: Full())
    with refused("not-writable"):
        export_to_tensorboard(tmp_path / "run", tmp_path / "log")


def test_a_live_writer_gets_what_is_recorded_and_training_is_the_same(tmp_path: Path) -> None:
    alone, watched, writer = mlp(), mlp(), KeptCalls()
    torch.manual_seed(1)
    train(alone, 4)
    torch.manual_seed(1)
    with watch_closely(watched, tmp_path / "run", tensorboard=writer) as watcher:
        train(watched, 4, lambda loss: watcher.step(loss=loss))
    for mine, theirs in zip(alone.parameters(), watched.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert writer.scalars == recorded_points(tmp_path / "run", "dgn/")
    step, pixels = writer.images["dgn/panels/overlap"][-1]
    assert step == 4
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3


def test_torchs_own_writer_is_taken(tmp_path: Path) -> None:
    model, writer = mlp(), SummaryWriter(str(tmp_path / "log"))
    with watch_closely(model, tmp_path / "run", tensorboard=writer) as watcher:
        train(model, 2, lambda loss: watcher.step(loss=loss))
    writer.close()
    assert "dgn/npk/nu" in read_back(tmp_path / "log").Tags()["scalars"]


def test_a_writer_that_fails_ends_neither_the_watching_nor_the_loop(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = mlp()
    with watch_closely(model, tmp_path / "run", tensorboard=FullDisk()) as watcher:
        train(model, 3, lambda loss: watcher.step(loss=loss))
        assert watcher.active
    assert capfd.readouterr().err.count("no space left") == 1  # warnings are errors here
    assert RunReader(tmp_path / "run").step == 3


def test_what_is_no_writer_is_refused_before_training(tmp_path: Path) -> None:
    with refused("wrong-type"):
        watch_closely(mlp(), tmp_path / "run", tensorboard="logs")
    assert not (tmp_path / "run").exists()


def test_values_of_another_sample_have_tags_of_their_own() -> None:
    tags = [
        next(iter(event_scalars(ProbeScalars(1, "npk", {"nu": 2.0}, *read_on))))
        for read_on in ((), (16, 64), (32,), (16, 64, "487c3a5f"), (16, 64, "e0d52981"))
    ]
    assert len(set(tags)) == len(tags)
    assert tags[0] == "npk/nu"


def test_without_tensorboard_the_export_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = mlp()
    with watch_closely(model, tmp_path / "run") as watcher:
        train(model, 1, lambda loss: watcher.step(loss=loss))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with refused("not-installed", value="tensorboard"):
        export_to_tensorboard(tmp_path / "run", tmp_path / "log")
