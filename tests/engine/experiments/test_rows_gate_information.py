"""What is read and planned of the gates of a checkpoint: made-up runs in, rows and a claim out."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import load_examples
from dgn_engine.errors import UserError
from dgn_engine.experiments import Findings, Request
from dgn_engine.experiments._gate_information import (
    RANDOM,
    gate_information,
    net_of,
    network_for,
    own_accuracy,
)
from dgn_engine.regimes import find_regime
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.sweep.statistics import ratio_of_means
from dgn_engine.sweep.unit import Calculation, CalculationInputs, Training
from dgn_engine.sweep.unit_results import TrainedRun
from dgn_engine.training.run import Run
from tests.engine.experiments.made_up import (
    MadeUpResults,
    expected_cell_row,
    expected_row,
    finding_rows,
    make_run_of,
    make_runs_of,
)
from tests.refusals import refused

CONFIG = RunConfig(
    net=NetConfig("fc", (("width", 7), ("depth", 3))),
    gating=GatingConfig(beta=5.0),
    training=TrainingConfig(epochs=9),
)


def dense_file(path: Path, *sizes: int) -> Path:
    """A whole `nn.Sequential` of dense layers without biases, ReLU between."""
    layers: list[torch.nn.Module] = []
    for a, b in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(a, b, bias=False), torch.nn.ReLU()]
    torch.save(torch.nn.Sequential(*layers[:-1]), path)
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dense_file(tmp_path_factory.mktemp("file") / "x.pt", 64, 7, 7, 10)


OWN = {
    "accuracy": 0.9123,
    "regime": "DL",
    "soft": True,
    "assumption": "",
    "examples": 360,
    "commonest": 0.1,
}


def read_out(file: Path, runs: dict[str, TrainedRun], seeds: int, **own: Any) -> Findings:
    results = MadeUpResults(runs, {"file": ({**OWN, **own}, 2.0)})
    return gate_information(file, CONFIG, seeds, "").findings(Request(), results)


def curved(*test: float, **given: Any) -> TrainedRun:
    """A run with these test accuracies (percent) at the ends of its epochs."""
    places = tuple(float(place + 1) for place in range(len(test)))
    shares = tuple(a / 100 for a in test)
    last = shares[-1] if shares else math.nan
    given = {"best": max(shares, default=math.nan), "last": last, **given}
    return make_run_of(1009, epochs=places, test=shares, train=shares, train_loss=shares, **given)


def flat_runs(gates: Sequence[float], random: Sequence[float]) -> dict[str, TrainedRun]:
    cells = (("FL", gates), ("FR-II", random))
    return {
        f"{cell}-s{seed}": curved(*[accuracy] * 8)
        for cell, accuracies in cells
        for seed, accuracy in enumerate(accuracies)
    }


def test_networks_are_trained_with_its_gates_and_with_random_ones(file: Path) -> None:
    made = gate_information(file, CONFIG, 2, "of the data").plan(Request())
    calculated, *trained = made.units
    assert calculated == Calculation(
        "file",
        "dgn_engine.experiments._gate_information:own_accuracy",
        {
            "file": str(file),
            "sha256": sha256(file.read_bytes()).hexdigest(),
            "data": "of the data",
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


def test_rows_are_the_file_itself_its_gates_and_random_ones(file: Path) -> None:
    runs = make_runs_of(["FL", "FR-II"], 4)
    found = read_out(file, runs, 4)

    def expected(cell: str, label: str) -> tuple[Any, ...]:
        some = [runs[f"{cell}-s{seed}"] for seed in range(4)]
        best = sum(100 * run.best for run in some) / 4
        last = [100 * run.test[-1] for run in some]
        remark = f"best epoch: {best:.2f} %"
        return expected_cell_row(
            runs, cell, f"value networks with {label}", 4, None, remark, last, "%"
        )

    assert finding_rows(found) == [
        expected_row("x.pt itself (DL)", [91.23], unit="%", remark="as trained"),
        expected("FL", "its gates (FL)"),
        expected("FR-II", "random gates (FR-II)"),
    ]
    assert found.claims == ()
    assert all(row.printed is None for row in found.rows)


def test_the_answer_is_the_share_of_the_accuracies_after_the_last_epoch(file: Path) -> None:
    gates, random = [88.0, 88.5, 89.1], [80.0, 81.0, 80.3]
    found = read_out(file, flat_runs(gates, random), 3)
    by_hand = 100 * (np.mean(gates) - np.mean(random)) / (91.23 - np.mean(random))
    gained = [g - r for g, r in zip(gates, random, strict=True)]
    _, low, high = ratio_of_means(gained, [91.23 - r for r in random])
    assert [re.findall(r"\d+(?:\.\d+)?", one) for one in found.answer] == [
        [f"{by_hand:.0f}", "80.4", "91.2", "95", f"{100 * low:.0f}", f"{100 * high:.0f}", "3"]
    ]
    assert found.details["share"]["percent"] == pytest.approx(by_hand)
    assert found.details["converged"] is True
    each = [100 * (g - r) / (91.23 - r) for g, r in zip(gates, random, strict=True)]
    assert found.details["share"]["by_seed"] == pytest.approx(each)
    told = " ".join(found.remarks)
    assert "x.pt" in told
    assert told.count("360 test examples") == 2
    assert "(DL)" in told


def test_curves_that_rise_are_said_and_drawn(file: Path) -> None:
    runs = flat_runs([88.0, 88.5, 89.1], [80.0, 81.0, 80.3])
    runs["FR-II-s1"] = curved(10, 30, 50, 60, 70, 75, 78, 81)
    found = read_out(file, runs, 3)
    share, why = found.answer
    assert "75 % of" in share
    assert "not converged" in share
    assert "rose by 2.33 points with random gates" in why
    assert why.endswith("try --epochs 72 instead of 9.")
    assert found.details["converged"] is False
    (figure,) = found.figures
    assert [line.label for line in figure.lines] == ["its gates", "random gates", "x.pt itself"]
    _, random, own = figure.lines
    assert random.x == tuple(range(1, 9))
    assert random.y[:3] == pytest.approx(((80 + 10 + 80.3) / 3, (190.3) / 3, (80 + 50 + 80.3) / 3))
    assert len(random.spread) == 8
    assert (own.x, own.y) == ((), (91.23,))


def test_runs_that_ended_early_and_still_change_ask_for_patience(file: Path) -> None:
    config = replace(CONFIG, training=TrainingConfig(epochs=50, patience=3))
    runs = flat_runs([88.0, 88.5, 89.1], [80.0, 81.0, 80.3])
    runs["FR-II-s1"] = curved(10, 30, 50, 60, 70, 75, 78, 81)
    results = MadeUpResults(runs, {"file": (OWN, 2.0)})
    found = gate_information(file, config, 3, "").findings(Request(), results)
    assert found.answer[1].endswith("try --patience 6 instead of 3.")
    found = gate_information(file, config, 3, "", out="my out").findings(Request(), results)
    assert found.answer[1].endswith("6 instead of 3, and --out 'my out-patience-6'.")


def test_accuracies_that_fall_ask_for_no_more_epochs(file: Path) -> None:
    runs = flat_runs([88.0, 88.5, 89.1], [80.0, 81.0, 80.3])
    runs["FL-s1"] = curved(95, 95, 95, 93, 92, 91, 90, 88.5)
    found = read_out(file, runs, 3)
    assert "still fell by" in found.answer[1]
    assert "try" not in found.answer[1]


def test_a_run_that_diverged_leaves_its_seed_out(file: Path) -> None:
    runs = flat_runs([88.0, 88.5, 89.1, 88.8], [80.0, 81.0, 80.3, 80.6])
    runs["FR-II-s2"] = curved(40, 30, diverged_at=55)
    runs["FL-s3"] = curved(diverged_at=3)
    found = read_out(file, runs, 4)
    assert found.details["verdict"] == "none"
    assert re.findall(r"seed (\d) .*? step (\d+)", found.answer[0]) == [("3", "3"), ("2", "55")]
    assert "over 2 seeds" in found.answer[0]
    assert found.details["share"]["n"] == 2
    assert math.isnan(found.rows[2].values[2])
    assert len(found.figures) == 1


def test_gates_of_linear_features_stay_linear(file: Path) -> None:
    config = replace(CONFIG, gating=GatingConfig(regime="FL-linear"))
    _, copied, random = gate_information(file, config, 1, "").plan(Request()).units
    assert isinstance(copied, Training)
    assert isinstance(random, Training)
    assert (copied.id, random.id) == ("FL-linear-s0", "FR-linear-s0")
    assert copied.config.gating.regime == "FL-linear"
    assert random.config.gating.regime == "FR-linear"
    for copies, draws in RANDOM.items():
        one, other = find_regime(copies), find_regime(draws)
        assert one.takes_gates
        assert not other.takes_gates
        assert one.linear_features == other.linear_features
        assert not any((other.soft, other.own_gates, other.drawn_gates, other.trains_feature))


def test_the_network_of_a_file_is_that_of_its_layers(file: Path, tmp_path: Path) -> None:
    tensors = read_tensors(file)
    found = net_of(tensors, file, (1, 8, 8))
    assert (found.name, dict(found.options)) == ("fc", {"width": 7, "depth": 3})
    uneven = dense_file(tmp_path / "y.pt", 64, 7, 8, 10)
    assert net_of(read_tensors(uneven), uneven, (1, 8, 8)).name == f"file:{uneven}"
    with pytest.raises(UserError, match=r"takes 64 inputs, but these examples have 49"):
        net_of(tensors, file, (49,))


def test_a_file_with_another_number_of_outputs_is_refused(file: Path, tmp_path: Path) -> None:
    examples = load_examples(CONFIG.data)
    assert network_for(read_tensors(file), examples).network.architecture.classes == 10
    wrong = dense_file(tmp_path / "y.pt", 64, 7, 7, 9)
    with refused("wrong-shape", value=9):
        network_for(read_tensors(wrong), examples)


def test_a_file_without_gates_is_refused(tmp_path: Path) -> None:
    torch.save(torch.nn.Sequential(torch.nn.Linear(64, 10)), tmp_path / "x.pt")
    with refused("no-gates"):
        network_for(read_tensors(tmp_path / "x.pt"), load_examples(CONFIG.data))


def test_a_file_is_scored_as_it_is_beside_the_commonest_class(file: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, data=DataConfig(train_limit=80, test_limit=50), device="cpu")
    arguments = {"config": config.to_dict(), "file": str(file)}
    found = own_accuracy(CalculationInputs(arguments, tmp_path, {}))
    examples = load_examples(config.data)
    z = torch.as_tensor(examples.test_x).double().reshape(50, 64)
    module = torch.load(file, weights_only=False).double()
    guessed = module(z).argmax(1).tolist()
    labels = examples.test_y.tolist()
    assert found["accuracy"] == sum(map(eq, guessed, labels)) / 50
    assert found["commonest"] == Counter(labels).most_common(1)[0][1] / 50
    assert (found["regime"], found["soft"], found["examples"]) == ("ReLU", False, 50)


def test_a_network_whose_gates_are_coins_of_its_examples_is_refused(
    tmp_path: Path, make_run: Callable[..., Run]
) -> None:
    file = tmp_path / "coins.safetensors"
    for regime in ("FR-II", "FRG"):
        run = make_run(regime)
        run.save_weights(file)
        examples = load_examples(run.config.data)
        if regime == "FR-II":
            assert network_for(read_tensors(file), examples).regime.name == regime
    with refused("no-gates"):
        network_for(read_tensors(file), examples)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with refused("no-file"):
        gate_information(tmp_path / "nowhere.pt", CONFIG, 1, "")
