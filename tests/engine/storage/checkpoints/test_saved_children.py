"""Modules of a whole saved module of any class: each is listed with its numbers, none is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.checkpoints.pickle_file import InertDict, InertObject
from dgn_engine.storage.checkpoints.stated_layers import CHILDREN, saved_children
from tests.engine.storage.checkpoints.inert_trees import layer, table

pytestmark = pytest.mark.usefixtures("read_here")


class Block(nn.Module):
    """A part of a network, of a class that the reader cannot know."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1, dilation=2, padding_mode="circular")
        self.norm = nn.BatchNorm2d(8, eps=1e-3)
        self.pool = nn.AvgPool2d(3, 2, 1)


class Net(nn.Module):
    """A network whose modules are registered in another order than they compute."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(8, 4)
        self.act = nn.Softplus(beta=2)
        self.block = Block()
        self.same = self.act
        self.out = nn.LogSoftmax(-1)


def read(thing: object, folder: Path, part: str = "") -> CheckpointContents:
    torch.save(thing, folder / "net.pt")
    return read_tensors(folder / "net.pt", part=part)


def module(**children: Any) -> InertObject:
    state = table(_parameters=InertDict(), _modules=InertDict(list(children.items())))
    return InertObject("nets.Net", (), state=state)


def test_a_whole_module_states_its_children_in_the_order_of_registration(tmp_path: Path) -> None:
    children = read(Net(), tmp_path).children
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
    plain = read(Net(), tmp_path)
    wrapped = read(wrap(Net()), tmp_path, part)
    assert wrapped.children == plain.children
    assert wrapped.module == f"{__name__}.Net"
    assert list(wrapped.arrays) == list(plain.arrays)


def test_modules_in_a_dictionary_are_listed_under_their_keys(tmp_path: Path) -> None:
    found = read({"g": nn.Sequential(nn.Linear(2, 2), nn.Tanh()), "epoch": 3}, tmp_path)
    assert [child.name for child in found.children] == ["g", "g.0", "g.1"]


def test_a_state_dict_has_no_children(tmp_path: Path) -> None:
    assert read(Net().state_dict(), tmp_path).children == ()
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
