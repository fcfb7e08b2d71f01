"""A stack of networks against the slow run: what a stack and a single run have in common shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from dgn_engine.config import RunConfig
from dgn_engine.data import Examples
from dgn_engine.regimes import all_regimes
from dgn_engine.training.batched.stacked_network import TrainerStack
from dgn_engine.training.run import Run
from tests.engine.slow_run import SlowRun
from tests.engine.slow_table import SlowData, row_of
from tests.plugins import each

PACKED = [regime.name for regime in all_regimes() if not regime.drawn_gates]
STEPS = 11
BASE = RunConfig.from_dict(
    {
        "net": {"options": {"depth": 4, "width": 6}, "bias": True},
        "gating": {
            "beta": 3.0,
            "epsilon": 0.2,
            "value_input": "random",
            "wiring": [2, 0, 1],
            "rotation": [0, 4, 1],
        },
        "training": {"learning_rate": 0.02, "batch": 4, "loss": "squared"},
        "device": "cpu",
        "probe_examples": 4,
    }
)


@pytest.fixture(autouse=True)
def in_float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def data(classes: int = 3) -> SlowData:
    generator = torch.Generator().manual_seed(8)
    x = torch.randn((54, 4), generator=generator)
    y = torch.randint(0, classes, (54,), generator=generator)
    y[:classes] = torch.arange(classes)
    return SlowData(x[:14], y[:14], x[14:], y[14:], classes, classes == 2)


def assert_as_by_hand(configs: list[RunConfig], data: SlowData) -> None:
    arrays = [t.numpy() for t in (data.train_x, data.train_y, data.test_x, data.test_y)]
    names = tuple(str(c) for c in range(data.classes))
    examples = Examples(*arrays, names, "of the stack", "0" * 64, data.signed)
    runs = [
        Run(1, config, lambda _: None, lambda *_: None, live=False, examples=examples)
        for config in configs
    ]
    pack = TrainerStack([run.trainer for run in runs])
    for _ in range(STEPS):
        pack.step()
    pack.publish()
    for config, run, score in zip(configs, runs, pack.test_scores()[0], strict=True):
        slow = SlowRun(config, data, lambda: 0.0, None)
        for _ in range(STEPS):
            slow._train()
        state, tensors = slow.state, run.trainer.tensors()
        expected = dict(state.tensors)
        for name, moments in state.moments.items():
            expected |= {f"optimiser.{name}.{key}": value for key, value in moments.items()}
        assert set(tensors) == set(expected)
        for name, tensor in expected.items():
            torch.testing.assert_close(
                tensors[name].double(), tensor.double(), atol=1e-9, rtol=1e-7, msg=name
            )
        assert (score.loss, score.accuracy) == pytest.approx(slow.test_score(), rel=1e-7)
        counters = run.trainer.counters()
        assert counters["train_seen"] == state.seen
        assert counters["train_sums"] == pytest.approx([state.loss_sum, state.right], rel=1e-7)


@pytest.mark.wide
@pytest.mark.parametrize("regime", each(PACKED))
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_a_stack_computes_what_the_theory_says(regime: str, optimiser: str) -> None:
    gating = replace(BASE.gating, regime=regime)
    momentum = 0.9 if optimiser == "sgd" else 0.0
    rate = 0.002 if momentum else 0.02
    training = replace(BASE.training, optimiser=optimiser, momentum=momentum, learning_rate=rate)
    one = replace(BASE, gating=gating, training=training)
    assert_as_by_hand([one, replace(one, seed=3)], data())


@pytest.mark.parametrize("regime", each(["DL", "FR-II", "gates-only", "ReLU"]))
def test_a_stack_of_parallel_features_computes_what_the_theory_says(regime: str) -> None:
    gating = replace(BASE.gating, regime=regime, feature_layers="parallel")
    one = replace(BASE, gating=gating)
    assert_as_by_hand([one, replace(one, seed=3)], data())


@pytest.mark.parametrize("regime", each(["DL", "FR-II", "gates-only"]))
def test_a_stack_of_tiled_gates_and_one_logit_computes_what_the_theory_says(regime: str) -> None:
    gating = replace(BASE.gating, regime=regime, tiling=(2, 1, 3), value_input="ones")
    training = replace(BASE.training, loss="cross-entropy", optimiser="rmsprop", smoothing=0.9)
    one = replace(BASE, gating=gating, training=training)
    assert row_of(regime).entry != "share"
    assert_as_by_hand([one, replace(one, seed=3)], data(classes=2))
