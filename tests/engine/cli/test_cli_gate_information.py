"""`dgn gate-information` from outside: what it trains, says, writes, refuses, and goes on with."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.cli import gate_information, main
from dgn_engine.cli.gate_information import EPOCHS, PATIENCE, SEEDS
from dgn_engine.cli.run.measure_gates import plan_measurement
from dgn_engine.config import RunConfig
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.write_report import ReproductionTask
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.config_file import read_config
from tests.engine.cli.saved_nets import pooled, saved
from tests.refusals import refused_command

FEW = ["--train-limit", "96", "--test-limit", "60", "--lr", "0.003", "--device", "cpu"]
# For time alone: test_commands_as_typed.py takes the defaults of these, and shows that the executor
# changes no number.
SHORT = ["--epochs", "1", "--seeds", "1", "--executor", "serial"]
LONG = ["--epochs", "12", "--seeds", "3", "--lr", "0.01"]
NET = ["--net", "fc", "--width", "12", "--depth", "3"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    long = ("--lr", "0.01", "--epochs", "30")
    return train(tmp_path_factory.mktemp("run"), "--regime", "ReLU", *long)


@pytest.fixture(scope="module")
def measured(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("measured") / "out"
    assert measure(trained, out, *LONG) == 0
    return out


def train(folder: Path, *more: str) -> Path:
    options = [*NET, *FEW, "--epochs", "3", *more, "--quiet", "--out", str(folder / "run")]
    assert main(["train", *options]) == 0
    return folder / "run" / "weights.safetensors"


def measure(file: Path, out: Path, *more: str) -> int:
    return main(["gate-information", str(file), *FEW, *SHORT, "--out", str(out), *more])


def test_results_on_other_examples_of_the_same_name_are_not_taken(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    indices, out = tmp_path / "test.npy", tmp_path / "out"
    typed = ("--test-indices", str(indices))
    np.save(indices, np.arange(100))
    assert measure(trained, out, *typed) == 0
    assert measure(trained, out, *typed, "--report-only") == 0
    np.save(indices, np.arange(100, 150))
    for again in ((), ("--report-only",)):
        assert measure(trained, out, *typed, *again) == 2
        assert str(out) in capsys.readouterr().err


def test_both_of_a_pair_begin_with_the_same_value_weights_and_only_the_gates_differ(
    trained: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert measure(trained, out, "--seeds", "2", "--lr", "1e-12") == 0
    of = {
        name: read_tensors(out / "units" / name / "weights.safetensors").arrays
        for name in ("FL-s0", "FR-II-s0", "FL-s1", "FR-II-s1")
    }
    file = read_tensors(trained).arrays
    for layer in range(3):
        value, feature = f"value.weights.{layer}", f"feature.weights.{layer}"
        for seed in range(2):
            gates, random = of[f"FL-s{seed}"], of[f"FR-II-s{seed}"]
            np.testing.assert_allclose(gates[value], random[value], atol=1e-8)
        assert np.abs(of["FL-s0"][value] - of["FL-s1"][value]).max() > 0.01
        assert np.abs(of["FR-II-s0"][feature] - of["FR-II-s1"][feature]).max() > 0.01
        if layer < 2:
            np.testing.assert_array_equal(of["FL-s0"][feature], file[value])
            np.testing.assert_array_equal(of["FL-s1"][feature], file[value])


def test_terminal_json_report_and_arrays_tell_the_same_without_a_column_of_print(
    trained: Path, measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = measured
    assert measure(trained, out, *LONG, "--json", "--report-only") == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    made = document.read_document(out)
    assert tuple(told["answer"]) == made.answer
    assert told["share"] == made.details["share"]
    gates, random = (told["kinds"][name] for name in ("its gates", "random gates"))
    pairs = list(zip(gates["last"], random["last"], strict=True))
    own = told["own"]["percent"]
    assert told["share"]["n"] == len(pairs) == 3
    by_hand = 100 * sum(g - r for g, r in pairs) / sum(own - r for _, r in pairs)
    assert told["share"]["percent"] == pytest.approx(by_hand)
    assert [row.mean for row in made.rows[1:]] == pytest.approx([gates["mean"], random["mean"]])
    with np.load(out / "gate-information.npz") as arrays:
        assert arrays["gates_test"].shape == arrays["random_train"].shape == (3, 12)
        np.testing.assert_allclose(arrays["gates_test"][:, -1], gates["last"])
        np.testing.assert_allclose(arrays["random"], random["last"])
        assert float(arrays["own"]) == own
        assert float(arrays["share"][0]) == pytest.approx(by_hand)
    told_by_page = (out / "report.html").read_text(encoding="utf-8")
    assert "printed" not in told_by_page.partition("</style>")[2]
    assert "as-published" not in told_by_page
    for name in ("report.md", "report.html"):
        assert made.answer[0].partition(",")[0] in (out / name).read_text(encoding="utf-8")
    assert (out / "figures" / "learning.svg").exists()
    assert measure(trained, out, *LONG, "--report-only") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(made.answer[0])
    assert "printed" not in printed
    assert "difference" not in printed
    assert "learning rate 0.01, batch 32, 12 epochs" in printed


def test_what_was_interrupted_goes_on_to_the_same_numbers(
    trained: Path, measured: Path, tmp_path: Path
) -> None:
    """As after a kill: one pair is whole, another lacks a half, the report is missing."""
    part = tmp_path / "part"
    assert measure(trained, part, *LONG, "--seeds", "2") == 0
    shutil.rmtree(part / "units" / "FR-II-s1")
    (part / "results.json").unlink()
    command = document.read_document(measured).command
    again = [*command[: command.index("--out")], "--out", str(part)]
    assert main([*again, "--executor", "serial", "--quiet"]) == 0
    one, other = document.read_document(measured), document.read_document(part)
    assert one.answer == tuple(line.replace(str(part), str(measured)) for line in other.answer)
    assert repr(one.details) == repr(other.details)


@pytest.mark.parametrize("given", [True, False], ids=["with --out", "without"])
def test_the_longer_training_that_it_suggests_works_when_typed(
    given: bool, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["gate-information", str(trained), *FEW, "--epochs", "8", "--seeds", "1"]
    command += ["--executor", "serial", "--quiet"]
    chosen = ["--out", str(tmp_path / "my out")] if given else []
    assert main([*command, *chosen]) == 0
    found = re.search(r"try (.*) instead of 8(?:, and (.*))?\.\n", capsys.readouterr().out)
    assert found is not None
    epochs, out = found.groups("")
    assert out.startswith("--out ") is given
    assert main([*command, *shlex.split(f"{epochs} {out}")]) == 0


def planned(file: Path, *words: str) -> ReproductionTask:
    """What would be carried out."""
    parser = ArgumentParser()
    gate_information.add_arguments(parser)
    arguments = parser.parse_args([str(file), *words])
    gate_information.run(arguments)
    return plan_measurement(arguments)[0]


def test_without_a_word_they_train_as_long_as_they_need(trained: Path, tmp_path: Path) -> None:
    endless, short = tmp_path / "endless.toml", tmp_path / "short.toml"
    for path, epochs in ((endless, 0), (short, 3)):
        path.write_text(RunConfig.from_dict({"training": {"epochs": epochs}}).to_toml(), "utf-8")
    for words, wanted in (
        ([], (EPOCHS, PATIENCE)),
        (["--epochs", "7"], (7, PATIENCE)),
        (["--patience", "0"], (EPOCHS, 0)),
        ([str(endless)], (EPOCHS, PATIENCE)),
        ([str(short)], (3, 0)),
        ([str(short), "--epochs", "9"], (9, 0)),
    ):
        text = planned(trained, *words, "--out", str(tmp_path / "out")).files["config.toml"]
        training = RunConfig.from_toml(text.decode()).training
        assert (training.epochs, training.patience) == wanted


def test_the_help_states_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["gate-information", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    for words in (
        f"{SEEDS} seeds;",
        f" {EPOCHS} epochs,",
        f" {PATIENCE} in",
        "learning rate 0.0003,",
    ):
        assert words in told
    for option in ("--regime", "--gates-from", "--wiring", "--beta "):
        assert option not in told


def test_a_linear_network_has_no_gates_to_ask(tmp_path: Path) -> None:
    file = train(tmp_path, "--regime", "DLN")
    refusal = refused_command("gate-information", file, *FEW, "--out", tmp_path / "out")
    assert "weights.safetensors" in str(refusal)
    assert "(DLN)" in str(refusal)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("regime", ["DL-linear", "FL-linear"])
def test_linear_features_are_held_as_linear_features(regime: str, tmp_path: Path) -> None:
    file = train(tmp_path, "--regime", regime)
    out = tmp_path / "out"
    assert measure(file, out) == 0
    assert sorted(path.name for path in (out / "units").iterdir()) == [
        "FL-linear-s0",
        "FR-linear-s0",
        "file",
    ]
    ours = read_tensors(out / "units" / "FL-linear-s0" / "weights.safetensors").arrays
    theirs = read_tensors(file).arrays
    np.testing.assert_array_equal(ours["feature.weights.0"], theirs["feature.weights.0"])


def test_gates_stand_where_the_file_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turned = ("--wiring", "1,0", "--rotation", "0,3", "--tiling", "2,1", "--value-input", "ones")
    file, out, other = train(tmp_path, "--regime", "DL", *turned), tmp_path / "out", tmp_path / "b"
    capsys.readouterr()
    assert measure(file, out) == 0
    for name in ("FL-s0", "FR-II-s0"):
        gating = read_config(out / "units" / name / "config.toml").gating
        assert (gating.wiring, gating.rotation, gating.tiling) == ((1, 0), (0, 3), (2, 1))
        assert gating.value_input == "ones"
    printed = capsys.readouterr().out
    assert "wiring 1, 0;" in printed
    assert "value networks get ones as input" in printed
    assert measure(file, other, "--value-input", "image") == 0
    assert read_config(other / "config.toml").gating.value_input == "image"
    assert main([*document.read_document(other).command, "--quiet"]) == 0
    assert read_config(other / "config.toml").gating.value_input == "image"


def test_layers_and_biases_of_a_network_without_a_name_are_those_of_the_value_networks(
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    assert measure(saved(tmp_path / "net.pt", pooled()), tmp_path / "out") == 0
    held, random = (
        read_tensors(tmp_path / "out" / "units" / unit / "weights.safetensors").arrays
        for unit in ("FL-s0", "FR-II-s0")
    )
    assert held["feature.weights.1"].shape == (4, 3, 3, 3)
    assert {"value.biases.0", "value.biases.2"} <= set(random)


def test_a_run_that_diverges_is_named_and_left_out(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert measure(trained, out, "--optimiser", "sgd", "--lr", "1e30") == 0
    printed = capsys.readouterr().out
    made = document.read_document(out)
    assert made.details["verdict"] == "none"
    assert made.details["left_out"]
    assert "seed 0" in printed.partition(".")[0]
    assert "nan" not in printed.lower()


def test_networks_that_learn_nothing_give_no_share_and_a_setting_without_effect_is_said(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure(trained, tmp_path / "out", "--lr", "1e-9", "--momentum", "0.9") == 0
    assert "gate-information: --momentum " in capsys.readouterr().err
    details = document.read_document(tmp_path / "out").details
    assert (details["verdict"], details["left_out"]) == ("none", [])


def test_each_file_and_each_way_to_train_has_a_folder_of_its_own(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(tmp_path))
    other = tmp_path / "other" / trained.name
    other.parent.mkdir()
    other.write_bytes(trained.read_bytes())
    mine = planned(trained, *FEW).folder
    assert mine.parent == tmp_path
    assert mine.name.startswith("gate-information-weights-digits-")
    assert planned(trained, *FEW, "--seeds", "9").folder == mine, "it goes on there"
    others = (planned(trained, *FEW, "--epochs", "2").folder, planned(other, *FEW).folder)
    assert len({mine, *others}) == 3
