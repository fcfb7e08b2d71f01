"""What `half-spaces` measures of a trained network, found again in numpy from its kept weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.svm import SVC

from dgn_engine.data import load_examples
from dgn_engine.data.oblique_tree import draw_tree
from dgn_engine.experiments import Request, half_spaces
from dgn_engine.experiments._grid import training_unit
from dgn_engine.sweep.unit import CalculationInputs, unit_folder
from dgn_engine.sweep.workers.serial import SerialExecutor

Weights = list[np.ndarray]


def layers(tensors: dict[str, np.ndarray], network: str) -> Weights:
    count = half_spaces.DEPTH
    return [tensors[f"{network}.weights.{layer}"].astype(float) for layer in range(count)]


def open_gates(feature: Weights, x: np.ndarray) -> list[np.ndarray]:
    """σ(βq) of linear features."""
    gates, product = [], np.eye(x.shape[1])
    for weight in feature[:-1]:
        product = weight @ product
        gates.append(1 / (1 + np.exp(-half_spaces.BETA * x @ product.T)))
    return gates


def machine_accuracy(gates: list[np.ndarray], labels: np.ndarray, n: int) -> float:
    kernel = np.prod([gate @ gate.T for gate in gates], axis=0)  # of all-ones inputs, to a factor
    kernel /= np.diag(kernel)[:n].mean()
    scores = []
    for penalty in half_spaces.PENALTIES:
        machine = SVC(C=penalty, kernel="precomputed").fit(kernel[:n, :n], labels[:n])
        scores.append((machine.predict(kernel[n:, :n]) == labels[n:]).mean())
    return 100 * max(scores)


def nearest_angle(feature: Weights, cuts: np.ndarray) -> float:
    normals, product = [], np.eye(feature[0].shape[1])
    for weight in feature[:-1]:
        product = weight @ product
        normals.append(product / np.linalg.norm(product, axis=1, keepdims=True))
    cosines = np.abs(np.concatenate(normals) @ cuts[:, : product.shape[1]].T)
    return float(np.degrees(np.arccos(cosines.max(axis=0))).mean())


def pair_overlaps(gates: list[np.ndarray], x: np.ndarray, cuts: np.ndarray) -> tuple[float, float]:
    """Means over pairs, within a leaf (found by all the sides on the way to it) and across."""
    ways = []
    for point in x:
        node, way = 0, []
        while node < len(cuts):
            way.append(int(point @ cuts[node, :-1] + cuts[node, -1] > 0))
            node = 2 * node + 1 + way[-1]
        ways.append(tuple(way))
    means: dict[bool, list[float]] = {True: [], False: []}
    for one in range(len(x)):
        for other in range(one):
            cosine = 1.0
            for gate in gates:
                a, b = gate[one], gate[other]
                cosine *= a @ b / np.sqrt(a @ a * (b @ b))
            means[ways[one] == ways[other]].append(cosine)
    return float(np.mean(means[True])), float(np.mean(means[False]))


def test_angles_and_accuracies_are_those_of_the_kept_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_spaces, "TESTED", 60)
    monkeypatch.setattr(half_spaces, "PAIRED", 40)
    config = half_spaces._tree_config(Request(device="cpu"), 80, 4, 2, 4, 3)
    config = replace(config, training=replace(config.training, keep_epochs=(0, 2, 4)))
    run = training_unit(config, "DL-linear", 3, "dlgn")
    SerialExecutor().run([run], tmp_path, lambda _: None, lambda: False)
    folder = unit_folder(tmp_path, run.id)
    found = half_spaces.measured(CalculationInputs({}, Path(), {run.id: folder}))
    assert found["epochs"] == [0, 2, 4]
    data = load_examples(config.data)
    assert data.cuts is not None
    order = np.argsort(data.train_y, kind="stable")
    x = np.concatenate([data.train_x[order], data.test_x[:60]]).astype(float)
    labels = np.concatenate([data.train_y[order], data.test_y[:60]])
    unrelated = draw_tree(4, 2, False, 3 + half_spaces.UNRELATED)
    for place, epoch in enumerate((0, 2, 4)):
        tensors = load_file(folder / "weights" / f"epoch-{epoch:04d}.safetensors")
        feature, value = layers(tensors, "feature"), layers(tensors, "value")
        assert found["own"][place] == pytest.approx(nearest_angle(feature, data.cuts))
        assert found["unrelated"][place] == pytest.approx(nearest_angle(feature, unrelated))
        gates = open_gates(feature, x)
        inside, across = pair_overlaps([gate[:80:2][:40] for gate in gates], x[:80:2], data.cuts)
        assert found["inside"][place] == pytest.approx(inside)
        assert found["across"][place] == pytest.approx(across)
        if epoch in (0, 4):
            when = "start" if epoch == 0 else "end"
            assert found[f"machine_{when}"] == pytest.approx(machine_accuracy(gates, labels, 80))
    z = np.ones_like(x)
    for weight, gate in zip(value[:-1], gates, strict=True):
        z = (z @ weight.T) * gate
    right = ((z @ value[-1].T)[80:, 0] > 0) == (labels[80:] > 0)
    assert found["network"] == pytest.approx(100 * right.mean())


def test_each_seed_is_another_tree_and_the_table_has_the_size_of_the_authors() -> None:
    units = half_spaces.plan(Request(scale="full")).units
    trained = [unit for unit in units if hasattr(unit, "config")]
    seeds = {unit.config.data.variant_seed for unit in trained if unit.id.startswith("dlgn")}
    assert seeds == set(range(20))
    table = [unit for unit in trained if unit.id.startswith("sdi")]
    assert [dict(unit.config.data.options)["n"] for unit in table] == [32_000] * 5
