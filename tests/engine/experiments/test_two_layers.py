"""Training of two layers, memorising widths and excesses over the optimum, in other ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dgn_engine.experiments import convex_gates, galu_memorisation
from dgn_engine.experiments._two_layers import Descent, train_two_layers
from dgn_engine.sweep.unit import CalculationInputs
from tests.engine.experiments.made_up import FULL, approximately, read_findings


def drawn(n: int = 7, inputs: int = 3, width: int = 4) -> tuple[Tensor, Tensor, Tensor, Any]:
    generator = torch.Generator().manual_seed(3)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    x, y = normal(n, inputs), normal(n)
    gates = (normal(n, width) > 0).double()
    return x, y, gates, (normal(width, inputs), normal(1, width))


@pytest.mark.parametrize("anneal", [False, True])
@pytest.mark.parametrize(("optimiser", "rate"), [("sgd", 0.05), ("adam", 0.01)])
@pytest.mark.parametrize("own", [False, True])
def test_training_takes_the_steps_of_autograd(
    own: bool, optimiser: Descent, rate: float, anneal: bool
) -> None:
    x, y, gates, start = drawn()
    curve, (first, second) = train_two_layers(
        start, x, y, None if own else gates,
        optimiser=optimiser, rate=rate, steps=20, penalty=0.3, anneal=anneal,
    )  # fmt: skip
    weights = [weight.clone().requires_grad_(True) for weight in start]
    descent = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimiser](weights, lr=rate)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(descent, 20)
    expected = []
    for _ in range(21):
        q = x @ weights[0].T
        output = (torch.relu(q) if own else q * gates) @ weights[1].T
        norms = sum((weight**2).sum() for weight in weights)
        loss = 0.5 * ((output[:, 0] - y) ** 2).mean() + 0.15 * norms
        expected.append(loss.item())
        if len(expected) <= 20:
            descent.zero_grad()
            loss.backward()
            descent.step()
            if anneal:
                cosine.step()
    assert curve == approximately(expected)
    torch.testing.assert_close(first, weights[0].detach())
    torch.testing.assert_close(second, weights[1].detach())


def test_what_overflows_is_infinite_to_the_end() -> None:
    x, y, gates, start = drawn()
    curve, _ = train_two_layers(start, x, y, gates, optimiser="sgd", rate=50.0, steps=60)
    assert len(curve) == 61
    assert np.isinf(curve[-1])
    assert not np.isnan(curve).any()


def test_a_memorising_width_is_where_the_line_between_logarithms_crosses_the_bar() -> None:
    widths = [10, 20, 40]
    found = galu_memorisation.memorising_width
    assert found(widths, [1.0, 1e-2, 1e-4]) == pytest.approx(30)
    assert found(widths, [1.0, 1e-6, 1.0]) == pytest.approx(15), "the first crossing"
    assert found(widths, [1e-4, 1e-5, 1e-6]) == 10
    assert found(widths, [1.0, 1.0, 0.1]) == 40, "never"


def test_memorising_is_training_and_fitting_at_each_width() -> None:
    work = CalculationInputs({"n": 12, "inputs": 3, "steps": 400, "seed": 5}, Path(), {})
    found = galu_memorisation.memorise(work)
    assert found["width"] == [2, 3, 4, 4, 5, 5, 6, 8]
    assert found["floor"][0] > 0.05, "6 features for 12 examples"
    for left, floor in zip(found["galu"], found["floor"], strict=True):
        assert left >= floor - 1e-12
    assert found["galu"][0] == pytest.approx(found["floor"][0], rel=1e-3), "trained to the end"
    assert found["rank"] >= 4
    assert found["floor"][-1] < 1e-20 or found["rank"] > 8


def test_full_rank_is_found_as_by_trying_every_width() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(15, 4, generator=generator, dtype=torch.float64)
    gates = (x @ torch.randn(4, 12, generator=generator, dtype=torch.float64) > 0).double()

    def rank(width: int) -> int:
        features = [np.kron(gates[i, :width], x[i]) for i in range(15)]
        return int(np.linalg.matrix_rank(np.array(features)))

    expected = next((m for m in range(1, 13) if rank(m) == 15), 13)
    y = torch.ones(15, dtype=torch.float64)
    assert galu_memorisation.smallest_full_rank(x, gates, y) == expected
    assert galu_memorisation.smallest_full_rank(x, gates[:, :3], y) == 4, "12 features do not do"


def test_a_comparison_trains_what_it_solves() -> None:
    data = {"name": "digits", "root": "", "download": False}
    given = {"data": data, "n": 25, "width": 4, "steps": 300, "seed": 2}
    found = convex_gates.compare(CalculationInputs(given, Path(), {}))
    assert found["passes"][0] == 1
    assert found["passes"][-1] == 300
    for share in convex_gates.SHARES:
        one = found[convex_gates.key_of(share)]
        assert one["factored"] < 1e-12
        assert one["as_relu"] < 1e-9
        assert one["below"] < 0 < one["excess"]
        assert one["gap"] <= 1e-7
        assert one["learnt"] <= one["relu"] * (1 + 1e-6), "its own weights are one point of many"
        ends = [one["curves"][name][-1] for name in convex_gates.NAMES]
        assert min(ends) >= one["excess"] * (1 - 1e-9), "the quickest need not end lowest"
        for name in convex_gates.NAMES:
            assert (name in one["late"]) <= (one[name] == 300)
            if name not in one["late"]:
                near = [
                    at
                    for at, value in zip(found["passes"], one["curves"][name], strict=True)
                    if value <= convex_gates.NEAR
                ]
                assert not near or one[name] <= near[0]


def test_what_memorises_at_no_width_decides_nothing() -> None:
    """Widths that grow as n², of which those above the widest tried are not known."""
    inputs, sizes = galu_memorisation.FULL

    def result(n: int, seed: int) -> tuple[dict[str, Any], float]:
        widths = [factor * n / inputs for factor in galu_memorisation.FACTORS]
        needed = (1.36 + 0.01 * seed) * sizes[0] / inputs * (n / sizes[0]) ** 2
        left = [galu_memorisation.FITTED * (needed / width) ** 9 for width in widths]
        found = {"width": widths, "galu": left, "relu": left, "floor": left}
        return {**found, "rank": n / inputs}, 1.0

    drawn = {f"n{n}-s{seed}": result(n, seed) for n in sizes for seed in range(10)}
    found = read_findings("galu-memorisation", FULL, {}, drawn)
    assert {claim.verdict for claim in found.claims if not claim.exact} == {"not decided"}
    assert len(found.remarks) == 6  # both kinds at the three larger n
