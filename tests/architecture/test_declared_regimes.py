"""Whatever a regime may declare can be begun, entered and trained; the rest is refused, and so is a
network without gates."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any, get_args

import pytest
import torch

from dgn_engine.config import NetConfig
from dgn_engine.errors import ArgumentError
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.model.architecture import Architecture, Conv, Dense, Flatten
from dgn_engine.model.nets import Net, fc
from dgn_engine.model.network import GatedNetwork
from dgn_engine.model.regime_entry import enter_regime
from dgn_engine.plugins import plugin_names
from dgn_engine.regimes import Regime, all_regimes, find_regime
from dgn_engine.regimes._regime import TRAINED, OnEntry
from tests.plugins import each
from tests.refusals import refused
from tests.snapshots import Recorded

SWITCHES = ("own_gates", "soft", "linear_features", "open_gates", "drawn_gates", "takes_gates")
NODES = (Conv(1, 2), Flatten(), Dense(18, 4), Dense(4, 3, gated=False))
BEGUN = {"own_gates": False, "soft": True, "on_entry": "keep"}


def declared(**fields: Any) -> Regime:
    return Regime(name="a", title="a", about="a.", order=0, **fields)


def all_declared() -> dict[Regime, dict[str, Any]]:
    """Every regime that can be declared, with what was given for it."""
    found = {}
    for *switched, trains, entry, learnt in itertools.product(
        *[(False, True)] * len(SWITCHES), TRAINED, get_args(OnEntry), ("", "ReLU", "DL-linear")
    ):
        given = dict(zip(SWITCHES, switched, strict=True))
        given |= {"trains": trains, "on_entry": entry, "pretrains_as": learnt}
        with suppress(ArgumentError):
            found[declared(**given)] = given
    return found


DECLARED = all_declared()


def test_these_combinations_can_be_declared_and_no_others(recorded: Recorded) -> None:
    def words(regime: Regime) -> str:
        said = [name for name in SWITCHES if getattr(regime, name)]
        return " ".join([*said, "+".join(regime.trains), regime.on_entry, regime.pretrains_as])

    recorded(sorted(words(regime).strip() for regime in DECLARED))


@pytest.mark.discovery
def test_every_regime_is_one_of_these() -> None:
    def said(regime: Regime) -> list[object]:
        return [getattr(regime, name) for name in (*SWITCHES[:-1], "trains", "on_entry")]

    declared_ones = [said(one) for one in DECLARED]
    assert [one.name for one in all_regimes() if said(one) not in declared_ones] == []


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"on_entry": "redrawn"}, "on_entry"),
        ({"trains": ()}, "trains"),
        ({"trains": ("feature", "value")}, "trains"),
        ({"for_copied_gates": True}, "for_copied_gates"),
        ({"standard": True}, "standard"),
        ({"soft": False, "trains": ("feature",)}, "trains"),
        ({"own_gates": True}, "on_entry"),
        ({"on_entry": "aside"}, "on_entry"),
        ({"takes_gates": True}, "takes_gates"),
        ({"on_entry": "redraw", "takes_gates": True, "pretrains_as": "ReLU"}, "takes_gates"),
    ],
    ids=str,
)
def test_a_contradiction_is_refused_by_its_field(fields: dict[str, Any], place: str) -> None:
    with refused("contradiction", place, fields.get(place, BEGUN.get(place, False))):
        declared(**BEGUN | fields)


@pytest.mark.parametrize("before", [None, "ReLU", "DL"])
def test_what_can_be_declared_trains_what_it_says(before: str | None) -> None:
    left = None if before is None else find_regime(before)
    for regime in DECLARED:
        torch.manual_seed(0)
        network = GatedNetwork(Architecture((1, 3, 3), NODES), bias=True)
        draw(network)
        if left is not None:
            enter_regime(network, None, left, draw)
        enter_regime(network, left, regime, draw)
        x, shapes = torch.randn(5, 1, 3, 3), network.architecture.gated_shapes
        used = network
        if regime.drawn_gates:
            used = network.with_gates(tuple(torch.ones(5, *shape) for shape in shapes))
        used(x).square().sum().backward()
        moved = {
            part
            for part in ("value", "feature")
            for weight in getattr(network, part).parameters()
            if weight.grad is not None and weight.grad.any()
        }
        assert moved == set(regime.trains), DECLARED[regime]
        alike = map(torch.equal, network.value.weights, network.feature.weights)
        copied = left is not None and left.own_gates and regime.on_entry == "keep"
        assert all(alike) == (copied or regime.on_entry == "share-redrawn")


def draw(stack: torch.nn.Module) -> None:
    for weight in stack.parameters():
        torch.nn.init.normal_(weight)


@pytest.mark.parametrize("name", each(regime.name for regime in all_regimes()))
def test_a_regime_learns_its_gates_in_one_that_makes_some_and_takes_none(name: str) -> None:
    regime = find_regime(name)
    if regime.takes_gates:
        first = find_regime(regime.pretrains_as)
        assert not first.takes_gates
        assert first.own_gates or first.trains_feature


@pytest.mark.discovery
def test_a_regime_is_named_as_its_file() -> None:
    """Else `--plug-in` would find no test of it."""
    names = {regime.name.lower().replace("-", "_") for regime in all_regimes()}
    assert names == set(plugin_names("dgn_engine.regimes"))


def test_a_network_without_a_gated_layer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(shape: tuple[int, ...], classes: int, _: object) -> Architecture:
        return Architecture(shape, (Dense(shape[0], classes, gated=False),))

    monkeypatch.setattr(fc, "NET", Net("Linear", build))
    with refused("empty"):
        build_architecture(NetConfig("fc"), (4,), 3)
