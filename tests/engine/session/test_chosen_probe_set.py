"""The probe set is chosen by class, by hand, by mistakes or drawn; training does not notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import load_examples
from dgn_engine.protocol.messages import Failed, Refused
from dgn_engine.protocol.probe_choice import ProbeChoice, pack_pixels
from dgn_engine.protocol.runs import ContinueRun, ShowRun
from dgn_engine.protocol.training import (
    ChangesListed,
    Redo,
    Reset,
    RunStarted,
    SetBeta,
    StartRun,
    SwapRegime,
    Undo,
    UndoMany,
)
from dgn_engine.protocol.watching import (
    ChooseMisclassified,
    ChooseProbeSet,
    ExamplesListed,
    ListExamples,
    ProbeExamples,
    ProbeRequest,
    ProbeScalars,
    ProbeSetChanged,
    SetProbeExamples,
    Watch,
)
from dgn_engine.session import run_library
from dgn_engine.session.reading_commands import find_misclassified
from dgn_engine.storage.session_file.loaded_run import read_run
from dgn_engine.training.probes import all_probes
from tests.engine.session.conftest import Desk, small_config, train_alone
from tests.refusals import refused

DIGIT = np.zeros((1, 8, 8), np.uint8)
DIGIT[0, 1:7, 3:5] = 255, 128
OWN = f"drawn {pack_pixels(DIGIT)}"
GATES = Watch(
    (
        ProbeRequest("gates"),
        ProbeRequest("npk"),
        ProbeRequest("ntk"),
        ProbeRequest("gradients"),
        ProbeRequest("gate_statistics"),
    )
)


def test_a_drawn_digit_is_the_last_row_without_a_label_and_training_does_not_notice(
    desk: Desk,
) -> None:
    desk.handle(GATES, StartRun(small_config("FR-II"), paused=True))
    desk.train(5)
    desk.handle(ChooseProbeSet(OWN))
    desk.train(5)
    desk.handle(ChooseMisclassified(), ListExamples(3))
    desk.train(5)
    desk.handle(ChooseProbeSet())
    desk.train(5)
    assert not desk.events_of(Refused)
    undisturbed = train_alone(small_config("FR-II"), 20).trainer.network.value.weights
    assert all(map(torch.equal, desk.copy_value_weights(), undisturbed))


def test_what_the_panels_are_told_of_a_drawn_digit(desk: Desk) -> None:
    desk.handle(GATES, StartRun(small_config("FR-II"), paused=True))
    desk.advance(2)
    before = desk.frames[-1].readings["npk"].scalars
    assert "nu" in before
    desk.handle(ChooseProbeSet(OWN))
    desk.advance(2)
    readings, shown = desk.frames[-1].readings, desk.last_event(ProbeExamples)
    assert isinstance(shown, ProbeExamples)
    known = shown.probe_set
    assert (known.drawn, known.class_names[-1], known.classes) == (1, "drawn", 10)
    assert known.indices[-1] == desk.run.examples[0]
    assert shown.images is not None
    np.testing.assert_array_equal(shown.images[-1], DIGIT[0])
    network = desk.run.trainer.network
    x = torch.from_numpy(DIGIT.reshape(1, 64).astype(np.float32) / np.float32(255))
    slow = network.trace(x).value.gates[1]
    np.testing.assert_array_equal(readings["gates"].arrays["layer_1"][-1], slow[0].numpy())
    assert readings["gates"].arrays["labels"][-1] == 10
    assert not readings["npk"].absent
    assert "nu" not in readings["npk"].scalars  # it would need a label
    assert readings["ntk"].arrays["value"].shape == (21, 21)
    assert not readings["gradients"].absent


@pytest.mark.discovery
@pytest.mark.parametrize("binary", [None, (3, 8)])
def test_every_probe_reads_a_drawn_example_through_frg_and_back(
    desk: Desk, binary: tuple[int, int] | None
) -> None:
    def read() -> tuple[set[str], int]:
        """The faults, and of how many examples the gates were read."""
        desk.advance(3)
        readings = desk.frames[-1].readings
        faults = {r.facts["fault"] for r in readings.values() if "fault" in r.facts}
        assert not [e for e in desk.events if isinstance(e, (Failed, Refused))]
        return faults, len(readings["gates"].arrays["labels"])

    data = DataConfig("digits", binary=binary, train_limit=200)
    every = tuple(ProbeRequest(name) for name in all_probes())
    desk.handle(Watch(every), StartRun(replace(small_config(), data=data), paused=True))
    assert read() == (set(), 20)
    desk.handle(ChooseProbeSet(OWN))
    assert read() == (set(), 21)
    desk.handle(SwapRegime("FRG"))
    assert read() == (set(), 20)  # its gates are drawn for training examples
    desk.handle(SwapRegime("ReLU"))
    assert read() == (set(), 21)
    desk.handle(Undo())
    assert read() == (set(), 20)


def test_a_loss_is_that_of_the_examples_with_a_label(desk: Desk) -> None:
    desk.handle(Watch((ProbeRequest("gradients"),)), StartRun(small_config("FR-II"), paused=True))
    desk.advance(2)
    before = desk.frames[-1].readings["gradients"]
    desk.handle(ChooseProbeSet(OWN))
    desk.advance(2)
    after = desk.frames[-1].readings["gradients"]
    assert after.scalars == before.scalars


def test_traces_of_two_sets_of_one_size_are_two_traces(desk: Desk) -> None:
    desk.handle(Watch((ProbeRequest("gates"),)), StartRun(small_config(), paused=True))
    desk.advance(2)
    desk.handle(ChooseProbeSet("classes 3"))
    desk.advance(2)
    desk.handle(ChooseProbeSet())
    desk.advance(2)
    read = [event.read_on for event in desk.events if isinstance(event, ProbeScalars)]
    changed = desk.events_of(ProbeSetChanged)
    assert read == [(0, 0, ""), (0, 0, changed[0].digest[:8]), (0, 0, "")]
    assert [event.choice for event in changed] == ["classes 3", ""]


def test_the_misclassified_are_those_that_the_network_gets_wrong(paused_desk: Desk) -> None:
    paused_desk.train(20)
    paused_desk.handle(ChooseMisclassified())
    run = paused_desk.run
    data = run.trainer.data
    wrong = run.trainer.network(data.train_x).argmax(dim=1) != data.train_y
    assert len(run.probed.probe_set.indices) == min(20, int(wrong.sum()))
    assert all(bool(wrong[row]) for row in run.probed.probe_set.indices)
    paused_desk.handle(SetProbeExamples(12))  # by hand gives way to a number
    assert run.config.probe_set == ""
    assert len(run.probed.probe_set.indices) == 12


@pytest.mark.parametrize("wrong", [0, 1])
def test_fewer_than_two_misclassified_examples_are_no_probe_set(
    paused_desk: Desk, wrong: int
) -> None:
    trainer = paused_desk.run.trainer
    labels = trainer.network(trainer.data.train_x).argmax(dim=1)
    labels[:wrong] = (labels[:wrong] + 1) % 10
    trainer.data.train_y.copy_(labels)
    with refused("empty", value=wrong):
        find_misclassified(trainer, 20, seed=0)


def test_a_choice_outlives_reset_resume_and_the_disk(recording_desk: Desk) -> None:
    choice = str(ProbeChoice(rows=(5, 9, 30), drawn=(pack_pixels(DIGIT),)))
    recording_desk.handle(StartRun(small_config(), paused=True))
    recording_desk.train(2)
    recording_desk.handle(ChooseProbeSet(choice))
    recording_desk.train(2)
    digest, shown = (
        recording_desk.run.probed.probe_set.digest,
        recording_desk.last_event(ProbeExamples),
    )
    folder = recording_desk.recording.path
    recording_desk.handle(Reset())
    started = recording_desk.last_event(RunStarted)
    assert (started.probe_set.digest, started.config.probe_set) == (digest, choice)
    loaded = read_run(folder)
    assert loaded.config.probe_set == choice
    assert run_library.recorded_examples(loaded) == shown
    recording_desk.handle(ContinueRun(str(folder), paused=True))
    assert (recording_desk.run.probed.probe_set.digest, recording_desk.run.step_count) == (
        digest,
        4,
    )


@pytest.mark.parametrize(
    ("config", "choice", "why"),
    [
        (lambda: small_config(), "rows 1,999999", "no row 999,999"),
        (lambda: small_config(), "classes 12", "'12'"),
        (lambda: small_config(), "drawn AAAA", "1×8×8"),
        (lambda: small_config(), "rows 4", "two"),
        (lambda: small_config("FRG"), OWN, ""),
        (
            lambda: replace(
                small_config(), data=DataConfig("identical", options=(("dim", 8), ("n", 20)))
            ),
            OWN,
            "",
        ),
    ],
)
def test_what_cannot_be_chosen_is_refused_and_nothing_changes(
    desk: Desk, config: Callable[[], RunConfig], choice: str, why: str
) -> None:
    desk.handle(StartRun(config(), paused=True))
    before = desk.run.probed.probe_set
    desk.handle(ChooseProbeSet(choice))
    refused = desk.last_event(Refused)
    assert why in refused.reason
    assert desk.run.probed.probe_set == before
    assert desk.run.config.probe_set == ""


def test_training_examples_are_listed_by_class_in_the_order_of_the_data(desk: Desk) -> None:
    desk.handle(StartRun(small_config(), paused=True), ListExamples(3, first=2, count=4))
    listed = desk.last_event(ExamplesListed)
    data = load_examples(small_config().data)
    rows = np.flatnonzero(data.train_y == 3)
    assert listed.total == len(rows)
    assert listed.found.probe_set.indices == tuple(rows[2:6].tolist())
    images = listed.found.images
    np.testing.assert_array_equal(images, np.rint(255.0 * data.train_x[rows[2:6], 0]))


def test_a_chosen_probe_set_is_undone_in_its_place_among_the_changes(desk: Desk) -> None:
    desk.handle(StartRun(small_config("FR-II"), paused=True))
    first = desk.run.probed.probe_set.digest
    weights = desk.copy_value_weights()
    desk.handle(ChooseProbeSet("classes 3,8"), ChooseProbeSet("classes 3,8"), SetBeta(2.0))
    chosen = desk.run.probed.probe_set.digest
    desk.handle(ChooseMisclassified(), SetProbeExamples(30))
    listed = desk.last_event(ChangesListed)
    words = [one.what for one in listed.done]
    assert words[0].endswith("→ 20 examples, classes 3, 8")
    assert len(words) == 4  # the same set once more is no change
    desk.handle(UndoMany(3))
    assert (desk.run.probed.probe_set.digest, desk.run.trainer.network.gate.beta) == (
        chosen,
        8.0,
    )
    changed = desk.last_event(ProbeSetChanged)
    assert (changed.examples, changed.choice) == (20, "classes 3,8")
    desk.handle(Undo())
    assert desk.run.probed.probe_set.digest == first
    desk.handle(Redo())
    assert desk.run.probed.probe_set.digest == chosen
    assert not [event for event in desk.events if isinstance(event, (Failed, Refused))]
    for before, now in zip(weights, desk.copy_value_weights(), strict=True):
        assert torch.equal(before, now)


# Pictures of the probe examples


def test_a_run_shows_its_probe_examples_and_those_that_are_chosen_later(paused_desk: Desk) -> None:
    started = paused_desk.last_event(RunStarted)
    assert paused_desk.last_event(ProbeExamples).probe_set == started.probe_set
    data = load_examples(small_config().data)
    stored = data.train_x[list(started.probe_set.indices), 0]
    np.testing.assert_array_equal(
        paused_desk.last_event(ProbeExamples).images, np.rint(255 * stored.astype(float))
    )
    paused_desk.handle(SetProbeExamples(12))
    changed = paused_desk.last_event(ProbeSetChanged)
    assert paused_desk.last_event(ProbeExamples).probe_set.digest == changed.digest
    assert len(paused_desk.last_event(ProbeExamples).probe_set.indices) == 12


def test_a_recorded_run_shows_them_where_the_data_are_the_same(recording_desk: Desk) -> None:
    recording_desk.handle(StartRun(small_config(), paused=True), SetProbeExamples(12))
    recording_desk.train(2)
    whole, first = recording_desk.last_event(ProbeExamples), recording_desk.recording.path
    recording_desk.handle(StartRun(small_config("FR-II"), paused=True), ShowRun(str(first)))
    assert recording_desk.wait_for(ProbeExamples, len(recording_desk.events)) == whole
    loaded = read_run(first)
    other = replace(loaded.started, config=replace(small_config(), seed=1))
    found = run_library.recorded_examples(replace(loaded, started=other))
    assert found.images is None
    assert "digits" in found.missing


@pytest.mark.parametrize(
    ("data", "foreign", "why"),
    [
        (DataConfig("nowhere"), False, "'nowhere'"),
        (DataConfig("folder:/x"), True, " "),
        (DataConfig("mnist", root="/nowhere"), False, "mnist"),
        (DataConfig("digits", root="/x"), True, " "),
        (DataConfig("digits"), True, ""),
    ],
)
def test_nothing_is_read_that_is_not_here_or_that_a_stranger_names(
    data: DataConfig, foreign: bool, why: str
) -> None:
    found = run_library._why_not_read(replace(small_config(), data=data), foreign)
    assert why in found
    assert bool(why) == bool(found)
