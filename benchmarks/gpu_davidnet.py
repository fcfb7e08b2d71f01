"""DavidNet at the 24 epochs of its author in the regimes of [COMP], while there is time.

    python -m benchmarks.gpu_davidnet --data FOLDER --seconds 300 --out build/davidnet.json

The runs are those of `dgn reproduce composite-davidnet --full --seeds 1`, one after another by
`dgn train`, in the order of their worth: ReLU, whose gates FL takes, then FL, DL, FR-II, FR-DI with
images as the value network's input, then the same with ones. When the time is over, the run that
trains is stopped, and its row says how far it came. `benchmarks/gpu_session.sh` calls this.
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
from benchmarks.children import ending_on_signals, run_for, write_whole
from benchmarks.gpu import (
    NO_CARD,
    NO_CARD_WORDS,
    NO_TIME,
    RATE_SECONDS,
    Tree,
    add_time_options,
    measure_rates,
    moment_of_end,
)
from benchmarks.report import duration
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
LEAST = 15.0  # seconds: with less no run is begun
TELLING = 5.0  # seconds: a log is written in batches, and tells nothing of a shorter time
GRACE = 8.0  # seconds that a run has to save itself
BATCHES = "cifar-10-batches-py"  # of torchvision
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
NO_DATA = (
    "holds no CIFAR-10: neither cifar-10-batches-py nor images as train/CLASS/… and test/CLASS/…, "
    "in folders or in a .tar.gz or .zip"
)
DRY_EPOCHS, DRY_TRAIN, DRY_TEST, DRY_WIDTH = 3, 64, 32, 4


@dataclass(frozen=True)
class ImageData:
    """Where the program reads CIFAR-10, and what it is called beside figures."""

    name: str
    title: str
    root: str = ""


def find_data(path: Path) -> ImageData:
    """Return the data in a folder or in an archive.

    Raises:
        UserError: There are none, with why each archive in the folder is not taken.
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
    """JPEG costs accuracy against the original: the first image shows which it is."""
    try:
        names = list(_file_names(path))
    except (OSError, EOFError, tarfile.TarError, BadZipFile, zlib.error) as error:
        raise UserError(f"{path.name} cannot be read: {error}") from error
    if any(name.endswith("data_batch_1") for name in names):
        raise UserError(f"{path.name} holds {BATCHES}, which has to be unpacked first")
    images = [name for name in names if name.lower().endswith(IMAGES)]
    classes = len(layout_of_images(images, path.name).class_names)
    kind = "JPEG" if images[0].lower().endswith((".jpg", ".jpeg")) else "images"
    title = f"CIFAR-10 ({kind})" if classes == CLASSES else f"{classes} classes, not CIFAR-10"
    return ImageData(f"folder:{path}", title)


def _file_names(path: Path) -> Iterator[str]:
    if path.is_dir():
        yield from (file.relative_to(path).as_posix() for file in path.rglob("*.*"))
    elif path.suffix == ".zip":
        with ZipFile(path) as archive:
            yield from archive.namelist()
    else:
        with tarfile.open(path) as tar:
            yield from (member.name for member in tar if member.isfile())


def planned_runs(data: ImageData, precision: Precision, dry: bool) -> list[Training]:
    """Return the runs of the experiment for one seed, the most telling first."""
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
    runs.sort(key=_worth)
    if dry:
        narrow = NetConfig("davidnet", (("width", DRY_WIDTH),))
        some = [run for run in runs if run.config.gating.value_input == "image"]
        return [replace(run, config=replace(run.config, net=narrow)) for run in some]
    return [replace(run, config=_with_precision(run.config, precision)) for run in runs]


def _worth(run: Training) -> tuple[int, int]:
    gating = run.config.gating
    return list(INPUTS).index(gating.value_input), ORDER.index(gating.regime)


def _with_precision(config: RunConfig, precision: Precision) -> RunConfig:
    return replace(config, training=replace(config.training, precision=precision))


def blank_row(run: Training) -> Tree:
    gating = run.config.gating
    return {
        "name": run.id,
        "regime": gating.regime,
        "value_input": gating.value_input,
        "epochs_wanted": run.config.training.epochs,
        "state": "not begun",
        "why": NO_TIME,
    }


def train(run: Training, root: Path, seconds: float, environment: Mapping[str, str]) -> Tree:
    """Train one run for at most so many seconds; return what differs in its row."""
    if run.gates_from is not None and not run.gates_from.path(root).exists():
        return {"why": f"{run.gates_from.unit} left no gates"}
    folder = unit_folder(root, run.id)
    folder.parent.mkdir(parents=True, exist_ok=True)
    config = root / f"{run.id}.toml"
    config.write_text(run.resolve_paths(root).to_toml(), encoding="utf-8")
    command = python_command("-m", "dgn_engine.cli", "train", str(config), "--quiet")
    command += ["--out", str(folder)]
    code, output = run_for(command, max(seconds - GRACE, 1.0), environment, GRACE)
    state = {0: "done", FAILED: "diverged", None: "stopped"}.get(code, "failed")
    last = (output.strip().splitlines() or [f"exit code {code}"])[-1]
    return {"state": state, "why": last if state == "failed" else ""}


def read_results(
    run: Training, root: Path, rates: Mapping[str, float] | None, process_seconds: float
) -> Tree:
    """Return the figures of a run that its folder holds, finished or not.

    Seconds are those from the first score in its log to the last, tests and all, and the floor is
    of the same steps: reading data and capturing the step come before.
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
        amounts = amounts_of(reader.config, started, steps, len(tests))
        needs = {"flops": amounts.flops, "bytes": amounts.bytes}
        rate = rates[reader.config.training.precision]
        floor = floors.least_seconds(needs, rate, rates["copy"])
        row |= {"floor_seconds": floor, "ratio_to_floor": seconds / floor}
    return row


def amounts_of(config: RunConfig, started: RunStarted, steps: int, tests: int) -> Amounts:
    """Return the least work of so many steps and passes over the test set."""
    shape = (3, *started.layers[0].shape[1:])  # the first convolution keeps the sides
    architecture = build_architecture(config.net, shape, started.classes)
    examples = round(started.train_examples * steps / started.steps_per_epoch)
    trained = floors.training_amounts(config, architecture, examples, steps)
    networks = 1 if find_regime(config.gating.regime).own_gates else 2
    passes = tests * started.test_examples * networks
    return Amounts(trained.flops + passes * sum(floors.layer_flops(architecture)), trained.bytes)


class DavidNetSession:
    """The rows of all runs, and the files that they are in, written anew after each."""

    def __init__(self, out: Path, page: Path, content: Tree) -> None:
        self._out, self._page = out, page
        self.content = content

    def write(self) -> None:
        write_whole(self._out, json.dumps(self.content, indent=1))
        write_whole(self._page, page_of(self.content))

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
                row |= train(run, root, left, environment)
            except SystemExit:
                row |= {"state": "stopped", "why": ""}
                raise
            finally:
                row["process_seconds"] = round(now() - began, 1)
                row |= read_results(run, root, self.content["rates"], now() - began)
                self.write()


def page_of(content: Tree) -> str:
    """Return the page in Markdown."""
    dry = content["dry"]
    about = content["machine"]
    lines = ["# Dry run: DavidNet" if dry else "# DavidNet in the regimes of [COMP]", ""]
    if dry:
        lines += [
            "**Dry: on a CPU, a few images and epochs. No figure means anything.**",
            "",
        ]
    lines += [
        f"{about['device']}, torch {about['torch']}, CUDA {about['cuda']}; {about['date']}.",
        "",
    ]
    if why := content.get("skipped"):
        return "\n".join([*lines, f"DavidNet was not trained: {why}.", ""])
    lines += [
        f"{content['data']}; width {content['width']}, SGD with step 0.5, batch 256, no "
        f"augmentation, {content['precision']}, seed 0. Accuracies are those of the last epoch, "
        "and the best on the test set. Seconds are those of training with its tests, by the run's "
        f"log from its first score on (below {TELLING:g} s: of the whole process); the floor is of "
        "the same steps.",
        "",
        "| regime | x^v | epochs | train | test | best | seconds | images/s | floor | ratio | |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    mark = "dry: " if dry else ""
    lines += [f"| {mark}{' | '.join(_cells(row))} |" for row in content["runs"]]
    return "\n".join([*lines, ""])


def _cells(row: Tree) -> list[str]:
    def percent(name: str) -> str:
        value = row.get(name)
        return "" if value is None else f"{value:.2%}"

    known = "seconds" in row
    has_floor = "floor_seconds" in row
    state = ", ".join(part for part in (row["state"], row["why"]) if part)
    return [
        row["regime"],
        INPUTS[row["value_input"]],
        f"{row.get('epochs', 0):g} of {row['epochs_wanted']}",
        percent("train_accuracy"),
        percent("test_accuracy"),
        percent("best_test_accuracy"),
        duration(row["seconds"]) if known else "",
        f"{row['images_per_second']:,.0f}" if known else "",
        duration(row["floor_seconds"]) if has_floor else "",
        f"{row['ratio_to_floor']:.3g}" if has_floor else "",
        state,
    ]


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where no run failed, also where time or data were missing; 1 where one failed, 2
    where --out cannot be written, 3 without a card; 128 + n is the exit code after the signal n."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_davidnet", description=__doc__)
    parser.add_argument("--data", type=Path, help="CIFAR-10: a folder or an archive")
    parser.add_argument("--out", type=Path, default=Path("build/davidnet.json"))
    add_time_options(parser, 300.0)
    parser.add_argument("--rates", type=Path, help="JSON of `make gpu`, whose rates are taken")
    parser.add_argument("--precision", choices=get_args(Precision), default="tf32")
    parser.add_argument("--dry", action="store_true", help="width 4, a few images, on the CPU")
    given = parser.parse_args(arguments)
    until = moment_of_end(given)
    if not given.dry and not torch.cuda.is_available():
        print(NO_CARD_WORDS, file=sys.stderr)
        return NO_CARD
    with ending_on_signals():
        return _measure(given, until)


def _measure(given: argparse.Namespace, until: float) -> int:
    device = torch.device("cpu" if given.dry else "cuda")
    about = machine.machine(device) | {"cuda": torch.version.cuda}
    content: Tree = {"dry": given.dry, "machine": about, "skipped": NO_TIME, "runs": []}
    session = DavidNetSession(given.out, given.out.with_suffix(".md"), content)
    try:
        session.write()
    except OSError as error:
        print(f"{given.out} cannot be written: {error.strerror}.", file=sys.stderr)
        return 2
    try:
        if given.data is None:
            raise UserError("no data were given")
        data = find_data(given.data.absolute())
    except UserError as error:
        why = content["skipped"] = str(error).rstrip(".")
        session.write()
        print(f"DavidNet is not trained: {why}.", file=sys.stderr)
        return 0
    del content["skipped"]
    runs = planned_runs(data, given.precision, given.dry)
    content |= {
        "data": data.title,
        "precision": runs[0].config.training.precision,
        "width": dict(runs[0].config.net.options)["width"],
        "rates": _rates(given.rates, until, content),
        "runs": [blank_row(run) for run in runs],
    }
    session.write()
    with tempfile.TemporaryDirectory() as root:
        session.train_all(runs, Path(root), until)
    return 1 if any(row["state"] == "failed" for row in content["runs"]) else 0


def _rates(path: Path | None, until: float, content: Tree) -> Tree | None:
    """Return those of `make gpu` on this device, or measure them."""
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
