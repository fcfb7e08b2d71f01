"""Local complexity and the motion of the kernel, against kernels computed one by one."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import dgn_engine.kernels as k
from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.kernels.gate_boundaries import local_complexity, orthonormal_directions
from dgn_engine.kernels.kernel_motion import KernelState, mixed_kernel
from dgn_engine.regimes import find_regime
from dgn_engine.training.probes import ProbeContext, kernel_motion
from dgn_engine.training.probes import local_complexity as complexity
from dgn_engine.training.run import Run
from tests.engine.training.probe_cases import probed_config

Make = Callable[..., Run]
MOONS = RunConfig(
    data=DataConfig(name="moons", options=(("n", 40), ("noise", 0.1))),
    net=NetConfig("fc", (("depth", 3), ("width", 5))),
    probe_examples=10,
)


@pytest.mark.parametrize("net", ["fc", "cnn4", "resnet_fc"])
@pytest.mark.parametrize("regime", ["ReLU", "DL"])
def test_boundaries_are_counted_around_examples_and_between_classes(
    make_run: Make, net: str, regime: str
) -> None:
    context = make_run(regime, probed_config(net)).probed.probe_context()
    found = complexity.PROBE.read(context, {}, None)
    x, labels = context.x.double().flatten(1), context.labels
    scale = math.sqrt(float(((x - x.mean(0)) ** 2).sum()) / len(x))
    np.testing.assert_allclose(found.arrays["radii"], [0.01 * scale, 0.1 * scale])
    directions = orthonormal_directions(tuple(context.x.shape[1:]), 20)
    partners = [(row + len(x) // 2) % len(x) for row in range(len(x))]
    pairs = [(a, b) for a, b in enumerate(partners) if labels[a] != labels[b]]
    middle = torch.stack([(context.x[a] + context.x[b]) / 2 for a, b in pairs])
    for index, radius in enumerate(found.arrays["radii"].tolist()):
        for name, points in (("examples", context.x), ("between", middle)):
            counts = local_complexity(context.network, points, directions, radius)
            means = [float(layer.double().mean()) for layer in counts]
            np.testing.assert_allclose(found.arrays[f"{name}_layers"][index], means)
            assert found.scalars[f"{name}_{index}"] == pytest.approx(sum(means))
    shapes = context.architecture.gated_shapes
    assert found.arrays["units"].tolist() == [math.prod(shape) for shape in shapes]
    again = complexity.PROBE.read(context, {}, None)
    assert again.scalars == found.scalars  # the directions do not change


def test_neighbourhoods_of_points_of_a_plane_stay_in_it(make_run: Make) -> None:
    context = make_run("ReLU", MOONS).probed.probe_context()
    assert bool((context.x[:, 2] == 1).all())
    directions = complexity.probe_directions(context.x)
    assert directions.shape == (2, 3)
    assert not bool(directions[:, 2].any())
    torch.testing.assert_close(directions @ directions.T, torch.eye(2, dtype=torch.float64))
    found = complexity.PROBE.read(context, {}, None)
    assert found.facts["directions"] == "2"


def test_what_has_no_boundaries_or_no_scale_has_no_complexity(make_run: Make) -> None:
    for regime in ("FRG", "DLN"):
        found = complexity.PROBE.read(make_run(regime).probed.probe_context(), {}, None)
        assert found.absent
        assert not found.scalars
    context = make_run("ReLU", MOONS).probed.probe_context()
    one = ProbeContext(context.network, context.x[[0, 0, 0]], context.labels[:3], context.regime)
    assert complexity.PROBE.read(one, {}, None).absent
    same = ProbeContext(
        context.network, context.x, torch.zeros_like(context.labels), context.regime
    )
    drawn = ProbeContext(  # the last ones have no class
        context.network, context.x, (torch.arange(len(context.x)) > 4).int() * 2, context.regime
    )
    for one_class in (same, drawn):
        found = complexity.PROBE.read(one_class, {}, None)
        assert "between" in found.facts
        assert "between_layers" not in found.arrays
        assert "examples_0" in found.scalars


@pytest.mark.parametrize("regime", ["ReLU", "soft-ReLU", "FR-II", "DL", "gates-only", "FRG"])
def test_the_parts_add_up_to_the_motion_of_the_kernel_of_the_run(
    make_run: Make, regime: str
) -> None:
    run = make_run(regime, probed_config("fc"))
    kernels, states, memory = [], [], None
    for steps in (3, 1, 7, 0):
        context = run.probed.probe_context()
        states.append(KernelState.from_network(context.network, context.x))
        kernels.append(mixed_kernel(states[-1], states[-1]))
        own = context.kernels.tangent.total_kernel.double()
        torch.testing.assert_close(kernels[-1], own, rtol=1e-3, atol=1e-4)
        found = kernel_motion.PROBE.read(context, {}, memory)
        memory = found.memory
        for _ in range(steps):
            run.step()
    first, last = kernels[0], kernels[-1]
    assert found.facts["readings"] == "3"
    assert found.scalars["moved"] == pytest.approx(
        float((last - first).norm() / first.norm()), rel=1e-6
    )
    by_weights, by_gates = torch.zeros_like(first), torch.zeros_like(first)
    for one, two in pairwise(states):
        # through the new weights first, and through the new gates first
        over, under = mixed_kernel(two, one), mixed_kernel(one, two)
        start, end = mixed_kernel(one, one), mixed_kernel(two, two)
        by_weights += ((over - start) + (end - under)) / 2
        by_gates += ((under - start) + (end - over)) / 2
        share = float((((under - start) + (end - over)) / 2 * (end - start)).sum())
        share /= float((end - start).square().sum())
    for name, part in (("weights", by_weights), ("gates", by_gates)):
        size = float(part.norm() / first.norm())
        assert found.scalars[name] == pytest.approx(size, rel=1e-6, abs=1e-12)
    assert found.scalars["share"] == pytest.approx(share, rel=1e-6, abs=1e-12)
    if regime in ("FR-II", "FRG"):
        assert found.scalars["gates"] == found.scalars["switched"] == 0.0
    if regime == "gates-only":
        assert found.scalars["weights"] == 0.0


def test_the_same_step_read_again_is_no_motion(make_run: Make) -> None:
    run = make_run("ReLU", probed_config("fc"))
    first = kernel_motion.PROBE.read(run.probed.probe_context(), {}, None)
    assert first.scalars == {"moved": 0.0, "weights": 0.0, "gates": 0.0}
    for _ in range(3):
        run.step()
    found = kernel_motion.PROBE.read(run.probed.probe_context(), {}, first.memory)
    again = kernel_motion.PROBE.read(run.probed.probe_context(), {}, found.memory)
    assert again.scalars == found.scalars
    assert again.facts == found.facts


def test_another_network_or_other_examples_start_again(make_run: Make) -> None:
    run = make_run("DL", probed_config("fc"))
    context = run.probed.probe_context()
    memory = kernel_motion.PROBE.read(context, {}, None).memory
    run.step()
    fewer = kernel_motion.PROBE.read(context.subsample(2), {}, memory)
    rolled = ProbeContext(context.network, context.x.roll(1, 0), context.labels, context.regime)
    others = kernel_motion.PROBE.read(rolled, {}, memory)
    network = copy.copy(context.network)
    network.set_gate(beta=4.0, epsilon=0.0)
    dialled = ProbeContext(network, context.x, context.labels, context.regime)
    swapped = ProbeContext(context.network, context.x, context.labels, find_regime("FR-II-soft"))
    restarts = [
        fewer,
        others,
        *(kernel_motion.PROBE.read(c, {}, memory) for c in (dialled, swapped)),
    ]
    for found in restarts:
        assert found.scalars == {"moved": 0.0, "weights": 0.0, "gates": 0.0}
        assert found.facts["readings"] == "0"
    assert kernel_motion.PROBE.read(context, {}, memory).facts["readings"] == "1"


def test_fewer_examples_are_used_where_kernels_are_expensive(
    make_run: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_run("ReLU", probed_config("fc", examples=20)).probed.probe_context()
    cost = 3 * k.ntk_cost(context.architecture, 10)
    monkeypatch.setattr(kernel_motion, "BUDGET", cost)
    found = kernel_motion.PROBE.read(context, {}, None)
    assert found.arrays["labels"].tolist() == context.labels[::2].tolist()
    assert "10 of 20" in found.facts["examples"]
    monkeypatch.setattr(kernel_motion, "BUDGET", 3 * k.ntk_cost(context.architecture, 7))
    assert kernel_motion.PROBE.read(context, {}, None).absent


def test_a_network_that_nothing_trains_is_absent_and_no_fault() -> None:
    regime = find_regime("ReLU")
    x, labels = torch.randn(8, 4), torch.arange(8) // 4
    module = nn.Sequential(nn.Linear(4, 5), nn.PReLU(), nn.Linear(5, 2))
    context = ProbeContext(k.adapt(module, (4,)), x, labels, regime)
    assert kernel_motion.PROBE.read(context, {}, None).facts["fault"] == "not-supported"
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    context = ProbeContext(k.adapt(module, (4,)), x, labels, regime)
    assert kernel_motion.PROBE.read(context, {}, None).facts["fault"] == "frozen"
    assert complexity.PROBE.read(context, {}, None).scalars["examples_1"] > 0
