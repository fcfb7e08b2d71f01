"""What goes on beside steps on a device: nothing waits for it, stacks, probes, other processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from dgn_engine.sweep.unit import Training, Unit
from dgn_engine.sweep.workers.processes import ProcessExecutor
from dgn_engine.training.batched.stacked_network import TrainerStack
from dgn_engine.training.probes import ProbeContext, ProbeResult, all_probes
from dgn_engine.training.readings.reading_jobs import ExactAnswer, ExactJob, StepContexts
from dgn_engine.training.readings.stream_readings import StreamReadings
from dgn_engine.training.steps.graphs import WARM_UP, EagerSteps, GraphSteps
from tests.engine.sweep.small import read_results, run_units, small_training
from tests.gpu.trainers import trainer_on

CPU = torch.device("cpu")
EPOCH = 3
NEAR = 1e-3  # of how far the weights have moved; sums are in another order


@contextmanager
def refusing_to_wait(device: torch.device) -> Iterator[None]:
    """torch raises where something waits for the card."""
    if device.type != "cuda":
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it does not find everything
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("regime", ["ReLU", "FR-II", "DL", "FRG"])
def test_nothing_waits_for_the_device_within_epochs_and_between_them(
    regime: str, captured: bool, device: torch.device
) -> None:
    made = trainer_on(device, regime)
    if not captured:
        made.steps = EagerSteps(made.network_step)
    for _ in range((WARM_UP + 1) * EPOCH):
        made.step()
    with refusing_to_wait(device):
        for _ in range(2 * EPOCH + 1):
            made.step()
        asked = made.train_sums.fetch_score()
        ready = asked.is_ready
        assert made.train_sums.is_finite
    assert ready in (True, False)
    assert asked.score.examples > 0
    if captured and device.type == "cuda":
        assert isinstance(made.steps, GraphSteps)
        assert made.steps.trouble == ""


@pytest.mark.parametrize("regime", ["ReLU", "FR-II", "DL"])
def test_a_stack_on_a_device_trains_as_each_network_by_itself_on_the_cpu(
    regime: str, device: torch.device
) -> None:
    ours, theirs, start = (
        [trainer_on(place, regime, seed=seed) for seed in range(3)] for place in (device, CPU, CPU)
    )
    stack = TrainerStack(ours)
    for _ in range(5 * EPOCH):
        stack.step()
        for made in theirs:
            made.step()
    if device.type == "cuda":
        assert isinstance(stack.steps, GraphSteps)
        assert stack.steps.trouble == ""
    assert stack.find_diverged() == []
    stack.release()
    for place in range(3):
        for name, begun in start[place].network.state_dict().items():
            mine, other = (
                made.network.state_dict()[name].cpu().double()
                for made in (ours[place], theirs[place])
            )
            way = float((other - begun.double()).norm())
            assert float((mine - other).norm()) <= NEAR * way, name


def test_a_probe_beside_training_reads_the_step_that_was_copied(
    device: torch.device, in_time: Callable[[], bool]
) -> None:
    made, probe = trainer_on(device), all_probes()["npk"]

    def read(context: ProbeContext) -> ProbeResult:
        return probe.read(context, {}, None)

    def context() -> ProbeContext:
        network = made.control.network_at(torch.arange(6, device=device))
        return ProbeContext(network, made.data.train_x[:6], made.data.train_y[:6], made.regime)

    for _ in range((WARM_UP + 1) * EPOCH):
        made.step()
    answers: list[ExactAnswer] = []

    def deliver(_: ExactJob, answer: ExactAnswer) -> None:
        answers.append(answer)

    expected, reader = read(context()), StreamReadings(device)
    try:
        job = ExactJob("npk", probe, {}, None, 1, deliver, True, 0.0, 0.0)
        reader.submit([job], StepContexts(context(), 7))
        for _ in range(4 * EPOCH):
            made.step()
        while not reader.deliver_answers() and in_time():
            made.step()
    finally:
        reader.close()
    (answer,) = answers
    assert answer.contexts.step == 7
    result, now = answer.result, read(context())
    assert result is not None, answer.error
    for name, array in expected.arrays.items():
        np.testing.assert_allclose(result.arrays[name], array, rtol=1e-5, atol=1e-6)
    assert any(not np.allclose(now.arrays[n], a, rtol=1e-4) for n, a in expected.arrays.items())


def on_device(seed: int, device: torch.device) -> Training:
    kind: Literal["cpu", "cuda"] = "cuda" if device.type == "cuda" else "cpu"
    unit = small_training(seed)
    return replace(unit, config=replace(unit.config, device=kind))


@pytest.mark.nightly  # processes that import torch; `make gpu` takes it on a card
def test_two_processes_on_one_device_give_the_bits_of_one(
    device: torch.device, tmp_path: Path
) -> None:
    units: list[Unit] = [on_device(seed, device) for seed in range(3)]
    place = "cuda:0" if device.type == "cuda" else "cpu"
    for devices, name in (((place,), "one"), ((place, place), "two")):
        states = run_units(ProcessExecutor(devices=devices), units, tmp_path / name)
        assert set(states.values()) == {"done"}
    assert read_results(units, tmp_path / "two") == read_results(units, tmp_path / "one")
