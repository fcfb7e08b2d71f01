"""What each probe reads, counted by hand from gates and gradients; and when it is due."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.training.probes import ProbeContext, all_probes
from dgn_engine.training.probes import gates as gates_probe
from dgn_engine.training.readings.probe_schedule import ProbeSchedule
from dgn_engine.training.readings.watch_budget import WatchBudget
from dgn_engine.training.run import Run

Make = Callable[..., Run]
PROBES = all_probes()


def context_of(
    run: Run, gates: tuple[Tensor, ...], others: tuple[Tensor, ...] | None = None
) -> ProbeContext:
    """The run under gates that are given, beside others."""
    found = run.probed.probe_context(lambda: others)
    network = found.network.with_gates(gates)
    network.own_gates = False
    return ProbeContext(network, found.x, found.labels, found.regime, lambda: others)


def drawn(run: Run, seed: int, layers: int = 3) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    shape = (len(run.probed.probe_context().x), 16)
    return tuple((torch.rand(shape, generator=generator) < 0.4).float() for _ in range(layers))


def test_gates_count_open_and_dead_units_and_those_that_switched(make_run: Make) -> None:
    run = make_run("FR-II")
    first, second = drawn(run, 1), drawn(run, 2)
    first[1][:, [3, 7]] = 0.0
    before = gates_probe.PROBE.read(context_of(run, first), {}, None)
    assert before.arrays["dead_1"].tolist() == [3, 7]
    assert before.arrays["layer_1"].dtype == np.uint8
    assert (before.arrays["layer_1"] == first[1].numpy()).all()
    assert before.scalars["active_1"] == pytest.approx(first[1].mean().item())
    assert "churn" not in before.scalars
    after = gates_probe.PROBE.read(context_of(run, second), {}, before.memory)
    switched = [float((a != b).float().mean()) for a, b in zip(first, second, strict=True)]
    for layer, share in enumerate(switched):
        assert after.scalars[f"churn_{layer}"] == pytest.approx(share)
    assert after.scalars["churn"] == pytest.approx(np.mean(switched))  # layers of one width


def test_the_agreement_of_two_networks_is_counted_against_chance(make_run: Make) -> None:
    run = make_run("FR-II")
    ours, theirs = drawn(run, 1), drawn(run, 2)
    theirs = (theirs[0], theirs[1][:, :5], theirs[2])  # another width cannot be compared
    found = PROBES["agreement"].read(context_of(run, ours, theirs), {}, None)
    same = [float((ours[layer] == theirs[layer]).float().mean()) for layer in (0, 2)]
    assert found.scalars["equal"] == pytest.approx(np.mean(same))
    assert found.arrays["equal"][[0, 2]] == pytest.approx(same)
    assert np.isnan(found.arrays["equal"][1])
    for layer in (0, 2):
        p, q = (gates[layer].numpy().mean(axis=0) for gates in (ours, theirs))
        chance = np.mean([a * b + (1 - a) * (1 - b) for a, b in zip(p, q, strict=True)])
        assert found.arrays["chance"][layer] == pytest.approx(chance)
        difference = (ours[layer] - theirs[layer]).numpy()
        assert (found.arrays[f"difference_{layer}"] == difference).all()
    alone = PROBES["agreement"].read(context_of(run, ours), {}, None)
    assert "Compare" in alone.absent
    misfit = PROBES["agreement"].read(context_of(run, ours, (theirs[1],)), {}, None)
    assert "same shape" in misfit.absent


def cosines(kernel: Tensor) -> np.ndarray:
    scale = kernel.diagonal().sqrt()
    whole = kernel / torch.outer(scale, scale)
    return torch.where(torch.outer(scale, scale) > 0, whole, torch.nan).numpy()


@pytest.mark.parametrize("regime", ["DL", "FR-II"])
def test_overlap_is_the_product_of_the_layers_overlaps(make_run: Make, regime: str) -> None:
    run = make_run(regime)
    context = run.probed.probe_context()
    trace = context.network.trace(context.x)
    gates = [gate.double().detach() for gate in trace.value.gates]
    pre = [q.double().detach() for q in trace.gate_pre]
    if regime == "DL":
        slopes = [8 * g * (1 - g) for g in gates]
    else:
        slopes = [(q.abs() < 0.1 * q.square().mean().sqrt()).double() for q in pre]
    tau = [g @ g.T for g in gates]
    near = [d @ d.T for d in slopes]
    sensitive = near[0] * tau[1] * tau[2] + tau[0] * near[1] * tau[2] + tau[0] * tau[1] * near[2]
    found = PROBES["overlap"].read(context, {}, None)
    close = {"rtol": 1e-3, "atol": 1e-5}
    np.testing.assert_allclose(found.arrays["active"], cosines(tau[0] * tau[1] * tau[2]), **close)
    np.testing.assert_allclose(found.arrays["sensitive"], cosines(sensitive), **close)
    for layer in range(3):
        np.testing.assert_allclose(found.arrays[f"active_{layer}"], cosines(tau[layer]), **close)
        np.testing.assert_allclose(
            found.arrays[f"sensitive_{layer}"], cosines(near[layer]), **close
        )
    assert set(found.facts) == {"gate" if regime == "DL" else "kappa"}


def test_paths_that_two_examples_share_are_counted_one_by_one(make_run: Make) -> None:
    run = make_run("FR-II")
    found = PROBES["overlap"].read(run.probed.probe_context(), {}, None).arrays
    first, second, third = (gate.bool().numpy() for gate in run.probed.probe_context().gates)

    def shared(a: int, b: int) -> int:
        """Paths from one input unit, each tried."""
        return sum(
            bool(
                first[a, i]
                and first[b, i]
                and second[a, j]
                and second[b, j]
                and third[a, k]
                and third[b, k]
            )
            for i, j, k in np.ndindex(first.shape[1], second.shape[1], third.shape[1])
        )

    own = found["paths"]
    for a, b in ((0, 1), (3, 12)):
        assert own[a] == shared(a, a)
        count = found["active"][a, b] * np.sqrt(own[a] * own[b])
        np.testing.assert_allclose(count, shared(a, b), rtol=1e-5, atol=1e-6)
    soft = PROBES["overlap"].read(make_run("DL").probed.probe_context(), {}, None)
    assert "paths" not in soft.arrays


def test_a_network_without_an_open_path_has_no_npk_and_is_no_fault(make_run: Make) -> None:
    run = make_run("FR-II")
    gates = drawn(run, 1)
    gates[1][:] = 0.0
    found = PROBES["npk"].read(context_of(run, gates), {}, None)
    assert found.absent
    assert not found.arrays


@pytest.mark.parametrize("layers", [1, 3])
def test_a_picture_of_living_gates_does_not_stay_over_gates_that_have_died(
    make_run: Make, events: list[Event], layers: int
) -> None:
    names = ("overlap", "layer_kernels")
    run, schedule = make_run("ReLU"), watching(events, *names)
    schedule.read_probes(names, run.probed.probe_context(), 7)
    with torch.no_grad():  # digits have no negative pixel
        for layer in range(3 - layers, 3):
            run.trainer.network.value.weights[layer].fill_(-1.0)
    run.probed.invalidate_readings()
    schedule.read_probes(names, run.probed.probe_context(), 9)
    for name in names:
        found = schedule.readings[name]
        assert found.step == 9
        assert bool(found.absent) == (layers == 3)
    if layers == 1:
        assert np.isnan(schedule.readings["overlap"].arrays["active"]).all()
        assert np.isfinite(schedule.readings["overlap"].arrays["active_0"]).any()


def test_the_npk_of_the_probe_set_is_inputs_times_overlaps(make_run: Make) -> None:
    run = make_run("FR-II")
    context = run.probed.probe_context()
    gates = [gate.double() for gate in context.gates]
    x = context.x.double()
    kernel = (x @ x.T) * torch.stack([g @ g.T for g in gates]).prod(0)
    kernel /= kernel.trace()
    found = PROBES["npk"].read(context, {}, None)
    np.testing.assert_allclose(found.arrays["npk"], kernel, rtol=1e-4, atol=1e-8)
    values = np.linalg.eigvalsh(kernel.numpy())[::-1]
    np.testing.assert_allclose(found.arrays["eigenvalues"], values, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found.arrays["cumulative"], np.cumsum(values), rtol=1e-4)
    assert found.scalars["rho_max"] == pytest.approx(values[0], rel=1e-4)
    assert found.scalars["effective_rank"] == pytest.approx(1 / np.square(values).sum(), rel=1e-3)


def test_the_ntk_of_the_probe_set_is_that_of_both_networks(make_run: Make) -> None:
    run = make_run("DL")
    context, network = run.probed.probe_context(), run.trainer.network
    found = PROBES["ntk"].read(context, {}, None)
    for name, part in (("value", network.value), ("feature", network.feature)):
        weights = list(part.weights)
        rows = []
        for x in context.x:
            logits = network(x[None])[0]
            slopes = [
                torch.autograd.grad(logit, weights, retain_graph=True, allow_unused=True)
                for logit in logits
            ]
            rows.append(
                [torch.cat([s.flatten() for s in each if s is not None]) for each in slopes]
            )
        jacobian = torch.stack([torch.stack(row) for row in rows])
        kernel = torch.einsum("scp,tcp->st", jacobian, jacobian) / jacobian.shape[1]
        np.testing.assert_allclose(found.arrays[name], kernel, rtol=1e-3, atol=1e-4)
        assert found.scalars[f"trace_{name}"] == pytest.approx(kernel.trace().item(), rel=1e-4)
        assert found.scalars[f"norm_{name}"] == pytest.approx(kernel.norm().item(), rel=1e-3)
    assert "cross" not in found.arrays
    hard = PROBES["ntk"].read(make_run("FR-II").probed.probe_context(), {}, None)
    assert "hard gates" in hard.facts["feature"]
    assert hard.facts["trains"] == "K = K^V, over Θ^v."
    frozen = PROBES["ntk"].read(make_run("gates-only").probed.probe_context(), {}, None)
    assert set(frozen.arrays) == {"labels", "feature"}
    assert frozen.facts["trains"] == "K = K^F, over Θ^f."
    assert "value network is frozen" in frozen.facts["value"]
    own = PROBES["ntk"].read(make_run("soft-ReLU").probed.probe_context(), {}, None)
    assert {"value", "feature", "cross"} <= set(own.arrays)


def watching(
    events: list[Event], *names: str, clock: SimpleNamespace | None = None
) -> ProbeSchedule:
    """`clock`: of what the budget counts too, so that nothing hangs on the machine's speed."""
    told = clock and WatchBudget(clock=clock.monotonic, busy=clock.monotonic)
    schedule = ProbeSchedule(events.append, budget=told)
    schedule.watch(tuple(ProbeRequest(name) for name in names))
    return schedule


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_of_a_network_that_overflowed_it_is_said_that_it_has_and_what_to_do(
    make_run: Make, events: list[Event], number: float
) -> None:
    names = ("overlap", "npk", "paths", "drift")
    run, schedule = make_run("DL"), watching(events, *names)
    with torch.no_grad():
        run.trainer.network.value.weights[0].fill_(number)
        run.trainer.network.feature.weights[0].fill_(number)
    schedule.read_probes(names, run.probed.probe_context(), 7)
    for name in names:
        reading = schedule.readings[name]
        assert reading.facts == {"fault": "overflow"}
        assert "at step 7 " in reading.absent
    assert not any(isinstance(event, Failed) for event in events)  # no probe is at fault
