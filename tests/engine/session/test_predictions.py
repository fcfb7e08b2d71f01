"""What the network is said to answer is what it answers: at that step, for that run, for B too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, GatingConfig, RunConfig, TrainingConfig
from dgn_engine.importing.from_file import network_of
from dgn_engine.model.network import GatedNetwork
from dgn_engine.protocol.branches import CompareFile
from dgn_engine.protocol.files import InspectFile
from dgn_engine.protocol.frames import Array, Reading
from dgn_engine.protocol.probe_choice import pack_pixels
from dgn_engine.protocol.training import StartRun, SwapRegime
from dgn_engine.protocol.watching import ChooseProbeSet, ProbeRequest, Watch
from dgn_engine.regimes import all_regimes, find_regime
from dgn_engine.scene.panel_spec import PREDICTIONS
from dgn_engine.session.frozen_network import FrozenNetwork, ProbeInputs
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from dgn_engine.storage.runs.recorded_steps import RecordedSteps
from tests.engine.session.conftest import RELU, Desk, small_config
from tests.plugins import each

DIGIT = np.zeros((1, 8, 8), np.uint8)
DIGIT[0, 1:7, 3:5] = 255, 128
OWN = f"drawn {pack_pixels(DIGIT)}"
SHAPES = ((7, 8), (5, 7), (3, 5))
ASK = Watch((ProbeRequest(PREDICTIONS),))


def contents(name: str = "x.npz", *shapes: tuple[int, ...]) -> CheckpointContents:
    """A file with weights of these shapes, and ReLU between them."""
    generator = np.random.default_rng(1)
    arrays: dict[str, Any] = {
        f"{layer}.weight": generator.normal(size=shape).astype(np.float32)
        for layer, shape in enumerate(shapes or SHAPES)
    }
    return CheckpointContents(name, arrays, dict.fromkeys(arrays, "float32"), reading=RELU)


def slow_answers(network: GatedNetwork, x: torch.Tensor) -> list[list[float]]:
    """The outputs of a copy in float64, one example after another."""
    slow, given = deepcopy(network).double(), network.given_gates
    answers = []
    for row in range(len(x)):
        if given is not None:
            slow = slow.with_gates(tuple(gates[row : row + 1].double() for gates in given))
        with torch.no_grad():
            answers.append(slow(x[row : row + 1].double())[0].tolist())
    return answers


def check_answers(
    arrays: Mapping[str, Array], outputs: list[list[float]], labels: list[int]
) -> None:
    """Compare with the three largest of softmax, sorted by hand."""
    assert arrays["labels"].tolist() == labels
    for row, own in enumerate(outputs):
        scale = sum(math.exp(value - max(own)) for value in own)
        shares = [math.exp(value - max(own)) / scale for value in own]
        order = sorted(range(len(own)), key=lambda index: -shares[index])[:3]
        assert arrays["top"][row].tolist() == order
        np.testing.assert_allclose(
            arrays["share"][row], [shares[index] for index in order], rtol=1e-3, atol=1e-6
        )
        if labels[row] < len(own):
            assert arrays["label_share"][row] == pytest.approx(shares[labels[row]], rel=1e-3)
        else:
            assert np.isnan(arrays["label_share"][row])


@pytest.mark.parametrize("regime", each(one.name for one in all_regimes()))
def test_in_every_regime_it_is_the_argmax_of_the_networks_own_pass(desk: Desk, regime: str) -> None:
    gating = GatingConfig(regime, pretrain_epochs=1 if find_regime(regime).takes_gates else 0)
    desk.handle(ASK, StartRun(replace(small_config(), gating=gating), paused=True))
    for steps in (0, 12):
        desk.train(steps) if steps else desk.advance(3)
        desk.handle(ChooseProbeSet(OWN))
        desk.advance(3)
        frame = desk.frames[-1]
        reading, run = frame.readings[PREDICTIONS], desk.run
        assert (reading.step, frame.step) == (run.step_count, run.step_count)
        context = run.probed.probe_context()
        drawn = 0 if run.trainer.regime.drawn_gates else 1  # FRG has no gates for it
        assert len(context.x) == 20 + drawn
        labels = [*run.probed.probe_set.labels[:20], *[10] * drawn]
        check_answers(reading.arrays, slow_answers(context.network, context.x), labels)
        assert reading.facts == {"kind": "probability", "classes": "data"}
        desk.handle(ChooseProbeSet())


def test_after_a_swap_it_is_that_of_the_new_network(desk: Desk) -> None:
    desk.handle(ASK, StartRun(small_config("DL"), paused=True))
    desk.train(5)
    before = desk.frames[-1].readings[PREDICTIONS]
    desk.handle(SwapRegime("FR-II"))
    desk.advance(3)
    after = desk.frames[-1].readings[PREDICTIONS]
    assert before.step == after.step
    context = desk.run.probed.probe_context()
    labels = list(desk.run.probed.probe_set.labels)
    check_answers(after.arrays, slow_answers(context.network, context.x), labels)


def test_a_recorded_step_keeps_its_own_answers(tmp_path: Path) -> None:
    desk = Desk(runs=str(tmp_path))
    expected: dict[int, list[list[float]]] = {}
    try:
        desk.handle(ASK, StartRun(small_config("FR-II"), paused=True))
        for _ in range(3):
            desk.train(4)
            desk.advance(3)
            context = desk.run.probed.probe_context()
            expected[desk.run.step_count] = slow_answers(context.network, context.x)
        labels = list(desk.run.probed.probe_set.labels)
        folder = Path(desk.recording.path)
    finally:
        desk.engine.close()
    steps = RecordedSteps(folder)
    assert set(expected) <= set(steps.steps)
    for step, outputs in expected.items():
        frame = steps.frame_at(step)
        assert frame is not None
        assert frame.readings[PREDICTIONS].step == step
        check_answers(frame.readings[PREDICTIONS].arrays, outputs, labels)


def read_once(desk: Desk, config: RunConfig) -> Reading:
    desk.handle(ASK, StartRun(config, paused=True))
    desk.advance(3)
    return desk.frames[-1].readings[PREDICTIONS]


@pytest.mark.parametrize("binary", [None, (3, 8)])
def test_squared_loss_has_outputs_and_no_probabilities(
    desk: Desk, binary: tuple[int, int] | None
) -> None:
    data = DataConfig("digits", train_limit=200, binary=binary)
    training = TrainingConfig(loss="squared", learning_rate=1e-3)
    reading = read_once(desk, replace(small_config(), data=data, training=training))
    assert reading.facts["kind"] == "output"
    context = desk.run.probed.probe_context()
    for row, own in enumerate(slow_answers(context.network, context.x)):
        order = sorted(range(len(own)), key=lambda index: -own[index])[:3]
        if binary is not None:  # one output: its sign is the class
            order, own = [int(own[0] > 0)], [own[0], own[0]]
        assert reading.arrays["top"][row].tolist() == order
        np.testing.assert_allclose(
            reading.arrays["share"][row], [own[index] for index in order], rtol=1e-4, atol=1e-6
        )


def test_one_output_has_the_logistic_probability_of_its_class(desk: Desk) -> None:
    data = DataConfig("digits", train_limit=200, binary=(3, 8))
    reading = read_once(desk, replace(small_config(), data=data))
    context = desk.run.probed.probe_context()
    labels = context.labels.tolist()
    for row, (own,) in enumerate(slow_answers(context.network, context.x)):
        second = 1 / (1 + math.exp(-own))
        assert reading.arrays["top"][row].tolist() == ([1, 0] if own > 0 else [0, 1])
        np.testing.assert_allclose(
            reading.arrays["share"][row], sorted((second, 1 - second), reverse=True), rtol=1e-4
        )
        share = second if labels[row] == 1 else 1 - second
        assert reading.arrays["label_share"][row] == pytest.approx(share, rel=1e-4)


def test_b_answers_itself_and_a_file_is_not_taken_for_a_judge_of_other_labels(
    desk: Desk, tmp_path: Path
) -> None:
    desk.handle(ASK, StartRun(small_config(), paused=True))
    desk.advance(2)
    for name, outputs in (("ten", 10), ("seven", 7)):
        file = contents("x.npz", (16, 64), (16, 16), (outputs, 16))
        path = tmp_path / f"{name}.npz"
        np.savez(path, **file.arrays)
        listed = desk.open(path, "compare", RELU)
        desk.handle(CompareFile(listed.ticket))
        desk.advance(3)
        frame = desk.frames[-1]
        theirs = frame.compared[PREDICTIONS]
        context = desk.run.probed.probe_context()
        network = network_of(file, (64,)).network
        outputs_of_b = slow_answers(network, context.x)
        assert theirs.facts["kind"] == "softmax"  # what it was trained for is unknown
        assert theirs.arrays["top"][:, 0].tolist() == np.argmax(outputs_of_b, axis=1).tolist()
        assert theirs.facts["classes"] == ("data" if outputs == 10 else "own")
        if outputs == 7:
            assert np.isnan(theirs.arrays["label_share"]).all()
        ours = slow_answers(context.network, context.x)
        assert (
            frame.readings[PREDICTIONS].arrays["top"][:, 0].tolist()
            == np.argmax(ours, axis=1).tolist()
        )


def test_a_file_in_place_of_the_run_answers_on_its_probe_set(desk: Desk, tmp_path: Path) -> None:
    desk.handle(ASK, StartRun(small_config(), paused=True))
    file = contents("x.npz", (16, 64), (16, 16), (10, 16))
    np.savez(tmp_path / "x.npz", **file.arrays)
    listed = desk.open(tmp_path / "x.npz", "", RELU)
    desk.handle(InspectFile(listed.ticket, DataConfig("digits", train_limit=200)))
    desk.advance(5)
    frame = desk.frames[-1]
    shown = desk.engine.state.inspected
    assert isinstance(shown, FrozenNetwork)
    outputs = slow_answers(shown.network, shown.x)
    reading = frame.readings[PREDICTIONS]
    assert reading.arrays["top"][:, 0].tolist() == np.argmax(outputs, axis=1).tolist()
    assert frame.probe_digest == shown.probe_set.digest  # type: ignore[attr-defined]


def test_the_labels_of_a_run_on_other_data_are_not_those_of_a_network_of_ours() -> None:
    x, labels = torch.zeros(4, 8), torch.arange(4) % 3
    imported = network_of(contents(), (8,))
    of_digits = replace(imported, config=RunConfig(data=DataConfig("digits")))
    for data, own in (("digits", True), ("spirals", False)):
        inputs = ProbeInputs(x, labels, 5, DataConfig(data))
        network = FrozenNetwork(of_digits, inputs, lambda event: None)
        context = network.probe_context()
        assert context.own_labels == (own and network.architecture.classes == 5)
        assert context.loss == "cross-entropy"


def test_of_a_thousand_classes_three_are_published(desk: Desk) -> None:
    file = contents("x.npz", (16, 8), (16, 16), (1000, 16))
    inputs = ProbeInputs(
        torch.randn(4, 8, generator=torch.Generator().manual_seed(1)), torch.arange(4), 1000
    )
    network = FrozenNetwork(network_of(file, (8,)), inputs, lambda event: None)
    network.probe_schedule.watch(ASK.requests)
    assert network.read_next()
    arrays = network.probe_schedule.readings[PREDICTIONS].arrays
    assert sum(array.nbytes for array in arrays.values()) <= 4 * (8 + 12 + 12 + 4)
    outputs = slow_answers(network.network, network.x)
    assert arrays["top"][:, 0].tolist() == np.argmax(outputs, axis=1).tolist()


def test_nothing_is_read_that_nobody_shows(desk: Desk) -> None:
    desk.handle(Watch((ProbeRequest("gates"),)), StartRun(small_config(), paused=True))
    desk.advance(3)
    assert PREDICTIONS not in desk.frames[-1].readings
