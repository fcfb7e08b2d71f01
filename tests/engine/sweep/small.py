"""Units that are quick to carry out, and what became of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors.numpy import load

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.messages import Event
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.folder_layout import LOG, WEIGHTS
from dgn_engine.storage.runs.log import LogLine, encode_line, log_word
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.schedule import UnitProgress, UnitState
from dgn_engine.sweep.scheduler import Executor
from dgn_engine.sweep.unit import Training, Unit, UnitFile, unit_folder
from dgn_engine.training.weight_keeper import BEST, KEPT

SMALL = RunConfig(
    data=DataConfig(name="digits", train_limit=200, test_limit=100),
    net=NetConfig(name="fc", options=(("width", 8), ("depth", 3))),
    gating=GatingConfig(regime="FR-II"),
    training=TrainingConfig(epochs=3, batch=20, learning_rate=1e-2),
    device="cpu",
    probe_examples=10,
)


def small_training(seed: int, regime: str = "FR-II", epochs: int = 3) -> Training:
    """A run of some hundredths of a second an epoch."""
    training = replace(SMALL.training, epochs=epochs, keep_best=regime == "ReLU")
    gating = replace(SMALL.gating, regime=regime)
    return Training(
        f"{regime}-s{seed}", replace(SMALL, seed=seed, gating=gating, training=training)
    )


def relu_and_fl_units(seed: int) -> list[Unit]:
    """A ReLU network, and another that is gated by its best weights."""
    relu, fixed = small_training(seed, "ReLU"), small_training(seed, "FL")
    return [relu, replace(fixed, gates_from=UnitFile(relu.id, f"{KEPT}/{BEST}"))]


class ProgressLog:
    """The updates of an executor, in order."""

    def __init__(self) -> None:
        self.all: list[UnitProgress] = []

    def __call__(self, progress: UnitProgress) -> None:
        self.all.append(progress)

    def of(self, unit: str) -> list[UnitProgress]:
        return [progress for progress in self.all if progress.unit == unit]


def never_stop() -> bool:
    return False


def run_units(
    executor: Executor,
    units: list[Unit],
    root: Path,
    on_progress: Callable[[UnitProgress], None] = lambda _: None,
    stopped: Callable[[], bool] = never_stop,
) -> dict[str, UnitState]:
    return executor.run(units, root, on_progress, stopped)


LONG = small_training(1, epochs=1000)  # two seconds


def mixed_units() -> list[Unit]:
    """A long run, one that needs another, and one that learns its gates."""
    return [LONG, *relu_and_fl_units(0), small_training(3, "DL")]


def read_results(units: list[Unit], root: Path) -> dict[str, object]:
    """What cannot differ by a bit between two sweeps: weights and every score."""
    found: dict[str, object] = {}
    for unit in units:
        reader = RunReader(unit_folder(root, unit.id))
        weights = load((reader.path / WEIGHTS).read_bytes())
        found[unit.id] = (
            {name: array.tobytes() for name, array in weights.items()},
            reader.measured_events,
        )
    return found


def write_run_log(
    root: Path, *lines: tuple[float, Event | str], unit: Training | None = None
) -> Path:
    """The folder of a run whose log has these events at these seconds."""
    unit = unit or small_training(0)
    folder = unit_folder(root, unit.id)
    RunFolder.create(folder, unit.config).close()
    raw = []
    for seq, (at, event) in enumerate(lines):
        name = event if isinstance(event, str) else log_word(event)
        fields: dict[str, Any] = {} if isinstance(event, str) else to_plain(event)
        raw.append(encode_line(LogLine(seq, at, name, fields)))
    (folder / LOG).write_bytes(b"".join(raw))
    return folder
