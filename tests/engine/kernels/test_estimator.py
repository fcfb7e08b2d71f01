from __future__ import annotations

import pytest
import torch

import dgn_engine.kernels as k
from dgn_engine.errors import UserError
from tests.engine.kernels.tiny import (
    ARCHITECTURES,
    HAND_WRITTEN,
    images,
    random_gates,
    random_masks,
)


@pytest.mark.parametrize("name", HAND_WRITTEN)
@pytest.mark.parametrize("normalise", ["none", "width"])
def test_the_estimate_lies_within_its_error_bars(name: str, normalise: k.Normalise) -> None:
    architecture = ARCHITECTURES[name]
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard=False)
    if architecture.residual and normalise == "none":
        with pytest.raises(UserError, match="weighted by σ"):
            k.estimate_path_kernel(architecture, gates, x, 2, torch.Generator())
        return
    masks = random_masks(architecture, 4)
    exact = k.neural_path_kernel(architecture, gates, x, normalise, masks)
    generator = torch.Generator().manual_seed(0)
    found = k.estimate_path_kernel(architecture, gates, x, 400, generator, normalise, masks)
    misses = (found.kernel - exact).abs() / found.error
    assert float(misses.max()) < 5.0
    assert float((misses < 2.0).double().mean()) > 0.7
    assert 0.0 < found.relative < 0.3


def test_four_times_the_draws_halve_the_error() -> None:
    architecture = ARCHITECTURES["fc-deep"]
    x, gates = images(architecture, 4), random_gates(architecture, 4, hard=False)
    errors = [
        k.estimate_path_kernel(architecture, gates, x, r, torch.Generator().manual_seed(1)).relative
        for r in (200, 800)
    ]
    assert errors[1] == pytest.approx(errors[0] / 2, rel=0.2)


def test_one_draw_has_no_error_bar_and_is_refused() -> None:
    architecture = ARCHITECTURES["fc-deep"]
    x, gates = images(architecture, 2), random_gates(architecture, 2, hard=True)
    with pytest.raises(UserError, match="at least 2"):
        k.estimate_path_kernel(architecture, gates, x, 1, torch.Generator())
