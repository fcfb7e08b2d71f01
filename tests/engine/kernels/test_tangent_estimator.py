from __future__ import annotations

import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.model import architecture as arch
from dgn_engine.model.architecture import Architecture, Conv, Dense, Fork, Gating, Merge
from dgn_engine.model.network import GatedNetwork
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, every_architecture, make_network
from tests.refusals import refused

PARTS = ("value", "feature", "cross")
MANY = {
    "dense": Architecture((3,), (Dense(3, 4), Dense(4, 4), Dense(4, 6, gated=False))),
    "convolutions": Architecture(
        (1, 4, 3),
        (Conv(1, 3), Conv(3, 3), arch.GlobalAveragePool(), Dense(3, 6, gated=False)),
    ),
    "blocks": Architecture(
        (3,),
        (
            Dense(3, 4),
            Fork(),
            Dense(4, 4, gated=False),
            Merge(),
            Gating(),
            Dense(4, 6, gated=False),
        ),
    ),
}


def networks() -> dict[str, GatedNetwork]:
    found = {f"{name}, own": make_network(one, soft=True) for name, one in MANY.items()}
    found["two networks"] = make_network(MANY["dense"], own=False, soft=True, wiring=(1, 0))
    found["hard gates"] = make_network(MANY["convolutions"], bias=True)
    return found


@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("own", [True, False])
def test_after_the_last_logit_the_tangent_kernels_are_exact(name: str, own: bool) -> None:
    network = make_network(ARCHITECTURES[name], own=own, soft=True, bias=True)
    x = draw_images(network.architecture, 3)
    exact = k.tangent_kernels(network, x)
    estimator = k.TangentEstimator(network, x, torch.Generator().manual_seed(0))
    estimator.add_draws(network.architecture.classes)
    assert estimator.is_exact
    found = estimator.kernels()
    for part in PARTS:
        whole = getattr(exact, part)
        assert (part in found) == (whole is not None)
        if whole is not None:
            torch.testing.assert_close(found[part].kernel, whole, rtol=1e-9, atol=1e-10)
            assert not found[part].error.any()
            assert found[part].relative == 0.0


@pytest.mark.wide(4)
@pytest.mark.parametrize("name", networks())
@pytest.mark.parametrize("draws", [3, 5])
def test_standard_errors_of_some_logits_are_as_large_as_the_misses(name: str, draws: int) -> None:
    """Sampled without replacement: the error is smaller than that of independent draws."""
    network = networks()[name]
    x = draw_images(network.architecture, 3)
    exact, trace = k.tangent_kernels(network, x), network.trace(x)
    missed = dict.fromkeys(PARTS, 0.0)
    expected = dict.fromkeys(PARTS, 0.0)
    mean = dict.fromkeys(PARTS, torch.zeros(3, 3, dtype=torch.float64))
    seeds = 40
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        estimator = k.TangentEstimator(network, x, generator, trace=trace)
        estimator.add_draws(draws)
        for part, found in estimator.kernels().items():
            apart = found.kernel - getattr(exact, part)
            missed[part] += float(apart.square().sum())
            expected[part] += float(found.error.square().sum())
            mean[part] = mean[part] + apart / seeds
    for part in PARTS:
        if expected[part]:
            assert 0.55 < missed[part] / expected[part] < 1.8, part
            assert float(mean[part].norm()) < 4.0 * (expected[part] / seeds / seeds) ** 0.5


def test_the_error_of_a_cosine_is_that_of_the_ratio() -> None:
    """Of its linear part: where the errors are not small, as in the dense one, it is less."""
    network = make_network(MANY["convolutions"])
    x = draw_images(network.architecture, 3)
    exact, trace = k.unit_diagonal(k.tangent_kernels(network, x).total_kernel), network.trace(x)
    missed = expected = 0.0
    for seed in range(60):
        estimator = k.TangentEstimator(network, x, torch.Generator().manual_seed(seed), trace=trace)
        estimator.add_draws(5)
        found = estimator.kernels("cosine")["value"]
        assert not found.error.diagonal().any()
        missed += float((found.kernel - exact).square().sum())
        expected += float(found.error.square().sum())
    assert 0.5 < missed / expected < 2.0


def test_no_more_logits_than_there_are_and_one_has_no_error() -> None:
    network = make_network(MANY["dense"])
    x = draw_images(network.architecture, 2)
    estimator = k.TangentEstimator(network, x, torch.Generator())
    shares = list(estimator.slices())
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    with refused("not-supported"):
        estimator.kernels()
    estimator.add_draws(100)
    assert estimator.draws == 6


def test_a_pass_in_parts_is_the_pass_of_all() -> None:
    for name in ("max-gap", "basic-blocks"):
        network = make_network(ARCHITECTURES[name], own=False, soft=True)
        x = draw_images(network.architecture, 5)
        shared, whole = k.SharedKernels(network, x), network.trace(x)
        first = shared.trace_in_slices(2)
        assert next(first) == 0.4
        assert list(shared.trace_in_slices(2)) == [0.8, 1.0]  # goes on with the one that was begun
        assert list(first) == []
        for one, two in ((shared.trace.value, whole.value), (shared.trace.feature, whole.feature)):
            assert one is not None
            assert two is not None
            for a, b in zip(
                (*one.inputs, *one.pre, *one.gates, *one.masks, one.output),
                (*two.inputs, *two.pre, *two.gates, *two.masks, two.output),
                strict=True,
            ):
                torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)
        for a, b in zip(shared.trace.gate_pre, whole.gate_pre, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def test_gates_that_were_given_pass_in_parts() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False)
    generator = torch.Generator().manual_seed(0)
    gates = tuple(
        torch.randint(0, 2, (5, *shape), generator=generator).double()
        for shape in network.architecture.gated_shapes
    )
    x = draw_images(network.architecture, 5)
    view = network.with_gates(gates)
    shared = k.SharedKernels(view, x)
    assert list(shared.trace_in_slices(3)) == [0.6, 1.0]
    torch.testing.assert_close(shared.trace.value.output, view.trace(x).value.output)
