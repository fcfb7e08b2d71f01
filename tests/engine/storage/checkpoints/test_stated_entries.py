"""Text and numbers beside the tensors of a file: which are taken, and which bear on its reading."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.checkpoints.pickle_file import GlobalName, InertDict, InertObject
from dgn_engine.storage.checkpoints.stated_entries import (
    LONGEST,
    MOST,
    bears_on_reading,
    hints,
    stated_entries,
)
from tests.engine.storage.checkpoints.inert_trees import table, tensor

pytestmark = pytest.mark.usefixtures("read_here")

STATE = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).state_dict()


class Net(nn.Module):
    """Keeps its activation as a word and a window as a number."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.nonlinearity, self.window = nn.Linear(3, 2), "tanh", (2, 2)
        self.act = torch.nn.functional.elu


def read(thing: object, folder: Path) -> CheckpointContents:
    torch.save(thing, folder / "net.pt")
    return read_tensors(folder / "net.pt")


def test_a_training_loop_says_its_settings_and_the_groups_of_its_optimiser(tmp_path: Path) -> None:
    net = nn.Linear(3, 2)
    groups: list[dict[str, Any]] = [
        {"params": [net.weight], "weight_decay": 0.1},
        {"params": [net.bias]},
    ]
    optimiser = torch.optim.SGD(groups, lr=0.5, momentum=0.9)
    thing = {
        "state_dict": net.state_dict(),
        "arch": "resnet20",
        "epoch": 3,
        "args": argparse.Namespace(act="gelu", hidden=[512, 256], lr=0.5, data=None),
        "optimizer": optimiser.state_dict(),
        "hyper_parameters": {"activation": "elu", "block": {"padding": 1}},
    }
    said = dict(read(thing, tmp_path).said)
    assert (
        said.items()
        >= {
            "arch": "resnet20",
            "epoch": "3",
            "args.act": "gelu",
            "args.hidden": "[512, 256]",
            "args.data": "None",
            "hyper_parameters.activation": "elu",
            "hyper_parameters.block.padding": "1",
            "optimizer.param_groups.0.weight_decay": "0.1",
            "optimizer.param_groups.0.parameters": "1",
            "optimizer.param_groups.1.momentum": "0.9",
        }.items()
    )
    assert not any(key.startswith(("state_dict.", "optimizer.state.")) for key in said)


def test_a_module_of_ones_own_says_its_attributes_and_one_of_torch_none(tmp_path: Path) -> None:
    said = dict(read(nn.Sequential(Net()), tmp_path).said)
    assert said == {
        "0.nonlinearity": "tanh",
        "0.window": "[2, 2]",
        "0.act": "torch.nn.functional.elu",
    }


def test_entries_are_few_short_and_printable_and_those_that_bear_on_it_come_first() -> None:
    tree = table(**{f"note{n}": "x\x1b" * 5000 for n in range(200)}, activation="tanh")
    found = stated_entries(tree)
    assert len(found) == MOST
    assert found[-1] == ("activation", "tanh")
    assert all(len(text) <= LONGEST and text.isprintable() for _, text in found)


@pytest.mark.parametrize(
    "value",
    [
        InertObject("os.system", ("rm",)),
        InertObject("numpy.float64", ()),
        b"bytes",
        list(range(1000)),
        "",
        tensor(2, 3),
    ],
)
def test_what_is_no_plain_value_is_no_entry(value: Any) -> None:
    assert stated_entries(table(key=value)) == ()


def test_a_function_is_an_entry_by_its_name_alone() -> None:
    assert stated_entries(table(act=GlobalName("os", "system"))) == (("act", "os.system"),)


def test_tables_that_hold_each_other_and_very_many_entries_end() -> None:
    one, other = table(a=1), table(b=2)
    one["other"], other["one"] = other, one
    assert stated_entries(one) == (("a", "1"), ("other.b", "2"))
    wide = InertDict([("", b"")] * (limits.NODES + 1))
    assert stated_entries(table(first=wide, second=table(x=1))) == ()


@pytest.mark.parametrize(
    "key",
    [
        *("args.act_fn", "activation", "nonlinearity", "batch_norm", "drop_rate", "dropout"),
        *("kernel_size", "hidden_sizes", "arch", "model", "model_name", "padding", "stride"),
        *("pool", "norm_layer"),
    ],
)
def test_entries_that_bear_on_the_reading_are_known_by_their_names(key: str) -> None:
    assert bears_on_reading(key)


@pytest.mark.parametrize(
    "key", ["epoch", "best_prec1", "args.lr", "model_dir", "action", "archive", "path.hidden_file"]
)
def test_other_entries_are_not_taken_for_them(key: str) -> None:
    assert not bears_on_reading(key)


def test_a_notes_of_safetensors_is_a_hint_but_none_of_our_own_files(tmp_path: Path) -> None:
    save_file(STATE, tmp_path / "a.safetensors", {"activation": "gelu", "format": "pt"})
    assert any(
        "activation = gelu" in each for each in hints(read_tensors(tmp_path / "a.safetensors"))
    )
    save_file(STATE, tmp_path / "b.safetensors", {"activation": "gelu", "format": "dgn-viewer 1"})
    assert hints(read_tensors(tmp_path / "b.safetensors")) == ()


def counted(**norms: tuple[int, float]) -> CheckpointContents:
    arrays = {}
    for name, (count, mean) in norms.items():
        arrays[f"{name}.running_mean"] = np.full(3, mean)
        arrays[f"{name}.running_var"] = np.ones(3)
        arrays[f"{name}.num_batches_tracked"] = np.array(count)
    return CheckpointContents("f", arrays, {})


def test_what_batchnorms_counted_is_a_hint() -> None:
    assert hints(counted(a=(5, 0.1), b=(5, 0.2))) == ()
    (never,) = hints(counted(a=(5, 0.1), b=(0, 0.0)))
    assert "'b' never saw a batch" in never
    (different,) = hints(counted(a=(5, 0.1), b=(10, 0.2)))
    assert "'a' 5, 'b' 10" in different
