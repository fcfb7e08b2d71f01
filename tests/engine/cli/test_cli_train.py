"""`dgn train`: exit codes, one sentence for bad input, and a folder that can be read again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from dgn_engine.cli import main
from dgn_engine.storage.config_file import read_config

SMALL = ["--width", "16", "--depth", "4", "--epochs", "1"]


def test_a_run_leaves_its_configuration_log_and_weights(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", *SMALL, "--regime", "FR-II", "--out", str(out)]) == 0
    assert "best test accuracy" in capsys.readouterr().out
    config = read_config(out / "config.toml")
    assert config.gating.regime == "FR-II"
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert lines[-1]["event"] == "Finished"
    assert [line for line in lines if line["event"] == "Measured"][-1]["test_accuracy"] > 0
    assert json.loads((out / "run.json").read_text())["probe_set"]
    assert (out / "weights.safetensors").stat().st_size > 0


def test_the_gates_of_a_run_can_be_used_by_another(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", *SMALL, "--regime", "ReLU", "--out", str(out), "--quiet"]) == 0
    weights = str(out / "weights.safetensors")
    assert main(["train", *SMALL, "--regime", "FL", "--gates-from", weights, "--quiet"]) == 0
    assert "FL: 45 steps" in capsys.readouterr().out
    wrong = ["train", "--width", "20", "--depth", "4", "--regime", "FL", "--gates-from", weights]
    assert main(wrong) == 2
    assert "layer 1" in capsys.readouterr().err


def test_the_result_is_on_stdout_and_progress_is_not(capsys):
    assert main(["train", *SMALL]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1
    assert "epoch 1" in captured.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--data", "nothing"], "nothing"),
        (["--regime", "FR-III"], "FR-II"),
        (["--net", "resnet152"], "cnn4"),
        (["--option", "width"], "NAME=VALUE"),
        (["--option", "colour=3"], "colour"),
        (["--width", "0"], "width"),
        (["--epochs", "0"], "--epochs"),
        (["--lr", "-1"], "--lr is -1.0; it must"),
        (["--checkpoint-every", "nan"], "--checkpoint-every"),
        (["--checkpoint-every", "-5"], "--checkpoint-every"),
        (["no-such-file.toml"], "no-such-file.toml"),
        (["--regime", "FL", "--gates-from", "no-such-file.pt"], "no-such-file.pt"),
        (["--regime", "DL", "--gates-from", "no-such-file.pt"], "FL"),
        (["--binary", "4,99"], "99"),
        (["--wiring", "1,0"], "--wiring [1, 0] does not name each of the 5 gate layers"),
    ],
)
def test_bad_input_is_one_sentence_on_stderr_and_exit_2(arguments, named, capsys):
    assert main(["train", *arguments]) == 2
    captured = capsys.readouterr()
    assert named in captured.err
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path, capsys):
    (tmp_path / "precious").write_text("do not touch")
    assert main(["train", *SMALL, "--out", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_diverging_run_exits_with_3(tmp_path, capsys):
    wild = ["--optimiser", "sgd", "--lr", "1e6", "--loss", "squared"]
    assert main(["train", *SMALL, *wild, "--quiet"]) == 3
    assert "diverged at step" in capsys.readouterr().err


def test_ctrl_c_saves_and_exits_130(tmp_path):
    out = tmp_path / "run"
    command = [sys.executable, "-m", "dgn_engine.cli", "train", "--epochs", "10000"]
    process = subprocess.Popen(
        [*command, "--width", "16", "--depth", "4", "--out", str(out)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        log = out / "log.jsonl"
        while not (log.exists() and log.stat().st_size > 0):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    assert "saved in" in err
    assert "Traceback" not in err
    assert (out / "weights.safetensors").exists()


def test_a_run_is_recorded_among_the_users_runs_unless_it_is_forbidden(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "runs"))
    assert main(["train", *SMALL, "--no-record"]) == 0
    assert not (tmp_path / "runs").exists()
    assert main(["train", *SMALL]) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"Recorded in {folder}" in capsys.readouterr().err
    assert main(["runs", "verify", folder.name]) == 0
    (tmp_path / "file").touch()
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "file"))
    capsys.readouterr()
    assert main(["train", *SMALL, "--quiet"]) == 0
    assert "not recorded" in capsys.readouterr().err


def test_help_does_not_load_torch():
    program = (
        "import sys\n"
        "from dgn_engine.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def test_a_refusal_names_the_option_that_was_typed_or_the_key_in_the_file(tmp_path, capsys):
    file = tmp_path / "x.toml"
    file.write_text("[training]\nlearning_rate = -1.0\n")
    assert main(["train", str(file)]) == 2
    assert "x.toml: training.learning_rate is -1.0" in capsys.readouterr().err
    file.write_text('[gating]\ngates_from = "x.pt"\n')
    assert main(["train", str(file), "--no-record"]) == 2
    assert "gating.gates_from needs FL" in capsys.readouterr().err
    assert main(["train", "--gates-from", "x.pt", "--no-record"]) == 2
    assert "--gates-from needs FL" in capsys.readouterr().err
    assert main(["train", "--option", "width=0", "--no-record"]) == 2
    assert "--option width is 0" in capsys.readouterr().err
    assert main(["train", "--seed", "-1", "--no-record"]) == 2
    assert "--seed is -1" in capsys.readouterr().err


def test_a_setting_without_effect_is_said_also_where_all_else_is_quiet(tmp_path, capsys):
    file = tmp_path / "x.toml"
    file.write_text("[gating]\nbeta = 4.0\n[training]\nmomentum = 0.5\n")
    idle = ["--momentum", "0.9", "--data-root", "x", "--batch", "2000", "--regime", "FR-II"]
    assert main(["train", str(file), *SMALL, *idle, "--no-record", "--quiet"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "dgn train: --data-root has no effect: digits does not lie in a folder of data sets.",
        "dgn train: gating.beta has no effect: the gates of FR-II are not soft.",
        "dgn train: --momentum has no effect: it counts only with training.optimiser sgd.",
        "dgn train: --batch 2,000 is more than the data: there are 1,437 training examples, and "
        "each step takes all of them.",
    ]
    assert main(["train", *SMALL, "--no-record", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("other", [["--out", "x"], ["--record", "gates"]])
def test_a_run_that_is_not_recorded_has_no_folder_and_no_frames(other, capsys):
    assert main(["train", *SMALL, "--no-record", *other]) == 2
    assert f"--no-record writes nothing of the run, and {other[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--width", "--option", "--data-option"])
def test_a_resumed_run_takes_no_options_of_its_network_or_data(option, capsys):
    value = "3" if option == "--width" else "n=3"
    assert main(["train", "--resume", "x", option, value]) == 2
    assert f"leave out {option}," in capsys.readouterr().err
