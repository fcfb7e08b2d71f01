"""What a plan says of how the quick scale differs from the paper."""

from __future__ import annotations

import pytest

from dgn_engine.experiments import Request
from dgn_engine.experiments import find_experiment as find
from tests.engine.experiments.made_up import FULL, QUICK

DIGITS = "the digits that come with the package (1,437 of 8×8) stand for "
CODE = Request(protocol="as-in-code")
CNN_FOR_DENSE = (
    "a dense network of 4 × 64 units stands for the CNN of 4 × 128 channels",
    "Adam's step is 1e-3 instead of 3e-4",
)


@pytest.mark.parametrize(
    ("name", "said"),
    {
        "composite-davidnet": (
            f"{DIGITS}CIFAR-10",
            "width 4 instead of 64",
            "FR-II and FL only, with the image as the value input",
        ),
        "composite-hidden-outputs": (
            f"{DIGITS}CIFAR-10",
            "8 channels instead of 128, Adam 3e-3",
        ),
        "composite-resnet-kernel": ("widths to 256",),
        "dgn-adaptable-gates": (f"{DIGITS}MNIST", "50 units a layer instead of 100"),
        "dgn-frg-convergence": ("n = 100 instead of 200, width 200 instead of 500",),
        "dgn-frg-spectrum": ("n = 100 instead of 200",),
        "dgn-galu-relu": ("n = 50, width 100, 200 steps instead of 200, 500, 1,000",),
        "dgn-cifar10": (
            f"{DIGITS}CIFAR-10",
            "dense: 64 units a layer instead of 256; convolutional: 8 channels instead of 32",
            "Adam's step is 1e-3 (dense) and 3e-3 (convolutional) instead of 3e-4",
        ),
        "dgn-gates-only": (
            f"{DIGITS}MNIST",
            "64 units a layer instead of 128",
            "RMSprop's step is 1e-3 instead of 1e-4",
        ),
        "dgn-hard-data": ("width 32 instead of 128", "3,000 steps instead of 20,000"),
        "dgn-random-mnist": (f"{DIGITS}MNIST", "64 units a layer instead of 256"),
        "duality-48": (
            f"{DIGITS}MNIST",
            "four gate layers of 32 units instead of 128, not trained to 100 % train accuracy",
            "8 orders of the gates instead of 24: the cyclic ones, forwards and backwards, so 16 "
            "models a regime",
            "the CNN on CIFAR-10 is left out",
        ),
        "duality-linear-features": (f"{DIGITS}CIFAR-10", *CNN_FOR_DENSE),
        "duality-noise": (f"{DIGITS}CIFAR-10", *CNN_FOR_DENSE),
        "duality-tiling": (f"{DIGITS}CIFAR-10", *CNN_FOR_DENSE),
        "kernel-ridge": (
            f"{DIGITS}MNIST",
            "60 examples a class (20 for the CNTK) instead of 200 (40)",
        ),
        "npf-eigenvalue-bound": ("5 networks of each size and seed instead of 20",),
        "npf-kernels": (f"{DIGITS}MNIST", "64 units a layer instead of 128"),
        "npf-nu": (f"{DIGITS}MNIST", "50 units a layer instead of 100"),
        "npf-stages": (
            f"{DIGITS}CIFAR-10",
            "fc (64 units, d = 6) stands for GCONV",
            "stages 2 epochs apart instead of 10, each FLNPF trained for 15 epochs",
        ),
        "npf-table2": (
            f"{DIGITS}MNIST",
            "FC has 64 units a layer instead of 128",
            "the rows of CIFAR-10 are left out",
            "SGD has one step, 0.1, instead of the best of three",
        ),
        "theory-depth": ("n = 40, width 64, 100 steps instead of 200, 256, 400",),
        "theory-dynamics": ("150 steps instead of 1,000, widths to 256",),
        "theory-infinite-width": ("widths to 1024 instead of 2048",),
        "theory-ntk-npk": (
            "widths to 256 (fc), 128 channels (cnn) and 256 (resnet); 60 draws for each variance",
        ),
        "workshop-table4": (
            f"{DIGITS}MNIST",
            "only one row of those with Adam",
            "64 units a layer instead of 128",
        ),
    }.items(),
)
def test_a_quick_plan_says_how_it_is_scaled_down(name: str, said: tuple[str, ...]) -> None:
    assert find(name).plan(QUICK).scaled_down == said


@pytest.mark.parametrize("name", ["duality-linear-features", "duality-tiling"])
def test_a_small_network_stands_for_the_one_that_is_asked_for(name: str) -> None:
    def said(**asked: str) -> tuple[str, ...]:
        return find(name).plan(Request(**asked)).scaled_down  # type: ignore[arg-type]

    adam = "Adam's step is 1e-3 instead of 3e-4"
    dense = "64 units a layer instead of 128"
    assert said(only="FC") == (f"{DIGITS}MNIST", dense, adam)
    assert said(only="FC", data="mnist") == (dense, adam)
    assert said(only="CNN") == said() == (f"{DIGITS}CIFAR-10", *CNN_FOR_DENSE)


@pytest.mark.parametrize(
    ("data", "first"),
    [
        ("mnist", "FC has 64 units a layer instead of 128"),
        ("MNIST", "FC has 64 units a layer instead of 128"),
        ("digits", f"{DIGITS}MNIST"),
        ("fashion-mnist", "'fashion-mnist' stands for MNIST"),
    ],
)
def test_other_data_are_said_to_stand_for_the_papers(data: str, first: str) -> None:
    assert find("npf-table2").plan(Request(data=data)).scaled_down[0] == first


def test_the_code_of_the_authors_has_one_step_and_so_nothing_is_left_out() -> None:
    for request in (CODE, Request(only="SGD", steps=(0.5, 0.25))):
        assert not any("one step" in said for said in find("npf-table2").plan(request).scaled_down)
    assert find("npf-stages").plan(FULL).scaled_down == ()
