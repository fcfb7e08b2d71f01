"""What can be done with a file that was opened, in words; files by ticket, read in threads."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig
from dgn_engine.errors import UserError
from dgn_engine.importing.from_config import build_architecture
from dgn_engine.model.architecture import Architecture
from dgn_engine.model.feature_layers import parallel_features
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import FileClosed, FileListed, TensorInfo
from dgn_engine.protocol.messages import Event, Failed, Refused
from dgn_engine.session import opened_files
from dgn_engine.session.file_readings import LabelledExamples
from dgn_engine.session.network_fit import DataFacts
from dgn_engine.session.opened_files import FileTarget, OpenedFiles
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from tests.refusals import refused

PATH = Path("/files/x.npz")
INPUTS, CLASSES, WIDTH = 5, 3, 6


def net(width: int = WIDTH) -> NetConfig:
    return NetConfig("fc", (("depth", 4), ("width", width)))


def architecture(width: int = WIDTH) -> Architecture:
    return build_architecture(net(width), (INPUTS,), CLASSES)


FACTS = DataFacts((INPUTS,), CLASSES)
EXAMPLES = LabelledExamples(
    torch.rand(40, INPUTS, generator=torch.Generator().manual_seed(0)), torch.arange(40) % CLASSES
)
RUN = FileTarget(architecture(), architecture(), False, True, DataConfig(), FACTS, net(), EXAMPLES)
SAID = FileReading(activation="relu")
FIT = ((6, 5), (6, 6), (6, 6), (3, 6))


def contents(*shapes: tuple[int, ...], bias: bool = False) -> CheckpointContents:
    arrays: dict[str, Any] = {}
    for layer, shape in enumerate(shapes):
        arrays[f"{layer}.weight"] = np.full(shape, layer + 1.0, np.float32)
        if bias:
            arrays[f"{layer}.bias"] = np.full(shape[0], -1.0, np.float32)
    return CheckpointContents("x.npz", arrays, dict.fromkeys(arrays, "float16"), ("note (str)",))


class Files:
    """Open files whose content is made up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.content: CheckpointContents | Exception = contents(*FIT)
        self.cancelled: list[threading.Event] = []
        self.go_on = threading.Event()
        self.go_on.set()
        monkeypatch.setattr(opened_files, "read_tensors", self.read)
        self.events: list[Event] = []
        self.files = OpenedFiles(self.events.append)

    def read(self, path: Path, cancelled: threading.Event, warned: bool) -> CheckpointContents:
        assert path == PATH
        self.cancelled.append(cancelled)
        assert self.go_on.wait(60)
        if isinstance(self.content, Exception):
            raise self.content
        return self.content

    def open(self, target: FileTarget = RUN, purpose: Any = "") -> Event:
        """What is said of a file first; readings of it may follow."""
        before = len(self.events)
        self.files.open_file(PATH, purpose, target)
        self.wait()
        return self.events[before]

    def say(self, ticket: int, reading: FileReading, target: FileTarget = RUN) -> Event:
        """What is said first of a file that is read so."""
        before = len(self.events)
        self.files.set_reading(ticket, reading, target)
        self.wait()
        return self.events[before]

    def wait(self) -> None:
        for reader in self.files._readers.threads:
            reader.join(60)

    def listed(self, target: FileTarget = RUN, purpose: Any = "") -> FileListed:
        event = self.open(target, purpose)
        assert isinstance(event, FileListed)
        return event


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files(monkeypatch)


def assert_fit(files: Files, target: FileTarget, gates: bool, weights: bool) -> None:
    """What a listing says of a file is what happens when it is taken; the newest file."""
    event = next(event for event in reversed(files.events) if isinstance(event, FileListed))
    assert (event.fits, event.weights.fits) == (gates, weights)
    for act, fits in ((files.files.matched_gates, gates), (files.files.matched_weights, weights)):
        if fits:
            assert act(event.ticket, target).fits
        else:
            with refused("no-fit") as refusal:
                act(event.ticket, target)
            said = event.verdict if act == files.files.matched_gates else event.weights.verdict
            assert str(refusal.error) == said


def test_what_a_file_would_run_is_listed_with_it(files: Files) -> None:
    named = {"would_call": ("os.system",), "would_look_up": ("this.s",), "would_import": ("this",)}
    files.content = replace(contents(*FIT), **named)
    event = files.listed()
    assert {name: getattr(event, name) for name in named} == named


def test_a_file_that_fits_is_listed_with_all_that_can_be_done_with_it(files: Files) -> None:
    event = files.listed(purpose="gates")
    assert (event.ticket, event.path, event.file_name) == (1, str(PATH), "x.npz")
    assert (event.purpose, event.picked, event.ignored) == ("gates", False, ("note (str)",))
    assert event.tensors == tuple(
        TensorInfo(f"{layer}.weight", shape, "float16") for layer, shape in enumerate(FIT)
    )
    names = [row.tensor for row in event.matches]
    assert names == [row.tensor for row in event.weights.matches] == [t.name for t in event.tensors]
    assert_fit(files, RUN, gates=True, weights=True)
    assert not event.network.fits
    said = files.say(1, SAID)
    assert isinstance(said, FileListed)
    assert (said.ticket, said.purpose, said.matches) == (1, "gates", event.matches)
    assert said.network.fits
    assert "5-6-6-6-3" in said.network.verdict
    gates, weights = files.files.matched_gates(1, RUN), files.files.matched_weights(1, RUN)
    for match in (gates, weights):
        assert [float(w.flat[0]) for w in match.weights] == [1.0, 2.0, 3.0, 4.0][
            : len(match.weights)
        ]
    assert len(weights.weights) == 4


@pytest.mark.parametrize(
    ("shapes", "fits", "numbers"),
    [
        ((*FIT[:3], (4, 6)), (True, True), "4 units, 3"),  # but for the last layer
        (((7, 5), (6, 7), (3, 6)), (False, False), "layer 1: 7 units, 6"),
        (((4, 9), *FIT[:2]), (False, False), "layer 1: 4 units, 6"),  # sizes tell nothing
    ],
)
def test_what_does_not_fit_is_said_by_its_layer_and_refused_in_the_same_words(
    files: Files, shapes: tuple[tuple[int, ...], ...], fits: tuple[bool, bool], numbers: str
) -> None:
    files.content = contents(*shapes)
    assert numbers in files.listed().weights.verdict
    assert_fit(files, RUN, *fits)
    said = files.say(1, SAID)
    assert isinstance(said, FileListed)
    assert said.network.fits == (shapes[0][1] == INPUTS)


def test_a_network_of_one_layer_is_one_of_one_layer(files: Files) -> None:
    files.content = contents((6, 5), (3, 6))
    files.listed()
    event = files.say(1, SAID)
    assert isinstance(event, FileListed)
    assert " 1 gate layer," in event.network.verdict


def test_biases_are_gates_of_any_run_and_weights_of_one_with_biases(files: Files) -> None:
    files.content = contents(*FIT, bias=True)
    event = files.listed()
    assert_fit(files, RUN, gates=True, weights=False)
    assert [row.tensor for row in event.weights.matches] == [f"{n}.weight" for n in range(4)]
    biased = replace(RUN, bias=True)
    assert files.listed(biased).weights.fits
    assert all(bias is not None for bias in files.files.matched_weights(2, biased).biases)


def test_gates_are_for_the_feature_network_and_weights_for_the_value_network(files: Files) -> None:
    tiled = replace(RUN, values=architecture(12))
    assert "6 units, 12" in files.listed(tiled).weights.verdict
    assert_fit(files, tiled, gates=True, weights=False)
    files.content = contents((12, 5), (12, 12), (12, 12), (3, 12))
    files.listed(tiled)
    assert_fit(files, tiled, gates=False, weights=True)
    with refused("no-fit"):  # another run has begun since it was listed
        files.files.matched_weights(2, RUN)


def test_nothing_is_copied_into_a_network_that_is_inspected(files: Files) -> None:
    inspected = replace(RUN, trains=False)
    event = files.listed(inspected)
    assert (event.matches, event.weights.matches, bool(event.questions)) == ((), (), True)
    assert_fit(files, inspected, gates=False, weights=False)
    assert files.files.matched_gates(1, RUN).fits


def test_what_lies_in_between_is_skipped_where_sizes_tell_the_layers_and_said(
    files: Files,
) -> None:
    files.content = contents((4, 9), *FIT[:2], (2, 2), *FIT[2:])
    event = files.listed()
    assert_fit(files, RUN, gates=True, weights=True)
    wanted = ["1.weight", "2.weight", "4.weight", "5.weight"]
    assert [row.tensor for row in event.matches] == wanted
    assert [row.tensor for row in event.weights.matches] == wanted
    assert event.weights.fits


def test_picked_tensors_are_what_is_taken_shown_and_compared(files: Files) -> None:
    files.content = contents(*FIT, (6, 6))
    files.listed(purpose="weights")
    names = ("0.weight", "4.weight", "1.weight", "3.weight")
    files.files.pick_tensors(1, names, RUN)
    event = files.events[-1]
    assert isinstance(event, FileListed)
    assert (event.ticket, event.picked, event.purpose) == (1, True, "weights")
    assert [row.tensor for row in event.matches] == list(names)
    assert [row.tensor for row in event.weights.matches] == list(names)
    assert len(event.tensors) == 5  # all can still be picked
    for match in (files.files.matched_gates(1, RUN), files.files.matched_weights(1, RUN)):
        assert [float(w.flat[0]) for w in match.weights][:3] == [1.0, 5.0, 2.0]
    assert list(files.files.listing_of(1).arrays) == list(names)
    event = files.say(1, SAID)
    assert isinstance(event, FileListed)
    assert (event.picked, event.network.fits) == (True, True)
    with refused("empty", value=2):
        files.files.pick_tensors(1, ("0.weight", "", "1.weight", "3.weight"), RUN)
    assert list(files.files.listing_of(1).arrays) == list(names)  # as it was before


def test_gates_of_a_chain_are_none_of_parallel_layers_even_where_all_sizes_agree(
    files: Files,
) -> None:
    square = architecture(INPUTS)
    chain = replace(RUN, gates=square, values=square)
    parallel = replace(chain, gates=parallel_features(square))
    sizes = ((5, 5), (5, 5), (5, 5), (3, 5))
    arrays = {
        f"{part}.weights.{layer}": np.full(shape, layer + 1.0, np.float32)
        for part in ("feature", "value")
        for layer, shape in enumerate(sizes)
    }
    names = tuple(name for name in arrays if name.startswith("feature"))
    for stated, fitting in (("chain", chain), ("parallel", parallel)):
        gating = GatingConfig("DL", feature_layers=stated)  # type: ignore[arg-type]  # by word
        notes = {"regime": "DL", "config": RunConfig(gating=gating).to_toml()}
        files.content = CheckpointContents(
            "x.npz", arrays, dict.fromkeys(arrays, "float32"), metadata=notes
        )
        for target in (chain, parallel):
            event = files.listed(target)
            assert_fit(files, target, gates=target == fitting, weights=True)
            files.files.pick_tensors(event.ticket, names, target)
            assert_fit(files, target, gates=target == fitting, weights=True)
    files.content = contents(*sizes)  # of another program: a chain
    for target in (chain, parallel):
        files.listed(target)
        assert_fit(files, target, gates=target == chain, weights=True)


def test_a_file_that_is_closed_is_no_longer_open(files: Files) -> None:
    files.listed()
    files.files.close_file(1)
    assert files.events[-1] == FileClosed(1)
    files.files.close_file(1)  # once
    assert files.events.count(FileClosed(1)) == 1
    assert files.listed().ticket == 2
    for act in (files.files.matched_gates, files.files.matched_weights):
        with refused("no-file", value=1):
            act(1, RUN)


def test_a_file_that_is_closed_while_it_is_read_anew_stays_closed(files: Files) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class SlowTarget:
        def __getattr__(self, name: str) -> object:
            begun.set()
            assert go_on.wait(60)
            return getattr(RUN, name)

    slow: Any = SlowTarget()
    files.listed()
    files.files.set_reading(1, SAID, slow)
    assert begun.wait(60)
    files.files.close_file(1)
    go_on.set()
    files.wait()
    assert not isinstance(files.events[-1], FileListed)
    with refused("no-file", value=1):
        files.files.listing_of(1)


def test_a_file_that_cannot_be_read_is_refused_by_its_name(files: Files) -> None:
    files.content = UserError("It is empty.", kind="empty")
    assert files.open() == Refused("open x.npz", "It is empty.", "empty")
    with refused("no-file", value=1):
        files.files.listing_of(1)


def test_a_fault_of_a_reader_is_told_with_its_traceback(files: Files) -> None:
    files.content = RuntimeError("a fault made for the test")
    event = files.open()
    assert isinstance(event, Failed)
    assert "x.npz" in event.what
    assert "a fault made for the test" in event.what
    assert "Traceback" in event.traceback


@pytest.mark.parametrize("content", [contents(*FIT), UserError("x.npz was cancelled.")])
def test_closing_cancels_what_is_read_and_says_nothing_of_it(
    files: Files, content: CheckpointContents | UserError
) -> None:
    files.listed()
    files.content = content
    files.go_on.clear()
    files.files.open_file(PATH, "", RUN)
    until = time.monotonic() + 60
    while len(files.cancelled) < 2:
        assert time.monotonic() < until
        time.sleep(0.001)
    (reader,) = files.files._readers.threads  # the one before has ended, and is forgotten
    assert (reader.daemon, reader.name) == (True, "dgn-file-2")
    threading.Timer(0.01, files.go_on.set).start()
    files.files.close()
    assert all(event.is_set() for event in files.cancelled)
    assert not reader.is_alive()
    refusals = [event for event in files.events if isinstance(event, Refused)]
    assert refusals == []
    with refused("no-file", value=1):
        files.files.listing_of(1)
