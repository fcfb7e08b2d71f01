"""Numbers of A and B over drawn histories: each is of the run and step that A or B stands for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from dgn_engine.protocol.branches import (
    ComparedFrames,
    ComparedMoved,
    ComparisonClosed,
    ComparisonOpened,
)
from dgn_engine.protocol.frames import Frame
from dgn_engine.protocol.runs import TRAINING, FramesRecorded
from dgn_engine.protocol.training import Measured, RegimeSwapped, SettingChanged
from dgn_engine.scene.differences import Difference, compared_sides, find_differences
from dgn_engine.scene.panel_spec import ComparedRun, View
from dgn_engine.views.compared_step import ComparedStep
from dgn_engine.views.history import History
from dgn_engine.views.past_view import Past
from tests.engine.panels.pictures import make_series, started_run

BEGUN = started_run((2,), (3,))
Log = dict[str, dict[int, float]]  # by name of a score: step → value
NAMES = {"train loss": "train_loss", "test accuracy": "test_accuracy"}


@dataclass
class Twin:
    """What was measured in which run, and what A and B are; as plainly as can be."""

    logs: dict[str, Log] = field(default_factory=dict)
    a: tuple[str, int | None] = ("", None)
    b: tuple[str, int | None] | None = None

    def rows(self) -> dict[str, tuple[tuple[int, float] | None, tuple[int, float] | None]]:
        """Step and value of A and of B for each score that one of them has."""
        assert self.b is not None
        found = {}
        for name in NAMES.values():
            ours, theirs = (
                {k: v for k, v in self.logs[side[0]].get(name, {}).items() if k <= _end(side)}
                for side in (self.a, self.b)
            )
            if self.b[1] is None and ours and theirs:  # as far as both have come
                last = min(max(ours), max(theirs))
                ours = {k: v for k, v in ours.items() if k <= last}
                theirs = {k: v for k, v in theirs.items() if k <= last}
                if both := ours.keys() & theirs.keys():
                    ours = {max(both): ours[max(both)]}
                    theirs = {max(both): theirs[max(both)]}
            if ours or theirs:
                found[name] = _last(ours), _last(theirs)
        return found


def _end(side: tuple[str, int | None]) -> float:
    return float("inf") if side[1] is None else side[1]


def _last(points: dict[int, float]) -> tuple[int, float] | None:
    return (max(points), points[max(points)]) if points else None


class Story:
    """A drawn history, told to the window's `History` and to its twin."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.history, self.twin = History(), Twin()
        self.number = self.step = 0
        self.folders: list[str] = []
        self.begin()

    def begin(self) -> None:
        self.number += 1
        self.step = 0
        self.folder = f"/runs/{self.number}"
        self.history.on_event(replace(BEGUN, run=self.number))
        self.history.on_event(FramesRecorded(self.folder))
        self.folders.append(self.folder)
        self.twin.logs[self.folder] = {}
        self.twin.a, self.twin.b = (self.folder, None), None

    def score(self, step: int) -> Measured:
        loss, accuracy = self.draw.random(2)
        return Measured(step, 0.0, float(loss), 0.5, *(0.5, float(accuracy)) * (step % 3 == 0))

    def note(self, folder: str, score: Measured) -> None:
        for name in NAMES.values():
            value = getattr(score, name)
            if value is not None:
                self.twin.logs[folder].setdefault(name, {})[score.step] = value

    def train(self) -> None:
        self.step += int(self.draw.integers(1, 5))
        score = self.score(self.step)
        self.history.on_event(score)
        self.note(self.folder, score)

    def swap(self) -> None:
        undone = "Undo FL" if self.draw.random() < 0.5 else ""
        event = RegimeSwapped(self.step, "DL", "FL", (), (), (), (), undone=undone)
        self.history.on_event(event)

    def look_back(self) -> None:
        at = None if self.draw.random() < 0.4 else int(self.draw.integers(0, self.step + 1))
        past = None if at is None else Past(at, Frame(self.number, at, 0.0, 0.0, None, {}))
        self.history.look_back(past)
        self.twin.a = self.folder, at

    def compare_own(self) -> None:
        at = int(self.draw.integers(0, self.step + 1))
        later = (self.score(at + 1),)  # it is of no step of the comparison
        self.open(ComparisonOpened("me", "", "DL", (), (), at, later, "", None, self.folder, at))
        self.twin.b = self.folder, at

    def compare_other(self) -> None:
        folder, scores = f"/other/{self.draw.integers(1 << 30)}", []
        self.twin.logs[folder] = {}
        for step in sorted({int(one) for one in self.draw.integers(0, 30, 6)}):
            scores.append(self.score(step))
            self.note(folder, scores[-1])
        at = int(self.draw.integers(0, 30)) if self.draw.random() < 0.5 else None
        self.open(
            ComparisonOpened(
                "a branch", "", "FL", (), scores=tuple(scores), folder=folder, at_step=at
            )
        )
        self.twin.b = folder, at

    def open(self, event: ComparisonOpened) -> None:
        self.history.on_event(event)
        self.opened = event

    def move_branch(self) -> None:
        if self.twin.b is None or self.twin.b[0] == self.folder or self.twin.b[1] is not None:
            return
        folder = self.twin.b[0]
        known = self.twin.logs[folder].get("train_loss", {})
        score = self.score(max(known, default=0) + int(self.draw.integers(1, 4)))
        self.history.on_event(ComparedMoved(score.step, (score,)))
        self.note(folder, score)

    def move_b(self) -> None:
        if self.twin.b is None:
            return
        folder, at = self.twin.b[0], int(self.draw.integers(0, 30))
        past = Past(at, Frame(1, at, 0.0, 0.0, None, {}))
        self.history.show_as_b(
            ComparedStep(ComparedFrames("x", folder, BEGUN), past, folder == self.folder)
        )
        self.twin.b = folder, at

    def close(self) -> None:
        self.history.on_event(ComparisonClosed())
        self.twin.b = None

    def act(self) -> None:
        acts = (
            *(self.train,) * 6,
            *(self.swap, self.look_back, self.compare_own, self.compare_other),
            *(self.move_branch, self.move_branch, self.move_b),
        )
        rare = self.draw.random()
        if rare < 0.04:
            self.history.look_back(None)
            self.begin()
        elif rare < 0.08:
            self.close()
        else:
            acts[self.draw.integers(len(acts))]()


def of_run(story: Story, folder: str) -> str:
    return f"run {story.number}" if folder == story.folder else folder


def test_each_number_is_of_the_run_and_step_that_a_and_b_stand_for() -> None:
    pairs = refused = 0
    for seed in range(120):
        story = Story(seed)
        for _ in range(30):
            story.act()
            view = story.history.view({})
            assert (view.compared is None) == (story.twin.b is None)
            if story.twin.b is None:
                continue
            shown = {
                NAMES[row.name]: row
                for row in find_differences(view, None).scores
                if row.name in NAMES
            }
            expected = story.twin.rows()
            assert shown.keys() == expected.keys()
            runs = [of_run(story, side[0]) for side in (story.twin.a, story.twin.b)]
            assert [side.run for side in compared_sides(view)] == runs
            for name, row in shown.items():
                found = tuple(one and (one.step, one.value) for one in row.numbers)
                assert found == expected[name], (seed, name)
                for one, run_, text in zip(row.numbers, runs, (row.a, row.b), strict=True):
                    assert (text == "–") == (one is None)
                    assert one is None or (one.run, one.source) == (run_, (TRAINING, name))
                assert bool(row.why) == (None in row.numbers)
                refused += None in row.numbers
                pairs += None not in row.numbers
    assert min(pairs, refused) > 100  # both were drawn


def refusal(row: Difference) -> tuple[bool, bool, bool]:
    return row.a == "–", row.b == "–", bool(row.why)


@pytest.mark.parametrize(
    ("ours", "theirs", "refused"),
    [
        ("run 1", "/runs/b", (False, False, False)),
        ("run 1", "run 1", (False, True, True)),  # A's own scores as B's
        ("run 0", "/runs/b", (True, False, True)),
    ],
)
def test_a_score_of_another_run_is_not_shown_as_one_of_a_or_b(
    ours: str, theirs: str, refused: tuple[bool, bool, bool]
) -> None:
    key = (TRAINING, "train_loss")
    curves = [replace(make_series([4], [0.5]), run=one) for one in (ours, theirs)]
    view = View(
        run=BEGUN,
        series={key: curves[0]},
        compared=ComparedRun("b", series={key: curves[1]}, run="/runs/b"),
    )
    assert [refusal(row) for row in find_differences(view, None).scores] == [refused]


def test_settings_of_a_recorded_step_are_those_of_that_step() -> None:
    config = replace(BEGUN.config, seed=5)  # as a branch has it, whose parent began
    change = SettingChanged(4, 0.5, 2.0, "image", 0.0)
    frames = ComparedFrames("x", "/runs/x", BEGUN, (change,))
    history = History()
    history.on_event(BEGUN)
    history.on_event(ComparisonOpened("x", "", "DL", (), config=config, folder="/runs/x"))
    names = {"learning rate", "steepness β", "seed"}
    for step, different in ((3, {"seed"}), (6, names)):
        past = Past(step, Frame(1, step, 0.0, 0.0, None, {}))
        history.show_as_b(ComparedStep(frames, past))
        found = find_differences(history.view({}), BEGUN.config)
        assert {row.name for row in found.settings} & names == different
        assert not found.remark
