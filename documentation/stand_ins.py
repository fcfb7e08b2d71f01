"""Small stand-ins for the files and data sets that commands in the documents name."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from dgn_engine.cli import main as dgn
from dgn_engine.cli.run import execution
from dgn_engine.data._torchvision import import_torchvision
from dgn_engine.sweep.cluster_tls import ClusterTls
from dgn_engine.sweep.scheduler import Executor
from dgn_engine.sweep.unit import Unit
from dgn_engine.sweep.workers import find_executor

Images = npt.NDArray[np.uint8]
State = dict[str, torch.Tensor]
MNIST_SIZES = {"train": 60, "t10k": 30}
CIFAR_BATCHES = {**{f"data_batch_{number}": 40 for number in range(1, 6)}, "test_batch": 40}
CODE = """import torch
from torch import nn


def make_net():
    return nn.Sequential(nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10))


make = make_net
"""
SWEEP = """[base]
data.name = "digits"
net.name = "fc"
net.options = {width = 16, depth = 3}
training.epochs = 2

[grid]
"gating.regime" = ["FR-II", "DL"]
seed = [0, 1]
"""
CONFIGURATION = """[data]
name = "digits"

[net]
name = "fc"
options = {width = 16, depth = 3}

[training]
epochs = 2
"""


def write_data_sets(root: Path) -> None:
    """Write a small MNIST and a small CIFAR-10 as torchvision lays them out."""
    images, labels = enlarged_digits(28, sum(MNIST_SIZES.values()))
    folder = root / "MNIST" / "raw"
    folder.mkdir(parents=True)
    begin = 0
    for part, examples in MNIST_SIZES.items():
        chosen = slice(begin, begin + examples)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(_idx(images[chosen]))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(_idx(labels[chosen].astype(np.uint8)))
        begin += examples
    _write_cifar(root / "cifar-10-batches-py")


@contextlib.contextmanager
def small_cifar(root: Path) -> Iterator[None]:
    """Let torchvision's checksums be those of the small CIFAR-10 below `root`."""
    table = import_torchvision().CIFAR10
    folder = root / "cifar-10-batches-py"
    sums = {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    small = {
        "train_list": [[name, sums[name]] for name in CIFAR_BATCHES if name != "test_batch"],
        "test_list": [["test_batch", sums["test_batch"]]],
        "meta": {**table.meta, "md5": sums["batches.meta"]},
    }
    before = {name: getattr(table, name) for name in small}
    for name, value in small.items():
        setattr(table, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(table, name, value)


def one_process() -> contextlib.AbstractContextManager[Any]:
    """Let commands that choose their executor train in this process.

    Each worker would import torch, which takes longer than most of these runs.
    """

    def choose(
        name: str, units: Sequence[Unit], cluster: str, workers: int, tls: ClusterTls, devices: str
    ) -> Executor:
        free = name == "auto" and not (cluster or workers or devices)
        return find_executor("serial" if free else name, units, cluster, workers, tls, devices)

    return patch.object(execution, "find_executor", choose)


def enlarged_digits(side: int, examples: int) -> tuple[Images, npt.NDArray[np.int64]]:
    """Return scikit-learn's digits with `side` × `side` pixels, (n, side, side), and their labels.

    They are learnable, as the images that they stand for, and the same everywhere.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    rows = np.arange(side) * 8 // side
    pixels = digits.images[:examples][:, rows][:, :, rows]
    return (pixels * 15).astype(np.uint8), digits.target[:examples].astype(np.int64)


def _idx(array: Images) -> bytes:
    sides = b"".join(side.to_bytes(4, "big") for side in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sides + array.tobytes()


def _write_cifar(folder: Path) -> None:
    folder.mkdir(parents=True)
    images, labels = enlarged_digits(32, sum(CIFAR_BATCHES.values()))
    colours = np.repeat(images[:, None], 3, axis=1)
    begin = 0
    for name, examples in CIFAR_BATCHES.items():
        chosen = slice(begin, begin + examples)
        table = {"data": colours[chosen].reshape(examples, -1), "labels": labels[chosen].tolist()}
        (folder / name).write_bytes(pickle.dumps(table, protocol=4))
        begin += examples
    names = {"label_names": [str(number) for number in range(10)]}
    (folder / "batches.meta").write_bytes(pickle.dumps(names))


def _dense(*sides: int, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sides):
        layers += [nn.Linear(inputs, outputs, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _write_dense(sides: Sequence[int], path: Path) -> None:
    """Write a whole network, which says what it is."""
    torch.save(_dense(*sides), path)


def _write_state_dict(sides: Sequence[int], path: Path, bias: bool = True) -> None:
    torch.save(_dense(*sides, bias=bias).state_dict(), path)


def _write_convolutions(path: Path) -> None:
    torch.manual_seed(0)
    channels = (1, 32, 32, 32, 32)
    layers = [nn.Conv2d(inputs, outputs, 3, bias=False) for inputs, outputs in pairwise(channels)]
    torch.save(nn.Sequential(*layers, nn.Linear(32, 10, bias=False)).state_dict(), path)


def _write_resnet(path: Path) -> None:
    """Write a ResNet-18 with the names of torchvision, a sixteenth as wide."""
    torch.manual_seed(0)
    widths = (4, 8, 16, 32)
    state: State = {"conv1.weight": _kaiming(widths[0], 3, 7), **_norm("bn1", widths[0])}
    inputs = widths[0]
    for stage, width in enumerate(widths, 1):
        for block in range(2):
            name = f"layer{stage}.{block}"
            state[f"{name}.conv1.weight"] = _kaiming(width, inputs, 3)
            state |= _norm(f"{name}.bn1", width)
            state[f"{name}.conv2.weight"] = _kaiming(width, width, 3)
            state |= _norm(f"{name}.bn2", width)
            if inputs != width:
                state[f"{name}.downsample.0.weight"] = _kaiming(width, inputs, 1)
                state |= _norm(f"{name}.downsample.1", width)
            inputs = width
    state |= {"fc.weight": torch.randn(10, inputs) / inputs**0.5, "fc.bias": torch.zeros(10)}
    torch.save(state, path)


def _kaiming(outputs: int, inputs: int, side: int) -> torch.Tensor:
    return torch.randn(outputs, inputs, side, side) * (2 / (inputs * side**2)) ** 0.5


def _norm(name: str, width: int) -> State:
    one, zero = torch.ones(width), torch.zeros(width)
    return {
        f"{name}.weight": one,
        f"{name}.bias": zero,
        f"{name}.running_mean": zero.clone(),
        f"{name}.running_var": one.clone(),
        f"{name}.num_batches_tracked": torch.tensor(1),
    }


def _write_lightning(path: Path) -> None:
    state = _dense(784, 16, 16, 16, 16, 16, 10).state_dict()
    torch.save({"epoch": 3, "state_dict": {f"net.{name}": t for name, t in state.items()}}, path)


def _write_run(path: Path, data: str = "digits", epochs: int = 200) -> None:
    """Record a run of a small network, ten steps an epoch, with a frame at every 400th step."""
    words = [
        "train", "--data", data, "--net", "fc", "--width", "16", "--depth", "3",
        "--train-limit", "320", "--epochs", str(epochs), "--record", "gates,overlap,npk,ntk",
        "--record-every", "400", "--quiet", "--out", str(path),
    ]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert dgn(words) == 0


def _write_images(mode: str, path: Path) -> None:
    images, labels = enlarged_digits(28, 100)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (path / f"class {label}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).convert(mode).save(path / f"class {label}" / f"{number}.png")


def _write_text(text: str, path: Path) -> None:
    path.write_text(text, "utf-8")


def _write_array(shape: tuple[int, ...], path: Path) -> None:
    np.save(path, np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def _write_labels(path: Path) -> None:
    np.save(path, np.arange(12) % 10)


def _write_gates(path: Path) -> None:
    save_file(_dense(6, 8, 8, 8, 3, bias=False).state_dict(), path)


STAND_INS: dict[str, Callable[[Path], None]] = {
    "RUN": _write_run,
    "FILE": partial(_write_dense, (784, 16, 16, 10)),
    "net.pt": partial(_write_dense, (784, 16, 16, 10)),
    "mine.pt": partial(_write_dense, (64, 16, 16, 10)),
    "f.pt": partial(_write_state_dict, (784, 16, 10)),
    "feature.pt": partial(_write_state_dict, (6, 8, 8, 8, 3), bias=False),
    "value.safetensors": _write_gates,
    "cnn.pt": _write_convolutions,
    "resnet18.pth": _write_resnet,
    "last.ckpt": _write_lightning,
    "x.npy": partial(_write_array, (12, 784)),
    "x.npz": lambda path: np.savez(path, x=np.random.default_rng(0).standard_normal((12, 6))),
    "y.npy": _write_labels,
    "images.npy": partial(_write_array, (3, 1, 8, 8)),
    "test.npy": lambda path: np.save(path, np.arange(0, 1797, 5)),
    "images": partial(_write_images, "L"),
    "flowers": partial(_write_images, "RGB"),
    "mine.py": partial(_write_text, CODE),
    "mypackage/module.py": partial(_write_text, CODE),
    "mypackage/nets.py": partial(_write_text, CODE),
    "sweep.toml": partial(_write_text, SWEEP),
    "beta.toml": partial(_write_text, SWEEP),
    "base.toml": partial(_write_text, CONFIGURATION),
    "config.toml": partial(_write_text, CONFIGURATION),
    "one": _write_run,
    "run": _write_run,
    "runs/first": _write_run,
}
# Where documents mean different files by one name.
OF_A_DOCUMENT: dict[tuple[str, str], Callable[[Path], None]] = {
    ("docs/guide/gate-information.md", "RUN"): partial(_write_run, data="mnist"),
    ("docs/kernels.md", "runs/first"): partial(_write_run, epochs=40),
    ("docs/kernels.md", "x.npy"): partial(_write_array, (12, 64)),
    ("docs/kernels.md", "net.pt"): partial(_write_dense, (64, 16, 16, 10)),
    ("docs/kernels.md", "f.pt"): partial(_write_state_dict, (64, 16, 10)),
    ("docs/kernels.md", "mypackage/module.py"): partial(_write_text, CODE.replace("784", "64")),
}


class StandIns:
    """Stand-ins for everything that commands name; what was made once is copied."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._made: dict[Callable[[Path], None], Path] = {}
        self._data = cache / "data"
        write_data_sets(self._data)

    def put(self, document: str, name: str, folder: Path) -> None:
        """Write the file or folder of this name that a document means, if there is one."""
        write = OF_A_DOCUMENT.get((document, name), STAND_INS.get(name))
        if write is None:
            return
        if write not in self._made:
            made = self._cache / f"{len(self._made)}" / Path(name).name
            made.parent.mkdir()
            write(made)
            self._made[write] = made
        made, target = self._made[write], folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if made.is_dir():
            shutil.copytree(made, target)
        else:
            shutil.copy(made, target)

    @contextlib.contextmanager
    def installed(self, home: Path) -> Iterator[None]:
        """Let programs find the small data sets, and write their folders below `home`.

        No browser is opened, no worker is started unless a command names its executor, and modules
        that were named on the way are forgotten at the end.
        """
        variables = {
            "HOME": str(home),
            "DGN_HOME": str(home / "dgn"),
            "DGN_RUNS_ROOT": str(home / "runs"),
            "DGN_RESULTS_ROOT": str(home / "results"),
            "DGN_DATA_ROOT": str(self._data),
            "BROWSER": "true",
        }
        before = {name: os.environ.get(name) for name in variables}
        modules = set(sys.modules)
        home.mkdir()
        os.environ.update(variables)
        try:
            with small_cifar(self._data), one_process():
                yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
            for name in {Path(name).parts[0].removesuffix(".py") for name in STAND_INS}:
                if name not in modules:
                    sys.modules.pop(name, None)
