"""Text and numbers beside the tensors of a file: which are taken, and which bear on its reading."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents, StatedLayer
from dgn_engine.storage.checkpoints.pickle_file import GlobalName, InertDict, InertObject
from dgn_engine.storage.checkpoints.stated_entries import (
    LONGEST,
    MOST,
    bears_on_reading,
    reading_hints,
    stated_entries,
)
from dgn_engine.storage.checkpoints.stated_layers import (
    CHILDREN,
    KINDS,
    check_stated_layers,
    in_words,
    saved_children,
    stated_layers,
)
from tests.engine.storage.checkpoints.inert_trees import layer, sequence, table, tensor

pytestmark = pytest.mark.usefixtures("no_reader_child")

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
        "activation = gelu" in each
        for each in reading_hints(read_tensors(tmp_path / "a.safetensors"))
    )
    save_file(STATE, tmp_path / "b.safetensors", {"activation": "gelu", "format": "dgn-viewer 1"})
    assert reading_hints(read_tensors(tmp_path / "b.safetensors")) == ()


def counted(**norms: tuple[int, float]) -> CheckpointContents:
    arrays = {}
    for name, (count, mean) in norms.items():
        arrays[f"{name}.running_mean"] = np.full(3, mean)
        arrays[f"{name}.running_var"] = np.ones(3)
        arrays[f"{name}.num_batches_tracked"] = np.array(count)
    return CheckpointContents("f", arrays, {})


def test_what_batchnorms_counted_is_a_hint() -> None:
    assert reading_hints(counted(a=(5, 0.1), b=(5, 0.2))) == ()
    (never,) = reading_hints(counted(a=(5, 0.1), b=(0, 0.0)))
    assert "'b' never saw a batch" in never
    (different,) = reading_hints(counted(a=(5, 0.1), b=(10, 0.2)))
    assert "'a' 5, 'b' 10" in different


# Modules of a saved module of any class: each is listed with its numbers, none is made.


class Block(nn.Module):
    """A part of a network, of a class that the reader cannot know."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1, dilation=2, padding_mode="circular")
        self.norm = nn.BatchNorm2d(8, eps=1e-3)
        self.pool = nn.AvgPool2d(3, 2, 1)


class Unordered(nn.Module):
    """A network whose modules are registered in another order than they compute."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(8, 4)
        self.act = nn.Softplus(beta=2)
        self.block = Block()
        self.same = self.act
        self.out = nn.LogSoftmax(-1)


def read_saved(thing: object, folder: Path, part: str = "") -> CheckpointContents:
    torch.save(thing, folder / "net.pt")
    return read_tensors(folder / "net.pt", part=part)


def module(**children: Any) -> InertObject:
    state = table(_parameters=InertDict(), _modules=InertDict(list(children.items())))
    return InertObject("nets.Net", (), state=state)


def test_a_whole_module_states_its_children_in_the_order_of_registration(tmp_path: Path) -> None:
    children = read_saved(Unordered(), tmp_path).children
    assert [child.name for child in children] == [
        *("last", "act", "block", "block.conv", "block.norm", "block.pool", "same", "out")
    ]
    found = {child.name: child for child in children}
    assert found["block"].kind == f"{__name__}.Block"
    assert found["block.conv"].numbers == {
        "in_channels": 3,
        "out_channels": 8,
        "kernel_size": (3, 3),
        "stride": (2, 2),
        "padding": (1, 1),
        "dilation": (2, 2),
        "groups": 1,
        "padding_mode": "circular",
    }
    assert found["block.norm"].numbers["eps"] == 1e-3
    assert found["block.pool"].numbers["kernel_size"] == (3, 3)


@pytest.mark.parametrize(
    ("wrap", "part"),
    [
        (lambda net: {"model": nn.DataParallel(net)}, ""),
        (lambda net: {"other": nn.Linear(2, 2), "mine": net}, "mine"),
        (nn.DataParallel, ""),
        (lambda net: {"model": net, "epoch": 3}, ""),
    ],
)
def test_the_children_of_a_wrapped_module_have_the_names_of_its_tensors(
    wrap: Any, part: str, tmp_path: Path
) -> None:
    plain = read_saved(Unordered(), tmp_path)
    wrapped = read_saved(wrap(Unordered()), tmp_path, part)
    assert wrapped.children == plain.children
    assert wrapped.module == f"{__name__}.Unordered"
    assert list(wrapped.arrays) == list(plain.arrays)


def test_modules_in_a_dictionary_are_listed_under_their_keys(tmp_path: Path) -> None:
    found = read_saved({"g": nn.Sequential(nn.Linear(2, 2), nn.Tanh()), "epoch": 3}, tmp_path)
    assert [child.name for child in found.children] == ["g", "g.0", "g.1"]


def test_a_state_dict_has_no_children(tmp_path: Path) -> None:
    assert read_saved(Unordered().state_dict(), tmp_path).children == ()
    assert saved_children(table(w=InertObject("evil.Thing", ()))) == ()


def test_modules_that_hold_each_other_end() -> None:
    inner = module()
    outer = module(inner=inner)
    inner.state.get("_modules").pairs.append(("back", outer))
    assert [child.name for child in saved_children(outer)] == ["inner", "inner.back"]


def test_a_shared_module_is_entered_once() -> None:
    shared = module(act=layer("activation.Tanh", _parameters=InertDict()))
    for _ in range(40):  # 2^40 paths
        shared = module(a=shared, b=shared)
    assert len(saved_children(shared)) == 81


@pytest.mark.parametrize(
    "tree",
    [
        lambda: module(**{f"c{number}": module() for number in range(CHILDREN + 1)}),
        lambda: module(**{"n" * (limits.NAME + 1): module()}),
        lambda: nested(60),
        lambda: module(a=InertObject("x.Y", (), state=InertDict([(0, 0)] * (limits.NODES + 1)))),
    ],
    ids=["too many", "a name too long", "too deep", "too much to search"],
)
def test_children_beyond_the_limits_are_not_listed_at_all(tree: Any) -> None:
    assert saved_children(tree()) == ()


def nested(depth: int) -> InertObject:
    found = module()
    for _ in range(depth):
        found = module(a=found)
    return found


# Numbers that a saved layer states: which make it one that is not known.

CONV = {
    "in_channels": 3,
    "out_channels": 16,
    "kernel_size": (3, 3),
    "stride": 2,
    "padding": (1, 1),
    "dilation": (1, 1),
    "groups": 1,
    "padding_mode": "zeros",
}
POOL = {"kernel_size": 2, "stride": None, "padding": 0, "dilation": 1, "ceil_mode": False}
SOUND: dict[str, tuple[str, dict[str, Any]]] = {
    "Linear": ("linear", {"in_features": 3, "out_features": 0}),
    "Conv2d": ("conv", CONV),
    "BatchNorm2d": ("batchnorm", {"num_features": 8, "eps": 1e-5}),
    "MaxPool2d": ("pooling", POOL),
    "AdaptiveAvgPool2d": ("pooling", {"output_size": (1, 1)}),
    "Flatten": ("flatten", {"start_dim": 1, "end_dim": -1}),
}


def stated(kind: str, **changes: Any) -> StatedLayer:
    module, numbers = SOUND[kind]
    given = {key: value for key, value in {**numbers, **changes}.items() if value != "left out"}
    (found,) = stated_layers(sequence(("0", layer(f"{module}.{kind}", **given))))
    return found


TAKEN: list[tuple[str, str, Any, Any]] = [
    ("Linear", "in_features", 1 << 24, 1 << 24),
    ("Conv2d", "stride", (2, 1), (2, 1)),
    ("Conv2d", "stride", [2, 1], (2, 1)),
    ("Conv2d", "padding", "same", "same"),
    ("Conv2d", "padding", "valid", "valid"),
    ("Conv2d", "padding", 0, (0, 0)),
    ("Conv2d", "padding_mode", "circular", "circular"),
    ("Conv2d", "padding_mode", "left out", "zeros"),
    ("BatchNorm2d", "eps", 0, 0.0),
    ("BatchNorm2d", "eps", 1, 1.0),
    ("BatchNorm2d", "eps", 0.5, 0.5),
    ("MaxPool2d", "stride", None, (2, 2)),
    ("MaxPool2d", "stride", 3, (3, 3)),
    ("MaxPool2d", "ceil_mode", True, True),
    ("Flatten", "end_dim", -16, -16),
    ("Flatten", "start_dim", 16, 16),
]
REFUSED: list[tuple[str, str, Any]] = [
    ("Linear", "in_features", -1), ("Linear", "in_features", (1 << 24) + 1),
    ("Linear", "in_features", 3.0), ("Linear", "in_features", True),
    ("Linear", "out_features", "left out"),
    ("Conv2d", "kernel_size", 0), ("Conv2d", "kernel_size", (3, 0)),
    ("Conv2d", "kernel_size", (3, 3, 3)), ("Conv2d", "stride", 0), ("Conv2d", "padding", -1),
    ("Conv2d", "padding", "other"), ("Conv2d", "padding_mode", "other"),
    ("BatchNorm2d", "eps", "x"), ("BatchNorm2d", "eps", math.nan), ("BatchNorm2d", "eps", -0.1),
    ("BatchNorm2d", "eps", 1.5), ("BatchNorm2d", "eps", True), ("BatchNorm2d", "eps", math.inf),
    ("BatchNorm2d", "eps", 10**400),
    ("MaxPool2d", "ceil_mode", 1), ("MaxPool2d", "ceil_mode", "left out"),
    ("AdaptiveAvgPool2d", "output_size", 0), ("AdaptiveAvgPool2d", "output_size", "left out"),
    ("Flatten", "end_dim", 17), ("Flatten", "end_dim", -17), ("Flatten", "start_dim", 1.0),
]  # fmt: skip


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_layer_has_its_numbers(kind: str) -> None:
    found = stated(kind)
    assert (found.name, found.kind) == ("0", kind)
    assert set(found.numbers) == set(KINDS[kind])


@pytest.mark.parametrize(("kind", "name", "given", "taken"), TAKEN)
def test_a_number_is_taken(kind: str, name: str, given: Any, taken: Any) -> None:
    found = stated(kind, **{name: given})
    assert found.kind == kind
    assert found.numbers[name] == taken
    assert type(found.numbers[name]) is type(taken)


@pytest.mark.parametrize(("kind", "name", "given"), REFUSED)
def test_a_number_that_cannot_be_makes_the_layer_unknown(kind: str, name: str, given: Any) -> None:
    found = stated(kind, **{name: given})
    assert found.kind.startswith(f"{kind} with an unknown {name}")
    assert found.numbers == {}


def test_a_thousand_layers_are_listed_and_no_more() -> None:
    relu = layer("activation.ReLU")
    for count, listed in ((1000, 1000), (1001, 0)):
        many = sequence(*((str(n), relu) for n in range(count)))
        assert len(stated_layers(many)) == listed
    with pytest.raises(ValueError, match="layers are invalid"):
        check_stated_layers([{"name": "x", "kind": "ReLU", "numbers": {}}] * 1001)
    assert len(check_stated_layers([{"name": "x", "kind": "ReLU", "numbers": {}}] * 1000)) == 1000


def test_a_layer_is_said_in_words() -> None:
    said = {
        "Linear": "Linear 3 → 0",
        "Conv2d": "Conv2d 3 → 16, 3×3, stride 2, padding 1",
        "BatchNorm2d": "BatchNorm2d 8, ε 1e-05",
        "MaxPool2d": "MaxPool2d 2×2, stride 2",
        "AdaptiveAvgPool2d": "AdaptiveAvgPool2d to 1×1",
        "Flatten": "Flatten",
    }
    assert {kind: in_words(stated(kind)) for kind in SOUND} == said
    odd = stated("Conv2d", stride=(2, 1), padding="same", groups=3)
    assert in_words(odd) == "Conv2d 3 → 16, 3×3, stride 2×1, padding same, 3 groups"


@pytest.mark.parametrize(
    "more",
    [
        {"_forward_hooks": table(h=1)},
        {"_forward_pre_hooks": table(h=1)},
        {"forward": 3},
        {"_modules": table(inner=layer("activation.ReLU"))},
    ],
)
def test_what_changes_a_layer_makes_it_another(more: dict[str, Any]) -> None:
    (found,) = stated_layers(sequence(("0", layer("activation.ReLU", **more))))
    assert found == StatedLayer("0", "ReLU with hooks")


def test_empty_hooks_change_nothing_and_a_foreign_class_is_named() -> None:
    calm = layer("activation.ReLU", _forward_hooks=table(), _forward_pre_hooks=table(), _modules=3)
    bare = layer("activation.ReLU")
    bare.state = None
    found = stated_layers(sequence(("0", calm), ("1", bare), ("2", layer("activation.Hardshrink"))))
    assert [one.kind for one in found] == [
        "ReLU",
        *(layer(f"activation.{name}").callee for name in ("ReLU", "Hardshrink")),
    ]
