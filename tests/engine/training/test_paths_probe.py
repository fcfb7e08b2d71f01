"""Counts and sums of paths against a loop over every path, in float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.training.probes import paths
from dgn_engine.training.run import Run
from tests.engine.training.probe_cases import in_float64

DENSE = NetConfig("fc", (("depth", 4), ("width", 3)))
RESIDUAL = NetConfig("resnet_fc", (("blocks", 2), ("width", 4)))
XOR = DataConfig(name="xor", options=(("n", 20), ("noise", 0.1)))


def value_of(weights: list[Any], logit: int, start: int, units: list[int]) -> float:
    """The product of the weights along a path."""
    value: float = weights[-1][logit][units[-1]] * weights[0][units[0]][start]
    for layer in (1, 2):
        value *= weights[layer][units[layer]][units[layer - 1]]
    return value


@pytest.mark.parametrize("regime", ["DL", "FR-II"])
@pytest.mark.parametrize("example", [0, 3])
def test_counts_and_sums_are_those_of_all_paths_one_by_one(
    make_run: Callable[..., Run], regime: str, example: int
) -> None:
    context = in_float64(make_run(regime, RunConfig(data=XOR, net=DENSE, probe_examples=6)))
    network = context.network
    found = paths.PROBE.read(context, {"example": example}, None)
    gates = [layer[example].tolist() for layer in context.gates]
    slopes = [layer[example].tolist() for layer in context.kernels.sensitivities]
    weights = [weight.detach().tolist() for weight in network.value.weights]
    logits = network(context.x)[example].detach()
    logit, x = int(logits.argmax()), context.x[example].tolist()
    total = active = sensitive = output = 0.0
    through, near, part = (np.zeros((3, 3)) for _ in range(3))
    listed: dict[tuple[int, ...], float] = {}
    for start, *units in itertools.product(range(3), repeat=4):
        open_ = [gates[layer][unit] for layer, unit in enumerate(units)]
        value = value_of(weights, logit, start, units)
        activity = float(np.prod(open_))
        own = x[start] * activity * value
        total, active, output = total + 1, active + activity, output + own
        listed[tuple(units)] = listed.get(tuple(units), 0.0) + own
        for layer, unit in enumerate(units):
            pairs = slopes[layer][unit] * float(np.prod([*open_[:layer], *open_[layer + 1 :]]))
            sensitive += pairs
            near[layer, unit] += pairs
            through[layer, unit] += activity
            part[layer, unit] += own
    assert found.scalars["total"] == total
    assert found.scalars["active"] == pytest.approx(active)
    assert found.scalars["sensitive"] == pytest.approx(sensitive)
    assert found.scalars["output"] == pytest.approx(output)
    assert output == pytest.approx(float(logits[logit]))
    np.testing.assert_allclose(found.arrays["through"], through / max(active, 1e-300), rtol=1e-9)
    np.testing.assert_allclose(found.arrays["near"], near / max(sensitive, 1e-300), rtol=1e-9)
    np.testing.assert_allclose(found.arrays["contributed"], part, rtol=1e-8, atol=1e-12)
    largest = sorted((abs(value) for value in listed.values()), reverse=True)[: paths.TOP]
    np.testing.assert_allclose(np.abs(found.arrays["parts"]), largest, rtol=1e-9, atol=1e-15)
    for units, value in zip(found.arrays["units"].tolist(), found.arrays["parts"], strict=True):
        assert listed[tuple(units)] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("regime", ["DL", "ReLU"])
def test_every_path_has_its_feature_and_its_value_and_two_examples_share_some(
    make_run: Callable[..., Run], regime: str
) -> None:
    context = in_float64(make_run(regime, RunConfig(data=XOR, net=DENSE, probe_examples=6)))
    network = context.network
    found = paths.PROBE.read(context, {"example": 1, "second": "4"}, None)
    assert found.facts["second"] == "4"
    gates = [[layer[place].tolist() for layer in context.gates] for place in (1, 4)]
    weights = [weight.detach().tolist() for weight in network.value.weights]
    logit, x = int(found.facts["logit"]), context.x[1].tolist()
    features, values = [], []
    second = shared = shared_output = 0.0
    through = np.zeros((3, 3))
    for start, *units in itertools.product(range(3), repeat=4):
        mine, theirs = (
            float(np.prod([own[layer][unit] for layer, unit in enumerate(units)])) for own in gates
        )
        value = value_of(weights, logit, start, units)
        features.append(x[start] * mine)
        values.append(value)
        second, shared = second + theirs, shared + mine * theirs
        shared_output += x[start] * mine * theirs * value
        for layer, unit in enumerate(units):
            through[layer, unit] += mine * theirs
    np.testing.assert_allclose(found.arrays["feature"], features, rtol=1e-9)
    np.testing.assert_allclose(found.arrays["value"], values, rtol=1e-9)
    assert float(found.arrays["feature"] @ found.arrays["value"]) == pytest.approx(
        found.scalars["output"]
    )
    assert found.scalars["active_second"] == pytest.approx(second)
    assert found.scalars["shared"] == pytest.approx(shared)
    assert found.scalars["output_shared"] == pytest.approx(shared_output)
    np.testing.assert_allclose(found.arrays["through_shared"], through / max(shared, 1e-300))
    np.testing.assert_array_equal(found.arrays["gates_second"], gates[1])
    for layer, weight in enumerate(weights):
        np.testing.assert_allclose(found.arrays[f"weights_{layer}"], weight, rtol=1e-6)
    alone = paths.PROBE.read(context, {"example": 1, "second": "1"}, None)
    assert "second" not in alone.facts
    assert "gates_second" not in alone.arrays


def test_what_sub_networks_add_is_found_by_dropping_their_blocks(
    make_run: Callable[..., Run],
) -> None:
    context = make_run(
        "DL", RunConfig(data=XOR, net=RESIDUAL, probe_examples=6)
    ).probed.probe_context()
    found = paths.PROBE.read(context, {"example": 3}, None)
    gates = [layer[3].double() for layer in context.gates]
    weights = [weight.detach().double() for weight in context.network.value.weights]
    logit = int(found.facts["logit"])
    places = {"first": (0, 1), "1": (2, 3), "2": (4, 5), "last": (6,)}  # layers of each block
    for kept, adds, share in zip(
        ((), ("1",), ("2",), ("1", "2")),
        found.arrays["outputs"],
        found.arrays["paths"],
        strict=True,
    ):
        layers = [one for block in ("first", *kept, "last") for one in places[block]]
        z = context.x[3].double()
        for layer in layers:
            z = gates[layer] * (weights[layer] @ z)
        assert adds == pytest.approx(float(weights[-1][logit] @ z))
        assert share == pytest.approx(4.0 ** len(layers) / (4.0**3 + 2 * 4.0**5 + 4.0**7))
    whole = float(context.network(context.x)[3].detach()[logit])
    assert found.scalars["output"] == pytest.approx(whole, rel=1e-4)


def test_a_residual_network_has_the_shares_of_its_sub_networks(
    make_run: Callable[..., Run],
) -> None:
    context = make_run(
        "FR-II", RunConfig(data=XOR, net=RESIDUAL, probe_examples=6)
    ).probed.probe_context()
    found = paths.PROBE.read(context, {}, None)
    assert found.facts["blocks"] == ",1,2,1 2"
    tau = [(gate.double() @ gate.double().T).diagonal() for gate in context.gates]
    gram = context.x.double().square().sum(1)
    one, two = tau[2] * tau[3], tau[4] * tau[5]
    terms = [gram * tau[0] * tau[1] * tau[6] * part for part in (1, one, two, one * two)]
    traces = torch.stack([term.sum() for term in terms])
    np.testing.assert_allclose(found.arrays["shares"], traces / traces.sum(), rtol=1e-6)


@pytest.mark.parametrize(
    ("config", "word"),
    [
        (RunConfig(net=NetConfig("cnn4", (("channels", 2),))), "convolution"),
        (RunConfig(data=XOR, net=replace(RESIDUAL, options=(("blocks", 7),))), "too many"),
        (RunConfig(data=XOR, net=replace(DENSE, bias=True)), "biases"),
    ],
)
def test_where_there_are_no_paths_to_count_that_is_said(
    make_run: Callable[..., Run], config: RunConfig, word: str
) -> None:
    assert word in paths.PROBE.read(make_run("DL", config).probed.probe_context(), {}, None).absent


def test_a_large_network_is_summed_and_not_listed(make_run: Callable[..., Run]) -> None:
    wide = RunConfig(data=XOR, net=NetConfig("fc", (("depth", 5), ("width", 40))))
    context = make_run("DL", wide).probed.probe_context()
    found = paths.PROBE.read(context, {}, None)
    assert "units" not in found.arrays
    assert found.scalars["total"] == 3 * 40.0**4
    assert found.scalars["output"] == pytest.approx(
        float(context.network(context.x)[0].detach().max()), rel=1e-4
    )


@pytest.mark.parametrize("net", [DENSE, RESIDUAL])
def test_where_each_nth_example_is_read_a_chosen_one_is_the_same_or_the_nearest_before(
    make_run: Callable[..., Run], net: NetConfig
) -> None:
    """Defect: the place among all was taken for the row of those read, so another one was shown."""
    whole = make_run(
        "FR-II", RunConfig(data=XOR, net=net, probe_examples=12)
    ).probed.probe_context()
    few = whole.subsample(2).subsample(2)
    for chosen, second, shown in (
        (8, "4", ("8", "4")),
        (7, "10", ("4", "8")),
        (99, "5", ("8", "4")),
    ):
        found = paths.PROBE.read(few, {"example": chosen, "second": second}, None)
        expected = paths.PROBE.read(whole, {"example": int(shown[0]), "second": shown[1]}, None)
        assert found.facts == expected.facts
        assert found.facts["example"] == shown[0]
        assert found.scalars == pytest.approx(expected.scalars)
    near = paths.PROBE.read(few, {"example": 4, "second": "5"}, None)  # the same row
    assert "second" not in near.facts
