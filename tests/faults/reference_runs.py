"""Short runs that nobody disturbed, and whether a disturbed one ends as they did."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load

from dgn_engine.protocol.training import Measured
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_reader import RunReader
from tests.faults.victims import Victim, do_nothing, fork_dgn

SMALL = ["--width", "16", "--depth", "4", "--lr", "1e-3", "--quiet", "--checkpoint-every", "0"]
RUNS = {  # FL: a swap in the middle
    "DL": ["train", *SMALL, "--regime", "DL", "--epochs", "24"],
    "FL": ["train", *SMALL, "--regime", "FL", "--epochs", "12", "--pretrain-epochs", "12"],
    "SGD, frames": [
        *("train", *SMALL, "--epochs", "24", "--regime", "FR-II", "--optimiser", "sgd"),
        *("--momentum", "0.9", "--record", "gates"),
    ],
}


@dataclass(frozen=True)
class Reference:
    """A run that nobody disturbed."""

    arguments: list[str]
    path: Path
    seconds: float
    steps: int


def continue_run(
    path: Path, reference: Reference, first: Callable[[], object] = do_nothing
) -> Victim:
    """Resume, or begin where not even a folder was made; `first` as in `fork_dgn`."""
    if (path / folder_layout.RUN).exists():
        extra = ["--record", "gates"] if "--record" in reference.arguments else []
        words = ("train", "--resume", path, "--quiet", "--checkpoint-every", "0", *extra)
        return fork_dgn(*words, first=first)
    return fork_dgn(*reference.arguments, "--out", path, first=first)


def train_reference(
    arguments: list[str], path: Path, first: Callable[[], object] = do_nothing
) -> Reference:
    """A run to its end; `first` as in `fork_dgn`."""
    began = time.monotonic()
    assert fork_dgn(*arguments, "--out", path, first=first).wait() == 0
    return Reference(arguments, path, time.monotonic() - began, RunReader(path).step)


def describe_damage(path: Path) -> list[str]:
    """What is not sound in a run's folder."""
    return [str(one) for one in find_damage(path) if not one.harmless]


def assert_sound(path: Path) -> None:
    found = describe_damage(path)
    assert not found, found


def assert_equal(path: Path, reference: Path) -> None:
    """Weights, optimiser state and every score, bit for bit."""
    assert_sound(path)
    one, other = RunReader(path), RunReader(reference)
    assert one.status == other.status == "finished", f"status {one.status}"
    assert one.measured_events == other.measured_events, differing_scores(
        one.measured_events, other.measured_events
    )
    last = [
        reader.checkpoints[-1].path.full_path / folder_layout.TENSORS for reader in (one, other)
    ]
    for pair in ([path / folder_layout.WEIGHTS, reference / folder_layout.WEIGHTS], last):
        found, wanted = (load(file.read_bytes()) for file in pair)
        assert found.keys() == wanted.keys(), f"tensors {found.keys() ^ wanted.keys()}"
        for name, array in wanted.items():
            assert np.array_equal(found[name], array), f"{pair[0].name}: {name}"


def differing_scores(found: Sequence[Measured], wanted: Sequence[Measured]) -> str:
    """Which scores one run has and the other has not, for a message."""
    more = [score.step for score in found if score not in wanted]
    fewer = [score.step for score in wanted if score not in found]
    return f"scores of steps {more} instead of {fewer}; {len(found)} instead of {len(wanted)}"


def fill_disk(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return
