"""What is read and planned of the gates of a checkpoint: made-up runs in, rows and a claim out."""

from __future__ import annotations

import itertools
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch

from dgn_engine.config import GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import load_examples
from dgn_engine.errors import UserError
from dgn_engine.experiments import Request
from dgn_engine.experiments._gate_information import gate_information, net_of, network_for
from dgn_engine.sweep.unit import Calculation, Training
from tests.engine.experiments.made_up import (
    MadeUpResults,
    cell_row,
    claim,
    claims,
    made_runs,
    percents,
    row,
    rows,
)

CONFIG = RunConfig(
    net=NetConfig("fc", (("width", 7), ("depth", 3))),
    gating=GatingConfig(beta=5.0),
    training=TrainingConfig(epochs=9),
)


def dense_file(path: Path, *sizes: int) -> Path:
    """A state dict of dense layers without biases."""
    pairs = itertools.pairwise(sizes)
    state = {f"{2 * i}.weight": torch.randn(b, a) for i, (a, b) in enumerate(pairs)}
    torch.save(state, path)
    return path


def test_networks_are_trained_with_its_gates_and_with_random_ones(tmp_path: Path) -> None:
    file = dense_file(tmp_path / "x.pt", 64, 7, 7, 10)
    made = gate_information(file, CONFIG, 2).plan(Request())
    calculated, *trained = made.units
    assert calculated == Calculation(
        "file",
        "dgn_engine.experiments._gate_information:own_accuracy",
        {
            "file": str(file),
            "sha256": sha256(file.read_bytes()).hexdigest(),
            "config": CONFIG.to_dict(),
        },
    )
    expected = []
    for seed in range(2):
        for regime, source in (("FL", str(file)), ("FR-II", "")):
            gating = replace(CONFIG.gating, regime=regime, gates_from=source)
            expected.append(
                Training(f"{regime}-s{seed}", replace(CONFIG, seed=seed, gating=gating))
            )
    assert trained == expected
    assert made.choices[1] == "value networks: adam, step 0.0003, batch 32, 9 epochs, digits"


def test_rows_are_the_file_itself_its_gates_and_random_ones(tmp_path: Path) -> None:
    file = dense_file(tmp_path / "x.pt", 64, 7, 7, 10)
    runs = made_runs(["FL", "FR-II"], 4)
    results = MadeUpResults(runs, {"file": ({"accuracy": 0.8123, "regime": "DL"}, 2.0)})
    found = gate_information(file, CONFIG, 4).findings(Request(), results)

    def last(cell: str) -> str:
        mean = sum(100 * runs[f"{cell}-s{seed}"].last for seed in range(4)) / 4
        return f"after the last epoch {mean:.2f} %"

    assert rows(found) == [
        row("x.pt itself (DL)", [81.23], unit="%", remark="as it is"),
        cell_row(runs, "FL", "its gates, value network from scratch (FL)", 4, remark=last("FL")),
        cell_row(runs, "FR-II", "random gates (FR-II)", 4, remark=last("FR-II")),
    ]
    gap = percents(runs, "FL", 4) - percents(runs, "FR-II", 4)
    assert claims(found) == [claim("gates", "FL − FR-II; above 0", gap)]


def test_the_network_of_a_state_dict_is_that_of_its_layers(tmp_path: Path) -> None:
    file = dense_file(tmp_path / "x.pt", 64, 7, 7, 10)
    found = net_of(file, (1, 8, 8))
    assert (found.name, dict(found.options)) == ("fc", {"width": 7, "depth": 3})
    uneven = dense_file(tmp_path / "y.pt", 64, 7, 8, 10)
    assert net_of(uneven, (1, 8, 8)).name == f"file:{uneven}"
    with pytest.raises(UserError, match=r"takes 64 inputs, but these examples have 49"):
        net_of(file, (49,))


def test_a_file_with_another_number_of_outputs_is_refused(tmp_path: Path) -> None:
    examples = load_examples(CONFIG.data)
    right = dense_file(tmp_path / "x.pt", 64, 7, 7, 10)
    assert network_for(right, CONFIG.net, examples).network.architecture.classes == 10
    wrong = dense_file(tmp_path / "y.pt", 64, 7, 7, 9)
    with pytest.raises(UserError, match=r"y.pt has 9 outputs; digits needs 10"):
        network_for(wrong, CONFIG.net, examples)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        gate_information(tmp_path / "nowhere.pt", CONFIG, 1)
