"""Alignment, shape and scale of a run's kernels, from Jacobians and paths that are listed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.training.probes import ProbeContext, alignment
from dgn_engine.training.run import Run
from tests.engine.kernels.enumeration import features
from tests.engine.kernels.jacobians import contract_jacobians, jacobian
from tests.engine.training.probe_cases import in_float64, probed_config

Make = Callable[..., Run]
PARTS = {  # by regime
    "ReLU": ("value",),
    "FR-II": ("value",),
    "DL": ("value", "feature", "sum"),
    "DL-linear": ("value", "feature", "sum"),
    "soft-ReLU": ("value", "feature", "sum"),
    "gates-only": ("feature",),
}


def listed(context: ProbeContext, names: tuple[str, ...], net: str) -> dict[str, Tensor]:
    """The kernels, from Jacobians with and without the gates, and from paths."""
    network, x = context.network, context.x

    def over(part: str, frozen_gates: bool) -> Tensor:
        return jacobian(network, part, x, frozen_gates)

    found = {}
    if "value" in names:
        found["value"] = over("value", True)
    if "feature" in names:
        if network.own_gates:
            found["feature"] = over("value", False) - over("value", True)
        else:
            found["feature"] = over("feature", False)
    kernels = {name: contract_jacobians(rows, rows, "mean") for name, rows in found.items()}
    if "sum" in names:
        both = over("value", False)
        kernels["sum"] = contract_jacobians(both, both, "mean")
        if not network.own_gates:
            kernels["sum"] = kernels["value"] + kernels["feature"]
    trace = network.trace(x).value
    gates = [gate.detach() for gate in trace.gates]
    if net == "fc":
        phi = features(context.architecture, gates, network.input_of_value(x).flatten(1))
        kernels["npk"] = phi @ phi.T
    else:
        kernels["npk"] = k.neural_path_kernel(
            context.architecture, gates, network.input_of_value(x), masks=trace.masks
        )
    return kernels


def centred(kernel: Tensor) -> Tensor:
    n = len(kernel)
    middle = torch.eye(n, dtype=kernel.dtype) - torch.ones((n, n), dtype=kernel.dtype) / n
    return middle @ kernel @ middle


def cosine(one: Tensor, two: Tensor) -> float:
    return float((one * two).sum() / one.norm() / two.norm())


@pytest.mark.parametrize("net", ["fc", "cnn4", "resnet_fc"])
@pytest.mark.parametrize("regime", PARTS)
def test_the_numbers_are_those_of_listed_kernels(make_run: Make, regime: str, net: str) -> None:
    run = make_run(regime, probed_config(net, 6))
    context = in_float64(run)
    before = listed(context, PARTS[regime], net)
    memory = alignment.PROBE.read(context, {}, None).memory
    with torch.no_grad():
        for stack in (context.network.value, context.network.feature):
            for weight in stack.parameters():
                weight.add_(0.2 * torch.randn_like(weight) * weight.std())
    context.drop_kernels()
    found = alignment.PROBE.read(context, {}, memory)
    now = listed(context, PARTS[regime], net)
    member = context.labels[:, None] == torch.arange(context.classes)
    y = 2.0 * member.double() - 1.0
    assert {name.partition("_")[2] for name in found.scalars} == set(now)
    for name, kernel in now.items():
        expected = {
            "centred": cosine(centred(kernel), centred(y @ y.T)),
            "plain": cosine(kernel, y @ y.T),
            "shape": float((kernel / kernel.norm() - before[name] / before[name].norm()).norm()),
            "norm": float(kernel.norm() / before[name].norm()),
            "trace": float(kernel.trace() / before[name].trace()),
        }
        got = {what: found.scalars[f"{what}_{name}"] for what in expected}
        assert got == pytest.approx(expected, rel=1e-9), name
        each = [
            cosine(centred(kernel), centred(torch.outer(column, column)))
            if member[:, c].any()
            else np.nan
            for c, column in enumerate(y.T)
        ]
        np.testing.assert_allclose(found.arrays[f"class_{name}"], each, rtol=1e-9)


def test_a_reading_of_more_examples_is_compared_on_those_of_the_first(make_run: Make) -> None:
    context = in_float64(make_run("FR-II", probed_config("fc", 8)))
    few = alignment.PROBE.read(context.subsample(2), {}, None)
    with torch.no_grad():
        for weight in context.network.value.parameters():
            weight.mul_(1.5)
        next(iter(context.network.value.parameters())).mul_(2.0)
    context.drop_kernels()
    found = alignment.PROBE.read(context, {}, few.memory)
    fewer = alignment.PROBE.read(context.subsample(4), {}, few.memory)
    now = context.kernels.tangent.value
    first = few.memory["value"].kernel  # type: ignore[index]
    assert now is not None
    assert found.scalars["norm_value"] == pytest.approx(float(now[::2, ::2].norm() / first.norm()))
    expected = float(now[::4, ::4].norm() / first[::2, ::2].norm())
    assert fewer.scalars["norm_value"] == pytest.approx(expected)
    assert found.scalars["shape_npk"] == pytest.approx(0.0, abs=1e-12)
    apart = alignment.PROBE.read(context.subsample(3), {}, few.memory)  # strides 2 and 3
    assert apart.scalars["norm_value"] == 1.0


def test_a_kernel_that_appears_later_starts_from_its_own_first_reading(make_run: Make) -> None:
    run = make_run("FR-II", probed_config("fc", 6))
    first = alignment.PROBE.read(run.probed.probe_context(), {}, None)
    assert "norm_feature" not in first.scalars
    assert first.facts["since"] == "0"
    run.step()
    run.step()
    run.control.swap_regime("DL", restart_value=False)
    found = alignment.PROBE.read(run.probed.probe_context(), {}, first.memory)
    assert found.scalars["norm_feature"] == 1.0
    assert found.scalars["norm_value"] != 1.0
    assert found.facts["since"] == "0, 2"


def test_without_classes_and_without_open_gates_nothing_is_made_up(make_run: Make) -> None:
    context = make_run("ReLU", probed_config("fc", 6)).probed.probe_context()
    context.labels = context.labels.clone()
    context.labels[0] = context.classes
    found = alignment.PROBE.read(context, {}, None)
    assert found.facts["labels"]
    assert not any(name.startswith(("centred", "plain")) for name in found.scalars)
    assert found.scalars["norm_value"] == 1.0
    with torch.no_grad():
        for weight in context.network.value.parameters():
            weight.zero_()
    context.drop_kernels()
    dead = alignment.PROBE.read(context, {}, None)
    assert dead.scalars == {}


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_the_scale_of_kernels_whose_squares_are_no_numbers(
    make_run: Make, monkeypatch: pytest.MonkeyPatch, size: float
) -> None:
    """As H of many residual blocks."""
    context = in_float64(make_run("ReLU", probed_config("fc", 6)))
    kernel = size * context.kernels.npk("none")
    kernels = iter([kernel, 3.0 * kernel])
    monkeypatch.setattr(alignment, "_named_kernels", lambda _: [("npk", next(kernels))])
    memory = alignment.PROBE.read(context, {}, None).memory
    found = alignment.PROBE.read(context, {}, memory)
    assert found.scalars["norm_npk"] == pytest.approx(3.0)
    assert found.scalars["trace_npk"] == pytest.approx(3.0)
    assert found.scalars["shape_npk"] == pytest.approx(0.0, abs=1e-12)
