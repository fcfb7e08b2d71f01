"""Sentences of events and words of commands, and what a field means that is left out."""

from __future__ import annotations

import dataclasses
import math
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
from dgn_engine.protocol.branches import (
    BranchChanges,
    CloseComparison,
    CompareFile,
    CompareHeld,
    CompareRun,
    ComparisonClosed,
    ComparisonOpened,
    HoldCheckpoint,
    ListCheckpoints,
    StartBranch,
    StopBranch,
)
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import (
    BeginWithBiases,
    CheckNetwork,
    CheckProgress,
    CloseFile,
    FileListed,
    FileScored,
    FileUseCheck,
    InspectFile,
    LayerMatch,
    OpenFile,
    PickTensors,
    SaveWeights,
    SayReading,
    TakeGates,
    TakeWeights,
    TrainedOn,
    TrainOn,
    WeightsTaken,
)
from dgn_engine.protocol.messages import (
    Command,
    EngineAnswered,
    EngineRestarted,
    EngineSilent,
    Failed,
    Shutdown,
    UndoPolicy,
    Working,
)
from dgn_engine.protocol.runs import (
    ContinueLast,
    ContinueRun,
    DeleteRun,
    ExportRun,
    ListRuns,
    NoteRun,
    OpenSession,
    ReadCurves,
    RecordingMended,
    RecordingPaused,
    RecordingResumed,
    RunContinued,
    RunShown,
    SaveSession,
    ShowRun,
    ThinRuns,
)
from dgn_engine.protocol.training import (
    Advance,
    CancelLoading,
    EstimateRun,
    GoBack,
    Measured,
    Pause,
    Redo,
    RegimeSwapped,
    Reset,
    Resume,
    Rewire,
    Rewired,
    Rotate,
    RunStarted,
    SetBeta,
    SetLearningRate,
    SetPace,
    SetValueInput,
    StartRun,
    SwapRegime,
    Undo,
    UndoChanged,
    UndoMany,
    UndoSetting,
)
from dgn_engine.protocol.watching import (
    CancelReading,
    ChooseMisclassified,
    ChooseProbeSet,
    GoOnReading,
    ListExamples,
    ProbeRequest,
    ReportWindow,
    SetProbeExamples,
    SetWatchShare,
    Watch,
)


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            RegimeSwapped(1200, "DL", "FL", ("value weights",), ("feature weights",), (), ()),
            "DL → FL at step 1,200. Kept: value weights; frozen: feature weights.",
        ),
        (
            RegimeSwapped(
                7,
                "DL",
                "FL",
                (),
                (),
                ("value weights", "biases"),
                ("feature weights",),
                source="x.pt",
            ),
            "DL → FL with the gates of x.pt at step 7. "
            "Copied: feature weights; redrawn: value weights, biases.",
        ),
        (
            RegimeSwapped(7, "FL", "DL", (), (), (), (), undone="Undo gates of x.pt", of_step=7),
            "Undo gates of x.pt (FL → DL) at step 7: as if it had not been done.",
        ),
        (
            RegimeSwapped(1700, "DL", "DL", (), (), (), (), undone="Redo weights", of_step=1200),
            "Redo weights: networks, optimiser and dials are those of step 1,200, and the run "
            "goes on from step 1,700.",
        ),
        (
            WeightsTaken(1200, "x.pt", 1),
            "Value network at step 1,200: weights of x.pt in 1 layer. Its optimiser state was "
            "forgotten; the gates go on as before.",
        ),
        (
            WeightsTaken(7, "x.pt", 4, ("output", "input"), biases=True),
            "Value network at step 7: weights of x.pt in 4 layers, with its biases. Left as it "
            "was: output, input. Its optimiser state was forgotten; the gates go on as before.",
        ),
        (CheckProgress(1, "Reading mnist", 0.404), "Reading mnist, 40 %"),
        (
            FileScored(2, "x.pt", DataConfig(), 0, 0, 360),
            "its accuracy on 360 test examples follows",
        ),
        (
            FileScored(2, "x.pt", DataConfig(), 931, 1000, 10_000),
            "right on 93.1 % of 1,000 of 10,000 test examples",
        ),
        (FileScored(2, "x.pt", DataConfig(), 36, 36, 36), "right on 100.0 % of 36 test examples"),
        (FileScored(2, "x.pt", DataConfig(), 0, 0, 36, "why"), "accuracy n/a: why"),
        (
            TrainedOn(0, "x.pt", "FL", "What differs."),
            "This run trains on from the weights of x.pt in FL. What differs.",
        ),
        (TrainedOn(0, "x.pt", "ReLU", ""), "This run trains on from the weights of x.pt in ReLU."),
        (Working("Reading mnist"), "Reading mnist"),
        (Working("Reading mnist", 0.0), "Reading mnist, 0 %"),
        (Working("Reading mnist", 0.404), "Reading mnist, 40 %"),
        (
            EngineRestarted("signal 9", 1234, 1200, ("regime FL", "β")),
            "The engine process died (signal 9) at step 1,234; it was started again and the run "
            "goes on from the checkpoint of step 1,200: 34 steps are taken again. To be changed "
            "again: regime FL, β.",
        ),
        (
            EngineRestarted("signal 9", 1, 0),
            "The engine process died (signal 9) at step 1; it was started again and the run goes "
            "on from its seed: 1 step is taken again.",
        ),
        (
            EngineRestarted("exit 3", 5, 8),
            "The engine process died (exit 3) at step 5; it was started again and the run goes on "
            "from the checkpoint of step 8: no step is lost.",
        ),
        (
            EngineRestarted("exit 3", 2001, 1),
            "The engine process died (exit 3) at step 2,001; it was started again and the run "
            "goes on from the checkpoint of step 1: 2,000 steps are taken again.",
        ),
        (
            EngineRestarted("x", 5, 5, ("β",), ("swap to FL", "pause", "reset", "undo", "redo")),
            "The engine process died (x) at step 5; it was started again and the run goes on from "
            "the checkpoint of step 5: no step is lost. To be changed again: β. Not done: swap to "
            "FL, pause, reset and 2 more.",
        ),
        (
            EngineSilent(12.4),
            "The engine has not answered for 12 s: it was stopped, or the machine has no time for "
            "it. What is asked now is done when it answers.",
        ),
        (EngineAnswered(61.7), "The engine answers again, after 62 s; nothing was lost."),
    ],
)
def test_an_event_in_a_sentence(event: Any, sentence: str) -> None:
    assert event.sentence == sentence


def test_a_fault_keeps_its_traceback_and_what_the_user_can_mend_is_one_sentence() -> None:
    assert Failed.from_exception("Saving", UserError("The disk is full.")) == Failed(
        "The disk is full.", ""
    )
    try:
        raise ValueError("by the test")
    except ValueError as error:
        fault = Failed.from_exception("Saving", error)
    assert fault.what == "Saving: ValueError: by the test"
    assert "test_words_of_events.py" in fault.traceback
    assert fault.traceback.endswith("ValueError: by the test\n")


COMMANDS: tuple[tuple[Command, str, UndoPolicy | None], ...] = (
    (StartRun(RunConfig()), "start this run", None),
    (EstimateRun(RunConfig()), "estimate this run", None),
    (ContinueRun("/runs/a"), "continue a", None),
    (Resume(), "resume", None),
    (Pause(), "pause", None),
    (Advance(3), "advance", None),
    (Reset(), "reset", None),
    (SwapRegime("FL"), "swap to FL", UndoPolicy("regime {regime}")),
    (Rewire((1, 0)), "permute the gate layers",
     UndoPolicy("order of the gate layers", "the order of the gate layers")),
    (Rotate((1, 0)), "rotate the gates",
     UndoPolicy("rotation of the gates", "the rotation of the gates")),
    (SetLearningRate(0.1), "set the learning rate",
     UndoPolicy("learning rate", "the learning rate", True)),
    (SetBeta(4.0), "set β", UndoPolicy("β", "β", True)),
    (SetValueInput("ones"), "set the value input",
     UndoPolicy("value input", "the value input", True)),
    (SetPace(60.0), "set the pace", None),
    (Undo(), "undo", None),
    (UndoSetting(), "put only the setting back", None),
    (Redo(), "redo", None),
    (Watch(()), "watch", None),
    (OpenFile("/data/x.pt"), "open x.pt", None),
    (PickTensors(1, ()), "match these tensors", None),
    (SayReading(1, FileReading("relu")), "read the file so", None),
    (TakeGates(1), "copy the gates", UndoPolicy("gates of {file}")),
    (TakeWeights(1), "copy the weights", UndoPolicy("weights of {file}")),
    (BeginWithBiases(1, "weights"), "begin a run with biases", None),
    (CompareFile(1), "compare", None),
    (CompareRun("/runs/a"), "compare with a", None),
    (CloseComparison(), "close the comparison", None),
    (CancelReading(("npk",)), "cancel the reading", None),
    (CancelLoading(), "stop reading data", None),
    (GoOnReading(("npk",)), "go on with the reading", None),
    (SetProbeExamples(32), "choose 32 probe examples",
     UndoPolicy("number of probe examples", reads=True)),
    (ChooseProbeSet("classes 3"), "choose the probe set", UndoPolicy("probe set", reads=True)),
    (ChooseMisclassified(), "choose misclassified examples", UndoPolicy("probe set", reads=True)),
    (ListExamples(), "list examples", None),
    (InspectFile(1, DataConfig()), "open it as a network", None),
    (CheckNetwork(1, DataConfig()), "check the data", None),
    (TrainOn("ReLU"), "train on from this network", None),
    (CloseFile(1), "close the file", None),
    (SaveWeights("/data/y.safetensors"), "save y.safetensors", None),
    (ContinueLast(RunConfig()), "go on where you left", None),
    (SetWatchShare(0.1), "watch with a share of 10%", None),
    (ReportWindow(0.1, 0.2, 7), "report the window's time", None),
    (ListRuns(), "list the recorded runs", None),
    (NoteRun("/runs/a", "mine", ""), "note a", None),
    (DeleteRun("/runs/a"), "delete a", None),
    (ThinRuns(), "thin out the oldest runs", None),
    (ExportRun("/runs/a", "/x/b.csv"), "export a", None),
    (ReadCurves(("/runs/a",)), "read curves", None),
    (ShowRun("/runs/a"), "show a", None),
    (OpenSession("/data/s.dgn"), "open s.dgn", None),
    (SaveSession("/data/s.dgn"), "save s.dgn", None),
    (Shutdown(), "shutdown", None),
    (StartBranch(BranchChanges()), "branch off", None),
    (UndoMany(3), "undo 3 changes", None),
    (GoBack(), "go back to the last finite state", None),
    (CompareHeld(5), "compare with step 5", None),
    (StopBranch(), "stop the branch", None),
    (ListCheckpoints(), "list the checkpoints", None),
    (HoldCheckpoint(), "keep a checkpoint", None),
)  # fmt: skip


def test_every_command_has_words_and_says_how_it_is_undone() -> None:
    assert {type(command) for command, _, _ in COMMANDS} == set(Command.__subclasses__())
    for command, words, undo in COMMANDS:
        assert command.in_words() == words
        assert command.undo == undo


def test_what_can_be_undone_says_the_least_unless_it_is_told() -> None:
    assert UndoPolicy("β") == UndoPolicy("β", setting="", merges=False, reads=False)


DEFAULTS: dict[type[Any], dict[str, Any]] = {
    StartRun: {"paused": False},
    ContinueRun: {"paused": False, "discard": False},
    Advance: {"steps": 1},
    SwapRegime: {"restart_value": True},
    Rotate: {"shift": ()},
    ProbeRequest: {"options": ()},
    OpenFile: {"purpose": ""},
    TakeGates: {"restart_value": True},
    BeginWithBiases: {"restart_value": True},
    InspectFile: {"data": None},
    TrainOn: {"paused": False},
    ShowRun: {"discard": False},
    OpenSession: {"discard": False},
    SaveSession: {"window": "null"},
    CompareRun: {"step": None},
    Measured: {"test_loss": None, "test_accuracy": None},
    RunStarted: {
        "began_with": 0,
        "inspected": "",
        "rotation": (),
        "shift": (),
        "assuming": "",
        "accuracy": None,
        "accuracy_of": 0,
        "watched": "",
    },
    Rewired: {"rotation": (), "shift": ()},
    RegimeSwapped: {
        "source": "",
        "parameters_feature": 0,
        "undone": "",
        "of_step": 0,
        "undone_steps": None,
    },
    UndoChanged: {"undo": "", "redo": ""},
    WeightsTaken: {"kept": (), "biases": False},
    Working: {"fraction": None, "can_cancel": False},
    LayerMatch: {"remark": ""},
    FileUseCheck: {"matches": (), "with_biases": False, "remarks": ""},
    FileListed: {
        "ignored": (),
        "weights": FileUseCheck(False, "", ()),
        "network": FileUseCheck(False, "", ()),
        "purpose": "",
        "picked": False,
        "with_biases": False,
        "would_call": (),
        "would_look_up": (),
        "would_import": (),
        "questions": (),
        "reading": FileReading(),
    },
    ComparisonOpened: {
        "wiring": (),
        "step": 0,
        "scores": (),
        "remark": "",
        "config": None,
        "folder": "",
        "at_step": None,
        "number": 0,
    },
    ComparisonClosed: {"reason": ""},
    RunShown: {"file_name": "", "saved": "", "window": "null", "replaced": ""},
    RecordingPaused: {"step": 0},
    RecordingResumed: {"lost": 0},
    RecordingMended: {"step": 0, "folder": ""},
    RunContinued: {"remark": "", "folder": ""},
    EngineRestarted: {"undone": (), "unanswered": ()},
    CheckProgress: {"fraction": None},
    FileScored: {"unknown": ""},
    frames.Reading: {
        "seconds": 0.0,
        "interval": 0.0,
        "arrays": {},
        "scalars": {},
        "facts": {},
        "absent": "",
        "examples": 0,
        "error": 0.0,
        "progress": 1.0,
        "left": 0.0,
        "cancelled": False,
        "remark": "",
    },
    frames.Frame: {
        "readings": {},
        "compared": {},
        "doing": "",
        "watching": None,
        "regime": "",
        "wiring": (),
        "probe_digest": "",
        "comparison": 0,
    },
    frames.Watching: {
        "taken": 0.0,
        "every": 0.0,
        "parts": {},
        "overhead": None,
        "noise": 0.0,
        "unmeasured": "",
        "slowed": 1.0,
    },
    catalogue.RegimeEntry: {
        "group": "",
        "takes_gates": False,
        "for_copied_gates": False,
        "standard": False,
        "drawn_gates": False,
        "open_gates": False,
        "trains_value": True,
    },
    catalogue.DataEntry: {
        "options": (),
        "takes_path": False,
        "rooted": False,
        "plane": False,
    },
    catalogue.ExperimentEntry: {"rows": (), "asks": ()},
    catalogue.Catalogue: {"experiments": ()},
    experiments.Printed: {"half_width": None},
    experiments.Row: {
        "printed": None,
        "unit": "%",
        "epochs": math.nan,
        "seconds": 0.0,
        "remark": "",
        "of": "seeds",
        "place": None,
    },
    experiments.Claim: {
        "remark": "",
        "exact": False,
        "of": "seeds",
        "p": math.nan,
        "p_holm": math.nan,
        "power": math.nan,
        "enough": 0,
        "power_from": "",
    },
    experiments.PlottedLine: {"spread": (), "style": "line"},
    experiments.Figure: {
        "log_x": False,
        "log_y": False,
        "image": (),
        "rows": (),
        "columns": (),
        "scale": "",
        "categories": (),
        "note": "",
    },
    experiments.Findings: {
        "rows": (),
        "claims": (),
        "figures": (),
        "remarks": (),
        "answer": (),
        "details": {},
        "columns": (),
    },
}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)
def test_a_field_that_is_left_out_means_this(kind: type[Any]) -> None:
    found = {
        field.name: _default(field)
        for field in dataclasses.fields(kind)
        if _default(field) is not dataclasses.MISSING
    }
    assert found.keys() == DEFAULTS[kind].keys()
    for name, value in DEFAULTS[kind].items():
        alike = found[name] == value or (value is math.nan and math.isnan(found[name]))
        assert alike, name
        assert type(found[name]) is type(value), name


@pytest.mark.parametrize(
    "module", [branches, catalogue, experiments, files, frames, messages, runs, training, watching]
)
def test_what_crosses_to_the_window_is_frozen(module: Any) -> None:
    kinds = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ]
    assert kinds
    for kind in kinds:
        if dataclasses.is_dataclass(kind):
            assert kind.__dataclass_params__.frozen, kind  # type: ignore[attr-defined]
    assert not [kind for kind in kinds if not dataclasses.is_dataclass(kind)]


def test_a_frozen_array_is_a_contiguous_copy_that_nobody_can_write_to() -> None:
    source = np.arange(6.0).reshape(2, 3).T
    copy = frames.freeze(source)
    source[0, 0] = 9.0
    assert copy.tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert copy.flags.c_contiguous
    assert not copy.flags.writeable
    assert frames.MISFIT == "does not fit in memory"
    read_only = frames.freeze(copy)
    assert read_only is not copy


def test_a_data_set_is_there_or_missing() -> None:
    there = catalogue.DataEntry("digits", "Digits", available=True, hint="")
    assert not there.missing
    gone = catalogue.DataEntry("mnist", "MNIST", available=False, hint="dgn data")
    assert gone.missing
    bare = catalogue.DataEntry("x", "X", available=True, hint="")
    assert (bare.options, bare.takes_path, bare.rooted) == ((), False, False)
