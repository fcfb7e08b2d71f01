from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod

import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.kernels.estimator import PathScales, PathSigns, random_pass
from dgn_engine.kernels.kernel_average import KernelAverage
from dgn_engine.model import architecture as arch
from dgn_engine.model.architecture import (
    Architecture,
    Conv,
    Dense,
    Fork,
    Gating,
    GlobalAveragePool,
    Merge,
    Skip,
)
from dgn_engine.training.probes._refinement import student_factor
from tests.engine.kernels.tiny import (
    ARCHITECTURES,
    HAND_WRITTEN,
    draw_images,
    every_architecture,
    random_gates,
    random_masks,
)
from tests.refusals import refused

FEW_SIGNS = {
    "dense": Architecture((2,), (Dense(2, 2), Dense(2, 2), Dense(2, 2, gated=False))),
    "convolutions": Architecture(
        (1, 3, 2),
        (
            Conv(1, 2, kernel=2, padding=0),
            Conv(2, 1, kernel=1, padding=0),
            arch.GlobalAveragePool(),
            Dense(1, 2, gated=False),
        ),
    ),
    "blocks": Architecture(
        (1,),
        (
            Dense(1, 2),
            Fork(),
            Dense(2, 1),
            Dense(1, 2, gated=False),
            Merge(pre=0.7, post=1.2),
            Gating(),
            Fork(),
            Dense(2, 1),
            Skip(),
            Dense(2, 1, gated=False),
            Merge(post=0.6),
            Dense(1, 2, gated=False),
        ),
    ),
    "a block that is gated": Architecture(
        (1,),
        (
            Dense(1, 2),
            Fork(),
            Dense(2, 1),
            Dense(1, 2, gated=False),
            Merge(pre=0.7, post=1.2),
            Gating(),
            Dense(2, 2, gated=False),
        ),
    ),
    "a block with a layer on its skip": Architecture(
        (1,),
        (
            Dense(1, 2),
            Fork(),
            Dense(2, 1),
            Skip(),
            Dense(2, 1, gated=False),
            Merge(post=0.6),
            Dense(1, 2, gated=False),
        ),
    ),
}
LATER = {  # patterns by the thousand
    ("convolutions", False, True): [pytest.mark.nightly],
    ("blocks", True, True): [pytest.mark.faults],  # 2^16, once
}
ALL_SIGNS = [
    pytest.param(*case, marks=LATER.get(case, []))
    for case in itertools.product(FEW_SIGNS, (False, True), (False, True))
    if case != ("blocks", False, True)
]


def inputs_of(
    architecture: Architecture, n: int, hard: bool = False, sensitive: bool = False
) -> k.PathInputs:
    return k.PathInputs(
        random_gates(architecture, n, hard),
        None if sensitive else draw_images(architecture, n),
        random_masks(architecture, n),
        random_gates(architecture, n, hard, seed=9) if sensitive else None,
    )


def every_sign(architecture: Architecture, sensitive: bool) -> Iterator[PathSigns]:
    """All sign patterns of the hidden weights and, for S, of the gate layers' channels."""
    shapes = [arch.weight_shape(layer) for layer in architecture.weight_layers[:-1]]
    scales = [
        (layer.outputs * (layer.kernel**2 if isinstance(layer, Conv) else 1)) ** -0.5
        for layer in architecture.weight_layers[:-1]
    ]
    channels = [(shape[0], *[1] * (len(shape) - 1)) for shape in architecture.gated_shapes]
    sizes = [prod(shape) for shape in [*shapes, *(channels if sensitive else [])]]
    for signs in itertools.product((-1.0, 1.0), repeat=sum(sizes)):
        parts = torch.tensor(signs, dtype=torch.float64).split(sizes)
        weights = zip(parts, scales, shapes, strict=False)
        slopes = zip(parts[len(shapes) :], channels, strict=True) if sensitive else ()
        yield PathSigns(
            tuple((scale * one).reshape(shape) for one, scale, shape in weights),
            tuple(one.reshape(shape) for one, shape in slopes) if sensitive else None,
        )


@pytest.mark.parametrize(("name", "by_width", "sensitive"), ALL_SIGNS)
def test_the_mean_over_all_signs_is_the_exact_kernel(
    name: str, by_width: bool, sensitive: bool
) -> None:
    architecture = FEW_SIGNS[name]
    inputs = inputs_of(architecture, 3, sensitive=sensitive)
    word: k.Normalise = "width" if by_width else "none"
    scales = PathScales.from_architecture(architecture, by_width)
    sums, count = [torch.zeros(3, 3), torch.zeros(3, 3)], 0
    for signs in every_sign(architecture, sensitive):
        for place, one in enumerate(random_pass(architecture, scales, signs, inputs, slice(0, 3))):
            sums[place] = sums[place] if one is None else sums[place] + one @ one.T
        count += 1
    for total, (_, exact) in zip(sums, kernels_of(architecture, inputs, word), strict=False):
        mean = scales.constant * total / count
        torch.testing.assert_close(mean, exact, rtol=1e-11, atol=0.0)


def kernels_of(
    architecture: Architecture, inputs: k.PathInputs, how: k.Normalise
) -> list[tuple[str, Tensor]]:
    """The exact kernels that an estimator of these inputs has: H, or Λ and S."""
    if inputs.sensitivities is None:
        assert inputs.x_value is not None
        npk = k.neural_path_kernel(architecture, inputs.gates, inputs.x_value, how, inputs.masks)
        return [("kernel", npk)]
    overlap = k.overlap(architecture, inputs.gates, how, inputs.masks)
    sensitive = k.sensitive_overlap(
        architecture, inputs.gates, inputs.sensitivities, how, inputs.masks
    )
    return [("kernel", overlap), ("sensitive_overlap", sensitive)]


WIDE = {
    "dense": Architecture((3,), (Dense(3, 6), Dense(6, 6), Dense(6, 2, gated=False))),
    "convolutions": Architecture(
        (2, 4, 4),
        (
            Conv(2, 5),
            arch.MaxPool(),
            Conv(5, 5, circular=True),
            arch.GlobalAveragePool(),
            Dense(5, 2, gated=False),
        ),
    ),
    "blocks": Architecture(
        (3,),
        (
            Dense(3, 6),
            Fork(),
            Dense(6, 5),
            Dense(5, 6, gated=False),
            Merge(pre=0.7, post=1.2),
            Gating(),
            Fork(),
            Dense(6, 6),
            Merge(),
            Dense(6, 2, gated=False),
        ),
    ),
}


def calibration(
    architecture: Architecture, inputs: k.PathInputs, how: k.Normalise, seeds: int, draws: int
) -> dict[str, float]:
    """Mean squared miss of the estimates of many seeds, by the mean of their squared errors."""
    missed: dict[str, float] = {}
    expected: dict[str, float] = {}
    exact = kernels_of(architecture, inputs, how)
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(1000 + seed)
        estimator = k.PathEstimator(architecture, inputs, generator, by_width=how == "width")
        estimator.add_draws(draws)
        for what, kernel in exact:
            found = getattr(estimator, what)(how)
            missed[what] = missed.get(what, 0.0) + float((found.kernel - kernel).square().sum())
            expected[what] = expected.get(what, 0.0) + float(found.error.square().sum())
    return {what: missed[what] / max(expected[what], 1e-12) for what in missed}


@pytest.mark.wide
@every_architecture
@pytest.mark.parametrize("how", ["none", "width"])
@pytest.mark.parametrize("sensitive", [False, True])
def test_estimates_of_every_architecture_lie_within_their_error_bars(
    name: str, how: k.Normalise, sensitive: bool
) -> None:
    """Loosely: of networks of a channel or two a few draws are far from normal."""
    architecture = ARCHITECTURES[name]
    inputs = inputs_of(architecture, 3, sensitive=sensitive)
    for what, ratio in calibration(architecture, inputs, how, 4, 30).items():
        assert ratio < 8.0, what


# H of hard gates, Λ and S of soft ones; scaled, each in one way, the other by `make faults`.
SCALED = [
    pytest.param(*case, marks=pytest.mark.faults)
    if case in {("trace", False, True), ("cosine", True, False)}
    else case
    for how in ("none", "cosine", "trace")
    for case in ((how, False, True), (how, True, False))
]


@pytest.mark.wide(4)
@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize(("how", "sensitive", "hard"), SCALED)
def test_standard_errors_are_as_large_as_the_misses(
    name: str, how: k.Normalise, sensitive: bool, hard: bool
) -> None:
    architecture = WIDE[name]
    inputs = inputs_of(architecture, 3, hard, sensitive)
    # A ratio's error is that of its linear part: it needs more draws.
    seeds, draws = (30, 30) if how == "none" else (25, 80)
    for what, ratio in calibration(architecture, inputs, how, seeds, draws).items():
        assert 0.6 < ratio < 1.7, (what, ratio)


def test_an_error_that_is_halved_is_noticed() -> None:
    """The bounds of the calibration can fail: a quarter of the squared errors is outside them."""
    architecture = ARCHITECTURES["fc-deep"]
    ratio = calibration(architecture, inputs_of(architecture, 3), "none", 40, 40)["kernel"]
    assert not 0.6 < ratio / 0.25 < 1.7


def test_one_draw_has_no_error_bar_and_is_refused() -> None:
    architecture = ARCHITECTURES["fc-deep"]
    x, gates = draw_images(architecture, 2), random_gates(architecture, 2, hard=True)
    with refused("out-of-bounds"):
        k.estimate_path_kernel(architecture, gates, x, 1, torch.Generator())
    estimator = k.PathEstimator(architecture, k.PathInputs(gates, x), torch.Generator())
    estimator.add_draws(1)
    with refused("not-supported"):
        estimator.kernel()
    estimator.add_draws(1)
    assert estimator.kernel().draws == 2


@pytest.mark.parametrize("name", ["conv-gap", "basic-blocks"])
def test_examples_that_pass_in_parts_give_the_same_estimate(name: str) -> None:
    architecture = ARCHITECTURES[name]
    found = []
    for at_once in (2, 5):
        inputs = inputs_of(architecture, 5, sensitive=True)
        estimator = k.PathEstimator(architecture, inputs, torch.Generator().manual_seed(3))
        estimator.at_once = at_once
        shares = list(estimator.slices())
        assert shares == ([0.4, 0.8, 1.0] if at_once == 2 else [1.0])
        estimator.add_draws(2)
        found.append((estimator.kernel(), estimator.sensitive_overlap()))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one.kernel, two.kernel, rtol=1e-12, atol=0.0)
        torch.testing.assert_close(one.error, two.error, rtol=1e-9, atol=1e-12)


def test_an_estimate_that_goes_on_is_that_of_all_its_draws() -> None:
    architecture = ARCHITECTURES["max-gap"]
    inputs = inputs_of(architecture, 4, sensitive=True)
    whole = k.estimate_overlap(architecture, inputs, 12, torch.Generator().manual_seed(5), "cosine")
    estimator = k.PathEstimator(architecture, inputs, torch.Generator().manual_seed(5))
    for _ in range(3):
        estimator.add_draws(4)
    assert whole[1] is not None
    assert torch.equal(whole[0].kernel, estimator.kernel("cosine").kernel)
    assert torch.equal(whole[1].error, estimator.sensitive_overlap("cosine").error)


def test_a_block_of_two_sets_has_no_cosine() -> None:
    architecture = ARCHITECTURES["conv-gap"]
    inputs = inputs_of(architecture, 3)
    estimator = k.PathEstimator(
        architecture, inputs, torch.Generator(), other=inputs_of(architecture, 2)
    )
    estimator.add_draws(2)
    assert estimator.kernel().kernel.shape == (3, 2)
    with refused("not-supported"):
        estimator.kernel("cosine")


@pytest.mark.wide
@pytest.mark.parametrize("name", HAND_WRITTEN)
@pytest.mark.parametrize("sensitive", [False, True])
def test_pair_by_pair_the_exact_kernels_come_out(name: str, sensitive: bool) -> None:
    architecture = ARCHITECTURES[name]
    inputs = inputs_of(architecture, 4, sensitive=sensitive)
    ticks = itertools.count()
    blocks = k.PathBlocks(architecture, inputs, clock=lambda: float(next(ticks)))
    shares = list(blocks.slices(seconds=2.0))
    assert shares[-1] == 1.0
    assert blocks.seconds_left == 0.0
    assert shares == sorted(shares)
    for how in ("none", "trace", "cosine"):
        for what, exact in kernels_of(architecture, inputs, how):  # type: ignore[arg-type]
            found = getattr(blocks, what)(how)
            torch.testing.assert_close(found, exact, rtol=1e-12, atol=0.0)


def test_errors_of_eigenvalues_are_the_deviations_of_whole_estimates() -> None:
    architecture = ARCHITECTURES["conv-gap"]
    n, gates = 6, random_gates(architecture, 6, hard=False)
    inputs = k.PathInputs(gates, draw_images(architecture, n), random_masks(architecture, n))
    values, errors = [], []
    for seed in range(60):
        estimator = k.PathEstimator(
            architecture, inputs, torch.Generator().manual_seed(seed), groups=8
        )
        estimator.add_draws(60)  # groups of seven and of eight
        kernel = estimator.kernel("trace").kernel
        values.append(torch.linalg.eigvalsh(kernel).flip(0).clamp(min=1e-12).log())
        errors.append(estimator.eigenvalue_errors())
    kernel = k.neural_path_kernel(architecture, gates, inputs.x_value, masks=inputs.masks)
    exact = torch.linalg.eigvalsh(kernel / kernel.trace()).flip(0).log()
    deviation = (torch.stack(values) - exact).square().mean(dim=0).sqrt()
    ratio = (torch.stack(errors).mean(dim=0) / deviation)[:3]  # the leading ones
    assert bool(((ratio > 0.6) & (ratio < 2.0)).all()), ratio


@pytest.mark.parametrize("draws", [4, 8])
def test_errors_of_eigenvalues_cover_the_exact_ones_from_few_draws(draws: int) -> None:
    nodes = (Conv(3, 16), Conv(16, 16), GlobalAveragePool(), Dense(16, 2, gated=False))
    architecture = Architecture((3, 6, 6), nodes)
    inputs = k.PathInputs(
        random_gates(architecture, 8, hard=True), draw_images(architecture, 8).double()
    )
    kernel = k.neural_path_kernel(architecture, inputs.gates, inputs.x_value)
    exact = torch.linalg.eigvalsh(kernel / kernel.trace()).flip(0)
    covered, shown = torch.zeros(8), torch.zeros(8)
    for seed in range(100):
        estimator = k.PathEstimator(
            architecture, inputs, torch.Generator().manual_seed(seed), groups=8
        )
        estimator.add_draws(draws)
        values = torch.linalg.eigvalsh(estimator.kernel("trace").kernel).flip(0)
        errors = estimator.eigenvalue_errors() * student_factor(draws)
        resolved = errors < 1.0  # as panels show them
        covered += (((values - exact).abs() <= 2.0 * values * errors) & resolved).float()
        shown += resolved.float()
    # Of those shown: the smallest, too, which are far too small from few draws.
    assert bool((covered[shown > 10] / shown[shown > 10] > 0.7).all()), covered / shown
    assert float(covered.sum() / shown.sum()) > 0.85


def test_eigenvalues_of_too_few_groups_have_no_finite_error() -> None:
    architecture = ARCHITECTURES["conv-gap"]
    inputs = k.PathInputs(
        random_gates(architecture, 4, hard=True),
        draw_images(architecture, 4),
        random_masks(architecture, 4),
    )
    for groups, draws in ((0, 3), (8, 1)):
        estimator = k.PathEstimator(architecture, inputs, torch.Generator(), groups=groups)
        estimator.add_draws(draws)
        assert bool(estimator.eigenvalue_errors().isinf().all())


def test_means_without_each_group_are_those_of_the_other_samples() -> None:
    samples = torch.randn(7, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    average = KernelAverage(symmetric=False, groups=3)
    for sample in samples:
        average.add_sample(sample)
    for group, mean in enumerate(average.means_without_group()):
        others = torch.arange(7) % 3 != group
        torch.testing.assert_close(mean, samples[others].mean(dim=0))
