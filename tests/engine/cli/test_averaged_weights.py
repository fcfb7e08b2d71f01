"""Files that hold raw and averaged weights of one network, and BatchNorm of Keras and Flax."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine.cli import main
from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import network_of
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from tests.engine.cli.typed import printed_json
from tests.refusals import refused_command

INPUTS = 6


def _weights(seed: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(INPUTS, 5), nn.ReLU(), nn.Linear(5, 3)).state_dict()


def _below(prefix: str, weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in weights.items()}


RAW, AVERAGED = _weights(0), _weights(1)
BESIDE: dict[str, tuple[dict[str, Any], str, str]] = {  # a file, what is taken, what is beside it
    "ema": ({"model": RAW, "ema": AVERAGED, "epoch": 3}, "model", "ema"),
    "ema first": ({"ema": AVERAGED, "model": RAW}, "model", "ema"),
    "timm": ({"state_dict": RAW, "state_dict_ema": AVERAGED}, "state_dict", "state_dict_ema"),
    "with its decay": (
        {"model": RAW, "model_ema": {"module": AVERAGED, "decay": 0.9}},
        "model",
        "model_ema",
    ),
    "swa": ({"model_state_dict": RAW, "swa_model": AVERAGED}, "model_state_dict", "swa_model"),
}
MIXED = {
    "names": _below("model", RAW) | _below("ema", AVERAGED),
    "Lightning": {"state_dict": _below("model", RAW) | _below("ema", AVERAGED)},
    "DataParallel": _below("module.model", RAW) | _below("module.ema", AVERAGED),
}


def _saved(tmp_path: Path, tree: Any) -> Path:
    path = tmp_path / "net.pt"
    torch.save(tree, path)
    return path


def _holds(path: Path, part: str, weights: dict[str, torch.Tensor]) -> None:
    found = read_tensors(path, part=part).arrays
    assert list(found) == list(weights)
    assert all(np.array_equal(found[name], weights[name].numpy()) for name in weights)


@pytest.mark.parametrize("kind", BESIDE)
def test_which_weights_were_taken_is_said_and_the_others_are_offered(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, taken, beside = BESIDE[kind]
    path = _saved(tmp_path, tree)
    _holds(path, "", RAW)
    _holds(path, taken, RAW)
    _holds(path, beside, AVERAGED)
    assert main(["inspect", str(path)]) == 0
    assert f"--part {beside} " in capsys.readouterr().out
    tree = printed_json(capsys, "inspect", path, "--json", "--part", beside)
    assert (tree["part"], tree["beside"]) == (beside, [taken])
    listing = replace(read_tensors(path), reading=FileReading(activation="relu"))
    remarks = network_of(listing, (INPUTS,), door="window").remarks
    assert any(f"'{taken}'" in remark and f"'{beside}'" in remark for remark in remarks)


def test_kernels_of_either_weights_are_those_of_the_weights_saved_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((4, INPUTS)))

    def kernels(tree: Any, *more: str) -> Any:
        asked = (_saved(tmp_path, tree), "--activation", "relu", "--inputs", tmp_path / "x.npy")
        return printed_json(capsys, "kernels", *asked, "--json", *more)

    tree = BESIDE["ema"][0]
    raw, averaged = kernels(tree), kernels(tree, "--part", "ema")
    assert raw["kernels"] == kernels(RAW)["kernels"]
    assert averaged["kernels"] == kernels(AVERAGED)["kernels"]
    assert any("--part ema " in note for note in raw["notes"])
    assert averaged["settings"]["part"] == "ema"
    assert kernels(MIXED["names"], "--part", "ema")["kernels"] == averaged["kernels"]


@pytest.mark.parametrize("kind", MIXED)
def test_a_network_that_stands_twice_under_longer_names_is_named(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _saved(tmp_path, MIXED[kind])
    _holds(path, "ema", AVERAGED)
    _holds(path, "model", RAW)
    assert main(["inspect", str(path)]) == 0
    said = capsys.readouterr().out
    assert "--part model " in said
    assert "--part ema " in said
    for door in ("command", "window"):
        with pytest.raises(UserError, match=r"'model' .* 'ema'") as refusal:
            network_of(read_tensors(path), (INPUTS,), None, door=door)
        assert ("--part" in str(refusal.value)) == (door == "command")


def test_a_part_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    for tree in (BESIDE["ema"][0], MIXED["names"]):
        path = _saved(tmp_path, tree)
        for command in ("inspect", "gate-information"):
            told = str(refused_command(command, path, "--part", "emma", "--data", "digits"))
            assert {"net.pt", "'emma'", "'model'", "'ema'"} <= set(re.findall(r"[\w.']+\b'?", told))
    whole = _saved(tmp_path, nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2)))
    assert "'0'" in str(refused_command("inspect", whole, "--part", "0"))


def test_optimisers_and_plain_files_have_no_averaged_weights(tmp_path: Path) -> None:
    state = {"state": {0: {"exp_avg": torch.zeros(5, INPUTS)}}}
    for tree in (RAW, {"model": RAW, "optimizer": state}, {"model": RAW, "ema": {"decay": 0.9}}):
        found = read_tensors(_saved(tmp_path, tree))
        assert (found.part, found.others) == ("", ())


NORMS = {
    "Keras": ("bn/gamma:0", "bn/beta:0", "bn/moving_mean:0", "bn/moving_variance:0"),
    "Keras 3": tuple(f"layers/batch_normalization/vars/{n}" for n in range(4)),
    "Flax": ("params/BatchNorm_0/scale", "batch_stats/BatchNorm_0/mean"),
}


@pytest.mark.parametrize("kind", NORMS)
def test_batchnorm_of_keras_and_flax_is_named(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {"dense/kernel": rng.standard_normal((INPUTS, 5))}
    arrays |= {name: np.ones(5) for name in NORMS[kind]}
    arrays |= {"dense_1/kernel": rng.standard_normal((5, 3))}
    np.savez(tmp_path / "net.npz", **arrays)
    with pytest.raises(UserError, match="Keras or Flax"):
        network_of(read_tensors(tmp_path / "net.npz"), (INPUTS,), None)
