"""The arrays of a report beyond the size that is diagonalised whole."""

from __future__ import annotations

import math
from contextlib import nullcontext

import pytest
import torch

from dgn_engine import kernels as k
from dgn_engine.errors import UserError
from dgn_engine.kernels import kernel_report
from dgn_engine.kernels.kernel_report import KernelSettings, kernel_arrays
from tests.engine.kernels.tiny import ARCHITECTURES, images, make_network


@pytest.mark.parametrize("logits", ["mean", "full"])
def test_large_kernels_give_leading_eigenvalues_and_the_same_nu(
    monkeypatch: pytest.MonkeyPatch, logits: k.Logits
) -> None:
    architecture = ARCHITECTURES["fc-deep"]
    network, x = make_network(architecture, soft=True), images(architecture, 12)
    labels = torch.arange(12) % 2
    whole = kernel_arrays(network, x, labels, KernelSettings(logits))
    monkeypatch.setattr("dgn_engine.kernels.FULL_UP_TO", 10)
    monkeypatch.setattr("dgn_engine.kernels.kernel_report.LEADING", 4)
    large = kernel_arrays(network, x, labels, KernelSettings(logits))
    for name in ("eigenvalues", "eigenvalues_ntk", "eigenvalues_overlap"):
        assert large[name].shape == (4,)
        assert large[name] == pytest.approx(whole[name][:4], rel=1e-9)
    parts = ("nu", "nu_rank", "nu_cutoff", "nu_ridge", "nu_outside", "nu_contradictory")
    assert [float(large[name]) for name in parts] == pytest.approx(
        [float(whole[name]) for name in parts], rel=1e-6, abs=1e-12
    )
    kernel, targets = torch.from_numpy(large["npk"]), k.class_targets(labels, 2)
    assert large["nu"] == pytest.approx(k.spectrum(kernel, targets).nu, rel=1e-8)


def test_a_report_says_which_inputs_contradict_each_other_and_what_nu_leaves_out() -> None:
    network = make_network(ARCHITECTURES["fc-deep"], own=False, soft=True)
    x = images(network.architecture, 3)[[0, 1, 2, 0]]
    found = kernel_arrays(network, x, torch.tensor([0, 1, 0, 1]), KernelSettings())
    assert found["nu_contradictory"] == 2
    assert found["nu_rank"] == 3
    assert found["nu_outside"] == pytest.approx(0.5)  # (1, −1)/√2 on the pair


@pytest.mark.parametrize("name", ["fc-deep", "conv-gap", "residual-dense"])
@pytest.mark.parametrize("logits", ["mean", "perclass", "full"])
def test_the_number_that_fits_fits_and_one_more_does_not(name: str, logits: k.Logits) -> None:
    network = make_network(ARCHITECTURES[name])
    budget = 200 << 20
    with pytest.raises(UserError) as refused:
        k.check_budget(network, 10**6, budget, logits)
    fits = int(str(refused.value).split(";")[1].split()[0].replace(",", ""))
    k.check_budget(network, fits, budget, logits)
    with pytest.raises(UserError, match=f"{fits:,} inputs fit"):
        k.check_budget(network, fits + 1, budget, logits)


def test_shared_kernels_refuse_what_exceeds_their_budget() -> None:
    network = make_network(ARCHITECTURES["conv-gap"])
    x = images(ARCHITECTURES["conv-gap"], 3)
    with pytest.raises(UserError, match="0 inputs fit"):
        k.SharedKernels(network, x, budget_bytes=1000)
    k.SharedKernels(network, x, budget_bytes=1 << 30)


@pytest.mark.parametrize("name", ["overlap", "sensitive", "npk", "value", "gram"])
@pytest.mark.parametrize("normalise", ["cosine", "none", "width"])
@pytest.mark.parametrize("value", [1.0, math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_but_for_examples_without_an_open_path(
    name: str, normalise: k.Normalise, value: float
) -> None:
    kernel = torch.tensor([[1.0, value], [value, 1.0]], dtype=torch.float64)
    paths = name in ("overlap", "sensitive", "npk")
    allowed = value == 1.0 or (math.isnan(value) and normalise == "cosine" and paths)
    with nullcontext() if allowed else pytest.raises(UserError) as refused:
        kernel_report._check_finite({name: kernel}, normalise)
    if not allowed:
        remedy = "use --scale width" if paths else "scale the inputs down"
        assert f"The kernel '{name}' is not finite" in str(refused.value)  # type: ignore[union-attr]
        assert str(refused.value).endswith(f"{remedy}.")  # type: ignore[union-attr]
        with pytest.raises(UserError, match="use --dtype float64"):
            kernel_report._check_finite({name: kernel.float()}, normalise)
