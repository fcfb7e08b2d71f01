"""Virtual steps against a run's own steps, predictions against a kernel that is written out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from dgn_engine.config import RunConfig
from dgn_engine.training.probes import all_probes
from dgn_engine.training.probes.error_prediction import STEPS
from dgn_engine.training.run import Run
from tests.engine.training.probe_cases import NETS, in_float64, probed_config

PROBE = all_probes()["error_prediction"]


def config(net: str, **training: object) -> RunConfig:
    given = {"loss": "squared", "optimiser": "sgd", "learning_rate": 0.05, "batch": 20} | training
    return probed_config(net, 20, 20, **given)


@pytest.mark.wide
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("regime", ["DL", "ReLU"])
def test_what_is_predicted_is_that_of_the_whole_kernel(
    make_run: Callable[..., Run], net: str, regime: str
) -> None:
    context = in_float64(make_run(regime, config(net)))
    found = PROBE.read(context, {"times": 2}, None)
    weights = [one for one in context.network.parameters() if one.requires_grad]
    logits = context.network(context.x)
    rows = []
    for logit in logits.flatten():
        slopes = torch.autograd.grad(logit, weights, retain_graph=True, allow_unused=True)
        rows.append(
            torch.cat(
                [
                    (torch.zeros_like(w) if s is None else s).flatten()
                    for s, w in zip(slopes, weights, strict=True)
                ]
            )
        )
    kernel = torch.stack(rows) @ torch.stack(rows).T
    n, classes = logits.shape
    y = torch.full((n, classes), -1.0, dtype=torch.float64)
    y[torch.arange(n), context.labels] = 1.0
    error = (logits.detach() - y).flatten()
    for step in range(STEPS + 1):
        own = float(0.5 * error.square().sum() / n)
        assert found.arrays["predicted"][step] == pytest.approx(own, rel=1e-9)
        if step == 0:
            change = -0.1 / n * kernel @ error
            np.testing.assert_allclose(
                found.arrays["change_predicted"].ravel(), change, rtol=1e-7, atol=1e-12
            )
        error = error - 0.1 / n * kernel @ error


def test_what_is_measured_are_the_runs_own_steps_where_it_descends_plainly(
    make_run: Callable[..., Run],
) -> None:
    run = make_run("DL", config("fc"))
    found = PROBE.read(run.probed.probe_context(), {}, None)
    assert found.facts["run"].startswith("The run itself takes these steps")
    for step in range(4):
        context = run.probed.probe_context()
        again = PROBE.read(context, {}, None)
        assert found.arrays["measured"][step] == pytest.approx(
            again.arrays["measured"][0], rel=1e-5
        )
        run.step()


@pytest.mark.parametrize(
    ("training", "word"),
    [
        ({"optimiser": "adam"}, "adam"),
        ({"momentum": 0.9}, "momentum"),
        ({"batch": 5}, "batches of 5"),
    ],
)
def test_where_the_run_steps_otherwise_that_is_said(
    make_run: Callable[..., Run], training: dict[str, object], word: str
) -> None:
    found = PROBE.read(make_run("DL", config("fc", **training)).probed.probe_context(), {}, None)
    assert word in found.facts["run"]
    fewer = replace(config("fc"), probe_examples=10)
    assert (
        "20 examples"
        in PROBE.read(make_run("DL", fewer).probed.probe_context(), {}, None).facts["run"]
    )


def test_a_small_rate_is_predicted_well_and_a_large_one_is_not(
    make_run: Callable[..., Run],
) -> None:
    context = in_float64(make_run("DL", config("fc", loss="cross-entropy", learning_rate=1e-3)))
    small, large = (PROBE.read(context, {"times": times}, None) for times in (1, 1000))
    assert small.scalars["one"] < 1e-2
    assert large.scalars["one"] > 10 * small.scalars["one"]


@pytest.mark.parametrize("regime", ["DL", "ReLU", "FRG"])
def test_a_step_that_float32_does_not_resolve_is_predicted_too(
    make_run: Callable[..., Run], regime: str
) -> None:
    tiny = config("fc", loss="cross-entropy", learning_rate=1e-8)
    found = PROBE.read(make_run(regime, tiny).probed.probe_context(), {}, None)
    assert found.scalars["one"] < 1e-5
    assert found.arrays["measured"][STEPS] < found.arrays["measured"][0]
