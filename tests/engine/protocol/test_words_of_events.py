"""What events and commands say, what a field means that is left out, and that all is frozen."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol import (
    branches,
    catalogue,
    experiments,
    files,
    frames,
    messages,
    runs,
    training,
    watching,
)
from dgn_engine.protocol.branches import BranchChanges
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import CheckProgress, FileScored, TrainedOn, WeightsTaken
from dgn_engine.protocol.messages import Command, EngineRestarted, EngineSilent, Failed, Working
from dgn_engine.protocol.training import RegimeSwapped
from tests.snapshots import Recorded

MODULES = [branches, catalogue, experiments, files, frames, messages, runs, training, watching]
SWAP = RegimeSwapped(1200, "DL", "FL", ("kept",), ("frozen",), ("redrawn",), ("copied",), "x.pt")
DIED = EngineRestarted("signal 9", 1234, 1200, ("regime FL", "β"))


@pytest.mark.parametrize(
    ("event", "parts"),
    [
        (SWAP, "DL FL x.pt 1,200 kept copied redrawn frozen"),
        (dataclasses.replace(SWAP, undone="Undo gates", of_step=1200), "gates DL FL 1,200"),
        (dataclasses.replace(SWAP, undone="Redo weights", of_step=7), "weights 7 1,200"),
        (WeightsTaken(1200, "x.pt", 1), "1,200: x.pt 1 layer."),
        (WeightsTaken(7, "x.pt", 4, ("out", "in"), True), "7: x.pt 4 layers, biases out, in"),
        (CheckProgress(1, "Reading mnist", 0.404), "mnist, 40 %"),
        (FileScored(2, "x.pt", DataConfig(), 0, 0, 360), "360"),
        (FileScored(2, "x.pt", DataConfig(), 931, 1000, 10_000), "93.1 % 1,000 10,000"),
        (FileScored(2, "x.pt", DataConfig(), 36, 36, 36), "100.0 % test 36"),
        (FileScored(2, "x.pt", DataConfig(), 0, 0, 36, "why"), "why"),
        (TrainedOn(0, "x.pt", "FL", "What differs."), "x.pt FL differs"),
        (Working("Reading mnist", 0.0), "mnist, 0 %"),
        (DIED, "(signal 9) 1,234. 1,200; 34 steps FL, β"),
        (dataclasses.replace(DIED, died_at=1201), "1,201. 1,200; last step"),
        (dataclasses.replace(DIED, died_at=3), "3. 1,200; no step"),
        (dataclasses.replace(DIED, step=0), "seed; 1,234 steps"),
        (
            EngineRestarted("x", 5, 5, (), ("swap", "pause", "reset", "undo", "redo")),
            "swap, pause, reset 2 more",
        ),
        (EngineSilent(12.4), "12 s"),
        (messages.EngineAnswered(61.7), "62 s"),
    ],
)  # fmt: skip
def test_a_sentence_of_an_event_says_its_numbers_and_names(event: Any, parts: str) -> None:
    """In this order, each after the one before."""
    said = event.sentence
    for part in parts.split(" "):
        _, found, said = said.partition(part)
        assert found, f"{part!r} in {event.sentence!r}"


def test_a_sentence_leaves_out_what_nothing_is_to_be_said_of() -> None:
    bare = RegimeSwapped(7, "DL", "FL", (), (), (), ())
    assert bare.sentence == "DL → FL at step 7."
    assert Working("Reading").sentence == "Reading"
    assert "the last step is" in dataclasses.replace(DIED, died_at=1201).sentence
    assert "β" not in EngineRestarted("x", 5, 5).sentence


@pytest.mark.parametrize(
    ("frames", "checkpoints", "what"),
    [
        (((0, 5),), (), "frames"),
        ((), ("000001000",), "checkpoints"),
        (((0, 5),), ("000001000",), "frames and checkpoints"),
    ],
)
def test_what_thins_out_is_named(
    frames: tuple[tuple[int, int], ...], checkpoints: tuple[str, ...], what: str
) -> None:
    event = runs.RecordThinned(1200, frames, checkpoints, 16 << 20)
    _, _, said = event.sentence.partition("16 MiB at step 1,200: old ")
    assert said.startswith(f"{what} are thinned")


def test_a_fault_keeps_its_traceback_and_what_the_user_can_mend_is_one_sentence() -> None:
    told = Failed.from_exception("Saving", UserError("The disk is full."))
    assert told == Failed("The disk is full.", "")
    try:
        raise ValueError("by the test")
    except ValueError as error:
        fault = Failed.from_exception("Saving", error)
    assert fault.what == "Saving: ValueError: by the test"
    assert "test_words_of_events.py" in fault.traceback
    assert fault.traceback.endswith("ValueError: by the test\n")


# What a command is given that must be given something, by the name or type of its field.
GIVEN: dict[str, Any] = {
    "config": RunConfig(), "regime": "FL", "wiring": (1, 0), "rotation": (1, 0), "beta": 4.0,
    "learning_rate": 0.1, "value_input": "ones", "fraction": 0.1, "readings": (), "number": 1,
    "what": "weights", "choice": "classes 3", "data": DataConfig(), "note": "", "name": "mine",
    "changes": BranchChanges(), "reading": FileReading("relu"), "step": 5,
    "int": 3, "float": 0.25, "str": "/data/a.b",
}  # fmt: skip


def sample(kind: type[Command]) -> Command:
    needed = [
        field
        for field in dataclasses.fields(kind)
        if field.default is field.default_factory is dataclasses.MISSING
    ]
    return kind(**{f.name: GIVEN.get(f.name, GIVEN.get(str(f.type), ())) for f in needed})


def test_every_command_has_words_and_says_how_it_is_undone(recorded: Recorded) -> None:
    commands = {kind.__name__: sample(kind) for kind in Command.__subclasses__()}
    assert all(kind.title for kind in Command.__subclasses__())
    recorded(
        {
            name: [one.in_words(), one.undo and list(dataclasses.asdict(one.undo).values())]
            for name, one in sorted(commands.items())
        }
    )


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (runs.ContinueRun("/runs/20260101-a"), "continue 20260101-a"),
        (files.OpenFile("/tmp/{x}.pt"), "open {x}.pt"),
        (branches.CompareRun("/runs/20260101-a/"), "compare with 20260101-a"),
    ],
)
def test_a_command_in_words_names_the_file_and_not_where_it_is(
    command: Command, words: str
) -> None:
    assert command.in_words() == words


def kinds_of(module: Any) -> list[type[Any]]:
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ]


def default_of(field: dataclasses.Field[Any]) -> str:
    made = field.default_factory
    return repr(field.default if made is dataclasses.MISSING else made())


@pytest.mark.parametrize("module", MODULES, ids=lambda one: one.__name__.rpartition(".")[2])
def test_a_field_that_is_left_out_means_what_is_recorded(module: Any, recorded: Recorded) -> None:
    found = {
        kind.__name__: {
            field.name: default_of(field)
            for field in dataclasses.fields(kind)
            if not field.default is field.default_factory is dataclasses.MISSING
        }
        for kind in kinds_of(module)
    }
    recorded({name: fields for name, fields in found.items() if fields})


@pytest.mark.parametrize("module", MODULES, ids=lambda one: one.__name__.rpartition(".")[2])
def test_what_crosses_to_the_window_is_frozen(module: Any) -> None:
    kinds = kinds_of(module)
    assert kinds
    for kind in kinds:
        assert dataclasses.is_dataclass(kind)
        with pytest.raises(dataclasses.FrozenInstanceError):
            object.__new__(kind).any = 1


def test_a_frozen_array_is_a_contiguous_copy_that_nobody_can_write_to() -> None:
    source = np.arange(6.0).reshape(2, 3).T
    copy = frames.read_only_copy(source)
    source[0, 0] = 9.0
    assert copy.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert copy.flags.c_contiguous
    assert not copy.flags.writeable
    assert frames.MISFIT == "does not fit in memory"
    read_only = frames.read_only_copy(copy)
    assert read_only is not copy


def test_a_data_set_is_there_or_missing() -> None:
    there = catalogue.DataEntry("digits", "Digits", available=True, hint="")
    assert not there.missing
    gone = catalogue.DataEntry("mnist", "MNIST", available=False, hint="dgn data")
    assert gone.missing
    bare = catalogue.DataEntry("x", "X", available=True, hint="")
    assert (bare.options, bare.takes_path, bare.rooted) == ((), False, False)
