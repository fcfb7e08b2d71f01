"""Gate statistics against counts by hand, over dense, convolutional and residual networks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dgn_engine.training.probes import all_probes
from dgn_engine.training.run import Run
from tests.engine.training.probe_cases import NETS, probed_config

PROBE = all_probes()["gate_statistics"]


@pytest.mark.wide
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("regime", ["DL", "FR-II"])
def test_shares_of_gates_and_units_are_those_counted_one_by_one(
    make_run: Callable[..., Run], net: str, regime: str
) -> None:
    run = make_run(regime, probed_config(net, 11))
    first = PROBE.read(run.probed.probe_context(), {}, None)
    before = [layer.clone() for layer in run.probed.probe_context().gates]
    for _ in range(3):
        run.step()
    found = PROBE.read(run.probed.probe_context(), {}, first.memory)
    context = run.probed.probe_context()
    labels = context.labels.tolist()
    assert found.arrays["classes"].tolist() == sorted(set(labels))
    assert "churn" not in first.scalars
    for place, layer in enumerate(context.gates):
        gates = layer.double().numpy().reshape(*layer.shape[:2], -1)
        old = before[place].double().numpy().reshape(gates.shape)
        assert found.scalars[f"density_{place}"] == pytest.approx(gates.mean())
        dead = np.mean([bool((gates[:, u] < 0.5).all()) for u in range(gates.shape[1])])
        stuck = np.mean([bool((gates[:, u] >= 0.5).all()) for u in range(gates.shape[1])])
        assert found.arrays["dead"][place] == found.scalars[f"dead_{place}"] == dead
        assert found.arrays["always"][place] == stuck
        for column, one in enumerate(found.arrays["classes"].tolist()):
            of_class = [gates[s].mean() for s in range(len(labels)) if labels[s] == one]
            assert found.arrays["by_class"][place, column] == pytest.approx(np.mean(of_class))
        switched = ((gates >= 0.5) != (old >= 0.5)).mean()
        assert found.scalars[f"churn_{place}"] == pytest.approx(switched)


def test_after_other_examples_there_is_no_churn(make_run: Callable[..., Run]) -> None:
    run = make_run("DL")
    first = PROBE.read(run.probed.probe_context(), {}, None)
    found = PROBE.read(run.probed.probe_context().subsample(2), {}, first.memory)
    assert "churn" not in found.scalars
