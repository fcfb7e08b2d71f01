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
from tests.engine.session.conftest import Desk, alone, small
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
    desk.do(GATES, StartRun(small("FR-II"), paused=True))
    desk.train(5)
    desk.do(ChooseProbeSet(OWN))
    desk.train(5)
    desk.do(ChooseMisclassified(), ListExamples(3))
    desk.train(5)
    desk.do(ChooseProbeSet())
    desk.train(5)
    assert not desk.all_of(Refused)
    undisturbed = alone(small("FR-II"), 20).trainer.network.value.weights
    assert all(map(torch.equal, desk.value(), undisturbed))


def test_what_the_panels_are_told_of_a_drawn_digit(desk: Desk) -> None:
    desk.do(GATES, StartRun(small("FR-II"), paused=True))
    desk.turn(2)
    before = desk.frames[-1].readings["npk"].scalars
    assert "nu" in before
    desk.do(ChooseProbeSet(OWN))
    desk.turn(2)
    readings, shown = desk.frames[-1].readings, desk.last(ProbeExamples)
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
        desk.turn(3)
        readings = desk.frames[-1].readings
        faults = {r.facts["fault"] for r in readings.values() if "fault" in r.facts}
        assert not [e for e in desk.events if isinstance(e, (Failed, Refused))]
        return faults, len(readings["gates"].arrays["labels"])

    data = DataConfig("digits", binary=binary, train_limit=200)
    every = tuple(ProbeRequest(name) for name in all_probes())
    desk.do(Watch(every), StartRun(replace(small(), data=data), paused=True))
    assert read() == (set(), 20)
    desk.do(ChooseProbeSet(OWN))
    assert read() == (set(), 21)
    desk.do(SwapRegime("FRG"))
    assert read() == (set(), 20)  # its gates are drawn for training examples
    desk.do(SwapRegime("ReLU"))
    assert read() == (set(), 21)
    desk.do(Undo())
    assert read() == (set(), 20)


def test_a_loss_is_that_of_the_examples_with_a_label(desk: Desk) -> None:
    desk.do(Watch((ProbeRequest("gradients"),)), StartRun(small("FR-II"), paused=True))
    desk.turn(2)
    before = desk.frames[-1].readings["gradients"]
    desk.do(ChooseProbeSet(OWN))
    desk.turn(2)
    after = desk.frames[-1].readings["gradients"]
    assert after.scalars == before.scalars


def test_traces_of_two_sets_of_one_size_are_two_traces(desk: Desk) -> None:
    desk.do(Watch((ProbeRequest("gates"),)), StartRun(small(), paused=True))
    desk.turn(2)
    desk.do(ChooseProbeSet("classes 3"))
    desk.turn(2)
    desk.do(ChooseProbeSet())
    desk.turn(2)
    read = [event.read_on for event in desk.events if isinstance(event, ProbeScalars)]
    changed = desk.all_of(ProbeSetChanged)
    assert read == [(0, 0, ""), (0, 0, changed[0].digest[:8]), (0, 0, "")]
    assert [event.choice for event in changed] == ["classes 3", ""]


def test_the_misclassified_are_those_that_the_network_gets_wrong(paused: Desk) -> None:
    paused.train(20)
    paused.do(ChooseMisclassified())
    run = paused.run
    data = run.trainer.data
    wrong = run.trainer.network(data.train_x).argmax(dim=1) != data.train_y
    assert len(run.probed.probe_set.indices) == min(20, int(wrong.sum()))
    assert all(bool(wrong[row]) for row in run.probed.probe_set.indices)
    paused.do(SetProbeExamples(12))  # by hand gives way to a number
    assert run.config.probe_set == ""
    assert len(run.probed.probe_set.indices) == 12


@pytest.mark.parametrize("wrong", [0, 1])
def test_fewer_than_two_misclassified_examples_are_no_probe_set(paused: Desk, wrong: int) -> None:
    trainer = paused.run.trainer
    labels = trainer.network(trainer.data.train_x).argmax(dim=1)
    labels[:wrong] = (labels[:wrong] + 1) % 10
    trainer.data.train_y.copy_(labels)
    with refused("empty", value=wrong):
        find_misclassified(trainer, 20, seed=0)


def test_a_choice_outlives_reset_resume_and_the_disk(kept: Desk) -> None:
    choice = str(ProbeChoice(rows=(5, 9, 30), drawn=(pack_pixels(DIGIT),)))
    kept.do(StartRun(small(), paused=True))
    kept.train(2)
    kept.do(ChooseProbeSet(choice))
    kept.train(2)
    digest, shown = kept.run.probed.probe_set.digest, kept.last(ProbeExamples)
    folder = kept.recording.path
    kept.do(Reset())
    started = kept.last(RunStarted)
    assert (started.probe_set.digest, started.config.probe_set) == (digest, choice)
    loaded = read_run(folder)
    assert loaded.config.probe_set == choice
    assert run_library.recorded_examples(loaded) == shown
    kept.do(ContinueRun(str(folder), paused=True))
    assert (kept.run.probed.probe_set.digest, kept.run.step_count) == (digest, 4)


@pytest.mark.parametrize(
    ("config", "choice", "why"),
    [
        (lambda: small(), "rows 1,999999", "999,999; there are 200"),
        (lambda: small(), "classes 12", "'12'"),
        (lambda: small(), "drawn AAAA", "1×8×8"),
        (lambda: small(), "rows 4", "two"),
        (lambda: small("FRG"), OWN, ""),
        (
            lambda: replace(small(), data=DataConfig("identical", options=(("dim", 8), ("n", 20)))),
            OWN,
            "",
        ),
    ],
)
def test_what_cannot_be_chosen_is_refused_and_nothing_changes(
    desk: Desk, config: Callable[[], RunConfig], choice: str, why: str
) -> None:
    desk.do(StartRun(config(), paused=True))
    before = desk.run.probed.probe_set
    desk.do(ChooseProbeSet(choice))
    refused = desk.last(Refused)
    assert why in refused.reason
    assert desk.run.probed.probe_set == before
    assert desk.run.config.probe_set == ""


def test_training_examples_are_listed_by_class_in_the_order_of_the_data(desk: Desk) -> None:
    desk.do(StartRun(small(), paused=True), ListExamples(3, first=2, count=4))
    listed = desk.last(ExamplesListed)
    data = load_examples(small().data)
    rows = np.flatnonzero(data.train_y == 3)
    assert listed.total == len(rows)
    assert listed.found.probe_set.indices == tuple(rows[2:6].tolist())
    images = listed.found.images
    np.testing.assert_array_equal(images, np.rint(255.0 * data.train_x[rows[2:6], 0]))


def test_a_chosen_probe_set_is_undone_in_its_place_among_the_changes(desk: Desk) -> None:
    desk.do(StartRun(small("FR-II"), paused=True))
    first = desk.run.probed.probe_set.digest
    weights = desk.value()
    desk.do(ChooseProbeSet("classes 3,8"), ChooseProbeSet("classes 3,8"), SetBeta(2.0))
    chosen = desk.run.probed.probe_set.digest
    desk.do(ChooseMisclassified(), SetProbeExamples(30))
    listed = desk.last(ChangesListed)
    words = [one.what for one in listed.done]
    assert words[0].endswith("→ 20 examples, classes 3, 8")
    assert len(words) == 4  # the same set once more is no change
    desk.do(UndoMany(3))
    assert (desk.run.probed.probe_set.digest, desk.run.trainer.network.gate.beta) == (
        chosen,
        8.0,
    )
    changed = desk.last(ProbeSetChanged)
    assert (changed.examples, changed.choice) == (20, "classes 3,8")
    desk.do(Undo())
    assert desk.run.probed.probe_set.digest == first
    desk.do(Redo())
    assert desk.run.probed.probe_set.digest == chosen
    assert not [event for event in desk.events if isinstance(event, (Failed, Refused))]
    for before, now in zip(weights, desk.value(), strict=True):
        assert torch.equal(before, now)


# Pictures of the probe examples


def test_a_run_shows_its_probe_examples_and_those_that_are_chosen_later(paused: Desk) -> None:
    started = paused.last(RunStarted)
    assert paused.last(ProbeExamples).probe_set == started.probe_set
    data = load_examples(small().data)
    stored = data.train_x[list(started.probe_set.indices), 0]
    np.testing.assert_array_equal(
        paused.last(ProbeExamples).images, np.rint(255 * stored.astype(float))
    )
    paused.do(SetProbeExamples(12))
    changed = paused.last(ProbeSetChanged)
    assert paused.last(ProbeExamples).probe_set.digest == changed.digest
    assert len(paused.last(ProbeExamples).probe_set.indices) == 12


def test_a_recorded_run_shows_them_where_the_data_are_the_same(kept: Desk) -> None:
    kept.do(StartRun(small(), paused=True), SetProbeExamples(12))
    kept.train(2)
    whole, first = kept.last(ProbeExamples), kept.recording.path
    kept.do(StartRun(small("FR-II"), paused=True), ShowRun(str(first)))
    assert kept.wait_for(ProbeExamples, len(kept.events)) == whole
    loaded = read_run(first)
    other = replace(loaded.started, config=replace(small(), seed=1))
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
    found = run_library._why_not_read(replace(small(), data=data), foreign)
    assert why in found
    assert bool(why) == bool(found)
