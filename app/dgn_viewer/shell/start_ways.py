"""The choices of the start card, and the runs that it starts. Imports no Qt."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.runs import RecordedRun
from dgn_engine.scene.run_text import format_age
from dgn_engine.text.written_numbers import format_percent

PLAYGROUND = "playground.spirals"  # the action that starts it
IMAGE_SIZE = 32  # pixels; the images of a first run are resized to it, so that steps are quick
# The whole of what a training script needs; docs/watch.md explains each line.
WATCH_LINES = """\
import dgn_engine as dgn

with dgn.watch(model, probe=(x, y), out="runs/mine") as w:
    for images, labels in loader:
        ...  # your step
        w.step(loss=loss)
"""


@dataclass(frozen=True)
class StartWay:
    """One way to start; `id` names what the card does."""

    id: str
    title: str
    about: str


WAYS = (
    StartWay(
        "playground",
        "Playground",
        "A small network on points of the plane: its regions, paths and gates",
    ),
    StartWay(
        "digits",
        "Digits, now",
        "Handwritten digits, five layers, DL: panels fill within seconds",
    ),
    StartWay(
        "data",
        "My data",
        "A folder or archive with one folder of images per class; or drop it here",
    ),
    StartWay(
        "checkpoint",
        "My checkpoint",
        "Gates, kernels and accuracy of a trained network; or drop it here",
    ),
    StartWay(
        "loop",
        "My own training loop",
        "Three lines in your script; this window follows it",
    ),
    StartWay("last", "Continue the last run", ""),
)


def first_run() -> RunConfig:
    """Return the run on digits that shows every panel within seconds."""
    preset = files("dgn_resources") / "presets" / "first_minute.toml"
    return RunConfig.from_toml(preset.read_text(encoding="utf-8"))


def run_on_images(path: str) -> RunConfig:
    """Return a run on a folder or archive of images that needs no further choice."""
    return RunConfig(
        data=DataConfig(name=f"folder:{path}", image_size=IMAGE_SIZE),
        net=NetConfig(name="cnn4"),
        training=TrainingConfig(epochs=0),
    )


def find_last_run(runs: Iterable[RecordedRun]) -> RecordedRun | None:
    """Return the first run of a list, newest first, that can be continued; None if none can."""
    unusable = ("running", "damaged")
    resumable = (run for run in runs if run.resumable and run.status not in unusable)
    return next(resumable, None)


def describe_last_run(run: RecordedRun, now: float) -> str:
    """Return time, regime, network and accuracy: '2 h ago · DL · fc on digits · 97.2 %'.

    `now`: seconds since 1970.
    """
    accuracy = "no accuracy yet" if math.isnan(run.best) else f"best {format_percent(run.best)}"
    age = format_age(now - run.touched)
    return " · ".join((age, run.regime, f"{run.net} on {run.data}", accuracy))
