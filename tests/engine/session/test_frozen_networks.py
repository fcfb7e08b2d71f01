"""A network that is read and not trained, beside a run or in its place: what it is and shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.data import load_examples
from dgn_engine.errors import UserError
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.importing.from_file import ImportedNetwork, network_of
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.model.architecture import weight_shape
from dgn_engine.protocol.branches import CompareFile, ComparisonClosed, ComparisonOpened
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import (
    FileClosed,
    FileScored,
    InspectFile,
    SaveWeights,
    TrainingOffered,
)
from dgn_engine.protocol.messages import Event, Failed
from dgn_engine.protocol.training import Rewire, RunStarted, StartRun
from dgn_engine.protocol.watching import ProbeExamples, ProbeRequest, ProbeScalars, Watch
from dgn_engine.regimes import find_regime
from dgn_engine.session import frozen_network
from dgn_engine.session.comparison import Comparison, source_from_listing
from dgn_engine.session.frozen_network import FrozenNetwork, ProbeInputs
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.training.layer_infos import layer_infos
from dgn_engine.training.readings.executor_choice import ExecutorChoice
from tests.engine.session.conftest import PROBES, RELU, Desk, small_config
from tests.refusals import refused

NET = NetConfig("fc", (("depth", 3), ("width", 6)))
SHAPES = ((7, 8), (5, 7), (3, 5))


def contents(
    name: str = "x.npz", *shapes: tuple[int, ...], net: NetConfig | None = None
) -> CheckpointContents:
    """A file with weights of these shapes; `net`: as which it is read, else as ReLU between."""
    generator = np.random.default_rng(1)
    arrays: dict[str, Any] = {
        f"{layer}.weight": generator.normal(size=shape).astype(np.float32)
        for layer, shape in enumerate(shapes or SHAPES)
    }
    reading = FileReading(activation="" if net else "relu", net=net)
    return CheckpointContents(name, arrays, dict.fromkeys(arrays, "float32"), reading=reading)


def found(regime: str = "ReLU") -> ImportedNetwork:
    return replace(network_of(contents(), (8,)), regime=find_regime(regime), step=12)


def inputs(*shape: int, count: int = 4) -> ProbeInputs:
    x = torch.randn((count, *shape), generator=torch.Generator().manual_seed(3))
    return ProbeInputs(x, torch.arange(count) % 3, 3)


@pytest.fixture
def events() -> list[Event]:
    return []


def test_the_shape_of_the_examples_is_that_of_one_of_them() -> None:
    assert inputs(1, 2, 4).shape == (1, 2, 4)
    assert inputs(8).shape == (8,)


def test_examples_are_brought_into_the_shape_of_the_network(events: list[Event]) -> None:
    given = inputs(1, 2, 4)
    network = FrozenNetwork(found(), given, events.append)
    first, second = network.gates or ()
    weights = contents().arrays
    hidden = given.x.reshape(4, 8).numpy() @ weights["0.weight"].T
    deeper = np.maximum(hidden, 0) @ weights["1.weight"].T
    assert (first.dtype, first.tolist()) == (torch.uint8, (hidden > 0).astype(int).tolist())
    assert second.tolist() == (deeper > 0).astype(int).tolist()
    assert network.gates is network.gates  # computed once
    assert not any(parameter.requires_grad for parameter in network.network.parameters())
    assert (network.step_count, network.regime.name, network.total_weights) == (
        12,
        "ReLU",
        56 + 35 + 15,
    )


def test_a_network_for_other_inputs_says_both_shapes(events: list[Event]) -> None:
    with refused("wrong-shape", value="1×2×3") as refusal:
        FrozenNetwork(found(), inputs(1, 2, 3), events.append)
    assert " 8 " in str(refusal.error)


def test_gates_that_are_coins_are_not_read_on_other_examples(events: list[Event]) -> None:
    with refused("not-supported", value="FRG"):
        FrozenNetwork(found("FRG"), inputs(8), events.append)


def test_probes_are_read_one_at_a_time_and_once_for_each_request(
    events: list[Event],
) -> None:
    network = FrozenNetwork(found(), inputs(8), events.append)
    network.probe_schedule.watch(PROBES[:2])
    assert [network.read_next() for _ in range(4)] == [True, True, False, False]
    assert set(network.probe_schedule.readings) == {"gates", "npk"}
    assert {one.step for one in network.probe_schedule.readings.values()} == {12}
    assert events == []  # its scalars belong to no run


def test_scalars_of_a_network_in_the_place_of_a_run_are_told(events: list[Event]) -> None:
    network = FrozenNetwork(found(), inputs(8), events.append, traced=True)
    network.probe_schedule.watch(PROBES[:2])
    network.read_next()
    network.read_next()
    assert events
    assert all(isinstance(event, ProbeScalars) and event.step == 12 for event in events)


def test_a_network_that_trains_elsewhere_has_the_gates_of_its_new_weights(
    events: list[Event],
) -> None:
    network, listing = FrozenNetwork(found(), inputs(8), events.append), contents()
    turned = replace(listing, arrays={name: -array for name, array in listing.arrays.items()})
    before, moved = network.gates, replace(network_of(turned, (8,)), step=13)
    network.update_network(moved)
    assert network.step_count == 13
    assert torch.equal(network.gates[0], 1 - before[0])
    with refused("other-network"):
        network.update_network(network_of(contents("y.npz", (4, 8), (3, 4)), (8,)))


def test_a_network_is_compared_with_the_gates_that_it_is_given(events: list[Event]) -> None:
    ours = FrozenNetwork(found(), inputs(8), events.append)
    ours.probe_schedule.watch(PROBES[2:])
    ours.read_next(lambda: ours.gates)
    assert ours.probe_schedule.readings["agreement"].scalars["equal"] == 1.0
    alone = FrozenNetwork(found(), inputs(8), events.append)
    alone.probe_schedule.watch(PROBES[2:])
    alone.read_next()
    assert alone.probe_schedule.readings["agreement"].absent


# a comparison


@pytest.fixture
def comparison(events: list[Event]) -> Comparison:
    return Comparison(events.append, ExecutorChoice())


def opened(events: list[Event]) -> ComparisonOpened:
    event = events[-1]
    assert isinstance(event, ComparisonOpened)
    return event


def test_a_comparison_says_what_it_compares_with(
    comparison: Comparison, events: list[Event]
) -> None:
    comparison.open_source(source_from_listing(contents()), inputs(8))
    event = opened(events)
    assert (event.name, event.regime, event.wiring, event.number) == ("x.npz", "ReLU", (0, 1), 1)
    assert event.layers == layer_infos(found().network.architecture)
    assert event.about.split(" · ")[1:] == ["2 gate layers", "106 weights"]
    comparison.open_source(source_from_listing(contents("y.npz", (2000, 8), (3, 2000))), inputs(8))
    assert opened(events).about.split(" · ")[1:] == ["1 gate layer", "22,000 weights"]
    comparison.open_source(lambda _: (found(), ComparisonOpened("z", "", "", ())), inputs(8))
    assert opened(events).about.endswith(" · step 12")
    assert opened(events).step == 12


def test_another_network_beside_the_run_has_no_scalars_of_the_one_before(
    comparison: Comparison,
) -> None:
    comparison.watch_probes((ProbeRequest("npk"),))
    comparison.open_source(source_from_listing(contents()), inputs(8))
    assert comparison.read_next()
    comparison.open_source(source_from_listing(contents("y.npz")), inputs(8))
    assert comparison.take_scalars() == ()
    assert comparison.read_next()
    assert len(comparison.take_scalars()) == 1


def test_a_comparison_that_is_refused_leaves_the_one_before(
    comparison: Comparison, events: list[Event]
) -> None:
    assert comparison.other_gates() is None
    assert comparison.readings == {}
    assert not comparison.read_next()
    comparison.open_source(source_from_listing(contents()), inputs(8))
    before, gates = list(events), comparison.other_gates()
    assert gates is not None
    with pytest.raises(UserError, match=r"9 .* 8"):
        comparison.open_source(source_from_listing(contents("y.npz", (4, 9), (3, 4))), inputs(8))
    assert comparison.other_gates() is gates
    assert events == before


def test_another_run_is_compared_as_well_or_the_reason_is_said(
    comparison: Comparison, events: list[Event]
) -> None:
    comparison.reopen_for(inputs(8))
    comparison.close()
    assert events == []  # there was none
    comparison.open_source(source_from_listing(contents()), inputs(8))
    gates = comparison.other_gates()
    comparison.reopen_for(inputs(2, 4))
    assert [type(event) for event in events] == [ComparisonOpened] * 2
    assert gates is not None
    assert all(map(torch.equal, gates, comparison.other_gates() or ()))
    comparison.reopen_for(inputs(9))
    event = events[-1]
    assert isinstance(event, ComparisonClosed)
    assert "8 inputs" in event.reason
    comparison.open_source(source_from_listing(contents()), inputs(8))
    comparison.reopen_for(None)
    event = events[-1]
    assert isinstance(event, ComparisonClosed)
    assert event.reason
    told_so_far = len(events)
    comparison.close()
    assert len(events) == told_so_far
    assert comparison.other_gates() is None


def test_what_is_watched_of_the_run_is_watched_beside_it(comparison: Comparison) -> None:
    comparison.watch_probes((ProbeRequest("npk"),))
    comparison.open_source(source_from_listing(contents()), inputs(8))
    assert comparison.read_next()
    assert set(comparison.readings) == {"npk"}
    comparison.watch_probes((ProbeRequest("gates"),))
    assert comparison.read_next()
    assert "gates" in comparison.readings


# in the place of a run


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str], Path]:
    def save(regime: str) -> Path:
        desk = Desk()
        config = replace(
            small_config(regime, seed=4), data=DataConfig("digits", normalise="0.5/0.25")
        )
        desk.handle(StartRun(config, paused=True), Rewire((2, 0, 1)))
        desk.train(3)
        path = tmp_path / f"{regime}.safetensors"
        desk.handle(SaveWeights(str(path)))
        desk.engine.close()
        return path

    return save


@pytest.mark.parametrize("regime", ["ReLU", "DL"])
def test_an_inspected_network_says_what_it_is_and_how_good(
    desk: Desk, saved: Callable[[str], Path], regime: str
) -> None:
    path = saved(regime)
    config = replace(small_config("FR-II"), data=DataConfig("digits", train_limit=200))
    desk.handle(StartRun(config, paused=True), Watch(PROBES))
    ticket = desk.open(path).ticket
    desk.handle(InspectFile(ticket))
    event = desk.last_event(RunStarted)
    inspected = desk.engine.state.inspected
    assert inspected is not None
    network, own = inspected.network, regime == "ReLU"
    order = (0, 1, 2) if own else (2, 0, 1)  # own gates cannot be rewired
    assert (event.run, event.regime, event.wiring, event.device) == (2, regime, order, "cpu")
    assert (event.config.gating.regime, event.config.gating.wiring) == (regime, order)
    assert event.config.data == replace(config.data, normalise="0.5/0.25")  # as it was trained
    assert event.config.net == config.net
    weights = 64 * 16 + 2 * 16 * 16 + 16 * 10
    assert event.parameters_value == weights
    assert event.parameters_feature == (0 if own else weights - 16 * 10 * _headless(inspected))
    examples = load_examples(event.config.data)
    assert event.train_examples == len(examples.train_y) == 200
    assert event.test_examples == len(examples.test_y)
    assert (event.classes, event.steps_per_epoch, event.total_steps) == (10, 0, 0)
    assert (event.paused, event.inspected, event.assuming) == (True, path.name, "")
    assert event.probe_set is inspected.probe_set
    chosen = list(event.probe_set.indices)
    assert len(chosen) == config.probe_examples
    assert np.array_equal(inspected.inputs.x.numpy(), examples.train_x[chosen])
    assert inspected.inputs.labels.tolist() == examples.train_y[chosen].tolist()
    assert inspected.inputs.classes == 10
    x = torch.from_numpy(examples.test_x).reshape(-1, *network.architecture.input_shape)
    with torch.no_grad():
        right = network(x).argmax(1).numpy() == examples.test_y
    after = [type(one) for one in desk.events[desk.events.index(event) + 1 :]]
    assert after == [TrainingOffered, FileScored, FileClosed, ProbeExamples]
    desk.advance(20)
    score = desk.last_event(FileScored)
    assert (score.run, score.file, score.data) == (2, path.name, event.config.data)
    assert (score.right, score.examples) == (int(right.sum()), 360)
    frame = desk.frames[-1]
    assert (frame.run, frame.step, frame.epoch, frame.eta_seconds) == (2, 3, 0.0, None)
    assert (frame.steps_per_second, set(frame.readings)) == (0.0, {"gates", "npk", "agreement"})
    shown = len(desk.frames)
    desk.advance(3)
    assert len(desk.frames) == shown  # nothing changes any more


def _headless(inspected: frozen_network.InspectedNetwork) -> bool:
    """Whether its feature network has no output layer."""
    return len(inspected.network.feature.weights) == 3


def test_an_inspected_network_is_compared_with_another_and_both_are_in_a_frame(
    desk: Desk, saved: Callable[[str], Path]
) -> None:
    path = saved("ReLU")
    desk.handle(StartRun(small_config("FR-II"), paused=True), Watch(PROBES))
    desk.handle(InspectFile(desk.open(path).ticket))
    desk.handle(CompareFile(desk.open(path).ticket))
    desk.advance(8)
    frame = desk.frames[-1]
    assert set(frame.compared) == set(frame.readings) == {"gates", "npk", "agreement"}
    assert frame.readings["agreement"].scalars["equal"] == 1.0
    desk.handle(Watch((ProbeRequest("path_distance"),)))
    desk.advance(3)
    assert desk.frames[-1].readings["path_distance"].scalars["high"] == 0.0
    desk.handle(StartRun(small_config("FR-II"), paused=True))
    opened = desk.events_of(ComparisonOpened)
    assert [replace(event, number=0) for event in opened] == [replace(opened[0], number=0)] * 2
    assert [event.number for event in opened] == [1, 2]  # it goes over to the run


def test_a_fault_while_an_inspected_network_is_read_is_told(
    desk: Desk, saved: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.handle(StartRun(small_config("FR-II"), paused=True), Watch(PROBES))
    desk.handle(InspectFile(desk.open(saved("ReLU")).ticket))

    def fault(*_: object) -> bool:
        raise RuntimeError("a fault made for the test")

    monkeypatch.setattr(FrozenNetwork, "read_next", fault)
    desk.advance(1)
    event = desk.last_event(Failed)
    assert "a fault made for the test" in event.what


def test_a_network_with_other_outputs_or_of_images_is_scored_as_far_as_it_can_be(
    desk: Desk, tmp_path: Path
) -> None:
    shapes = {"few": ((16, 64), (7, 16)), "images": ((2, 1, 3, 3), (10, 128))}
    for name, sizes in shapes.items():
        arrays = contents(name, *sizes).arrays
        np.savez(tmp_path / f"{name}.npz", **{k: np.asarray(a) for k, a in arrays.items()})
    desk.handle(StartRun(small_config("FR-II"), paused=True))
    desk.handle(InspectFile(desk.open(tmp_path / "few.npz", reading=RELU).ticket))
    event = desk.last_event(RunStarted)
    score = desk.last_event(FileScored)
    assert (event.inspected, score.examples, bool(score.unknown)) == ("few.npz", 0, True)
    assert event.assuming == "ReLU"
    assert event.parameters_feature == 0


def test_a_file_without_names_is_compared_as_the_network_that_is_said(
    comparison: Comparison, events: list[Event]
) -> None:
    run = NetConfig("cnn4", (("channels", 2),))
    shapes = [weight_shape(node) for node in build_architecture(run, (1, 8, 8), 3).weight_layers]
    given = inputs(1, 8, 8)
    comparison.open_source(source_from_listing(contents("x.npz", *shapes, net=run)), given)
    assert [layer.kind for layer in opened(events).layers] == ["conv"] * 4
    with pytest.raises(UserError):
        comparison.open_source(source_from_listing(contents("x.npz", *shapes, net=NET)), given)
    unsaid = replace(contents("x.npz", *shapes), reading=FileReading())
    with pytest.raises(OpenQuestions) as asked:
        comparison.open_source(source_from_listing(unsaid), given)
    assert {question.about for question in asked.value.questions} == {"activation", "geometry"}


def test_grey_examples_go_to_all_channels_of_a_network_of_colour_images(
    comparison: Comparison, events: list[Event]
) -> None:
    run = NetConfig("cnn4", (("channels", 2),))
    shapes = [weight_shape(node) for node in build_architecture(run, (3, 8, 8), 3).weight_layers]
    grey = inputs(1, 8, 8)
    comparison.open_source(source_from_listing(contents("x.npz", *shapes, net=run)), grey)
    network = comparison._network
    assert network is not None
    assert torch.equal(network.x, grey.x.repeat(1, 3, 1, 1))
    assert grey.in_channels(1) is grey
    assert inputs(8).in_channels(3).shape == (8,)


def test_each_probe_is_read_before_any_is_sharpened(monkeypatch: pytest.MonkeyPatch) -> None:
    network = FrozenNetwork(found(), inputs(8), lambda _: None)
    schedule = network.probe_schedule
    schedule.watch(PROBES)
    names = tuple(request.probe for request in PROBES)
    # Each can always be sharpened, as those of a large network can for a while.
    monkeypatch.setattr(schedule, "due_probes", lambda *_, **__: names)
    for _ in PROBES:
        assert network.read_next()
    assert set(schedule.readings) == set(names)
