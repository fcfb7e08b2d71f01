"""Path norms of a run, and its distance from another network, path by path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.training.probes import ProbeContext, npk, path_distance, path_norms
from dgn_engine.training.readings.reading_sizes import ReadingSizes
from dgn_engine.training.run import Run

CONFIG = RunConfig(
    data=DataConfig(train_limit=60),
    net=NetConfig("fc", (("depth", 3), ("width", 3)), bias=True),
    probe_examples=5,
)


def listed(stack: torch.nn.Module) -> Tensor:
    """v of all paths to each logit, (logits, paths), those from biases included, in float64."""
    one, two, out = (weight.detach().double() for weight in stack.weights)
    first, second, last = (bias.detach().double() for bias in stack.biases)
    from_inputs = torch.einsum("cb,ba,ai->cbai", out, two, one)
    from_first = torch.einsum("cb,ba,a->cba", out, two, first)
    paths = (from_inputs, from_first, out * second, last[:, None])
    return torch.cat([part.flatten(1) for part in paths], dim=1)


def draw_biases(run: Run) -> None:
    with torch.no_grad():
        for stack in (run.trainer.network.value, run.trainer.network.feature):
            for bias in stack.biases:
                bias.normal_(generator=torch.Generator().manual_seed(4))


def test_the_norms_of_a_run_are_those_of_all_its_paths(make_run: Callable[..., Run]) -> None:
    run = make_run("DL", CONFIG)
    draw_biases(run)
    network = run.trainer.network
    first = path_norms.PROBE.read(run.probed.probe_context(), {}, None)
    then = listed(network.value)
    assert [first.scalars[f"moved_{part}"] for part in ("l2", "low", "high")] == [0.0] * 3
    for _ in range(5):
        run.step()
    found = path_norms.PROBE.read(run.probed.probe_context(), {}, first.memory)
    v = listed(network.value)
    assert found.arrays["by_logit"] == pytest.approx(v.abs().sum(1).numpy())
    assert found.scalars["l1"] == pytest.approx(float(v.abs().sum()))
    assert found.scalars["l2"] == pytest.approx(float(v.norm()))
    l2 = float((v - then).norm() / (v.norm() + then.norm()))
    l1 = float((v - then).abs().sum() / (v.abs().sum() + then.abs().sum()))
    assert found.scalars["moved_l2"] == pytest.approx(l2, rel=1e-6)
    assert 0.0 < found.scalars["moved_low"] <= l1 <= found.scalars["moved_high"] < 1.0


def test_another_network_starts_its_distance_anew(make_run: Callable[..., Run]) -> None:
    memory = path_norms.PROBE.read(make_run("ReLU").probed.probe_context(), {}, None).memory
    found = path_norms.PROBE.read(make_run("ReLU", CONFIG).probed.probe_context(), {}, memory)
    assert found.scalars["moved_high"] == 0.0


def test_sums_beyond_float64_are_said_to_be(make_run: Callable[..., Run]) -> None:
    context = make_run("ReLU", CONFIG).probed.probe_context()
    memory = path_norms.PROBE.read(context, {}, None).memory
    context.network.double()
    with torch.no_grad():
        for weight in context.network.value.weights:
            weight.mul_(1e120)
    found = path_norms.PROBE.read(context, {}, memory)
    assert found.absent == path_norms.NOT_FINITE
    assert found.memory is memory


def compared(ours: Run, theirs: Run) -> ProbeContext:
    return ours.probed.probe_context(compared_network=lambda: theirs.trainer.network)


def test_the_distance_from_another_network_is_that_of_all_paths(
    make_run: Callable[..., Run],
) -> None:
    ours, theirs = make_run("DL", CONFIG), make_run("DL", CONFIG)
    for run in (ours, theirs):
        draw_biases(run)
    theirs.step()
    context = compared(ours, theirs)
    found = path_distance.PROBE.read(context, {}, None).scalars
    assert path_distance.PROBE.read(context.subsample(2), {}, None).scalars == found
    v, w = (listed(run.trainer.network.value) for run in (ours, theirs))
    l1 = float((v - w).abs().sum() / (v.abs().sum() + w.abs().sum()))
    l2 = float((v - w).norm() / (v.norm() + w.norm()))
    assert found["low"] <= l1 <= found["high"]
    assert found["l2"] == pytest.approx(l2, rel=1e-5)
    assert found["cosine"] == pytest.approx(float((v * w).sum() / v.norm() / w.norm()))


def test_networks_of_other_layers_are_not_compared(make_run: Callable[..., Run]) -> None:
    ours = make_run("DL", CONFIG)
    assert path_distance.PROBE.read(ours.probed.probe_context(), {}, None).absent
    relu = path_distance.PROBE.read(compared(ours, make_run("ReLU", CONFIG)), {}, None)
    assert relu.scalars["high"] == 0.0  # they begin with the same values
    other = path_distance.PROBE.read(compared(ours, make_run("ReLU")), {}, None)
    assert other.absent
    assert not other.scalars


def test_path_norms_are_of_no_examples_however_long_they_take(make_run: Callable[..., Run]) -> None:
    run = make_run("ReLU", replace(CONFIG, probe_examples=40))
    context = run.probed.probe_context()
    run.probe_schedule.watch((ProbeRequest("path_norms"), ProbeRequest("npk")))
    run.probe_schedule.read_probes(("path_norms", "npk"), context, 0)
    readings = run.probe_schedule.readings
    assert (readings["path_norms"].remark, readings["path_norms"].examples) == ("", 0)
    assert readings["npk"].remark
    sizes = ReadingSizes({"path_norms": path_norms.PROBE, "npk": npk.PROBE}, fewer=True)
    assert sizes.affordable_every("path_norms", context, 1e-12, None) == 1
    assert sizes.affordable_every("npk", context, 1e-12, None) > 1
