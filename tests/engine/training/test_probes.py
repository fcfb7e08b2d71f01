"""Every probe reads a run of one network and of two, and says why where it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from dgn_engine.training.probes import all_probes
from tests.plugins import each


@pytest.mark.check
@pytest.mark.parametrize("regime", ["ReLU", "DL"])
@pytest.mark.parametrize("name", each(all_probes()))
def test_a_probe_reads_numbers_or_says_why_there_are_none(make_run, name, regime):
    probe, run = all_probes()[name], make_run(regime)
    weights = [weight.detach().clone() for weight in run.trainer.network.parameters()]
    first = probe.read(run.probed.probe_context(), {}, None)
    second = probe.read(run.probed.probe_context(), {}, first.memory)
    for reading in (first, second):
        assert reading.absent.endswith(".") or reading.arrays or reading.scalars
        assert all(isinstance(values, np.ndarray) for values in reading.arrays.values())
        assert all(isinstance(value, float) for value in reading.scalars.values())
    assert not probe.compares or first.absent, "nothing is compared with"
    assert first.arrays.keys() == second.arrays.keys()
    after = run.trainer.network.parameters()
    assert all(bool((a == b).all()) for a, b in zip(weights, after, strict=True))
    assert probe.cost(run.probed.probe_context().architecture, 20) >= 0.0
