"""A run that another process writes is followed: its log, its frames, and its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.protocol.messages import Event, Refused
from dgn_engine.protocol.runs import HistoryReplayed, RunShown, ShowRun
from dgn_engine.protocol.training import Finished, LayerInfo, Measured
from dgn_engine.protocol.watching import ProbeRequest, Watch
from dgn_engine.session.engine import Engine
from dgn_engine.storage.plain_data import to_plain
from dgn_engine.storage.runs.log import log_word
from dgn_engine.storage.runs.recorded_log import LogTail
from dgn_engine.storage.runs.run_folder import RunFolder
from tests.engine.views.begun_run import make_run_started


@dataclass
class Told:
    events: list[Event] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)

    def measured(self) -> list[int]:
        return [one.step for one in self.events if isinstance(one, Measured)]

    def shown(self) -> RunShown:
        return [one for one in self.events if isinstance(one, RunShown)][-1]


@pytest.fixture
def written(tmp_path: Path) -> Iterator[RunFolder]:
    """A run that is open for writing, as by another process."""
    folder = RunFolder.create(tmp_path / "mine", RunConfig())
    layers = (LayerInfo(0, "dense 1", "dense", (3,)),)
    begun = replace(
        make_run_started(layers, "ReLU"), config=folder.info.config, watched="Net of a.py"
    )
    folder.info.record_start(begun, "", 1)
    yield folder
    folder.close()


def note(folder: RunFolder, event: Event) -> None:
    folder.write_note(log_word(event), to_plain(event))


def frame(step: int) -> Frame:
    reading = Reading("gates", step, arrays={"layer_0": np.full((2, 3), step % 2, np.uint8)})
    return Frame(1, step, 0.0, 0.0, None, {"gates": reading}, regime="ReLU")


@contextmanager
def shown(folder: RunFolder) -> Iterator[tuple[Engine, Told]]:
    told = Told()
    engine = Engine(told.events.append, told.frames.append)
    engine.handle_command(Watch((ProbeRequest("gates"), ProbeRequest("npk"))))
    engine.handle_command(ShowRun(str(folder.path)))
    try:
        while not told.frames:
            engine.advance()
        yield engine, told
    finally:
        engine.close()


def test_what_is_written_is_told_once_and_the_end_too(written: RunFolder) -> None:
    note(written, Measured(5, 0.0, 1.0, 0.5))
    written.add_frame(frame(5))
    with shown(written) as (engine, told):
        assert told.shown().is_live
        engine.advance()
        before = len(told.frames)
        assert told.measured() == []  # it was replayed
        engine.advance()
        assert len(told.frames) == before, "nothing new: no frame"

        note(written, Measured(9, 0.0, 0.5, 0.75))
        written.add_frame(frame(9))
        engine.advance()
        assert told.measured() == [9]
        newest = told.frames[-1]
        assert (newest.step, newest.readings["gates"].step) == (9, 9)
        assert newest.readings["gates"].remark == ""
        assert "Not recorded" in newest.readings["npk"].absent

        note(written, Finished(9))
        written.close()
        engine.advance()
        assert told.shown() == RunShown("mine", "finished", 9)
        count = len(told.events)
        engine.advance()
        assert told.events[count:] == []


def test_a_folder_that_goes_away_ends_the_following_in_a_sentence(written: RunFolder) -> None:
    written.add_frame(frame(1))
    with shown(written) as (engine, told):
        written.path.rename(written.path.with_name("elsewhere"))
        engine.advance()
        refusals = [one for one in told.events if isinstance(one, Refused)]
        assert "no longer followed" in refusals[0].reason
        engine.advance()
        assert len(refusals) == 1


def test_a_run_that_goes_on_from_a_checkpoint_is_read_anew(written: RunFolder) -> None:
    note(written, Measured(5, 0.0, 1.0, 0.5))
    written.add_frame(frame(5))
    with shown(written) as (engine, told):
        written.resume_from_newest({"step": 0})
        note(written, Measured(2, 0.0, 1.0, 0.5))
        while len([one for one in told.events if isinstance(one, RunShown)]) < 2:
            engine.advance()
        replayed = [one for one in told.events if isinstance(one, HistoryReplayed)]
        assert [getattr(one, "step", 0) for one in replayed[-1].events] == [2]
        assert told.shown().is_live


def test_a_tail_tells_whole_lines_once_also_of_a_file_that_was_replaced(
    written: RunFolder, tmp_path: Path
) -> None:
    for step in range(3):
        note(written, Measured(step, 0.0, 1.0, 0.5))
    content = (written.path / "log.jsonl").read_bytes()
    lines, copy = content.splitlines(keepends=True), tmp_path / "log.jsonl"
    tail = LogTail(copy, after=1)
    copy.write_bytes(lines[0] + lines[1] + lines[2][:9])
    assert [line.seq for line in tail.take_lines()] == [1]
    assert tail.take_lines() == []
    with copy.open("ab") as file:
        file.write(lines[2][9:] + b"no line\n")
    assert [line.seq for line in tail.take_lines()] == [2]
    copy.unlink()
    copy.write_bytes(content)
    assert tail.take_lines() == []
