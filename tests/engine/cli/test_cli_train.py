"""`dgn train`: exit codes, refusals, and a folder that can be read again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dgn_engine.cli import main
from dgn_engine.config import RunConfig
from dgn_engine.storage.config_file import read_config
from tests.engine.cli.typed import one_line_error, refused_command_of_kind
from tests.refusals import refused_command

SMALL = ["--width", "16", "--depth", "4", "--epochs", "1"]


def test_a_run_leaves_its_configuration_log_and_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["train", *SMALL, "--regime", "FR-II", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1  # the result; progress is on stderr
    assert "epoch 1" in captured.err
    config = read_config(out / "config.toml")
    assert config.gating.regime == "FR-II"
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["event"] == "Finished"
    assert [line for line in lines if line["event"] == "Measured"][-1]["test_accuracy"] > 0
    assert json.loads((out / "run.json").read_text())["probe_set"]
    assert (out / "weights.safetensors").stat().st_size > 0


def test_the_gates_of_a_run_can_be_used_by_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["train", *SMALL, "--regime", "ReLU", "--out", str(out), "--quiet"]) == 0
    gates = ["--regime", "FL", "--gates-from", str(out / "weights.safetensors")]
    assert main(["train", *SMALL, *gates, "--quiet"]) == 0
    assert "FL: 45 steps" in capsys.readouterr().out
    assert "layer 1" in str(refused_command("train", "--width", "20", "--depth", "4", *gates))


def test_a_refusal_names_the_option_that_was_typed_or_the_key_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[training]\nlearning_rate = -1.0\n")
    assert "x.toml: training.learning_rate is -1.0" in one_line_error(capsys, "train", file)
    file.write_text('[gating]\ngates_from = "x.pt"\n')
    for words, named in (
        ([file], "gating.gates_from"),
        (["--gates-from", "x.pt"], "--gates-from"),
        (["--option", "width=0"], "--option width"),
        (["--seed", "-1"], "--seed"),
        (["--wiring", "1,0"], "--wiring [1, 0]"),
    ):
        assert str(refused_command("train", *words, "--no-record")).startswith(f"{named} ")


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("do not touch")
    assert str(tmp_path) in str(refused_command("train", *SMALL, "--out", tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_another_network_or_data_set_than_the_files_takes_none_of_its_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.toml"
    text = '[data]\nname = "identical"\n[data.options]\nn = 40\n'
    file.write_text(text + '[net]\nname = "fc"\n[net.options]\nwidth = 20\n')
    for words, width, n in (
        ([], 20, 40),
        (["--net", "fc", "--data", "identical"], 20, 40),
        (["--net", "cnn4", "--data", "digits"], None, None),
        (["--net", "fc", "--width", "30", "--data-option", "n=50"], 30, 50),
    ):
        assert main(["train", str(file), *words, "--print-config"]) == 0
        config = RunConfig.from_toml(capsys.readouterr().out)
        found = dict(config.net.options).get("width"), dict(config.data.options).get("n")
        assert found == (width, n), words


def test_a_run_whose_resuming_was_refused_can_be_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(["train", *SMALL, "--train-limit", "64", "--quiet", "--out", str(run)]) == 0
    for _ in range(2):
        words = ("train", "--resume", run, "--record-every", "2")
        assert refused_command_of_kind("needs-option", *words).place == "--record-every"
    assert main(["train", "--resume", str(run), "--quiet"]) == 0


def test_a_run_whose_only_checkpoint_is_damaged_is_resumed_only_after_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["train", *SMALL, "--train-limit", "64", "--quiet", "--out", str(run)]) == 0
    (tensors,) = run.glob("checkpoints/*/tensors.safetensors")
    tensors.write_bytes(tensors.read_bytes()[:-1] + b"?")
    log = (run / "log.jsonl").read_bytes()
    refusal = refused_command_of_kind("damaged", "train", "--resume", run)
    assert str(tensors) in str(refusal)
    assert f"dgn runs repair {run}" in str(refusal)
    assert (run / "log.jsonl").read_bytes() == log  # nothing was trained again
    assert main(["runs", "repair", str(run)]) == 0
    capsys.readouterr()
    assert main(["train", "--resume", str(run)]) == 0
    assert "Continuing at step 0." in capsys.readouterr().err


def test_a_diverging_run_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    wild = ["--optimiser", "sgd", "--lr", "1e6", "--loss", "squared"]
    assert main(["train", *SMALL, *wild, "--quiet"]) == 3
    assert "diverged at step" in capsys.readouterr().err


def test_a_run_is_recorded_among_the_users_runs_unless_it_is_forbidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "runs"))
    assert main(["train", *SMALL, "--no-record"]) == 0
    assert not (tmp_path / "runs").exists()
    assert main(["train", *SMALL]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"Recorded in {folder}" in capsys.readouterr().err
    assert main(["runs", "verify", folder.name]) == 0
    assert main(["train", *SMALL]) == 0  # a second one beside it
    assert len(list((tmp_path / "runs").iterdir())) == 2
    (tmp_path / "file").touch()
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "file"))
    capsys.readouterr()
    assert main(["train", *SMALL, "--quiet"]) == 0
    assert "not recorded" in capsys.readouterr().err


def test_a_setting_without_effect_is_said_also_where_all_else_is_quiet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[gating]\nbeta = 4.0\n[training]\nmomentum = 0.5\n")
    idle = ["--momentum", "0.9", "--data-root", "x", "--batch", "2000", "--regime", "FR-II"]
    assert main(["train", str(file), *SMALL, *idle, "--no-record", "--quiet"]) == 0
    lines = capsys.readouterr().err.splitlines()
    ignored = ["--data-root", "gating.beta", "--momentum", "--batch"]
    assert [line.split()[2] for line in lines] == ignored
    assert {"2,000", "1,437"} <= set(lines[-1].split())
    assert main(["train", *SMALL, "--no-record", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_a_probe_that_is_not_named_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert "','" in one_line_error(capsys, "train", "--record", ",")
    assert (
        refused_command_of_kind("needs-option", "train", "--record-every", "2").value == "--record"
    )
