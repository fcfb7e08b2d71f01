"""A file as a network of its own: on which data, how good, and trained on from its weights."""

from __future__ import annotations

import copy
import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval

from dgn_engine.config import DataConfig, TrainingConfig
from dgn_engine.data import load_examples
from dgn_engine.protocol.files import (
    CheckNetwork,
    CheckProgress,
    CloseFile,
    FileScored,
    InspectFile,
    NetworkChecked,
    SaveWeights,
    TrainedOn,
    TrainingOffered,
    TrainOn,
)
from dgn_engine.protocol.runs import ContinueRun, RunContinued
from dgn_engine.protocol.training import Reset, RunStarted, StartRun, SwapRegime
from dgn_engine.protocol.watching import Watch
from dgn_engine.session import frozen_network
from dgn_engine.training.device_data import epoch_order
from tests.engine.importing.torch_networks import narrow_resnet, with_trained_statistics
from tests.engine.session.conftest import PROBES, RELU, RESNET, Desk, small_config
from tests.image_folders import write_flowers

CLASSES = 5
DENSE = (64, 16, 16, 10)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flowers(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module]:
    """A narrow ResNet of torchvision, as a state dict of float32; and the module."""
    torch.manual_seed(3)
    network = narrow_resnet("BasicBlock", (1, 1, 1, 1)).float().eval()
    path = tmp_path_factory.mktemp("files") / "resnet18.pth"
    torch.save(network.state_dict(), path)
    return path, network


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Sequential]:
    torch.manual_seed(3)
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(DENSE):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    network = nn.Sequential(*layers[:-1])
    path = tmp_path_factory.mktemp("files") / "dense.pt"
    torch.save(network.state_dict(), path)
    return path, network


def folder(images: Path, **changes: Any) -> DataConfig:
    return replace(DataConfig(f"folder:{images}"), **changes)


def checked(desk: Desk, ticket: int, data: DataConfig) -> NetworkChecked:
    told = len(desk.events)
    desk.handle(CheckNetwork(ticket, data))
    event = desk.wait_for(NetworkChecked, told)
    assert (event.ticket, event.data) == (ticket, data)
    return event


# on which data


def test_a_resnet_is_a_network_of_coloured_images_of_any_size(
    paused_desk: Desk, resnet: tuple[Path, nn.Module], images: Path
) -> None:
    ticket = paused_desk.open(resnet[0], "network", RESNET).ticket
    for size, sides in ((0, "3×20×24"), (32, "3×32×32 ")):
        event = checked(paused_desk, ticket, folder(images, image_size=size))
        assert event.network.fits
        for part in ("9 gate layers", sides, "5 outputs", "3×20×24 inputs and 5 classes"):
            assert part in event.network.verdict
        assert event.fitted == event.data
    assert any(isinstance(one, CheckProgress) for one in paused_desk.events)


def test_grey_images_go_to_all_channels_and_other_classes_have_no_accuracy(
    paused_desk: Desk, resnet: tuple[Path, nn.Module]
) -> None:
    listed = paused_desk.open(resnet[0], "network", RESNET)
    event = checked(paused_desk, listed.ticket, DataConfig("digits", train_limit=200))
    assert event.network == listed.network
    assert event.network.fits
    assert event.fitted == replace(event.data, image_channels=3)
    for part in ("3×8×8", "5 outputs", "1×8×8 inputs and 10 classes"):
        assert part in event.network.verdict


def test_a_file_for_images_of_another_size_says_which(
    paused_desk: Desk, tmp_path: Path, images: Path
) -> None:
    path = tmp_path / "wide.pt"
    torch.save(
        nn.Sequential(nn.Linear(3 * 12 * 12, 8), nn.ReLU(), nn.Linear(8, 5)).state_dict(), path
    )
    ticket = paused_desk.open(path, reading=RELU).ticket
    event = checked(paused_desk, ticket, folder(images))
    assert not event.network.fits
    assert re.findall(r"\d+", event.network.verdict) == ["432", "1440"]
    assert "12 pixels" in event.network.remarks
    assert checked(paused_desk, ticket, folder(images, image_size=12)).network.fits
    assert not checked(paused_desk, ticket, DataConfig("digits")).network.fits


def test_data_that_are_not_there_are_a_verdict_and_no_fault(
    paused_desk: Desk, resnet: tuple[Path, nn.Module], tmp_path: Path
) -> None:
    ticket = paused_desk.open(resnet[0], reading=RESNET).ticket
    nowhere = tmp_path / "nowhere"
    event = checked(paused_desk, ticket, folder(nowhere))
    assert not event.network.fits
    assert str(nowhere) in event.network.verdict


def test_only_the_newest_of_several_requests_is_answered(
    paused_desk: Desk, resnet: tuple[Path, nn.Module], images: Path
) -> None:
    ticket = paused_desk.open(resnet[0], reading=RESNET).ticket
    told = len(paused_desk.events)
    asked = [folder(images, image_size=size) for size in (8, 16, 24, 32)]
    paused_desk.handle(*(CheckNetwork(ticket, data) for data in asked))
    paused_desk.wait_for(NetworkChecked, told)
    paused_desk.handle(CloseFile(ticket))
    paused_desk.engine._files._check.close()
    answers = [one for one in paused_desk.events[told:] if isinstance(one, NetworkChecked)]
    assert answers[-1].data == asked[-1]


# how good


def plain_share(network: nn.Module, data: DataConfig) -> float:
    """One example after the other, through the module of torch."""
    examples, right = load_examples(data), 0
    for image, label in zip(examples.test_x, examples.test_y, strict=True):
        with torch.no_grad():
            logits = network(torch.from_numpy(image[None]))
        right += int(logits.argmax()) == label
    return right / len(examples.test_y)


def test_the_accuracy_of_a_file_is_that_of_a_slow_loop_over_all_test_examples(
    paused_desk: Desk, resnet: tuple[Path, nn.Module], images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen_network, "SLICE", 1e-9)  # one example at a time
    monkeypatch.setattr(frozen_network, "TELL_EVERY", 0.0)
    monkeypatch.setattr(frozen_network, "FEWEST", 1)
    path, network = resnet
    data = folder(images, image_size=32, normalise="imagenet")
    paused_desk.handle(Watch(PROBES[:1]))
    paused_desk.handle(InspectFile(paused_desk.open(path, reading=RESNET).ticket, data))
    scores = scores_of(paused_desk)
    assert [score.examples for score in scores] == [0]
    assert paused_desk.engine.next_step_in() == 0.0  # it is not waited for
    paused_desk.advance(30)
    scores = scores_of(paused_desk)
    total = len(load_examples(data).test_y)
    assert [score.examples for score in scores] == list(range(total + 1))
    assert {(one.run, one.file, one.data, one.total) for one in scores} == {
        (2, "resnet18.pth", data, total)
    }
    assert scores[-1].right / total == pytest.approx(plain_share(network, data))
    assert paused_desk.engine.next_step_in() is None
    assert paused_desk.frames[-1].readings["gates"].arrays


def scores_of(desk: Desk) -> list[FileScored]:
    return desk.events_of(FileScored)


def test_a_part_of_the_test_examples_is_drawn_from_all_classes(
    paused_desk: Desk, dense: tuple[Path, nn.Sequential]
) -> None:
    paused_desk.handle(
        InspectFile(paused_desk.open(dense[0], reading=RELU).ticket, DataConfig("digits"))
    )
    inspected = paused_desk.engine.state.inspected
    assert inspected is not None
    order = inspected._score._order
    assert sorted(order) == list(range(360))
    labels = load_examples(DataConfig("digits")).test_y[order[:60]]
    assert set(labels) == set(range(10))


def test_labels_of_another_data_set_have_no_accuracy(
    paused_desk: Desk, resnet: tuple[Path, nn.Module], trained: Path, images: Path
) -> None:
    paused_desk.handle(
        InspectFile(paused_desk.open(resnet[0], reading=RESNET).ticket, DataConfig("digits"))
    )
    paused_desk.advance(2)
    (score,) = scores_of(paused_desk)
    assert "5 outputs, these need 10" in score.unknown
    other = DataConfig("identical", options=(("dim", 64), ("n", 20)))
    paused_desk.handle(InspectFile(paused_desk.open(trained).ticket, other))
    paused_desk.advance(2)
    assert scores_of(paused_desk)[-1].unknown


# trained on


def plain_step(network: nn.Module, x: Tensor, y: Tensor, rate: float) -> list[Tensor]:
    optimiser = torch.optim.SGD(network.parameters(), lr=rate)
    F.cross_entropy(network(x), y).backward()
    optimiser.step()
    return [p.detach() for p in network.parameters()]


def folded(network: nn.Module) -> nn.Module:
    """BatchNorm in evaluation taken into the convolution before it, by torch itself."""
    network = copy.deepcopy(network).eval()
    for module in list(network.modules()):
        for conv, norm in (("conv1", "bn1"), ("conv2", "bn2"), ("0", "1")):
            if isinstance(getattr(module, norm, None), nn.BatchNorm2d):
                fused = fuse_conv_bn_eval(getattr(module, conv), getattr(module, norm))
                setattr(module, conv, fused)
                setattr(module, norm, nn.Identity())
    return network


def sgd(desk: Desk) -> None:
    training = TrainingConfig(optimiser="sgd", learning_rate=1e-3, batch=8, epochs=0)
    desk.handle(StartRun(replace(small_config(), training=training), paused=True))


@pytest.mark.parametrize("regime", ["ReLU", "FL"])
def test_a_resnet_trains_on_from_its_logits_and_as_torch_would(
    desk: Desk, resnet: tuple[Path, nn.Module], images: Path, regime: str
) -> None:
    sgd(desk)
    path, network = resnet
    data = folder(images, image_size=32)
    desk.handle(InspectFile(desk.open(path, reading=RESNET).ticket, data))
    offered = desk.last_event(TrainingOffered)
    assert (offered.run, offered.regimes) == (2, ("ReLU", "FL"))
    assert "BatchNorm" in offered.remark
    assert desk.engine.state.inspected is not None
    shown = desk.engine.state.inspected.network
    desk.handle(TrainOn(regime, paused=True))
    told = desk.last_event(TrainedOn)
    assert (told.source, told.regime, told.remark) == ("resnet18.pth", regime, offered.remark)
    run = desk.run
    assert run.config.data == data
    examples = load_examples(data)
    x, y = torch.from_numpy(examples.train_x), torch.from_numpy(examples.train_y)
    twin = folded(network)
    with torch.no_grad():
        wanted, found = network(x), run.trainer.network(x)
        scale = float(wanted.abs().max())
        assert float((found - shown(x)).abs().max()) < 1e-6 * scale
        assert float((found - wanted).abs().max()) < 1e-5 * scale  # folding rounds
    if regime == "FL":
        return  # gates that stand still: no step of a ReLU network
    rows = epoch_order(run.config.seed, 0, len(y))[:8]
    before = [weight.detach().clone() for weight in run.trainer.network.value.weights]
    moved = plain_step(twin, x[rows], y[rows], 1e-3)
    desk.train(1)
    for old, weight in zip(before, run.trainer.network.value.weights, strict=True):
        step = float((weight.detach() - old).abs().max())
        apart = min(
            float((weight.detach() - p).abs().max()) for p in moved if p.shape == weight.shape
        )
        assert apart < max(1e-3 * step, 3e-7), tuple(weight.shape)  # roundings of a weight


def test_a_plain_network_takes_the_step_that_torch_takes(
    desk: Desk, dense: tuple[Path, nn.Sequential]
) -> None:
    sgd(desk)
    desk.handle(InspectFile(desk.open(dense[0], reading=RELU).ticket), TrainOn("ReLU", paused=True))
    run, network = desk.engine.run, copy.deepcopy(dense[1])
    assert run is not None
    x, y = run.trainer.data.train_x, run.trainer.data.train_y
    with torch.no_grad():
        torch.testing.assert_close(run.trainer.network(x), network(x), rtol=0, atol=1e-6)
    rows = epoch_order(run.config.seed, 0, len(y))[:8]
    wanted = plain_step(network, x[rows], y[rows], 1e-3)
    desk.train(1)
    stack = run.trainer.network.value
    found = [p for pair in zip(stack.weights, stack.biases, strict=True) for p in pair]
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours.detach(), theirs, rtol=0, atol=1e-7)


def test_a_run_of_a_file_is_recorded_reset_and_gone_on_with(
    recording_desk: Desk, dense: tuple[Path, nn.Sequential]
) -> None:
    desk = recording_desk
    sgd(desk)
    desk.handle(InspectFile(desk.open(dense[0], reading=RELU).ticket), TrainOn("ReLU", paused=True))
    desk.train(3)
    weights = desk.copy_value_weights()
    place = desk.recording.path
    assert "dense.pt" in place.name
    desk.handle(Reset())
    assert torch.equal(desk.copy_value_weights()[0], dense[1][0].weight)
    desk.handle(ContinueRun(str(place), paused=True))
    assert isinstance(desk.last_event(RunContinued), RunContinued)
    assert all(map(torch.equal, desk.copy_value_weights(), weights))


def test_a_network_with_its_own_gates_trains_on_whatever_made_its_gates_before(
    desk: Desk, tmp_path: Path
) -> None:
    """Its own gates are those of a chain, even if it once had parallel feature layers."""
    config = small_config("DL")
    gating = replace(config.gating, feature_layers="parallel")
    desk.handle(StartRun(replace(config, gating=gating), paused=True), SwapRegime("ReLU"))
    file = tmp_path / "own.safetensors"
    desk.handle(SaveWeights(str(file)))
    for regime in ("ReLU", "FL"):
        desk.handle(InspectFile(desk.open(file).ticket), TrainOn(regime, paused=True))
        assert desk.last_event(TrainedOn).regime == regime
        weights = desk.run.trainer.network.feature.weights if regime == "FL" else ()
        for ours, theirs in zip(weights, desk.run.trainer.network.value.weights, strict=False):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("normalise", ["none", "0.5/0.5"])
def test_the_cuts_of_the_labels_are_known_for_a_file_unless_its_inputs_are_normalised(
    desk: Desk, tmp_path: Path, normalise: str
) -> None:
    tree = DataConfig("oblique-tree", options=(("depth", 2), ("dim", 3), ("n", 60)))
    data = replace(tree, normalise=normalise)
    desk.handle(StartRun(replace(small_config("DL-linear"), data=data), paused=True))
    file = tmp_path / "tree.safetensors"
    desk.handle(SaveWeights(str(file)))
    desk.handle(InspectFile(desk.open(file).ticket, data))
    shown = desk.engine.state.inspected
    assert shown is not None
    cuts = shown.probe_context().geometry.cuts
    if normalise == "none":
        assert cuts is not None
        assert np.array_equal(cuts.numpy(), load_examples(tree).cuts)
    else:
        assert cuts is None


def test_what_cannot_be_trained_on_says_why_and_stays_as_it_is(
    desk: Desk, resnet: tuple[Path, nn.Module], dense: tuple[Path, nn.Sequential], tmp_path: Path
) -> None:
    desk.handle(StartRun(small_config("DL"), paused=True), TrainOn("ReLU"))
    assert desk.refusal == ("not-inspected", "")
    made = tmp_path / "made.safetensors"
    desk.handle(SaveWeights(str(made)))
    desk.handle(InspectFile(desk.open(resnet[0], reading=RESNET).ticket), TrainOn("ReLU"))
    assert desk.refusal == ("no-choice", "ReLU")
    desk.handle(InspectFile(desk.open(made).ticket))
    offered = desk.last_event(TrainingOffered)
    assert offered.regimes == ()
    assert "(DL)" in offered.remark
    changed = tmp_path / "changed.pt"
    torch.save(dense[1].state_dict(), changed)
    desk.handle(InspectFile(desk.open(changed, reading=RELU).ticket), TrainOn("DL"))
    assert desk.refusal == ("no-choice", "DL")
    with torch.no_grad():
        other = with_trained_statistics(copy.deepcopy(dense[1]), 1)
        other.float()[0].weight.add_(1.0)  # type: ignore[index]
    torch.save(other.state_dict(), changed)
    desk.handle(TrainOn("ReLU"))
    assert desk.refusal == ("changed", "changed.pt")
    started = desk.last_event(RunStarted)
    assert started.inspected == "changed.pt"


@pytest.mark.parametrize("regime", ["ReLU", "soft-ReLU", "FL"])
def test_a_network_of_ours_trains_on_with_its_own_gates(
    desk: Desk, tmp_path: Path, trained: Path, regime: str
) -> None:
    config = small_config(regime, seed=4)
    if regime == "FL":
        gating = replace(config.gating, gates_from=str(trained))
        config = replace(config, gating=gating)
    desk.handle(StartRun(config, paused=True))
    desk.train(3)
    run = desk.run
    x = run.trainer.data.test_x
    with torch.no_grad():
        wanted = run.trainer.network(x)
    path = tmp_path / "ours.safetensors"
    desk.handle(SaveWeights(str(path)), StartRun(small_config("FR-II"), paused=True))
    desk.handle(InspectFile(desk.open(path).ticket), TrainOn(regime, paused=True))
    run = desk.run
    assert (run.config.gating.regime, run.trainer.regime.name) == (regime, regime)
    with torch.no_grad():
        torch.testing.assert_close(run.trainer.network(x), wanted, rtol=0, atol=1e-6)
