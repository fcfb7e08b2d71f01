"""Kernels of networks that were trained and kept: each found again from the files in numpy."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.svm import SVC

from dgn_engine.config import DataConfig, Device, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import load_examples
from dgn_engine.experiments import (
    _kept_networks,
    composite_hidden_outputs,
    dgn_adaptable_gates,
    kernel_ridge,
    npf_kernels,
    npf_nu,
    region_phases,
)
from dgn_engine.experiments._kept_networks import KeptNetworks
from dgn_engine.kernels import convolutional_limit, relu_limit
from dgn_engine.kernels.gate_boundaries import orthonormal_directions
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.regimes import find_regime
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.sweep.unit import CalculationInputs, Training, UnitFile, unit_folder
from dgn_engine.sweep.workers.serial import SerialExecutor
from dgn_engine.training import devices
from tests.engine.experiments.by_hand import path_kernel, relu_gates, tangent_kernel
from tests.engine.experiments.made_up import approximately
from tests.simulated_card import simulated_card

FC = NetConfig("fc", (("width", 7), ("depth", 3)))
TEN = DataConfig(train_limit=80, test_limit=20)
PAIR = replace(TEN, binary=(4, 7))
RUNS = {  # regime, data, network, other settings of the gates
    "relu": ("ReLU", PAIR, FC),
    "frozen": ("FR-II-soft", PAIR, FC),
    "soft": ("DL", PAIR, FC),
    "dl": ("DL", TEN, FC),
    "ten": ("ReLU", TEN, NetConfig("fc", (("width", 7), ("depth", 5)))),
    "maps": ("ReLU", TEN, NetConfig("cnn4", (("channels", 3),))),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of two epochs that kept their weights at the start and at the end, by name."""
    root = tmp_path_factory.mktemp("kept")
    settings = TrainingConfig(learning_rate=1e-2, epochs=2, keep_epochs=(0, 2))
    units = []
    for name, (regime, data, net) in RUNS.items():
        trained = settings if data.binary is None else replace(settings, loss="squared")
        config = RunConfig(data, net, GatingConfig(regime), trained, device="cpu")
        units.append(Training(name, config))
    last = replace(settings, keep_epochs=(2,), keep_best=True)
    maps = replace(units[-1].config, training=last)
    units[-1] = replace(units[-1], config=maps)
    gating = GatingConfig("FL", wiring=(3, 2, 1, 0), value_input="random")
    gates = UnitFile("maps", "weights/best.safetensors")
    units.append(Training("reversed", replace(maps, gating=gating), gates))
    SerialExecutor().run(units, root, lambda _: None, lambda: False)
    return {unit.id: unit_folder(root, unit.id) for unit in units}


def needs(folder: Path, **arguments: Any) -> CalculationInputs:
    return CalculationInputs(arguments, Path(), {"a run": folder})


def first_examples(data: DataConfig, per_class: int) -> tuple[np.ndarray, np.ndarray]:
    """The first so many images of each class, class after class, and their numbers."""
    examples = load_examples(data)
    x, y = np.array(examples.train_x, dtype=float), np.array(examples.train_y)
    chosen = [np.flatnonzero(y == label)[:per_class] for label in sorted(set(y.tolist()))]
    places = np.concatenate(chosen)
    return x[places].reshape(len(places), -1), y[places]


def kept_weights(folder: Path, epoch: int, which: str = "value") -> list[np.ndarray]:
    tensors = load_file(folder / "weights" / f"epoch-{epoch:04d}.safetensors")
    count = sum(name.startswith(f"{which}.weights.") for name in tensors)
    return [tensors[f"{which}.weights.{layer}"].astype(float) for layer in range(count)]


def target_columns(y: np.ndarray) -> np.ndarray:
    classes = sorted(set(y.tolist()))
    if len(classes) == 2:
        return np.where(y == classes[1], 1.0, -1.0)[:, None]
    return np.array([[1.0 if one == label else -1.0 for label in classes] for one in y])


def nu_of(kernel: np.ndarray, y: np.ndarray) -> tuple[float, int, float]:
    """ν, the rank and the share of the target's energy beyond it (theory §7)."""
    values, vectors = np.linalg.eigh(kernel / np.trace(kernel))
    energies = ((vectors.T @ target_columns(y)) ** 2).mean(axis=1)
    kept = values > len(kernel) * np.finfo(float).eps * values[-1]
    outside = energies[~kept].sum() / energies.sum()
    return float((energies[kept] / values[kept]).sum()), int(kept.sum()), float(outside)


def gradients_of(folder: Path, epoch: int, x: np.ndarray, wanted: str) -> tuple[torch.Tensor, ...]:
    """∂ŷ_k/∂Θ of each example and logit under soft gates 1/(1 + exp(−8q)), by torch."""
    both = {
        part: tuple(torch.tensor(w) for w in kept_weights(folder, epoch, part))
        for part in ("value", "feature")
    }
    images = torch.tensor(x)

    def logits(*weights: torch.Tensor) -> torch.Tensor:
        used = {**both, wanted: weights}
        z, seen = images, images
        for v, f in zip(used["value"][:-1], used["feature"][:-1], strict=True):
            q = seen @ f.T
            z, seen = (z @ v.T) * torch.sigmoid(8 * q), torch.relu(q)
        return z @ used["value"][-1].T

    weights = both[wanted] if wanted == "value" else both[wanted][:-1]
    if wanted == "feature":
        last = both["feature"][-1]
        return torch.func.jacrev(lambda *w: logits(*w, last), argnums=tuple(range(len(weights))))(
            *weights
        )
    return torch.func.jacrev(logits, argnums=tuple(range(len(weights))))(*weights)


def soft_gates(folder: Path, epoch: int, x: np.ndarray) -> list[np.ndarray]:
    gates, seen = [], x
    for weights in kept_weights(folder, epoch, "feature")[:-1]:
        q = seen @ weights.T
        gates.append(1 / (1 + np.exp(-8 * q)))
        seen = np.maximum(q, 0)
    return gates


def soft_kernel(folder: Path, epoch: int, x: np.ndarray, part: str) -> np.ndarray:
    """The mean over the logits of J Jᵀ over the value or the feature weights."""
    jacobians = gradients_of(folder, epoch, x, part)
    logits = jacobians[0].shape[1]
    total = sum(torch.einsum("nkab,mkab->nm", jacobian, jacobian).numpy() for jacobian in jacobians)
    return np.asarray(total) / logits


def test_kept_networks_are_those_of_the_files_in_double_precision(
    folders: dict[str, Path],
) -> None:
    kept = KeptNetworks(folders["ten"], 3)
    x, y = first_examples(TEN, 3)
    assert kept.classes == 10
    assert kept.y.tolist() == y.tolist()
    assert kept.x.dtype == torch.float64
    assert kept.x.flatten(1).numpy() == approximately(x)
    seen = []
    for epoch, network in kept:
        weights = [weight.detach().numpy() for weight in network.value.weights]
        expected = kept_weights(folders["ten"], epoch)
        assert all((a == b).all() for a, b in zip(weights, expected, strict=True))
        seen.append((epoch, network.own_gates, network.gate.soft))
    assert seen == [(0, True, False), (2, True, False)]
    assert [network.gate.soft for _, network in KeptNetworks(folders["dl"], 3)] == [True, True]
    (folders["ten"] / "weights" / "epoch-last.safetensors").touch()
    assert [epoch for epoch, _ in KeptNetworks(folders["ten"], 3)] == [0, 2]


def test_a_kept_network_has_the_gates_of_the_regime_that_its_file_names(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """As after a swap: the run began in DL, and its end was kept in FR-II."""
    folder = tmp_path / "swapped"
    shutil.copytree(folders["dl"], folder)
    last = folder / "weights" / "epoch-0002.safetensors"
    with safe_open(last, framework="np") as file:
        notes = dict(file.metadata())
    assert notes["regime"] == "DL"
    save_file(load_file(last), last, {**notes, "regime": "FR-II"})
    found = [(network.gate.soft, network.trains) for _, network in KeptNetworks(folder, 1)]
    assert [soft for soft, _ in found] == [True, False]
    assert found[1][1] == find_regime("FR-II").trains


def test_nu_of_a_relu_network(folders: dict[str, Path]) -> None:
    found = npf_nu.nu_of_stages(needs(folders["relu"], per_class=6))
    x, y = first_examples(PAIR, 6)
    assert found["epochs"] == [0, 2]
    for place, epoch in enumerate((0, 2)):
        gates = relu_gates(kept_weights(folders["relu"], epoch), x)
        nu, rank, outside = nu_of(path_kernel(gates, x), y)
        assert found["nu"][place] == pytest.approx(nu, rel=1e-6)
        assert found["rank"][place] == rank
        assert found["outside"][place] == pytest.approx(outside, abs=1e-9)


def test_local_complexity_of_a_relu_network(folders: dict[str, Path]) -> None:
    found = region_phases.complexity_of_stages(needs(folders["relu"], per_class=6))
    x, _ = first_examples(PAIR, 6)
    directions = orthonormal_directions(x.shape[1:], 25).flatten(1).numpy()
    spread = np.sqrt(np.square(x - x.mean(0)).sum() / len(x))
    for place, epoch in enumerate(found["epochs"]):
        weights = kept_weights(folders["relu"], epoch)
        signs = [
            relu_gates(weights, x + side * 0.1 * spread * direction)
            for direction in directions
            for side in (1, -1)
        ]
        for layer, gates in enumerate(zip(*signs, strict=True)):
            crossed = np.any(gates, axis=0) & ~np.all(gates, axis=0)
            mean = crossed.sum() / len(x)
            assert found["layers"][place][layer] == pytest.approx(mean)
        assert found["complexity"][place] == pytest.approx(sum(found["layers"][place]))


@pytest.mark.parametrize("name", ["frozen", "soft"])
def test_nu_of_four_kernels_under_frozen_and_under_adaptive_soft_gates(
    name: str, folders: dict[str, Path]
) -> None:
    found = dgn_adaptable_gates.nus_of_stages(needs(folders[name], per_class=4))
    x, y = first_examples(PAIR, 4)
    assert found.pop("epochs") == [0, 2]
    assert list(found) == ["K^V", "K^F", "K", "H"]
    for place, epoch in enumerate((0, 2)):
        parts = [soft_kernel(folders[name], epoch, x, part) for part in ("value", "feature")]
        paths = path_kernel(soft_gates(folders[name], epoch, x), x)
        kernels = (*parts, sum(parts), paths)
        for kernel, seen in zip(kernels, found.values(), strict=True):
            nu, rank, outside = nu_of(kernel, y)
            assert seen["nu"][place] == pytest.approx(nu, rel=1e-6)
            assert seen["rank"][place] == rank
            assert seen["outside"][place] == pytest.approx(outside, abs=1e-9)
            assert 0 < seen["cutoff"][place] < 1e-9


def test_traces_and_norms_of_both_kernels(folders: dict[str, Path]) -> None:
    found = npf_kernels.kernels_of_stages(needs(folders["dl"], per_class=2))
    x, _ = first_examples(TEN, 2)
    assert found.pop("epochs") == [0, 2]
    expected: dict[str, list[float]] = {}
    for epoch in (0, 2):
        for part in ("value", "feature"):
            kernel = soft_kernel(folders["dl"], epoch, x, part)
            expected.setdefault(f"trace_{part}", []).append(float(np.trace(kernel)))
            expected.setdefault(f"norm_{part}", []).append(math.sqrt((kernel**2).sum()))
    assert set(found) == set(expected)
    for key, numbers in expected.items():
        assert found[key] == pytest.approx(numbers, rel=1e-9), key


def ridge_accuracy(kernel: np.ndarray, y: np.ndarray, seed: int) -> float:
    """Three quarters fit with a ridge of a thousandth of the mean eigenvalue, the rest score."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed)).numpy()
    fit, rest = order[: 3 * len(y) // 4], order[3 * len(y) // 4 :]
    inner = kernel[np.ix_(fit, fit)]
    ridge = 1e-3 * np.trace(inner) / len(fit) * np.eye(len(fit))
    weights = np.linalg.solve(inner + ridge, target_columns(y)[fit])
    guessed = (kernel[np.ix_(rest, fit)] @ weights).argmax(axis=1)
    return float((guessed == y[rest]).mean())


def kernels_of_ten(folder: Path, x: np.ndarray) -> dict[str, np.ndarray]:
    found = {"gram": x @ x.T, "limit": relu_limit(torch.tensor(x), 5).average_kernel.numpy()}
    for epoch, when in ((0, "start"), (2, "end")):
        weights = kept_weights(folder, epoch)
        gates = relu_gates(weights, x)
        found[f"npk_{when}"] = path_kernel(gates, x)
        logits = [
            tangent_kernel([*weights[:-1], weights[-1][k : k + 1]], gates, x) for k in range(10)
        ]
        found[f"ntk_{when}"] = sum(logits) / 10
    return found


def test_accuracies_of_kernels_as_predictors(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels themselves are compared too: accuracies of few examples are coarse."""
    seen: list[np.ndarray] = []
    usual = kernel_ridge.kernel_regression

    def watched(kernel: torch.Tensor, targets: Any, train: Any, test: Any, ridge: float) -> Any:
        seen.append(kernel.numpy())
        assert (len(train), len(test), ridge) == (60, 20, 1e-3)
        return usual(kernel, targets, train, test, ridge)

    monkeypatch.setattr(kernel_ridge, "kernel_regression", watched)
    found = kernel_ridge.regressions(needs(folders["ten"], seed=5, per_class=8))
    x, y = first_examples(TEN, 8)
    expected = kernels_of_ten(folders["ten"], x)
    names = ["gram", "npk_start", "ntk_start", "npk_end", "ntk_end", "limit"]
    assert list(found) == [*names, "svm_start", "svm_end"]
    for name, kernel in zip(names, seen, strict=True):
        assert kernel == pytest.approx(expected[name], rel=1e-6), name
        assert found[name] == ridge_accuracy(expected[name], y, 5), name
    order = torch.randperm(80, generator=torch.Generator().manual_seed(5)).numpy()
    for when in ("start", "end"):
        kernel = expected[f"npk_{when}"] / expected[f"npk_{when}"][order[:60], order[:60]].mean()
        machine = SVC(C=1.0, kernel="precomputed").fit(
            kernel[np.ix_(order[:60], order[:60])], y[order[:60]]
        )
        guessed = machine.predict(kernel[np.ix_(order[60:], order[:60])])
        assert found[f"svm_{when}"] == (guessed == y[order[60:]]).mean()


def test_accuracies_of_the_convolutional_limit(folders: dict[str, Path]) -> None:
    found = kernel_ridge.convolutional(needs(folders["ten"], seed=5, per_class=4))
    x, y = first_examples(TEN, 4)
    images = torch.tensor(x).reshape(-1, 1, 8, 8)
    three = (Conv(1, 8), Conv(8, 8), Conv(8, 8), GlobalAveragePool(), Dense(8, 10, gated=False))
    cntk = convolutional_limit(Architecture((1, 8, 8), three), images).tangent.numpy()
    dense = relu_limit(torch.tensor(x), 5).average_kernel.numpy()
    assert found == {"cntk": ridge_accuracy(cntk, y, 5), "limit": ridge_accuracy(dense, y, 5)}


def test_the_pictures_of_hidden_outputs(folders: dict[str, Path]) -> None:
    """Rows of five tiles of 8 × 8, blank lines between them: two filters of each network, whose
    second row has no input, or means over the filters, a row each."""
    work = CalculationInputs({}, Path(), {"relu": folders["maps"], "reversed": folders["reversed"]})
    found = composite_hidden_outputs.pictures(work)
    rows = {name: lines_of_tiles(picture) for name, picture in found.items()}
    assert {name: len(some) for name, some in rows.items()} == {"filters": 4, "means": 2}
    image = np.array(load_examples(TEN).train_x, dtype=float)
    labels = np.array(load_examples(TEN).train_y)
    first = torch.tensor(image[labels == 0][:1].reshape(1, 1, 8, 8))
    seen = hidden(folders["maps"], [first])
    own = [first, *(torch.relu(q) for q in seen[1:])]
    tensors = load_file(folders["reversed"] / "weights" / "epoch-0002.safetensors")
    fixed = torch.tensor(tensors["random_input"]).double().reshape(1, 1, 8, 8)
    copied = load_file(folders["maps"] / "weights" / "best.safetensors")
    feature = [torch.tensor(copied[f"value.weights.{layer}"]).double() for layer in range(4)]
    gates, z = [], first
    for weight in feature:
        q = torch.nn.functional.conv2d(z, weight, padding=1)
        gates.append((q > 0).double())
        z = torch.relu(q)
    other, z = [fixed], fixed
    for layer, gate in enumerate(reversed(gates)):
        weight = torch.tensor(tensors[f"value.weights.{layer}"]).double()
        z = torch.nn.functional.conv2d(z, weight, padding=1) * gate
        other.append(z)
    for place, maps in enumerate((own, other)):
        means = [one[0].mean(0) for one in maps]
        assert tiles(rows["means"][place]) == approximately(scaled(means))
        for one in (0, 1):
            filters = [one_layer[0, one] for one_layer in maps[1:]]
            shown = scaled([means[0], *filters] if one == 0 else filters)
            assert tiles(rows["filters"][2 * place + one]) == approximately(shown)


def lines_of_tiles(picture: list[list[float | None]]) -> list[list[list[float | None]]]:
    """Rows of five tiles: 8 lines of 44 places, with blank columns, a blank line between rows."""
    assert (len(picture) % 9, {len(line) for line in picture}) == (8, {44})
    assert all(line == [None] * 44 for line in picture[8::9])
    for line in (line for place, line in enumerate(picture) if place % 9 != 8):
        empty = {place for place, value in enumerate(line) if value is None}
        assert empty in ({8, 17, 26, 35}, {*range(9), 17, 26, 35})
    return [picture[begin : begin + 8] for begin in range(0, len(picture), 9)]


def tiles(lines: Sequence[Sequence[float | None]]) -> list[float]:
    return [value for line in lines for value in line if value is not None]


def hidden(folder: Path, maps: list[torch.Tensor]) -> list[torch.Tensor]:
    """The image and the pre-activations of four layers of 3 × 3 convolutions with ReLU."""
    tensors = load_file(folder / "weights" / "epoch-0002.safetensors")
    z = maps[0]
    for layer in range(4):
        weight = torch.tensor(tensors[f"value.weights.{layer}"]).double()
        maps.append(torch.nn.functional.conv2d(z, weight, padding=1))
        z = torch.relu(maps[-1])
    return maps


def scaled(maps: Sequence[torch.Tensor]) -> list[float]:
    """Sizes, each map to its largest, side by side."""
    sizes = [abs(one.numpy()) for one in maps]
    return list(np.concatenate([size / size.max() for size in sizes], axis=1).ravel())


@pytest.fixture
def made_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[Device], None]:
    """From now on, runs are read as if their configurations had named this device."""

    def read_as(device: Device) -> None:
        def read(folder: Path) -> SimpleNamespace:
            return SimpleNamespace(config=replace(RunReader(folder).config, device=device))

        monkeypatch.setattr(_kept_networks, "RunReader", read)

    return read_as


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_they_lie_on_the_card_of_the_run_where_there_is_one(
    device: Device, folders: dict[str, Path], made_for: Callable[[Device], None]
) -> None:
    with simulated_card() as card:
        assert KeptNetworks(folders["dl"], 3).x.device.type == "cpu"
        made_for(device)
        kept = KeptNetworks(folders["dl"], 3)
        assert kept.x.device.type == kept.y.device.type == "cuda"
        ((_, network), _) = list(kept)
        assert {weight.device.type for weight in network.parameters()} == {"cuda"}
    assert card.faults == []
    assert KeptNetworks(folders["dl"], 3).x.device.type == "cpu"


def test_float64_of_a_run_is_computed_where_there_is_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "available_devices", lambda: ("auto", "cpu", "mps"))
    assert [devices.choose_float64_device(one) for one in get_args(Device)] == ["cpu"] * 4
    monkeypatch.setattr(devices, "available_devices", lambda: ("auto", "cpu", "cuda"))
    found = {one: devices.choose_float64_device(one) for one in get_args(Device)}
    assert found == {"auto": "cuda", "cpu": "cpu", "cuda": "cuda", "mps": "cpu"}


CALCULATIONS: dict[str, tuple[Callable[[CalculationInputs], Any], tuple[str, ...]]] = {
    "npf_kernels": (npf_kernels.kernels_of_stages, ("dl",)),
    "npf_nu": (npf_nu.nu_of_stages, ("relu",)),
    "region_phases": (region_phases.complexity_of_stages, ("relu",)),
    "kernel_ridge": (kernel_ridge.regressions, ("ten",)),
    "pictures": (composite_hidden_outputs.pictures, ("maps", "reversed")),
    "dgn_adaptable_gates": (dgn_adaptable_gates.nus_of_stages, ("dl",)),
    "cntk": (kernel_ridge.convolutional, ("ten",)),
}


@pytest.mark.wide(4)
@pytest.mark.parametrize("name", CALCULATIONS)
def test_a_calculation_on_a_card_gives_what_it_gives_on_the_cpu(
    name: str, folders: dict[str, Path], made_for: Callable[[Device], None]
) -> None:
    calculate, runs = CALCULATIONS[name]
    given = {"per_class": 6, "seed": 0}
    work = CalculationInputs(given, Path(), {run: folders[run] for run in runs})
    expected = calculate(work)
    made_for("auto")
    with simulated_card() as card:
        found = calculate(work)
    assert card.faults == []
    json.dumps(found)
    assert _numbers(found) == pytest.approx(_numbers(expected), rel=1e-6, nan_ok=True)


def _numbers(tree: Any) -> list[float]:
    if isinstance(tree, dict):
        return [number for value in tree.values() for number in _numbers(value)]
    if isinstance(tree, list):
        return [number for value in tree for number in _numbers(value)]
    return [math.nan if tree is None else float(tree)]
