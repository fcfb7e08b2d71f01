"""Expensive readings beside steps on a device: they are of the step that was copied."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from dgn_engine.training.probes import (
    ProbeContext,
    ProbeResult,
    _refinement,
    all_probes,
    npk,
    ntk,
    overlap,
)
from dgn_engine.training.readings.reading_jobs import (
    JobOver,
    JobSlice,
    RefinedJob,
    StepContexts,
)
from dgn_engine.training.readings.stream_readings import StreamReadings
from dgn_engine.training.steps.graphs import WARM_UP
from tests.engine.kernels.tiny import ARCHITECTURES
from tests.gpu.trainers import CHAIN, trainer_on

N = 6
EPOCH = 3


@pytest.mark.parametrize("probe", ["npk", "overlap", "ntk", "layer_kernels"])
@pytest.mark.parametrize("name", ["chain", "conv-gap"])
def test_slices_beside_training_end_at_the_reading_of_the_step_that_was_copied(
    name: str,
    probe: str,
    device: torch.device,
    in_time: Callable[[], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (npk, ntk, overlap):
        monkeypatch.setattr(module, "AT_ONCE", 0.0)  # small networks are read in slices, too
    monkeypatch.setattr(_refinement, "ROUGH", 0.5)  # after few draws the exact kernel begins
    architecture = CHAIN if name == "chain" else ARCHITECTURES[name]
    made = trainer_on(device, architecture=architecture)
    for _ in range((WARM_UP + 1) * EPOCH):
        made.step()
    network = made.control.network_at(torch.arange(N, device=device))
    context = ProbeContext(network, made.data.train_x[:N], made.data.train_y[:N], made.regime)
    expected = all_probes()[probe].read(context, {}, None)
    context.drop_kernels()

    card = StreamReadings(device)
    results: list[ProbeResult] = []
    over: list[JobOver] = []

    def listen(answer: JobSlice | JobOver) -> None:
        if isinstance(answer, JobOver):
            over.append(answer)
        elif answer.result is not None:
            results.append(answer.result)

    try:
        contexts = StepContexts(context, 0)
        assert contexts.copy_network().whole.x.device.type == device.type
        card.submit([RefinedJob(probe, {}, listen, first=True)], contexts)
        while not over and in_time():
            made.step()
            card.deliver_answers()
    finally:
        card.close()
    assert [answer.trouble for answer in over] == [""]
    for key, array in expected.arrays.items():
        np.testing.assert_allclose(results[-1].arrays[key], array, rtol=1e-4, atol=1e-5)
