"""Each row of the table in THEORY §1, at the start of a run and when swapped to in mid-run."""

from __future__ import annotations

import itertools

import pytest
import torch

from dgn_engine.protocol.events import RegimeSwapped
from dgn_engine.refusal import Refusal
from dgn_engine.regimes import all_regimes, find_regime

NAMES = [regime.name for regime in all_regimes()]


def weights(network):
    return [parameter.detach().clone() for parameter in network.parameters()]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_the_regimes_of_first_light_are_there():
    assert NAMES == ["ReLU", "soft-ReLU", "FR-II", "FR-DI", "FL", "DL"]


@pytest.mark.parametrize("alias", ["FRNPF(II)", "fr-ii", "DNPFL", "twin", "FLNPF", "dnn"])
def test_the_papers_own_names_are_understood(alias):
    assert find_regime(alias).name in NAMES


def test_an_unknown_regime_is_refused_with_the_known_ones():
    with pytest.raises(Refusal, match="FR-II"):
        find_regime("FR-III")


@pytest.mark.parametrize("name", NAMES)
def test_gates_are_hard_or_soft_as_the_table_says(make_run, name):
    run = make_run(name, pretrain_epochs=1)
    if name == "FL":
        run.swap("FL", restart_value=True)
    gates = run.sight().gates
    only_zeros_and_ones = all(bool(((g == 0) | (g == 1)).all()) for g in gates)
    assert only_zeros_and_ones != find_regime(name).soft


@pytest.mark.parametrize("name", ["ReLU", "soft-ReLU", "FR-II", "FR-DI", "DL"])
def test_only_what_is_trained_moves(make_run, name):
    run = make_run(name)
    network = run.trainer.network
    value, feature = weights(network.value), weights(network.feature)
    for _ in range(5):
        run.step()
    assert not same(value, weights(network.value))
    # The head of the feature network serves pre-training only: it never moves.
    assert same(feature, weights(network.feature)) != find_regime(name).trains_feature
    assert torch.equal(feature[-1], weights(network.feature)[-1])


def test_fr_di_starts_with_equal_networks_and_fr_ii_does_not(make_run):
    di, ii = make_run("FR-DI").trainer.network, make_run("FR-II").trainer.network
    assert same(weights(di.value), weights(di.feature))
    assert not same(weights(ii.value), weights(ii.feature))


def test_relu_is_the_ordinary_network(make_run):
    run = make_run("ReLU")
    x = run.sight().x
    z = x
    layers = list(run.trainer.network.value.weights)
    for layer in layers[:-1]:
        z = torch.relu(z @ layer.T)
    assert torch.allclose(run.trainer.network(x), z @ layers[-1].T, atol=1e-6)


def test_fl_trains_a_relu_network_first_and_then_restarts_the_value_network(make_run, events):
    run = make_run("FL", pretrain_epochs=1)
    assert run.started(False).regime == "ReLU"
    while not run.finished:
        run.step()
    (swap,) = [event for event in events if isinstance(event, RegimeSwapped)]
    assert (swap.before, swap.after, swap.step) == ("ReLU", "FL", run.trainer.steps_per_epoch)
    assert swap.redrawn == ("value weights",)
    assert swap.copied == ("feature weights (from the value network)",)
    assert run.step_count == 2 * run.trainer.steps_per_epoch


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(NAMES, 2)))
def test_a_swap_keeps_redraws_and_copies_what_the_theory_says(make_run, events, before, after):
    run = make_run("ReLU")
    if before != "ReLU":
        run.swap(before, restart_value=False)
    for _ in range(3):
        run.step()
    network = run.trainer.network
    value, feature = weights(network.value), weights(network.feature)
    run.swap(after, restart_value=True)
    own_before, own_after = find_regime(before).own_gates, find_regime(after).own_gates
    told = events[-1]
    value_redrawn = after in ("FR-DI", "FL")
    assert same(value, weights(network.value)) != value_redrawn
    assert ("value weights" in told.redrawn) == value_redrawn
    if own_after:
        assert same(feature, weights(network.feature))
    elif after == "FR-II":
        assert told.redrawn == ("feature weights",)
        assert not same(feature, weights(network.feature))
    elif after == "FR-DI":
        assert same(weights(network.value), weights(network.feature))
    else:
        assert same(value if own_before else feature, weights(network.feature))
    for _ in range(3):
        run.step()


def test_a_redrawn_group_loses_its_optimiser_state_and_no_other(make_run):
    run = make_run("DL")
    for _ in range(3):
        run.step()
    network, state = run.trainer.network, run.trainer.optimisation.torch.state
    assert all(p in state for p in network.value.parameters())
    run.swap("FR-II", restart_value=True)
    assert all(p in state for p in network.value.parameters())
    assert not any(p in state for p in network.feature.parameters())
    run.swap("FR-DI", restart_value=True)
    assert not any(p in state for p in network.value.parameters())


def test_the_sentence_names_each_group(make_run, events):
    run = make_run("DL")
    run.swap("FR-II", restart_value=True)
    assert events[-1].sentence == (
        "DL → FR-II at step 0. kept: value weights; redrawn: feature weights; "
        "frozen: feature weights."
    )
