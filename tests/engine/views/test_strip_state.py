"""What the layer strip says of the state of a run, word by word."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import attrgetter

import pytest

from dgn_engine.config import GatingConfig
from dgn_engine.model.choices import ValueInput
from dgn_engine.protocol.catalogue import Catalogue, RegimeEntry
from dgn_engine.protocol.messages import EngineReady, Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import LayerInfo, RegimeSwapped, Rewired, SettingChanged
from dgn_engine.views.strip_state import (
    StripState,
    Turn,
    describe_gate_shape,
    identity_order,
    reason_not_swappable,
    strip_state,
    swap_layers,
)
from tests.engine.views.begun_run import DENSE, make_run_started
from tests.snapshots import Recorded

DL = RegimeEntry("DL", "DL", "", own_gates=False, soft=True, trains_feature=True)
FL = RegimeEntry("FL", "FL", "", False, soft=False, trains_feature=False, takes_gates=True)
RELU = RegimeEntry("ReLU", "ReLU", "", own_gates=True, soft=False, trains_feature=False)
LINEAR = replace(RELU, id="linear", open_gates=True)
BERNOULLI = replace(FL, id="bernoulli", drawn_gates=True)
NO_VALUE = replace(DL, id="features", trains_value=False)
REGIMES = (DL, FL, RELU, LINEAR, BERNOULLI)
READY = EngineReady(Catalogue(REGIMES, (), (), (), ("cpu",)), "2.13")


def after(*events: Event) -> RunState:
    return reduce(RunState.after, events, RunState())


def strip(entry: RegimeEntry = DL, **changes: object) -> StripState:
    base = StripState(REGIMES, DENSE, (0, 1, 2, 3), entry.id, entry)
    return replace(base, **changes)  # type: ignore[arg-type]


def test_without_a_run_there_is_nothing_to_show() -> None:
    assert strip_state(RunState()) == strip_state(after(READY)) == StripState()
    nothing = StripState()
    assert (nothing.headline(), nothing.describe_actions()) == ("", "")
    kinds = (nothing.own_gates, nothing.open_gates, nothing.drawn_gates)
    still = (nothing.has_frozen_gates, nothing.value_frozen, nothing.can_rewire)
    assert not any((*kinds, *still, nothing.is_permuted, nothing.is_turned))


def test_the_strip_shows_the_run_as_it_began() -> None:
    gating = GatingConfig(value_input="ones")
    assert strip_state(after(READY, make_run_started(gating=gating))) == StripState(
        REGIMES, DENSE, (0, 1, 2, 3), "DL", DL, "", "ones", ()
    )
    # Without an order every layer has its own gates; without a catalogue nothing is known of them.
    bare = strip_state(after(replace(make_run_started(), wiring=())))
    assert (bare.order, bare.regimes, bare.entry) == ((0, 1, 2, 3), (), None)


def test_swap_rewire_rotate_and_settings_show_in_the_strip() -> None:
    state = after(
        READY,
        make_run_started(),
        RegimeSwapped(5, "DL", "FL", (), (), (), (), source="x.pt"),
        Rewired(6, (1, 0, 3, 2), (5, 0, -2, 0), (0, 0, 3, 0)),
        SettingChanged(7, 0.1, 4.0, "random", 0.0),
    )
    # Value layer 1 uses gate layer 2, so that layer 2 is the one that is turned by 5.
    turns = ((0, 0), (5, 0), (0, 0), (-2, 3))
    assert strip_state(state) == StripState(
        REGIMES, DENSE, (1, 0, 3, 2), "FL", FL, "x.pt", "random", turns
    )
    again = strip_state(state.after(Rewired(8, (0, 1, 2, 3))))
    assert (again.order, again.turns, again.is_turned) == ((0, 1, 2, 3), (), False)
    shifted = strip_state(state.after(Rewired(8, (0, 1, 2, 3), (), (0, 0, 0, 1))))
    assert shifted.turns == ((0, 0), (0, 0), (0, 0), (0, 1))
    rotated = strip_state(state.after(Rewired(8, (0, 1, 2, 3), (7, 0, 0, 0))))
    assert rotated.turns == ((7, 0), (0, 0), (0, 0), (0, 0))


def test_orders() -> None:
    assert identity_order(3) == (0, 1, 2)
    assert swap_layers((2, 0, 1), 0, 2) == (1, 0, 2)
    assert swap_layers((2, 0, 1), 1, 1) == (2, 0, 1)


def layer(index: int, *shape: int) -> LayerInfo:
    return LayerInfo(index, "", "dense" if len(shape) == 1 else "conv", shape)


@pytest.mark.parametrize(
    ("shapes", "order", "origin", "target", "why"),
    [
        (((64,), (64,)), (0, 1), 0, 1, ""),
        (((64,), (32,)), (0, 1), 0, 1, "G1 has 64 units, layer 2 needs 32"),
        (((64,), (32,)), (0, 1), 1, 0, "G2 has 32 units, layer 1 needs 64"),
        (
            ((128, 16, 16), (64, 8, 8)),
            (0, 1),
            0,
            1,
            "G1 has 128 channels of 16×16, layer 2 needs 64 of 8×8",
        ),
        (
            ((128, 16, 16), (64,)),
            (0, 1),
            0,
            1,
            "G1 has 128 channels of 16×16, layer 2 needs 64 units",
        ),
        (
            ((64,), (128, 16, 16)),
            (0, 1),
            0,
            1,
            "G1 has 64 units, layer 2 needs 128 channels of 16×16",
        ),
        (((64,), (32,), (64,)), (2, 1, 0), 0, 2, ""),
    ],
)
def test_gates_change_places_only_where_both_fit(
    shapes: tuple[tuple[int, ...], ...], order: tuple[int, ...], origin: int, target: int, why: str
) -> None:
    layers = tuple(layer(index, *shape) for index, shape in enumerate(shapes))
    assert reason_not_swappable(layers, order, origin, target) == why


def test_shapes_in_words() -> None:
    assert describe_gate_shape((64,)) == "64 units"
    assert describe_gate_shape((128, 16, 8)) == "128 channels of 16×8"


def test_what_a_regime_means_for_the_strip(recorded: Recorded) -> None:
    states = [strip(entry) for entry in (*REGIMES, NO_VALUE)]
    kinds = {
        "own_gates": attrgetter("own_gates"),
        "open_gates": attrgetter("open_gates"),
        "drawn_gates": attrgetter("drawn_gates"),
        "frozen": attrgetter("has_frozen_gates"),
        "value_frozen": attrgetter("value_frozen"),
        "movable": attrgetter("can_rewire"),
    }
    recorded({one.regime: [kind for kind, is_so in kinds.items() if is_so(one)] for one in states})


def test_one_layer_has_nothing_to_exchange() -> None:
    alone = strip(layers=DENSE[:1], order=(0,))
    assert not alone.can_rewire
    assert alone.describe_actions().startswith("One ")
    two = strip(layers=DENSE[:2], order=(0, 1))
    assert two.can_rewire


@pytest.mark.parametrize(
    ("entry", "source", "headline"),
    [
        (DL, "", "Trainable gates"),
        (FL, "", "Frozen gates"),
        (FL, "x.pt", "Gates of x.pt"),
        (RELU, "", "ReLU: own gates"),
        (LINEAR, "x.pt", "linear: open gates"),
        (BERNOULLI, "x.pt", "Random gates"),
    ],
)
def test_the_gates_in_a_few_words(entry: RegimeEntry, source: str, headline: str) -> None:
    assert strip(entry, source=source).headline() == headline


def other_ids(letters: str) -> tuple[RegimeEntry, ...]:
    return tuple(replace(DL, id=name) for name in letters)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (strip(RELU), " DL, FL and bernoulli have one"),
        (strip(LINEAR, regimes=(DL, RELU)), " DL has one"),
        (strip(RELU, regimes=other_ids("abcd")), " a, b, c and d have one"),
        (strip(RELU, regimes=other_ids("abcde")), " a, b, c and others have one"),
        (strip(order=(1, 0, 2, 3)), ": 2 1 3 4"),
        (strip(turns=((3, 0), (0, 0), (-2, 1), (0, -1))), ": G1\xa0↻3, G3\xa0↺2 ↘1, G4\xa0↖1"),
        (strip(order=(3, 1, 2, 0), turns=((0, 0), (1, 0), (0, 0), (0, 0))), ": 4 2 3 1. "),
    ],
)
def test_what_can_be_done_or_why_nothing_can(state: StripState, said: str) -> None:
    assert said in state.describe_actions()
    assert state.describe_actions() != strip().describe_actions()
    assert strip(turns=((0, 0),) * 4).describe_actions() == strip().describe_actions()


def test_what_the_gates_of_a_layer_are() -> None:
    wired = strip(FL, source="x.pt", order=(1, 0, 2, 3), turns=((0, 0), (3, 0), (0, 0), (0, 0)))
    said = wired.describe_gates(1, 0)
    assert said.startswith("G2, ")
    assert all(part in said for part in (" layer 2, ", " layer 1. ", " x.pt. ", " ↻3. "))
    gating = GatingConfig(feature_layers="parallel")
    parallel = strip_state(after(READY, make_run_started(gating=gating)))
    assert parallel == strip(parallel=True)
    assert parallel.describe_gates(1, 0) != strip().describe_gates(1, 0)
    alone = strip(layers=DENSE[:1], order=(0,)).describe_gates(0, 0)
    assert said.count(".") > alone.count(".") == 1  # there is nothing to do with it
    assert strip(RELU).describe_gates(0, 2).startswith("ReLU: layer 3 ")


def test_turns() -> None:
    state = strip(turns=((3, 0), (0, -2)))
    assert [state.turn_of(feature) for feature in range(3)] == [(3, 0), (0, -2), (0, 0)]
    assert state.is_turned
    assert strip(turns=((0, 0), (0, 1))).is_turned
    assert state.with_turns({}) is state
    assert state.with_turns({3: (1, 1), 0: (0, 0)}).turns == ((0, 0), (0, -2), (0, 0), (1, 1))
    assert state.describe_turn(2) == ""
    assert strip(turns=((1, 1),)).describe_turn(0) == "↻1 ↘1"
    assert strip(turns=((-1, -1),)).describe_turn(0) == "↺1 ↖1"


@pytest.mark.parametrize(
    ("shape", "turn", "whole"),
    [
        ((64,), (63, 0), (-1, 0)),
        ((64,), (32, 0), (32, 0)),  # half a turn is one forwards
        ((64,), (33, 0), (-31, 0)),
        ((64,), (-1, 0), (-1, 0)),
        ((64,), (-32, 0), (32, 0)),
        ((64,), (128, 5), (0, 0)),  # a dense layer has no rows and columns
        ((8, 6, 4), (9, 3), (1, -1)),  # the shorter side counts
        ((8, 6, 4), (5, 2), (-3, 2)),
    ],
)
def test_a_turn_is_told_in_the_fewest_steps(
    shape: tuple[int, ...], turn: Turn, whole: Turn
) -> None:
    assert strip(layers=(layer(0, *shape),)).shortest_turn(0, turn) == whole


@pytest.mark.parametrize(
    ("value_input", "name"), [("image", "x"), ("ones", "ones"), ("random", "random")]
)
def test_the_input_of_the_value_network(value_input: ValueInput, name: str) -> None:
    assert strip(value_input=value_input).input_name == name
    assert strip(RELU, value_input=value_input).input_name == "x"
