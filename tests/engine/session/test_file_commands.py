"""Files in a session: weights into Θ^v, a network beside the run, a network inspected, picking."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine.config import DataConfig, NetConfig, RunConfig
from dgn_engine.protocol.branches import (
    CloseComparison,
    CompareFile,
    CompareRun,
    ComparisonClosed,
    ComparisonOpened,
)
from dgn_engine.protocol.files import (
    BeginWithBiases,
    InspectFile,
    PickTensors,
    TakeWeights,
    WeightsTaken,
)
from dgn_engine.protocol.messages import Refused
from dgn_engine.protocol.training import (
    Advance,
    Reset,
    Resume,
    Rewire,
    RunStarted,
    SetBeta,
    SetLearningRate,
    StartRun,
    SwapRegime,
    Undo,
)
from dgn_engine.protocol.watching import ProbeRequest, SetProbeExamples, Watch
from tests.engine.session.conftest import PROBES, RELU, Desk, small_config

# weights into the value network


def test_weights_of_a_file_become_the_value_network_and_its_optimiser_starts_afresh(
    desk: Desk, trained: Path
) -> None:
    from safetensors.torch import load_file

    desk.handle(StartRun(small_config("DL"), paused=True))
    desk.train(5)
    listed = desk.open(trained, "weights")
    assert listed.purpose == "weights"
    assert listed.weights.fits
    run = desk.run
    feature = [w.detach().clone() for w in run.trainer.network.feature.weights]
    desk.handle(TakeWeights(listed.ticket))
    saved = load_file(trained)
    for place, weight in enumerate(desk.copy_value_weights()):
        assert torch.equal(weight, saved[f"value.weights.{place}"])
    assert all(map(torch.equal, feature, run.trainer.network.feature.weights))
    state = run.trainer.optimizer.torch.state
    assert not any(weight in state for weight in run.trainer.network.value.weights)
    assert all(weight in state for weight in run.trainer.network.feature.weights[:-1])
    told = desk.last_event(WeightsTaken)
    assert (told.step, told.source, told.layers, told.kept) == (5, trained.name, 4, ())
    assert run.trainer.regime.name == "DL"


def test_weights_that_do_not_fit_are_refused_in_a_sentence_and_nothing_changes(
    paused_desk: Desk, chain: Path
) -> None:
    before = paused_desk.copy_value_weights()
    listed = paused_desk.open(chain, reading=RELU)
    paused_desk.handle(TakeWeights(listed.ticket))
    refused = paused_desk.last_event(Refused)
    assert (refused.kind, refused.reason) == ("no-fit", listed.weights.verdict)
    assert "layer 1: 24 units, 16" in refused.reason
    assert all(map(torch.equal, before, paused_desk.copy_value_weights()))


def biased_file(place: Path) -> tuple[Path, nn.Sequential]:
    torch.manual_seed(2)
    sizes = (64, 16, 16, 16, 10)
    layers = nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(sizes)))
    torch.save(layers.state_dict(), place / "biased.pt")
    return place / "biased.pt", layers


def test_a_run_with_biases_begins_and_takes_the_weights_in_one_step(
    desk: Desk, tmp_path: Path
) -> None:
    path, layers = biased_file(tmp_path)
    desk.handle(StartRun(small_config(), paused=True), Rewire((2, 0, 1)), SetLearningRate(0.01))
    listed = desk.open(path)
    assert (listed.weights.fits, listed.weights.with_biases, listed.with_biases) == (
        False,
        True,
        True,
    )
    desk.handle(BeginWithBiases(listed.ticket, "weights"))
    run = desk.run
    stack = run.trainer.network.value
    for place, layer in enumerate(layers):
        assert torch.equal(stack.weights[place], layer.weight)  # type: ignore[arg-type]
        assert torch.equal(stack.biases[place], layer.bias)  # type: ignore[arg-type]
    assert (run.number, run.config.net.bias, run.trainer.optimizer.learning_rate) == (2, True, 0.01)
    assert (run.trainer.regime.name, run.trainer.network.wiring) == ("DL", (2, 0, 1))
    assert not desk.engine.running
    desk.handle(Undo())
    assert not torch.equal(stack.weights[0], layers[0].weight)  # type: ignore[arg-type]
    again = desk.open(path)
    assert (again.weights.fits, again.weights.with_biases, again.with_biases) == (
        True,
        False,
        False,
    )


def test_a_run_with_biases_takes_gates_and_what_does_not_fit_changes_nothing(
    desk: Desk, chain: Path, tmp_path: Path
) -> None:
    path, layers = biased_file(tmp_path)
    desk.handle(StartRun(small_config(), paused=True))
    before = desk.engine.run
    listed = desk.open(chain, reading=RELU)
    assert not listed.weights.with_biases
    desk.handle(BeginWithBiases(listed.ticket, "weights"), BeginWithBiases(listed.ticket, "gates"))
    assert desk.engine.run is before
    refused = desk.last_event(Refused)
    assert refused.what == "start a run with biases"
    desk.handle(BeginWithBiases(desk.open(path).ticket, "gates"))
    run = desk.run
    assert (run.number, run.trainer.regime.name, run.config.net.bias) == (2, "FL", True)
    assert torch.equal(run.trainer.network.feature.biases[1], layers[1].bias)  # type: ignore[arg-type]


# tensors picked for layers


def test_the_user_picks_another_tensor_of_the_same_shape(desk: Desk, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = [(16, 64), (16, 16), (16, 16), (10, 16)]
    arrays = {f"t{i}.weight": rng.normal(size=s) for i, s in enumerate(shapes)}
    path = tmp_path / "four.npz"
    np.savez(path, **arrays)
    desk.handle(StartRun(small_config(), paused=True))
    ticket = desk.open(path).ticket
    names = ("t0.weight", "t2.weight", "t1.weight", "t3.weight")
    desk.handle(PickTensors(ticket, names), TakeWeights(ticket))
    assert np.allclose(desk.copy_value_weights()[1].numpy(), arrays["t2.weight"])
    assert np.allclose(desk.copy_value_weights()[2].numpy(), arrays["t1.weight"])


@pytest.mark.parametrize(
    ("second", "kind", "value"),
    [("", "empty", "2"), ("t1.weight", "in-use", "t1.weight"), ("no", "unknown-name", "no")],
)
def test_a_pick_that_makes_no_sense_is_refused(
    desk: Desk, tmp_path: Path, second: str, kind: str, value: str
) -> None:
    shapes = [(16, 64), (16, 16), (16, 16), (10, 16)]
    np.savez(tmp_path / "f.npz", **{f"t{i}.weight": np.ones(s) for i, s in enumerate(shapes)})
    desk.handle(StartRun(small_config(), paused=True))
    ticket = desk.open(tmp_path / "f.npz").ticket
    desk.handle(PickTensors(ticket, ("t0.weight", second, "t1.weight", "t3.weight")))
    refused = desk.events[-1]
    assert isinstance(refused, Refused)
    assert (refused.kind, refused.value) == (kind, value)


# beside the run


def test_a_compared_network_is_read_once_and_the_run_goes_on(desk: Desk, trained: Path) -> None:
    desk.handle(StartRun(small_config("DL"), paused=True), Watch(PROBES))
    desk.handle(CompareFile(desk.open(trained, "compare").ticket))
    told = desk.last_event(ComparisonOpened)
    assert (told.name, told.regime, told.step) == (trained.name, "ReLU", 30)
    desk.advance(4)
    first = desk.frames[-1].compared
    assert set(first) == {"gates", "npk", "agreement"}
    desk.train(20)
    later = desk.frames[-1]
    assert later.step == 20
    assert all(later.compared[name] is first[name] for name in first)
    desk.handle(CloseComparison())
    desk.advance(1)
    assert desk.frames[-1].compared == {}
    assert desk.frames[-1].readings["agreement"].absent


def test_the_share_of_equal_gates_is_that_of_a_slow_count(desk: Desk, trained: Path) -> None:
    desk.handle(StartRun(small_config("DL"), paused=True), Watch(PROBES))
    desk.handle(CompareFile(desk.open(trained).ticket))
    desk.advance(5)
    frame = desk.frames[-1]
    found, a, b = frame.readings["agreement"], frame.readings["gates"], frame.compared["gates"]
    total = equal = 0
    for layer in range(3):
        ours, theirs = a.arrays[f"layer_{layer}"], b.arrays[f"layer_{layer}"]
        n, width = ours.shape
        same, chance = 0, 0.0
        for unit in range(width):
            for example in range(n):
                same += (ours[example, unit] >= 0.5) == (theirs[example, unit] >= 0.5)
            p = sum(ours[e, unit] >= 0.5 for e in range(n)) / n
            q = sum(theirs[e, unit] >= 0.5 for e in range(n)) / n
            chance += (p * q + (1 - p) * (1 - q)) / width
        assert found.arrays["equal"][layer] == pytest.approx(same / (n * width))
        assert found.arrays["chance"][layer] == pytest.approx(chance, rel=1e-5)
        differs = found.arrays[f"difference_{layer}"]
        assert np.array_equal(differs, (ours >= 0.5) * 1.0 - (theirs >= 0.5) * 1.0)
        total, equal = total + n * width, equal + same
    assert found.scalars["equal"] == pytest.approx(equal / total)


def test_the_distance_of_the_path_values_is_from_the_network_in_the_file(
    desk: Desk, trained: Path
) -> None:
    from safetensors.numpy import load_file

    desk.handle(StartRun(small_config("DL"), paused=True), Watch((ProbeRequest("path_distance"),)))
    desk.advance(2)
    assert desk.frames[-1].readings["path_distance"].absent
    desk.handle(CompareFile(desk.open(trained).ticket))
    saved = load_file(trained)
    theirs = [saved[f"value.weights.{place}"].astype(np.float64) for place in range(4)]

    def product(one: list[np.ndarray], two: list[np.ndarray]) -> float:
        z = np.ones(64)
        for a, b in zip(one, two, strict=True):
            z = (a * b) @ z
        return float(z.sum())

    for _ in range(2):
        desk.train(5)
        desk.advance(4)
        found = desk.frames[-1].readings["path_distance"]
        assert found.step == desk.frames[-1].step
        ours = [weight.double().numpy() for weight in desk.copy_value_weights()]
        squares = [product(a, b) for a, b in ((ours, ours), (ours, theirs), (theirs, theirs))]
        apart = (squares[0] - 2 * squares[1] + squares[2]) ** 0.5
        most = squares[0] ** 0.5 + squares[2] ** 0.5
        assert found.scalars["l2"] == pytest.approx(apart / most, rel=1e-6)
        assert 0.0 < found.scalars["low"] <= found.scalars["high"] <= 1.0
    desk.handle(CloseComparison())
    desk.advance(2)
    assert desk.frames[-1].readings["path_distance"].absent


def test_the_kernel_beside_is_that_of_the_network_in_the_file(desk: Desk, trained: Path) -> None:
    from safetensors.numpy import load_file

    desk.handle(StartRun(small_config("DL"), paused=True), Watch(PROBES))
    desk.handle(CompareFile(desk.open(trained).ticket))
    desk.advance(4)
    z = desk.run.probed.probe_context().x.double().flatten(1).numpy()
    saved, kernel = load_file(trained), z @ z.T
    for place in range(3):
        q = z @ saved[f"value.weights.{place}"].astype(np.float64).T
        gates = (q > 0).astype(np.float64)
        kernel, z = kernel * (gates @ gates.T), q * gates
    wanted = np.linalg.eigvalsh(kernel / np.trace(kernel))[::-1]
    found = desk.frames[-1].compared["npk"].arrays["eigenvalues"]
    assert np.allclose(found[:10], wanted[:10], rtol=1e-4)


def test_a_comparison_does_not_alter_the_run(trained: Path) -> None:
    ends: list[list[torch.Tensor]] = []
    for compared in (False, True):
        desk = Desk()
        desk.handle(StartRun(small_config("DL"), paused=True), Watch(PROBES))
        desk.train(3)
        if compared:
            desk.handle(CompareFile(desk.open(trained).ticket))
        desk.train(12)
        ends.append(desk.copy_value_weights())
        desk.engine.close()
    assert all(map(torch.equal, *ends))


def test_a_comparison_goes_over_to_the_next_run_or_says_why_it_ends(
    paused_desk: Desk, trained: Path, chain: Path
) -> None:
    paused_desk.handle(CompareFile(paused_desk.open(trained).ticket))
    paused_desk.handle(StartRun(small_config("FR-II", seed=3), paused=True))
    opened = paused_desk.events_of(ComparisonOpened)
    assert [event.name for event in opened] == [trained.name, trained.name]
    other = RunConfig(
        data=DataConfig("digits"), net=NetConfig("cnn4", (("channels", 2),)), device="cpu"
    )
    paused_desk.handle(StartRun(other, paused=True))
    # 64 inputs in a row, or 8×8: the same
    paused_desk.handle(CompareFile(paused_desk.open(chain, reading=RELU).ticket))
    assert isinstance(paused_desk.last_event(ComparisonOpened), ComparisonOpened)
    paused_desk.handle(CloseComparison())
    assert paused_desk.events[-1] == ComparisonClosed()


def test_a_recorded_run_is_compared_with_its_scores_and_its_network(tmp_path: Path) -> None:
    recorded = Desk(str(tmp_path / "runs"))
    recorded.handle(StartRun(small_config("FR-II", seed=5, epochs=2), paused=True))
    recorded.train(14)
    weights = recorded.copy_value_weights()
    recorded.engine.close()
    folder = next((tmp_path / "runs").iterdir())
    desk = Desk()
    desk.handle(StartRun(small_config(), paused=True), Watch(PROBES), CompareRun(str(folder)))
    told = desk.last_event(ComparisonOpened)
    assert told.scores
    assert (told.regime, told.step) == ("FR-II", 14)
    source = desk.engine.state.comparison._network
    assert source is not None
    assert all(map(torch.equal, weights, source.network.value.weights))
    desk.engine.close()


# inspected


def test_a_network_is_shown_and_never_trained(desk: Desk, chain: Path) -> None:
    desk.handle(StartRun(small_config(), paused=True), Watch(PROBES))
    listed = desk.open(chain, reading=RELU)
    assert listed.network.fits
    desk.handle(InspectFile(listed.ticket))
    told = desk.last_event(RunStarted)
    assert (told.inspected, told.regime, told.paused) == ("chain.pt", "ReLU", True)
    assert [layer.shape for layer in told.layers] == [(24,), (16,)]
    desk.advance(4)
    assert desk.frames[-1].readings["gates"].arrays["layer_0"].shape == (20, 24)
    for command in (Resume(), Advance(3), Reset(), SwapRegime("DL"), SetBeta(3.0)):
        desk.handle(command)
        refused = desk.events[-1]
        assert isinstance(refused, Refused)
        assert (refused.kind, refused.value) == ("only-inspected", "chain.pt")
    desk.advance(3)
    assert desk.frames[-1].step == 0


def test_the_gates_of_an_inspected_network_are_those_of_torch(desk: Desk, chain: Path) -> None:
    desk.handle(StartRun(small_config(), paused=True), Watch(PROBES))
    run = desk.run
    x = run.probed.probe_context().x.flatten(1)
    desk.handle(InspectFile(desk.open(chain, reading=RELU).ticket))
    desk.advance(3)
    saved = torch.load(chain, weights_only=True)
    hidden = nn.functional.linear(x, saved["0.weight"], saved["0.bias"])
    second = nn.functional.linear(hidden.relu(), saved["2.weight"], saved["2.bias"])
    arrays = desk.frames[-1].readings["gates"].arrays
    assert np.array_equal(arrays["layer_0"], (hidden > 0).numpy().astype(np.uint8))
    assert np.array_equal(arrays["layer_1"], (second > 0).numpy().astype(np.uint8))
    desk.handle(SetProbeExamples(12))
    desk.advance(3)
    x = desk.engine.state.inspected.inputs.x.flatten(1)  # type: ignore[union-attr]
    hidden = nn.functional.linear(x, saved["0.weight"], saved["0.bias"])
    again = desk.frames[-1].readings["gates"].arrays["layer_0"]
    assert np.array_equal(again, (hidden > 0).numpy().astype(np.uint8))
