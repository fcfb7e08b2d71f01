"""Probes and kernels of what lies on a card give the numbers of the CPU, and mix no devices."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dgn_engine.kernels as k
from dgn_engine.training.probes import ProbeContext, ProbeResult, all_probes
from dgn_engine.training.probes import _refinement as refinement
from tests.engine.card.card_runs import Device, begin_run, small_config
from tests.engine.kernels.working_calls import CALLS, tensors
from tests.plugins import each
from tests.simulated_card import simulated_card

PROBES = all_probes()
NETS = ["fc", "cnn4", "resnet_fc", "davidnet"]  # the last one with BatchNorms
REFINED = [name for name, probe in PROBES.items() if probe.refine is not None]
FUNCTIONS = [name for name in k.__all__ if inspect.isfunction(getattr(k, name))]
# Vectors of a kernel that has equal eigenvalues, or none, are not determined.
UNDETERMINED = {"alignment"}
LARGEST = 1e6  # the inverse of a singular kernel is as large as rounding lets it be


def context_on(device: Device, net: str, regime: str) -> ProbeContext:
    """After some steps, compared with the gates before them."""
    run = begin_run(small_config(regime, net), device, [])
    before = [gate.clone() for gate in run.probed.probe_context().gates]
    for _ in range(2):
        run.step()
    return run.probed.probe_context(lambda: tuple(before))


def assert_same_results(result: ProbeResult, expected: ProbeResult) -> None:
    assert result.absent == expected.absent
    assert result.facts == expected.facts
    assert result.arrays.keys() == expected.arrays.keys()
    assert result.scalars.keys() == expected.scalars.keys()
    pairs: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = [
        (result.arrays, expected.arrays),
        (result.scalars, expected.scalars),
    ]
    for ours, theirs in pairs:
        for name in theirs.keys() - UNDETERMINED:
            values, wanted = (np.clip(of[name], -LARGEST, LARGEST) for of in (ours, theirs))
            np.testing.assert_allclose(values, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.wide
@pytest.mark.parametrize("regime", ["ReLU", "DL"])
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("probe", each(PROBES))
def test_every_probe_reads_on_a_card_what_it_reads_on_the_cpu(
    probe: str, net: str, regime: str
) -> None:
    def readings(device: Device) -> list[ProbeResult]:
        context = context_on(device, net, regime)
        first = PROBES[probe].read(context, {}, None)
        return [first, PROBES[probe].read(context, {}, first.memory)]

    expected = readings("cpu")
    with simulated_card() as card:
        results = readings("cuda")
    assert card.faults == []
    for result, theirs in zip(results, expected, strict=True):
        assert_same_results(result, theirs)


@pytest.mark.wide
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("probe", each(REFINED))
def test_every_probe_is_refined_on_a_card_to_what_it_reads(
    probe: str, net: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refine = PROBES[probe].refine
    assert refine is not None
    module = inspect.getmodule(refine)
    assert module is not None
    for owner in (module, refinement):  # small as the network is, it is refined
        monkeypatch.setattr(owner, "AT_ONCE", 0.0, raising=False)
    monkeypatch.setattr(refinement, "ROUGH", 0.5)  # after few draws the exact kernel begins
    with simulated_card() as card:
        context = context_on("cuda", net, "DL")
        last = list(refine(context, {}, torch.Generator().manual_seed(0)))[-1]
        expected = PROBES[probe].read(context, {}, None)
    assert card.faults == []
    assert (last.done, last.error) == (1.0, 0.0)
    assert_same_results(last.result, expected)


def move_to_card(value: Any) -> Any:
    """The same argument, with all its tensors on the card."""
    if isinstance(value, (Tensor, torch.nn.Module)):
        return value.to("cuda")
    if isinstance(value, (list, tuple)):
        return type(value)(map(move_to_card, value))
    if isinstance(value, dict):
        return {name: move_to_card(part) for name, part in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: move_to_card(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    return value


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_computes_on_a_card_what_it_does_on_the_cpu(name: str) -> None:
    function = getattr(k, name)
    torch.manual_seed(0)  # of modules that are made
    expected = list(tensors(function(**CALLS[name]())))
    torch.manual_seed(0)
    with simulated_card() as card:
        result = [tensor.cpu() for tensor in tensors(function(**move_to_card(CALLS[name]())))]
    assert card.faults == []
    assert len(result) == len(expected)
    for ours, theirs in zip(result, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11, equal_nan=True)


def test_shared_kernels_are_computed_on_a_card() -> None:
    def kernels_of(call: dict[str, Any]) -> list[Tensor]:
        shared = k.SharedKernels(call["network"], call["x"])
        tangent = shared.tangent
        parts = (tangent.value, tangent.feature)
        kernels = [
            tangent.total_kernel,
            *parts,
            shared.npk(),
            shared.overlap(),
            shared.sensitive_overlap(),
        ]
        return [kernel.cpu() for kernel in kernels if kernel is not None]

    expected = kernels_of(CALLS["SharedKernels"]())
    with simulated_card() as card:
        result = kernels_of(move_to_card(CALLS["SharedKernels"]()))
    assert card.faults == []
    for ours, theirs in zip(result, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
