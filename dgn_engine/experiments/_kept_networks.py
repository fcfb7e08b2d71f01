"""Networks of a finished run at the epochs whose weights were kept."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load
from torch import Tensor

from dgn_engine.kernels import spectrum
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.regime_entry import configure_for
from dgn_engine.regimes import find_regime
from dgn_engine.storage.inner_path import InnerPath, inner_folder
from dgn_engine.storage.regular_files import FILE, read_regular
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.text.written_numbers import format_percent
from dgn_engine.training.devices import choose_float64_device
from dgn_engine.training.run import Run
from dgn_engine.training.weight_keeper import KEPT

_EPOCH = re.compile(r"epoch-(\d+)\.safetensors")


class KeptNetworks:
    """An iterator over (epoch, network) of a run's kept weights, in float64.

    The same network is reused for all epochs. Network and data are on the device of the run or on
    the CPU (see `choose_float64_device`).

    Attributes:
        config: configuration of the run.
        data: all examples, in float32.
        epochs: epochs whose weights were kept, ascending.
        x, y: the first `per_class` training examples of every class, sorted by class.
        classes: number of classes.
        data: all examples.
    """

    def __init__(self, folder: Path, per_class: int) -> None:
        config = RunReader(folder).config
        config = replace(config, device=choose_float64_device(config.device))
        quiet = (lambda _: None, lambda *_: None)
        run = Run(1, config, *quiet, live=False, recorded=True, checkpoints=False)
        data = self.data = run.trainer.data
        self.config = config
        chosen = first_of_each_class(data.train_y, per_class)
        self.x, self.y = data.train_x[chosen].double(), data.train_y[chosen]
        self.classes = run.architecture.classes
        self._network = run.trainer.network.double()
        weights_folder = inner_folder(folder) / KEPT
        self._files = [weights_folder / name for name in weights_folder.list_entries()]

    @property
    def epochs(self) -> tuple[int, ...]:
        found = (_EPOCH.fullmatch(path.name) for path in self._files)
        return tuple(sorted(int(match[1]) for match in found if match is not None))

    def __iter__(self) -> Iterator[tuple[int, GatedNetwork]]:
        for path in self._files:
            match = _EPOCH.fullmatch(path.name)
            if match is not None:
                self._load_epoch(path)
                yield int(match[1]), self._network

    def _load_epoch(self, path: InnerPath) -> None:
        content = read_regular(path, FILE)
        head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        tensors = {name: tensor.double() for name, tensor in load(content).items()}
        regime = find_regime(head["__metadata__"]["regime"])
        self._network.load_state_dict(tensors)
        configure_for(self._network, regime)


def nu_of(kernel: Tensor, targets: Tensor) -> dict[str, float]:
    """Return ν of a kernel (n, n) with its rank, cutoff and the excluded energy of the targets."""
    eigen = spectrum(kernel.detach(), targets)
    nu, outside = eigen.nu or math.nan, eigen.outside or 0.0
    return {"nu": nu, "rank": eigen.rank, "cutoff": eigen.cutoff, "outside": outside}


def nu_remarks(
    kernel: str, calculated: Sequence[Mapping[str, Sequence[float]]], examples: int
) -> tuple[str, ...]:
    """Return a remark on ν: the smallest `rank` and largest `outside` of all calculations.

    Empty if a calculation of an older version lacks them.
    """
    if not all("rank" in curve and "outside" in curve for curve in calculated):
        return ()
    rank = min(min(curve["rank"]) for curve in calculated)
    outside = max(max(curve["outside"]) for curve in calculated)
    return (
        f"Smallest numerical rank of {kernel}: {rank:g} of {examples} (or of all examples, if "
        f"fewer); at most {format_percent(outside, 2)} of the targets' energy is excluded from ν.",
    )


def first_of_each_class(labels: Tensor, per_class: int) -> Tensor:
    """Return the indices of the first `per_class` examples of each class, sorted by class."""
    classes = sorted(set(labels.tolist()))
    return torch.cat([torch.where(labels == label)[0][:per_class] for label in classes])
