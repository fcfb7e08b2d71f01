"""Each row of the table in theory §1, at the start of a run and when swapped to in mid-run."""

from __future__ import annotations

import pytest
import torch

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.model import random_gates
from dgn_engine.model.architecture import Architecture, Dense
from dgn_engine.protocol.training import Measured, RegimeSwapped
from dgn_engine.regimes import all_regimes, find_regime
from dgn_engine.regimes._regime import GROUPS
from dgn_engine.session.known_plug_ins import regime_entries
from tests.plugins import each, own
from tests.refusals import refused
from tests.snapshots import Recorded

REGIMES = {regime.name: regime for regime in all_regimes()}


def weights(network):
    return [parameter.detach().clone() for parameter in network.parameters()]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_every_row_of_the_table_is_there_in_order_and_begins_as_the_theory_says(
    recorded: Recorded,
) -> None:
    recorded([(REGIMES[name].group, name, REGIMES[name].on_entry) for name in own(REGIMES)])


@pytest.mark.discovery
def test_regimes_stand_together_in_groups_and_by_their_order():
    in_sight = [regime for regime in all_regimes() if regime.in_sight]
    more = [regime for regime in all_regimes() if not regime.in_sight]
    assert [*in_sight, *more] == list(all_regimes())
    assert [regime.order for regime in in_sight] == sorted(regime.order for regime in in_sight)
    places = [(GROUPS.index(regime.group), regime.order) for regime in more]
    assert places == sorted(places)
    assert [entry.id for entry in regime_entries()] == list(REGIMES)


@pytest.mark.discovery
def test_five_regimes_are_in_sight() -> None:
    in_sight = [entry.id for entry in regime_entries() if entry.in_sight]
    assert in_sight == ["ReLU", "DL", "FL", "FR-II", "DLN"]


@pytest.mark.parametrize("name", each(REGIMES))
def test_a_regime_is_found_by_its_names_whatever_their_case(name):
    for known in (name, *REGIMES[name].aliases):
        assert find_regime(known.upper()) == find_regime(known.lower()) == REGIMES[name]


@pytest.mark.parametrize(
    "alias", ["FRNPF(II)", "fr-ii", "DNPFL", "twin", "FLNPF", "dnn", "GaLU", "soft-GaLU", "DLGN"]
)
def test_the_papers_own_names_are_understood(alias):
    assert find_regime(alias).name != alias


def test_an_unknown_regime_is_refused_with_the_known_ones():
    with refused("unknown-name") as refusal:
        find_regime("FR-III")
    assert "'FR-II'" in str(refusal.error)


@pytest.mark.parametrize("name", each(REGIMES))
def test_gates_are_hard_or_soft_as_the_table_says(make_run, name):
    run = make_run(name, pretrain_epochs=1)
    if find_regime(name).takes_gates:
        run.control.swap_regime(name, restart_value=True)
    gates = run.probed.probe_context().gates
    only_zeros_and_ones = all(bool(((g == 0) | (g == 1)).all()) for g in gates)
    assert only_zeros_and_ones != find_regime(name).soft


@pytest.mark.parametrize(
    "name", each(name for name, regime in REGIMES.items() if not regime.takes_gates)
)
def test_only_what_is_trained_moves(make_run, name):
    run = make_run(name)
    network = run.trainer.network
    value, feature = weights(network.value), weights(network.feature)
    for _ in range(5):
        run.step()
    assert same(value, weights(network.value)) != find_regime(name).trains_value
    # The head of the feature network serves pre-training only: it never moves.
    assert same(feature, weights(network.feature)) != find_regime(name).trains_feature
    assert torch.equal(feature[-1], weights(network.feature)[-1])


def test_fr_di_starts_with_equal_networks_and_fr_ii_does_not(make_run):
    di, ii = make_run("FR-DI").trainer.network, make_run("FR-II").trainer.network
    assert same(weights(di.value), weights(di.feature))
    assert not same(weights(ii.value), weights(ii.feature))


@pytest.mark.parametrize(("name", "first"), [("FL", "ReLU"), ("FL-linear", "DL-linear")])
def test_fl_learns_its_gates_first_and_then_restarts_the_value_network(
    make_run, events, name, first
):
    run = make_run(name, pretrain_epochs=1)
    assert run.started_event(False).regime == first
    while not run.is_finished:
        run.step()
    (swap,) = [event for event in events if isinstance(event, RegimeSwapped)]
    assert (swap.before, swap.after, swap.step) == (first, name, run.trainer.steps_per_epoch)
    assert swap.redrawn == ("value weights",)
    assert len(swap.copied) == (name == "FL")
    assert run.step_count == 2 * run.trainer.steps_per_epoch


def test_frg_throws_each_coin_once_and_shows_no_test_score(make_run, events):
    run = make_run("FRG", gate_probability=0.25)
    before = run.probed.probe_context().gates
    for _ in range(run.trainer.steps_per_epoch):
        run.step()
    assert same(before, run.probed.probe_context().gates)
    share = float(torch.cat([gate.flatten() for gate in before]).mean())
    assert abs(share - 0.25) < 0.05  # 20 examples, 48 units: sd 0.014
    scores = [event for event in events if isinstance(event, Measured)]
    assert scores
    assert all(score.test_accuracy is None for score in scores)


def test_two_equal_examples_have_different_gates_under_frg(make_run):
    trainer = make_run("FRG").trainer
    gates = (
        trainer.control.network_at(torch.tensor([3, 4]))
        .trace(trainer.data.train_x[[3, 3]])
        .value.gates
    )
    assert not torch.equal(gates[0][0], gates[0][1])


def test_drawn_gates_that_do_not_fit_are_refused_before_any_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Architecture((2,), (Dense(2, 4), Dense(4, 3), Dense(3, 2, gated=False)))
    monkeypatch.setattr(random_gates, "MOST_BYTES", 70)  # of 7 gates of 10 examples
    generator = torch.Generator().manual_seed(0)
    before, cpu = generator.get_state(), torch.device("cpu")
    with refused("too-large"):
        random_gates.RandomGates(pair, 11, 0.5, generator, cpu)
    assert torch.equal(generator.get_state(), before)
    drawn = random_gates.RandomGates(pair, 10, 0.5, generator, cpu)
    kept = drawn.gates_of_rows(torch.tensor([0, 9]), torch.float32)
    assert [gates.shape for gates in kept] == [(2, 4), (2, 3)]


def test_gates_only_has_weights_that_never_move_and_learns(make_run):
    run = make_run("gates-only")
    for _ in range(2 * run.trainer.steps_per_epoch):
        run.step()
    assert run.trainer.test_score().accuracy > 0.3  # chance is 0.1


@pytest.mark.parametrize(
    ("regime", "gating", "kind", "place"),
    [
        ("FR-II", {"tiling": (2, 2)}, "wrong-length", "gating.tiling"),
        ("FR-II", {"tiling": (2, 0, 1)}, "wrong-length", "gating.tiling"),
        ("FR-II", {"rotation": (1,)}, "wrong-length", "gating.rotation"),
        ("FR-II", {"shift": (1, 0, 0)}, "other-inputs", None),
        ("FR-DI", {"tiling": (2, 2, 2)}, "tiled", None),
        ("FR-DI", {"feature_layers": "parallel"}, "parallel", None),
    ],
)
def test_a_wiring_that_does_not_fit_is_refused(make_run, regime, gating, kind, place):
    with refused(kind, place=place):
        make_run(regime, **gating)


def test_fl_of_tiled_gates_is_refused_before_it_trains(make_run):
    """The value network of the ReLU stage could not become the narrower feature network."""
    with refused("tiled"):
        make_run("FL", tiling=(2, 1, 1))
    make_run("FL-linear", tiling=(2, 1, 1))  # its features are learnt as such


def test_fl_of_parallel_features_is_only_entered_with_learnt_ones(make_run):
    with refused("parallel"):
        make_run("FL", feature_layers="parallel")
    run = make_run("FL-linear", feature_layers="parallel", pretrain_epochs=1)
    with refused("parallel"):
        run.control.swap_regime("FR-DI", restart_value=False)
    run.control.swap_regime("ReLU", restart_value=False)
    with refused("parallel"):
        run.control.swap_regime("FL", restart_value=False)
    run.control.swap_regime("FR-II", restart_value=False)
    run.control.swap_regime("DL", restart_value=False)
    learnt = [weight.clone() for weight in run.trainer.network.feature.weights]
    run.control.swap_regime("FL", restart_value=False)
    assert all(map(torch.equal, learnt, run.trainer.network.feature.weights))


@pytest.mark.parametrize("net", ["cnn4", "resnet_fc"])
def test_parallel_features_of_other_nets_are_refused(make_run, net):
    config = RunConfig(data=DataConfig(train_limit=24), net=NetConfig(net))
    with refused("not-supported", place="gating.feature_layers"):
        make_run("DL", config, feature_layers="parallel")


def test_a_refused_swap_leaves_the_pre_training_as_it_was(make_run):
    run = make_run("FL-linear", tiling=(2, 1, 1), pretrain_epochs=1)
    steps = run.control.pretrain_steps
    with refused("tiled"):
        run.control.swap_regime("FR-DI", restart_value=True)
    assert run.control.pretrain_steps == steps > 0
