"""Train DavidNet for its author's 24 epochs in the regimes of [COMP], within a time limit.

    python -m benchmarks.gpu_davidnet --data FOLDER --seconds 300 --out build/davidnet.json

The runs are those of `dgn reproduce composite-davidnet --full --seeds 1`, trained one after another
by `dgn train`, most informative first: ReLU, whose gates FL uses, then FL, DL, FR-II and FR-DI with
images as the value network's input, then the same with ones. When time runs out, the current run is
stopped, and its row says how far it got. Called by `benchmarks/gpu_session.sh`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic as now
from typing import get_args
from zipfile import BadZipFile, ZipFile

import torch

from benchmarks import floors, machine
from benchmarks.case import Amounts
from benchmarks.children import exit_on_signals, run_with_limit, write_atomically
from benchmarks.davidnet_page import format_page
from benchmarks.gpu import (
    NO_CARD,
    NO_CARD_WORDS,
    NO_TIME,
    RATE_SECONDS,
    Tree,
    add_time_options,
    compute_deadline,
    measure_rates,
)
from benchmarks.training_epochs import CLASSES
from dgn_engine.cli import FAILED
from dgn_engine.config import NetConfig, Precision, RunConfig
from dgn_engine.confinement.child_process import python_command
from dgn_engine.data._image_layout import layout_of_images
from dgn_engine.errors import UserError
from dgn_engine.experiments import Request
from dgn_engine.experiments.composite_davidnet import EXPERIMENT, INPUTS
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.protocol.training import RunStarted
from dgn_engine.regimes import find_regime
from dgn_engine.storage.runs.folder_layout import RUN
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.unit import Training, unit_folder

ORDER = ("ReLU", "FL", "DL", "FR-II", "FR-DI")
LEAST = 15.0  # seconds: with less time left, no run is started
TELLING = 5.0  # seconds: logs are written in batches, so shorter spans are unreliable
GRACE = 8.0  # seconds a run has to save its state
BATCHES = "cifar-10-batches-py"  # torchvision's folder name
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
NO_DATA = (
    "holds no CIFAR-10: neither cifar-10-batches-py nor images as train/CLASS/… and test/CLASS/…, "
    "in folders or in a .tar.gz or .zip"
)
DRY_EPOCHS, DRY_TRAIN, DRY_TEST, DRY_WIDTH = 3, 64, 32, 4


@dataclass(frozen=True)
class ImageData:
    """Where CIFAR-10 is read from, and its title next to figures."""

    name: str
    title: str
    root: str = ""


def find_data(path: Path) -> ImageData:
    """Find CIFAR-10 in a folder or an archive.

    Raises:
        UserError: There is none; the message says why each archive in the folder was rejected.
    """
    if path.name == BATCHES:
        path = path.parent
    if (path / BATCHES).is_dir():
        return ImageData("cifar10", "CIFAR-10", str(path))
    if path.is_file() or ((path / "train").is_dir() and (path / "test").is_dir()):
        return _image_data(path)
    reasons = []
    for archive in sorted(path.glob("*")):
        if archive.name.endswith(ARCHIVES):
            try:
                data = _image_data(archive)
            except UserError as error:
                reasons.append(str(error).rstrip("."))
                continue
            if data.title.startswith("CIFAR-10"):
                return data
            reasons.append(f"{archive.name} has {data.title}")
    raise UserError("; ".join([f"{path} {NO_DATA}", *reasons]))


def _image_data(path: Path) -> ImageData:
    """Describe the images. JPEG costs accuracy, so the format of the first image is reported."""
    try:
        names = list(_list_file_names(path))
    except (OSError, EOFError, tarfile.TarError, BadZipFile, zlib.error) as error:
        raise UserError(f"{path.name} cannot be read: {error}") from error
    if any(name.endswith("data_batch_1") for name in names):
        raise UserError(f"{path.name} holds {BATCHES}, which has to be unpacked first")
    images = [name for name in names if name.lower().endswith(IMAGES)]
    classes = len(layout_of_images(images, path.name).class_names)
    kind = "JPEG" if images[0].lower().endswith((".jpg", ".jpeg")) else "images"
    title = f"CIFAR-10 ({kind})" if classes == CLASSES else f"{classes} classes, not CIFAR-10"
    return ImageData(f"folder:{path}", title)


def _list_file_names(path: Path) -> Iterator[str]:
    if path.is_dir():
        yield from (file.relative_to(path).as_posix() for file in path.rglob("*.*"))
    elif path.suffix == ".zip":
        with ZipFile(path) as archive:
            yield from archive.namelist()
    else:
        with tarfile.open(path) as tar:
            yield from (member.name for member in tar if member.isfile())


def plan_runs(data: ImageData, precision: Precision, dry: bool) -> list[Training]:
    """Return the runs of the experiment for one seed, most informative first."""
    request = Request(
        scale="full",
        seeds=1,
        epochs=DRY_EPOCHS if dry else 0,
        data=data.name,
        data_root=data.root,
        device="cpu" if dry else "cuda",
        train_limit=DRY_TRAIN if dry else 0,
        test_limit=DRY_TEST if dry else 0,
    )
    runs = [unit for unit in EXPERIMENT.plan(request).units if isinstance(unit, Training)]
    runs.sort(key=_run_priority)
    if dry:
        narrow = NetConfig("davidnet", (("width", DRY_WIDTH),))
        some = [run for run in runs if run.config.gating.value_input == "image"]
        return [replace(run, config=replace(run.config, net=narrow)) for run in some]
    return [replace(run, config=_with_precision(run.config, precision)) for run in runs]


def _run_priority(run: Training) -> tuple[int, int]:
    gating = run.config.gating
    return list(INPUTS).index(gating.value_input), ORDER.index(gating.regime)


def _with_precision(config: RunConfig, precision: Precision) -> RunConfig:
    return replace(config, training=replace(config.training, precision=precision))


def make_blank_row(run: Training) -> Tree:
    gating = run.config.gating
    return {
        "name": run.id,
        "regime": gating.regime,
        "value_input": gating.value_input,
        "epochs_wanted": run.config.training.epochs,
        "state": "not begun",
        "why": NO_TIME,
    }


def train_run(run: Training, root: Path, seconds: float, environment: Mapping[str, str]) -> Tree:
    """Train one run for at most so many seconds; return the changes to its row."""
    if run.gates_from is not None and not run.gates_from.path(root).exists():
        return {"why": f"{run.gates_from.unit} left no gates"}
    folder = unit_folder(root, run.id)
    folder.parent.mkdir(parents=True, exist_ok=True)
    config = root / f"{run.id}.toml"
    config.write_text(run.resolve_paths(root).to_toml(), encoding="utf-8")
    command = python_command("-m", "dgn_engine.cli", "train", str(config), "--quiet")
    command += ["--out", str(folder)]
    code, output = run_with_limit(command, max(seconds - GRACE, 1.0), environment, GRACE)
    state = {0: "done", FAILED: "diverged", None: "stopped"}.get(code, "failed")
    last = (output.strip().splitlines() or [f"exit code {code}"])[-1]
    return {"state": state, "why": last if state == "failed" else ""}


def read_results(
    run: Training, root: Path, rates: Mapping[str, float] | None, process_seconds: float
) -> Tree:
    """Return the figures of a run from its folder, finished or not.

    Seconds span from the first score in its log to the last, including tests, and the floor is for
    the same steps. This excludes reading data and capturing the step, which come before.
    """
    folder = unit_folder(root, run.id)
    if not (folder / RUN).exists():
        return {}
    reader = RunReader(folder)
    started, scores = reader.start_event, reader.measured_events
    if started is None or not scores:
        return {}
    steps, tests = scores[-1].step, [s.test_accuracy for s in scores if s.test_accuracy is not None]
    row: Tree = {
        "epochs": round(steps / started.steps_per_epoch, 2),
        "train_accuracy": scores[-1].train_accuracy,
        "test_accuracy": tests[-1] if tests else None,
        "best_test_accuracy": max(tests, default=None),
    }
    seconds = process_seconds
    if reader.log.summary.seconds >= TELLING:
        seconds, steps = reader.log.summary.seconds, steps - scores[0].step
    images = started.train_examples * steps / started.steps_per_epoch
    row |= {"seconds": round(seconds, 3), "images_per_second": round(images / seconds, 1)}
    if rates:
        amounts = count_run_work(reader.config, started, steps, len(tests))
        arithmetic = reader.config.training.precision
        floor, _ = floors.compute_floor(amounts, arithmetic, rates)
        row |= {"floor_seconds": floor, "reached": floor / seconds}
    return row


def count_run_work(config: RunConfig, started: RunStarted, steps: int, tests: int) -> Amounts:
    """Return the least work of the training steps and the passes over the test set."""
    shape = (3, *started.layers[0].shape[1:])  # the first convolution keeps the sides
    architecture = build_architecture(config.net, shape, started.classes)
    examples = round(started.train_examples * steps / started.steps_per_epoch)
    trained = floors.count_training_work(config, architecture, examples, steps)
    networks = 1 if find_regime(config.gating.regime).own_gates else 2
    passes = tests * started.test_examples * networks
    return Amounts(
        trained.flops + passes * sum(floors.count_layer_flops(architecture)), trained.bytes
    )


class DavidNetSession:
    """The rows of all runs, and their files, which are rewritten after each run."""

    def __init__(self, out: Path, page: Path, content: Tree) -> None:
        self._out, self._page = out, page
        self.content = content

    def write(self) -> None:
        write_atomically(self._out, json.dumps(self.content, indent=1))
        write_atomically(self._page, format_page(self.content))

    def train_all(self, runs: list[Training], root: Path, until: float) -> None:
        environment = {"DGN_HOME": str(root / "home")}
        if self.content["dry"]:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        for run, row in zip(runs, self.content["runs"], strict=True):
            left = until - now()
            if left < LEAST:
                break
            began = now()
            try:
                row |= train_run(run, root, left, environment)
            except SystemExit:
                row |= {"state": "stopped", "why": ""}
                raise
            finally:
                row["process_seconds"] = round(now() - began, 1)
                row |= read_results(run, root, self.content["rates"], now() - began)
                self.write()


def main(arguments: list[str] | None = None) -> int:
    """Run the session and return its exit code.

    0: no run failed, even if time or data were missing; 1: a run failed; 2: --out cannot be
    written; 3: no card; 128 + n: ended by signal n.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_davidnet", description=__doc__)
    parser.add_argument("--data", type=Path, help="CIFAR-10: a folder or an archive")
    parser.add_argument("--out", type=Path, default=Path("build/davidnet.json"))
    add_time_options(parser, 300.0)
    parser.add_argument("--rates", type=Path, help="JSON of `make gpu`, whose rates are taken")
    parser.add_argument("--precision", choices=get_args(Precision), default="tf32")
    parser.add_argument("--dry", action="store_true", help="width 4, a few images, on the CPU")
    options = parser.parse_args(arguments)
    until = compute_deadline(options)
    if not options.dry and not torch.cuda.is_available():
        print(NO_CARD_WORDS, file=sys.stderr)
        return NO_CARD
    with exit_on_signals():
        return _measure_runs(options, until)


def _measure_runs(options: argparse.Namespace, until: float) -> int:
    device = torch.device("cpu" if options.dry else "cuda")
    about = machine.describe_machine(device) | {"cuda": torch.version.cuda}
    content: Tree = {"dry": options.dry, "machine": about, "skipped": NO_TIME, "runs": []}
    session = DavidNetSession(options.out, options.out.with_suffix(".md"), content)
    try:
        session.write()
    except OSError as error:
        print(f"{options.out} cannot be written: {error.strerror}.", file=sys.stderr)
        return 2
    try:
        if options.data is None:
            raise UserError("no data were given")
        data = find_data(options.data.absolute())
    except UserError as error:
        why = content["skipped"] = str(error).rstrip(".")
        session.write()
        print(f"DavidNet is not trained: {why}.", file=sys.stderr)
        return 0
    del content["skipped"]
    runs = plan_runs(data, options.precision, options.dry)
    content |= {
        "data": data.title,
        "precision": runs[0].config.training.precision,
        "width": dict(runs[0].config.net.options)["width"],
        "rates": _find_rates(options.rates, until, content),
        "runs": [make_blank_row(run) for run in runs],
    }
    session.write()
    with tempfile.TemporaryDirectory() as root:
        session.train_all(runs, Path(root), until)
    return 1 if any(row["state"] == "failed" for row in content["runs"]) else 0


def _find_rates(path: Path | None, until: float, content: Tree) -> Tree | None:
    """Return the rates measured by `make gpu` on this device, or measure them."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        table = {} if path is None else json.loads(path.read_text("utf-8"))
        same = (table["dry"], table["machine"]["device"])
        if same == (content["dry"], content["machine"]["device"]) and table["rates"]:
            rates: Tree = table["rates"]
            return rates
    left = until - now()
    return measure_rates(min(left, RATE_SECONDS), content["dry"]) if left >= 2 * LEAST else None


if __name__ == "__main__":
    sys.exit(main())
