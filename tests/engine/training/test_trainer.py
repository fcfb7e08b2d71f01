"""The trainer by itself, on a dozen drawn examples: batches, scores, swaps, imports, state."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture, Conv, Dense, GlobalAveragePool
from dgn_engine.model.stack import Stack
from dgn_engine.regimes import Regime, all_regimes, find_regime
from dgn_engine.training.device_data import DeviceData
from dgn_engine.training.trainer import Trainer
from tests.engine.training.changed_config import change_config
from tests.plugins import each
from tests.refusals import refused

REGIMES = {regime.name: regime for regime in all_regimes()}
CHAIN = Architecture((3,), (Dense(3, 4), Dense(4, 4), Dense(4, 4), Dense(4, 2, gated=False)))
MAPS = Architecture(
    (1, 4, 3), (Conv(1, 2), Conv(2, 2), GlobalAveragePool(), Dense(2, 2, gated=False))
)
CPU = torch.device("cpu")


def data(architecture: Architecture = CHAIN) -> DeviceData:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn((11, *architecture.input_shape), generator=generator)
    y = torch.randint(0, 2, (11,), generator=generator)
    return DeviceData(x, y, x[:4], y[:4])


def trainer(
    regime: str = "DL", architecture: Architecture = CHAIN, **parts: dict[str, Any]
) -> Trainer:
    parts = {**parts, "training": {"batch": 4, "learning_rate": 0.01, **parts.get("training", {})}}
    config = change_config(RunConfig(), **parts)
    return Trainer(config, architecture, data(architecture), find_regime(regime), CPU)


def stepped(made: Trainer, steps: int = 2) -> Trainer:
    for _ in range(steps):
        made.step()
    return made


def weights(stack: Stack) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in stack.parameters()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def with_state(made: Trainer) -> set[str]:
    """The networks of which the optimiser remembers something."""
    state = made.optimizer.torch.state
    stacks = {"value": made.network.value, "feature": made.network.feature}
    return {name for name, stack in stacks.items() if any(p in state for p in stack.parameters())}


def test_an_epoch_is_every_example_once_in_batches_of_which_the_last_is_smaller() -> None:
    made = trainer()
    made.network_step.use_autograd()  # which calls the network
    seen: list[int] = []
    made.network.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    assert made.steps_per_epoch == 3
    assert made.epoch == 0.0
    for step in range(1, 7):
        made.step()
        assert made.epoch == pytest.approx(step / 3)
    assert seen == [4, 4, 3, 4, 4, 3]


def test_a_train_score_is_the_mean_over_the_examples_since_the_last() -> None:
    made = trainer(training={"learning_rate": 1e-12, "optimiser": "sgd"})
    made.network_step.use_autograd()
    for count in (1, 3, 2):
        shown: list[Tensor] = []
        handle = made.network.register_forward_pre_hook(
            lambda _, given, shown=shown: shown.append(given[0].clone())  # type: ignore[misc]
        )
        stepped(made, count)
        handle.remove()
        score = made.train_score()
        x = torch.cat(shown)
        rows = [int((made.data.train_x == one).all(1).nonzero()) for one in x]
        logits, y = made.network(x).detach(), made.data.train_y[rows]
        losses = -torch.log_softmax(logits, 1)[torch.arange(len(y)), y]
        assert score.examples == len(x)
        assert score.loss == pytest.approx(float(losses.mean()), rel=1e-5)
        assert score.accuracy == pytest.approx(float((logits.argmax(1) == y).double().mean()))
    nothing = made.train_score()
    assert math.isnan(nothing.loss)
    assert math.isnan(nothing.accuracy)
    assert nothing.examples == 0


def test_a_test_score_is_over_all_test_examples() -> None:
    made = trainer(training={"loss": "squared"})
    logits, y = made.network(made.data.test_x).detach(), made.data.test_y
    score = made.test_score()
    targets = 2.0 * torch.nn.functional.one_hot(y, 2) - 1.0
    assert score.examples == 4
    assert score.loss == pytest.approx(float(0.5 * ((logits - targets) ** 2).sum(1).mean()))
    assert score.accuracy == pytest.approx(float((logits.argmax(1) == y).double().mean()))


def enters(left: Regime, entered: Regime, restart: bool) -> set[str]:
    """By theory §1: the groups that are redrawn or overwritten."""
    changed = set()
    if entered.on_entry in ("redraw", "redraw-both", "share-redrawn"):
        changed.add("feature")
    if entered.on_entry == "keep" and left.own_gates:
        changed.add("feature")
    if entered.on_entry in ("redraw-both", "share-redrawn"):
        changed.add("value")
    if entered.takes_gates and restart:
        changed.add("value")
    return changed


@pytest.mark.parametrize("restart", [True, False])
@pytest.mark.parametrize("after", each(REGIMES))
def test_what_a_swap_overwrites_loses_its_optimiser_state_and_nothing_else(
    after: str, restart: bool
) -> None:
    for before in ("ReLU", "DL"):
        made = stepped(trainer("DL"))
        made.control.enter_regime(REGIMES[before], False)
        stepped(made)
        remembered, value = with_state(made), weights(made.network.value)
        feature = weights(made.network.feature)
        change = made.control.enter_regime(REGIMES[after], restart)
        overwritten = enters(REGIMES[before], REGIMES[after], restart)
        assert with_state(made) == remembered - overwritten
        assert same(value, weights(made.network.value)) == ("value" not in overwritten)
        assert same(feature, weights(made.network.feature)) == ("feature" not in overwritten)
        assert made.regime == REGIMES[after]
        said = {name.split()[0] for name in (*change.redrawn, *change.copied)}
        assert said == overwritten
        copied = {"keep": value, "share-redrawn": weights(made.network.value)}
        if "feature" in overwritten and (own := copied.get(REGIMES[after].on_entry)) is not None:
            assert same(own, weights(made.network.feature))
        stepped(made)


@pytest.mark.parametrize("name", each(REGIMES))
def test_a_change_says_of_each_group_what_became_of_it(name: str) -> None:
    regime = REGIMES[name]
    change = trainer("DL").control.enter_regime(regime, False)
    unused = regime.on_entry == "aside"
    overwritten = enters(REGIMES["DL"], regime, restart=False)
    kept = [] if "value" in overwritten else ["value weights"]
    if "feature" not in overwritten:
        kept.append("feature weights (aside)" if unused else "feature weights")
    assert change.kept == tuple(kept)
    frozen = [] if regime.trains_feature or unused else ["feature weights"]
    assert change.frozen == (*frozen, *(() if regime.trains_value else ("value weights",)))
    together = regime.on_entry == "share-redrawn"
    assert bool(change.copied) == together
    assert change.redrawn == tuple(
        f"{group} weights"
        for group in ("feature", "value")
        if group in overwritten and not (together and group == "feature")
    )


def imported(biases: bool, layers: int = 4) -> tuple[list[Tensor], list[Tensor | None]]:
    sizes = [(4, 3), (4, 4), (4, 4), (2, 4)][:layers]
    shifts: list[Tensor | None] = [
        torch.full((size[0],), 3.0) if biases else None for size in sizes
    ]
    return [torch.full(size, 2.0) for size in sizes], shifts


def firsts(stack: Stack) -> list[float]:
    """The first bias of each layer."""
    return [float(bias.detach()[0]) for bias in stack.biases]


def test_imported_biases_need_a_value_network_with_biases() -> None:
    made = stepped(trainer())
    before = weights(made.network.value)
    with refused("biases"):
        made.control.take_weights(*imported(biases=True))
    assert same(before, weights(made.network.value))
    assert with_state(made) == {"value", "feature"}
    made.control.take_weights(*imported(biases=False))
    assert all(bool((weight == 2).all()) for weight in made.network.value.weights)
    assert with_state(made) == {"feature"}


def test_imported_weights_reset_biases_that_are_not_among_them() -> None:
    made = stepped(trainer(net={"bias": True}))
    made.control.take_weights(*imported(biases=True, layers=2))
    last = made.network.value.weights[-1].detach().clone()
    assert firsts(made.network.value)[:2] == [3.0, 3.0]
    made.control.take_weights(*imported(biases=False, layers=1))
    assert firsts(made.network.value)[:2] == [0.0, 3.0]
    assert torch.equal(made.network.value.weights[-1], last), "no layer of the file"


def test_gates_of_a_file_may_bring_biases_along() -> None:
    made = stepped(trainer())
    value = weights(made.network.value)
    made.control.take_gates(*imported(biases=True, layers=3))
    feature = made.network.feature
    assert firsts(feature) == [3.0, 3.0, 3.0, 0.0]
    assert all(bool((weight == 2).all()) for weight in feature.weights[:3])
    assert same(value, weights(made.network.value))
    assert with_state(made) == {"value"}
    stepped(made)
    assert any(bool((bias != 3).any()) for bias in feature.biases[:3]), "and are trained"
    plain = stepped(trainer())
    plain.control.take_gates(*imported(biases=False, layers=3))
    assert len(plain.network.feature.biases) == 0
    assert with_state(plain) == {"value"}


def test_rewiring_carries_each_gate_layers_turn_along() -> None:
    made = trainer(gating={"wiring": (0, 1, 2), "rotation": (0, 1, 3)})
    made.control.set_wiring((2, 0, 1))
    assert made.network.wiring == (2, 0, 1)
    assert [route.rotate for route in made.network.routes] == [3, 0, 1]
    made.control.set_wiring((1, 2, 0))
    assert [route.rotate for route in made.network.routes] == [1, 3, 0]
    made.control.set_routes((), ())
    assert [route.rotate for route in made.network.routes] == [0, 0, 0]
    with pytest.raises(UserError):
        made.control.set_wiring((0, 1))
    with pytest.raises(UserError):
        made.control.set_routes((), (1, 0, 0))
    assert [route.shift for route in made.network.routes] == [(0, 0)] * 3


def test_maps_are_turned_in_space_and_carry_it_along() -> None:
    made = trainer(architecture=MAPS, gating={"shift": (1, 0), "rotation": (0, 1)})
    made.control.set_wiring((1, 0))
    assert [(r.rotate, r.shift) for r in made.network.routes] == [(1, (0, 0)), (0, (1, 1))]


def test_a_wiring_in_the_configuration_that_does_not_fit_is_named_by_its_key() -> None:
    with pytest.raises(UserError) as refusal:
        trainer(gating={"wiring": (1, 0)})
    assert refusal.value.place == "gating.wiring"


def test_only_drawn_gates_differ_from_example_to_example() -> None:
    rows = torch.tensor([0, 3])
    plain = trainer("DL")
    assert plain.control.network_at(rows) is plain.network
    drawn = trainer("FRG")
    gates = drawn.control.network_at(rows).given_gates
    again = drawn.control.network_at(torch.tensor([3])).given_gates
    assert gates is not None
    assert again is not None
    assert all(torch.equal(one[1], two[0]) for one, two in zip(gates, again, strict=True))
    drawn.set_seed(9)
    others = drawn.control.network_at(rows).given_gates
    assert others is not None
    assert not same(list(gates), list(others)), "another seed draws others"


def test_a_trainer_goes_on_from_the_state_of_another_to_the_last_bit() -> None:
    for regime, gates in (("DL", False), ("DL", True), ("FR-II", False)):
        first = stepped(trainer(regime))
        if gates:
            first.control.take_gates(*imported(biases=True, layers=3))
        stepped(first)
        tensors = {name: tensor.clone() for name, tensor in first.tensors().items()}
        counters = first.counters()
        second = trainer(regime, training={"learning_rate": 0.01})
        second.restore_state(tensors, counters)
        assert second.counters() == counters
        assert second.step_count == 4
        ones, twos = stepped(first).train_score(), stepped(second).train_score()
        assert ones == twos
        assert same(weights(first.network.value), weights(second.network.value))
        assert same(weights(first.network.feature), weights(second.network.feature))


def test_a_state_of_other_shapes_is_refused() -> None:
    made = trainer()
    tensors = {**made.tensors(), "value.weights.1": torch.zeros(4, 5)}
    with pytest.raises(RuntimeError, match=r"value\.weights\.1 has another shape"):
        trainer().restore_state(tensors, made.counters())
    del tensors["value.weights.1"]
    with pytest.raises(KeyError):
        trainer().restore_state(tensors, made.counters())


def test_sums_that_were_gathered_elsewhere_are_taken_over() -> None:
    made = trainer()
    made.train_sums.set_sums(torch.tensor([10.0, 3.0]), 8)
    score = made.train_score()
    assert score.examples == 8
    assert (score.loss, score.accuracy) == (1.25, 0.375)
