"""A log that is read in one go, without holding its lines, says what its lines say."""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.protocol.messages import Failed
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.training import Measured, RegimeSwapped, SettingChanged
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.drawn_events import drawn_history
from dgn_engine.storage.runs.log import LogContents, LogLine, LogScan, encode_line, event_of
from dgn_engine.storage.runs.log_summary import ENDS, GOES_ON, summarise_log, summary_scan
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_reader import RunReader
from tests.engine.storage.runs.drawn_logs import counting, drawn, lines_of, measured, swapped


def best_of(found: list[Any]) -> tuple[int, float]:
    known = [one for one in found if 0 <= (one.test_accuracy or 0.0) <= 1]
    best = max(known, key=lambda one: one.test_accuracy, default=None)
    return (0, -1.0) if best is None else (best.step, best.test_accuracy)


@pytest.mark.parametrize("seed", range(12))
def test_a_summary_says_what_the_lines_that_count_say(seed: int, tmp_path: Path) -> None:
    lines = drawn(seed)
    (tmp_path / "log").write_bytes(b"".join(map(encode_line, lines)))
    kept = counting(lines)
    told = [event for line in kept if (event := event_of(line)) is not None]
    tested = [e for e in told if isinstance(e, Measured) and e.test_accuracy is not None]
    swaps = [place for place, e in enumerate(told) if isinstance(e, RegimeSwapped)]
    since = told[swaps[-1] :] if swaps else told
    last = [line.name for line in kept if line.name in (*ENDS, *GOES_ON)][-1:]
    for found in (summarise_log(lines), summarise_log(summary_scan(tmp_path / "log"))):
        assert found.outcome == (ENDS[last[0]] if last and last[0] in ENDS else "interrupted")
        assert found.regime == (told[swaps[-1]].after if swaps else "")
        for score, among in ((found.best_of_all, told), (found.best, since)):
            wanted = best_of([e for e in tested if e in among])
            assert (score.step, score.accuracy) == wanted or math.isnan(score.accuracy)
            assert math.isnan(score.accuracy) == (wanted[1] < 0)
        assert repr(found.last.accuracy) == (repr(tested[-1].test_accuracy) if tested else "nan")
        steps = [line.fields.get("step", 0) for line in kept[-50:]]
        assert found.step == max(step for step in steps if type(step) is int and step >= 0)
        gaps = sum(line.name != "RunContinued" for line in lines[1:])
        assert found.seconds == gaps
        assert [type(e) for e in found.changes] == [
            type(e) for e in told if isinstance(e, (RegimeSwapped, RunContinued, Failed))
        ]


def test_lines_that_are_passed_over_are_checked_all_the_same(tmp_path: Path) -> None:
    lines = drawn(3)
    path = tmp_path / "log"
    content = bytearray(b"".join(map(encode_line, lines)))
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content) + b"torn")
    whole, quick = LogContents(path), LogScan(path, {})
    heads = [(line.seq, line.at, line.name) for line in quick]
    assert heads == [(line.seq, line.at, line.name) for line in whole.lines]
    assert len(quick.damaged) == 1
    assert (*quick.damaged,) == whole.damaged
    assert (*quick.missing,) == whole.missing
    assert (quick.torn, quick.end) == (4, whole.end)


def test_a_run_that_goes_on_ten_thousand_times_is_read_in_one_go() -> None:
    parts = [("RunContinued", {"step": 1, "lines": seq}) for seq in range(10_000)]
    assert len(summarise_log(lines_of(*parts)).changes) == 10_000


def test_more_changes_than_any_run_has_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn_engine.storage.runs.log_summary._MOST", 9)
    with pytest.raises(ValueError, match="more than 9 changes"):
        summarise_log(lines_of(*(swapped(step, "FL") for step in range(10))))


SPELLINGS = (
    *("0.5", "1", "1e-3", "-0.5", "7.0", '"nan"', '"inf"', "null", "true", '"0.5"', "[0.5]"),
    *("1.2.3", "0x1", "1e9999", "9" * 30, "0." + "5" * 30, ""),
)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_score_is_read_alike_however_it_is_spelt(spelling: str, tmp_path: Path) -> None:
    """The quick way to a score is taken only where it gives what reading the whole line gives."""
    sound = encode_line(LogLine(0, 1.5, *measured(2, 0.25)))
    odd = '{"seq":1,"at":2.5,"event":"Measured","step":3,"epoch":1.0,"train_loss":0.5,'
    odd += f'"train_accuracy":0.5,"test_loss":null,"test_accuracy":{spelling}'
    raw = odd.encode() + b',"crc":"%08x"}\n' % zlib.crc32(odd.encode())
    (tmp_path / "log").write_bytes(sound + raw)
    whole = LogContents(tmp_path / "log")
    assert repr(summarise_log(summary_scan(tmp_path / "log"))) == repr(summarise_log(whole.lines))


@pytest.mark.parametrize("loss", [0.1, -0.0, 1e-300, 1e22, 123456789.0, 5, math.nan, math.inf])
def test_scores_are_written_as_the_library_for_json_writes_them(loss: float) -> None:
    """Finite ones by a quicker way; the others and their words by the library itself."""
    number, at, fields = 7, 1764000000.125, {**measured(2, 0.25)[1], "train_loss": loss}
    word = loss if math.isfinite(loss) else str(loss)
    tree = {"seq": number, "at": at, "event": "Measured", **fields, "train_loss": word}
    text = json.dumps(tree, separators=(",", ":"))[:-1]
    raw = encode_line(LogLine(number, at, "Measured", fields))
    assert raw[: raw.rindex(b',"crc"')].decode() == text


# What panels draw of a long log is bounded, and says what it lacks.

MOST = 32


def scored(step: int, tested: bool = False) -> Measured:
    accuracy = 0.5 + 0.4 * ((step * 7919) % 101) / 101
    test = (0.25, accuracy) if tested else (None, None)
    return Measured(step, step / 5, 1.0, 0.5, *test)


def a_run(path: Path, lines: list[LogLine]) -> Path:
    RunFolder.create(path, RunConfig()).close()
    (path / folder_layout.LOG).write_bytes(b"".join(map(encode_line, lines)))
    return path


def test_a_short_history_is_whole_and_lacks_nothing() -> None:
    happened = [scored(step, step % 3 == 0) for step in range(20)]
    history = drawn_history(happened, MOST)
    assert history.events == tuple(happened)
    assert history.left_out == {}


def test_a_long_history_is_bounded_in_order_and_says_how_much_there_was() -> None:
    happened = [
        event
        for step in range(5000)
        for event in (scored(step, step % 10 == 0), ProbeScalars(step, "npk", {"nu": step % 13}))
    ]
    history = drawn_history(happened, MOST)
    drawn_of = dict.fromkeys(("training", "npk"), 0)
    for event in history.events:
        drawn_of["training" if isinstance(event, Measured) else "npk"] += 1
    assert drawn_of["training"] <= 2 * (MOST + 12)
    assert history.left_out == {
        "training": (drawn_of["training"], 5000),
        "npk": (drawn_of["npk"], 5000),
    }
    places = [happened.index(event) for event in history.events]
    assert places == sorted(places)


def test_the_best_and_the_last_score_of_a_long_history_are_there() -> None:
    happened = [scored(step, step % 10 == 0) for step in range(5000)]
    tested = [event for event in happened if event.test_accuracy is not None]
    held = drawn_history(happened, MOST).events
    assert max(tested, key=lambda event: event.test_accuracy or 0.0) in held
    assert tested[-1] in held
    assert happened[-1] in held


def test_changes_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [SettingChanged(step, 0.1, 1.0, "image", 0.0) for step in range(1000)]
    swap = RegimeSwapped(1000, "DL", "FL", (), (), (), ())
    history = drawn_history([*changes, swap], MOST)
    assert history.events[-1] == swap
    assert history.left_out == {"": (len(history.events), 1001)}


@pytest.mark.parametrize("seed", range(10))
def test_events_one_after_the_other_are_those_of_the_lines_that_count(
    seed: int, tmp_path: Path
) -> None:
    lines = drawn(seed)
    reader = RunReader(a_run(tmp_path / "run", lines))
    wanted = [event for line in counting(lines) if (event := event_of(line)) is not None]
    assert list(map(repr, reader.log.each_event())) == list(map(repr, wanted))
    assert repr(reader.log.summary) == repr(RunReader(tmp_path / "run").log.summary)
    kept = [line.seq for line in RunReader(tmp_path / "run").log.lines]
    assert kept == [line.seq for line in counting(lines)]
