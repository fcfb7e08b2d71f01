"""Gradients against differences of the loss, updates against weights kept by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from dgn_engine.training.probes import ProbeContext, all_probes
from dgn_engine.training.run import Run
from dgn_engine.training.steps.losses import compute_loss
from tests.engine.training.probe_cases import NETS, in_float64, probed_config

GRADIENTS, UPDATES = all_probes()["gradients"], all_probes()["updates"]


@pytest.mark.wide
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize(("regime", "kind"), [("DL", "cross-entropy"), ("soft-ReLU", "squared")])
def test_the_gradient_is_the_slope_of_the_loss_along_each_layer(
    make_run: Callable[..., Run], net: str, regime: str, kind: str
) -> None:
    context = in_float64(make_run(regime, probed_config(net, loss=kind)))
    network, assumed = context.network, context.training
    assert assumed is not None
    found = GRADIENTS.read(context, {}, None)
    assert ("feature" in found.arrays) == (regime == "DL")
    with torch.no_grad():
        for name in ("value", "feature")[: 1 + (regime == "DL")]:
            stack = getattr(network, name)
            for layer, weight in enumerate(stack.weights):
                slopes = np.zeros(weight.numel())
                flat = weight.view(-1)
                for at in range(0, weight.numel(), max(1, weight.numel() // 6)):
                    ends = []
                    for change in (1e-6, -1e-6):
                        flat[at] += change
                        ends.append(
                            float(compute_loss(assumed.loss, network(context.x), context.labels))
                        )
                        flat[at] -= change
                    slopes[at] = (ends[0] - ends[1]) / 2e-6
                seen = np.flatnonzero(slopes)
                with torch.enable_grad():
                    value = compute_loss(assumed.loss, network(context.x), context.labels)
                    (slope,) = torch.autograd.grad(value, [weight], allow_unused=True)
                own = np.zeros(weight.numel()) if slope is None else slope.flatten().numpy()
                np.testing.assert_allclose(own[seen], slopes[seen], rtol=1e-4, atol=1e-6)
                expected = np.sqrt(sum(number**2 for number in own))
                assert found.arrays[name][layer] == pytest.approx(expected)
                assert found.scalars[f"{name}_{layer}"] == pytest.approx(expected)
    assert all(weight.grad is None for weight in network.parameters())


def test_updates_are_what_the_weights_did_between_two_readings(
    make_run: Callable[..., Run],
) -> None:
    run = make_run("DL", probed_config("cnn4"))

    def weights() -> list[np.ndarray]:
        return [w.detach().double().numpy().copy() for w in run.trainer.network.value.weights]

    kept, memory, seen = [weights()], None, []
    for steps in (0, 3, 0, 2):
        for _ in range(steps):
            run.step()
        kept.append(weights())
        seen.append(UPDATES.read(run.probed.probe_context(), {}, memory))
        memory = seen[-1].memory
    first, third, fourth = seen[0], seen[2], seen[3]
    assert np.isnan(first.arrays["value_update"]).all()
    assert (first.arrays["value_moved"] == 0).all()
    assert "value_update_0" not in first.scalars
    for layer in range(len(kept[0])):
        w0, w3, w5 = (kept[at][layer] for at in (0, 2, 4))
        after = np.linalg.norm(w3 - w0) / np.linalg.norm(w0) / 3
        assert third.scalars[f"value_update_{layer}"] == pytest.approx(after)
        update = np.linalg.norm(w5 - w3) / np.linalg.norm(w3) / 2
        assert fourth.arrays["value_update"][layer] == pytest.approx(update)
        moved = np.linalg.norm(w5 - w0) / np.linalg.norm(w0)
        assert fourth.scalars[f"value_moved_{layer}"] == pytest.approx(moved)
        assert fourth.arrays["value_norm"][layer] == pytest.approx(np.linalg.norm(w5))
    assert fourth.facts == {"since": "0", "steps": "2"}


def test_a_network_that_nothing_trains_has_neither(make_run: Callable[..., Run]) -> None:
    found = make_run("DL", probed_config("fc")).probed.probe_context()
    alone = ProbeContext(found.network, found.x, found.labels, found.regime)
    for probe in (GRADIENTS, UPDATES):
        assert probe.read(alone, {}, None).facts == {"fault": "no training"}
    frozen = GRADIENTS.read(
        make_run("gates-only", probed_config("fc")).probed.probe_context(), {}, None
    )
    assert set(frozen.arrays) == {"labels", "feature"}


def test_reading_gradients_changes_no_step(make_run: Callable[..., Run]) -> None:
    plain, read = (make_run("DL", replace(probed_config("fc"), seed=3)) for _ in range(2))
    for _ in range(4):
        GRADIENTS.read(read.probed.probe_context(), {}, None)
        plain.step()
        read.step()
    pairs = zip(plain.trainer.network.parameters(), read.trainer.network.parameters(), strict=True)
    assert all(bool((a == b).all()) for a, b in pairs)
