"""What a listed file leaves open is asked; what is said of it is read, offered and trained on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from dgn_engine.config import DataConfig, NetConfig
from dgn_engine.protocol.branches import CompareFile, ComparisonOpened
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import (
    CheckNetwork,
    FileListed,
    InspectFile,
    NetworkChecked,
    PickTensors,
    ReadingRefused,
    ReadingsFound,
    SayReading,
    TrainOn,
)
from dgn_engine.protocol.messages import Command, Refused
from dgn_engine.protocol.runs import ContinueRun
from dgn_engine.protocol.training import RunStarted, StartRun
from dgn_engine.session import opened_files
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.session.conftest import RELU, Desk, small_config

K4 = FileReading(activation="relu", geometry="s2p1,s2p1")


class BatchNormBehindReLU(nn.Module):
    """A network whose keys do not say that its BatchNorm stands behind the activation."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4 * 8 * 8, 10)
        for norm in (self.bn1, self.bn2):
            nn.init.uniform_(norm.running_mean, -0.5, 0.5)  # type: ignore[arg-type]
            nn.init.uniform_(norm.running_var, 0.5, 2.0)  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.bn1(torch.relu(self.conv1(x)))
        return self.fc(self.bn2(torch.relu(self.conv2(x))).flatten(1))  # type: ignore[no-any-return]


def convolutions() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 4, 2, 1), nn.ReLU(), nn.Conv2d(4, 8, 4, 2, 1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(8 * 2 * 2, 10)),
    )


def train(network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    """Until its accuracy is far from that of another reading."""
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()
        optimiser.step()


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[nn.Module], Path]:
    def save(network: nn.Module) -> Path:
        torch.save(network.state_dict(), tmp_path / "net.pt")
        return tmp_path / "net.pt"

    return save


def asked(listed: FileListed) -> set[str]:
    return {question.about for question in listed.questions}


def test_what_a_state_dict_does_not_say_is_asked_and_what_a_saved_module_says_is_not(
    paused_desk: Desk, chain: Path, tmp_path: Path
) -> None:
    listed = paused_desk.open(chain)
    assert asked(listed) == {"activation"}
    assert not listed.network.fits
    torch.save(nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10)), tmp_path / "whole.pt")
    whole = paused_desk.open(tmp_path / "whole.pt")
    assert (whole.questions, whole.network.fits) == ((), True)


@pytest.mark.parametrize("command", [CompareFile, InspectFile])
def test_nothing_is_computed_of_a_network_that_is_not_said(
    paused_desk: Desk, chain: Path, command: Callable[[int], Command]
) -> None:
    listed, told = paused_desk.open(chain), len(paused_desk.events)
    paused_desk.handle(command(listed.ticket))
    assert isinstance(paused_desk.wait_for(Refused, told), Refused)
    assert not any(isinstance(e, RunStarted | ComparisonOpened) for e in paused_desk.events[told:])


def test_the_right_reading_is_offered_and_said_although_it_is_not_the_usual_one(
    paused_desk: Desk, saved: Callable[[nn.Module], Path]
) -> None:
    run = paused_desk.run
    network = convolutions()
    train(network, run.trainer.data.train_x.reshape(-1, 1, 8, 8), run.trainer.data.train_y)
    listed = paused_desk.open(saved(network))
    assert asked(listed) == {"activation", "geometry"}
    found = paused_desk.wait_for(ReadingsFound)
    assert (found.ticket, found.said, found.data) == (listed.ticket, FileReading(), None)
    fitting = {each.reading: each for each in found.readings}
    assert K4 in fitting
    x, y = run.trainer.data.test_x.reshape(-1, 1, 8, 8), run.trainer.data.test_y
    assert fitting[K4].examples == len(y)
    right = float((network(x).argmax(1) == y).float().mean())
    assert fitting[K4].accuracy == pytest.approx(right)
    said = paused_desk.send_reading(listed.ticket, K4)
    assert (said.ticket, said.reading, said.questions) == (listed.ticket, K4, ())
    assert said.network.fits
    paused_desk.handle(InspectFile(listed.ticket))
    shown = paused_desk.engine.state.inspected
    assert shown is not None
    with torch.no_grad():
        torch.testing.assert_close(shown.network(shown.x), network(shown.x), rtol=0, atol=1e-5)


def test_a_part_of_what_is_open_may_be_said_and_the_rest_is_still_asked(
    paused_desk: Desk, saved: Callable[[nn.Module], Path]
) -> None:
    listed = paused_desk.open(saved(BatchNormBehindReLU()))
    assert asked(listed) == {"activation", "geometry", "batchnorm", "norm_eps"}
    part = FileReading(batchnorm="after", norm_eps=1e-5)
    said = paused_desk.send_reading(listed.ticket, part)
    assert asked(said) == {"activation", "geometry"}
    paused_desk.advance_until(
        lambda: any(one.said == part for one in paused_desk.events_of(ReadingsFound))
    )
    found = next(one for one in paused_desk.events_of(ReadingsFound) if one.said == part)
    assert {(one.reading.batchnorm, one.reading.norm_eps) for one in found.readings} == {
        ("after", 1e-5)
    }
    assert asked(paused_desk.send_reading(listed.ticket, FileReading())) == asked(listed)


def test_the_network_of_the_run_is_offered_where_the_weights_fit_it(
    desk: Desk, tmp_path: Path
) -> None:
    net = NetConfig("cnn4", (("channels", 2),))
    desk.handle(StartRun(replace(small_config("ReLU"), net=net), paused=True))
    run = desk.run
    weights = run.trainer.network.value.weights
    names = {f"part{n}.weight": w.detach().clone() for n, w in enumerate(weights)}
    torch.save(names, tmp_path / "net.pt")
    listed = desk.open(tmp_path / "net.pt")
    found = desk.wait_for(ReadingsFound)
    reading = found.readings[0].reading
    assert reading.net == net
    assert found.readings[0].accuracy is not None
    assert desk.send_reading(listed.ticket, reading).network.fits


@pytest.mark.parametrize(
    ("reading", "about"),
    [
        (FileReading(geometry="s2p1,foo"), "geometry"),
        (FileReading(activation="relu", geometry="s2p1"), "geometry"),
        (FileReading(geometry="s2p1"), "geometry"),
        (FileReading(order=("nothing",)), "order"),
        (FileReading(ignored=("nothing",)), "ignored"),
    ],
)
def test_words_that_cannot_be_are_refused_by_what_they_are_about_and_change_nothing(
    paused_desk: Desk, saved: Callable[[nn.Module], Path], reading: FileReading, about: str
) -> None:
    listed = paused_desk.open(saved(convolutions()))
    paused_desk.send_reading(listed.ticket, K4)
    told = len(paused_desk.events)
    paused_desk.handle(SayReading(listed.ticket, reading))
    refused = paused_desk.wait_for(ReadingRefused, told)
    assert (refused.ticket, refused.about) == (listed.ticket, about)
    assert "--" not in refused.reason  # a window has no options
    assert not any(isinstance(event, FileListed) for event in paused_desk.events[told:])
    assert paused_desk.engine._files.listing_of(listed.ticket).reading == K4


def test_what_was_said_last_counts(
    paused_desk: Desk, chain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed, told = paused_desk.open(chain), len(paused_desk.events)
    tanh = FileReading(activation="tanh")
    list_file = opened_files.list_file

    def slowly(
        ticket: int, file: opened_files._File, target: opened_files.FileTarget
    ) -> FileListed:
        while file.listing.reading == tanh and ("relu" not in heard):
            time.sleep(0.001)
        heard.append(file.listing.reading.activation)
        return list_file(ticket, file, target)

    heard: list[str] = []
    monkeypatch.setattr(opened_files, "list_file", slowly)
    paused_desk.handle(SayReading(listed.ticket, tanh), SayReading(listed.ticket, RELU))
    paused_desk.wait_for(FileListed, told)
    for reader in paused_desk.engine._files._readers.threads:
        reader.join(60)
    listings = [event for event in paused_desk.events[told:] if isinstance(event, FileListed)]
    assert heard == ["relu", "tanh"]
    assert [event.reading for event in listings] == [RELU]
    assert paused_desk.engine._files.listing_of(listed.ticket).reading == RELU


def test_weights_behind_a_batchnorm_are_not_copied_before_it_is_said(
    desk: Desk, tmp_path: Path
) -> None:
    desk.handle(StartRun(small_config(bias=True), paused=True))
    layers: list[tuple[str, nn.Module]] = []
    for number, (inputs, outputs) in enumerate([(64, 16), (16, 16), (16, 16)]):
        layers += [(f"fc{number}", nn.Linear(inputs, outputs)), (f"bn{number}", nn.BatchNorm1d(16))]
    layers.append(("out", nn.Linear(16, 10)))
    arrays = {f"{name}.{key}": t for name, la in layers for key, t in la.state_dict().items()}
    torch.save(arrays, tmp_path / "net.pt")
    listed = desk.open(tmp_path / "net.pt")
    assert (listed.fits, listed.weights.fits) == (False, False)
    names = tuple(row.tensor for row in listed.matches)
    told = len(desk.events)
    desk.handle(PickTensors(listed.ticket, names))
    picked = desk.wait_for(FileListed, told)
    assert (picked.fits, picked.weights.fits) == (False, False)
    said = desk.send_reading(listed.ticket, FileReading(batchnorm="before", norm_eps=1e-3))
    assert (said.fits, said.weights.fits) == (True, True)
    after = desk.send_reading(listed.ticket, FileReading(batchnorm="after", norm_eps=1e-3))
    assert (after.fits, after.weights.fits) == (False, False)


def test_readings_are_tried_on_other_data_that_are_asked_about(
    paused_desk: Desk, saved: Callable[[nn.Module], Path]
) -> None:
    ticket = paused_desk.open(saved(convolutions())).ticket
    paused_desk.wait_for(ReadingsFound)
    told, data = len(paused_desk.events), DataConfig("digits", test_limit=50)
    paused_desk.handle(CheckNetwork(ticket, data))
    checked = paused_desk.wait_for(NetworkChecked, told)
    assert not checked.network.fits
    found = paused_desk.wait_for(ReadingsFound, told)
    assert found.data == data
    assert {one.examples for one in found.readings} == {50}


@pytest.mark.parametrize("kind", ["dense", "convolutions", "batchnorm"])
def test_a_run_from_a_file_reads_it_as_was_said_also_when_it_is_continued(
    tmp_path: Path, saved: Callable[[nn.Module], Path], kind: str
) -> None:
    network, reading = {
        "dense": (nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10)), RELU),
        "convolutions": (convolutions(), K4),
        "batchnorm": (
            BatchNormBehindReLU(),
            FileReading("relu", "p1,p1", batchnorm="after", norm_eps=1e-5),
        ),
    }[kind]
    network.eval()
    desk = Desk(str(tmp_path / "runs"))
    desk.handle(StartRun(small_config(), paused=True))
    desk.handle(InspectFile(desk.open(saved(network), reading=reading).ticket))
    desk.handle(TrainOn("ReLU", paused=True))
    run = desk.run
    assert dict(run.config.net.options) == dict(reading.to_options())
    x = run.trainer.data.test_x
    shape = (64,) if kind == "dense" else (1, 8, 8)
    with torch.no_grad():
        wanted = network(x.reshape(-1, *shape))
        torch.testing.assert_close(run.trainer.network(x), wanted, rtol=0, atol=1e-5)
    desk.train(3)
    weights, place = desk.copy_value_weights(), desk.engine.state.recording
    assert place is not None
    desk.engine.close()
    again = Desk(str(tmp_path / "runs"))
    again.handle(ContinueRun(str(place.path), paused=True))
    assert again.run.step_count == 3
    assert RunReader(place.path).config.net == run.config.net
    assert all(torch.equal(a, b) for a, b in zip(again.copy_value_weights(), weights, strict=True))
    again.engine.close()
