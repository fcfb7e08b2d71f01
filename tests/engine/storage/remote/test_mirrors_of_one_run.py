"""A mirror becomes the run that is served, and is of that one for ever: nothing of another run, nor
of a log that was replaced, comes into it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import dgn_engine as dgn
from dgn_engine.cli import main
from dgn_engine.storage.remote import LineLimits
from dgn_engine.storage.remote.run_mirror import RunMirror, mirror_until_end
from dgn_engine.storage.remote.served_run import LineDroppedError
from dgn_engine.storage.runs import folder_layout as layout
from dgn_engine.storage.runs import run_info
from dgn_engine.storage.runs.log import LogWriter
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_reader import RunReader
from dgn_engine.storage.runs.run_removal import delete_run
from dgn_engine.storage.session_file.session_reader import unpack_session
from dgn_engine.storage.session_file.session_writer import export_run
from tests.engine.attachment.loops import examples, mlp, train
from tests.engine.conftest import SMALL
from tests.engine.storage.remote.peers import (
    LOG,
    Send,
    asked_part,
    false_server,
    listing,
    mirror_once,
    mirroring,
    reply,
    serving,
)
from tests.engine.storage.trained_runs import train_new_run
from tests.refusals import refused

LONG = 5000  # bytes of a log's end, more than are compared when it is longer
SHORT_PIECES = LineLimits(piece=100)


@pytest.fixture(scope="module")
def trained(module_path: Path) -> Path:
    """A run with checkpoints and weights."""
    train_new_run(module_path / "run", SMALL, None, ("gates",), 0.0)
    assert (module_path / "run" / layout.WEIGHTS).is_file()
    return module_path / "run"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tmp_path / "here"


def contents(folder: Path) -> dict[str, bytes]:
    """Of the files that a mirror has: those that are served."""
    own = (layout.LOCK, layout.NOTES, layout.MIRROR)
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in own)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def write_over(path: Path, content: bytes) -> None:
    """In place: the file keeps its inode number, as one does that was removed and made anew."""
    with path.open("r+b") as file:
        file.truncate()
        file.write(content)


def put_in_place(path: Path, content: bytes) -> None:
    """As a repair writes a log: another file takes its name."""
    path.with_name("new").write_bytes(content)
    path.with_name("new").replace(path)


def test_a_mirror_becomes_the_run_and_may_be_gone_on_with(recorded: Path, here: Path) -> None:
    for _ in range(2):
        with mirroring(recorded, here) as mirror:
            assert not mirror.sync().running
            assert mirror.complete
        assert contents(here) == contents(recorded)
    with refused("not-empty", value=recorded):
        RunMirror(1, "x", recorded)


def test_a_run_that_is_written_is_followed_and_ends(tmp_path: Path, here: Path) -> None:
    network, source = mlp(), tmp_path / "run"
    w = dgn.watch(network, probe=examples(), out=source, probes=("gates",)).start()
    with mirroring(source, here) as mirror:
        assert mirror.sync().running
        assert RunReader(here).status == "running"  # by its lock: a window follows it
        train(network, 3, w.step)
        w.test(0.5, 0.5)
        w.close()
        mirror_until_end(mirror, lambda words, lost: pytest.fail(words), lambda seconds: True)
    assert contents(here) == contents(source)
    assert RunReader(here).status == "finished"


# A log in the place of the one that was mirrored


def longer(before: bytes) -> bytes:
    """Another log that is longer, and where the one before ended has the same bytes."""
    return bytes(before[:-LONG]).swapcase() + before[-LONG:] + b"and more\n"


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "longer": lambda before: b"another" + before + b"more",
    "shorter": lambda before: before[: len(before) // 2],
    "another end": lambda before: before[:-9] + b"not the same end\n",
    "longer with the same end": longer,  # in place it is one to which was written
}


@pytest.mark.parametrize(
    ("change", "replace"),
    [*((change, put_in_place) for change in CHANGES), *((c, write_over) for c in [*CHANGES][:3])],
)
def test_a_log_that_was_replaced_comes_anew(
    change: str, replace: Callable[[Path, bytes], None], served: Path, here: Path
) -> None:
    log = served / layout.LOG
    write_over(log, log.read_bytes() + Random(0).randbytes(2 * LONG))
    with mirroring(served, here) as mirror:
        for _ in range(2):
            mirror.sync()
            assert (here / layout.LOG).read_bytes() == log.read_bytes()
            replace(log, CHANGES[change](log.read_bytes()))
        mirror.sync()
    assert (here / layout.LOG).read_bytes() == log.read_bytes()


@pytest.mark.parametrize("running", [True, False])
def test_a_log_that_is_replaced_between_its_pieces_is_not_left_in_parts_of_both(
    running: bool, here: Path
) -> None:
    """Also where the run has ended, and was repaired meanwhile."""
    logs, inode, lists = [b"a" * 300, b"b" * 350], 7, 0

    def answer(path: str, send: Send) -> None:
        nonlocal inode, lists
        part = asked_part(path)
        log = logs[0]
        if part is None:
            lists += 1
            go_on = running and lists < 4
            send(reply(listing([layout.LOG, len(log), inode, inode], running=go_on)))
            return
        send(reply(log[part[0] : part[0] + part[1]]))
        if part[0] == 100 and logs[1:]:
            logs.pop(0)
            inode += 1

    with false_server(answer) as port:
        mirror = RunMirror(port, "t", here, limits=SHORT_PIECES)
        with closing(mirror):
            mirror_until_end(mirror, lambda words, lost: pytest.fail(words), lambda _: True)
    assert (here / layout.LOG).read_bytes() == b"b" * 350


def test_a_log_whose_end_was_written_anew_in_place_comes_anew(served: Path, here: Path) -> None:
    log = served / layout.LOG
    write_over(log, log.read_bytes() + b'{"seq":7,"at":17')  # its writer was killed
    with mirroring(served, here) as mirror:
        mirror.sync()
        writer = LogWriter(log)  # cuts the torn line off
        for _ in range(9):
            writer.append_line("Note", {"text": "goes on"})
        writer.close()
        mirror.sync()
    assert (here / layout.LOG).read_bytes() == log.read_bytes()


def test_a_log_that_is_dropped_in_its_middle_goes_on_from_there(here: Path) -> None:
    whole, size, places = bytes(range(250)) * 2, 150, list[int]()

    def answer(path: str, send: Send) -> None:
        part = asked_part(path)
        if part is None:
            send(reply(listing([layout.LOG, size, 1, 1], running=True)))
            return
        places.append(part[0])
        if len(places) == 5:
            raise OSError
        send(reply(whole[part[0] : part[0] + part[1]]))

    with false_server(answer) as port:
        mirror = RunMirror(port, "t", here, limits=SHORT_PIECES, overlap=50)
        with closing(mirror):
            mirror.sync()
            size = len(whole)
            with pytest.raises(LineDroppedError):
                mirror.sync()
            assert (here / layout.LOG).read_bytes() == whole[:300]
            mirror.sync()
    assert (here / layout.LOG).read_bytes() == whole
    assert places == [0, 100, 100, 200, 300, 250, 350, 450]  # 50 bytes are read again


def test_frames_that_go_there_go_here_too_and_come_back(
    served: Path, here: Path, tmp_path: Path
) -> None:
    last = sorted((served / layout.FRAMES).iterdir())[-1]
    with mirroring(served, here) as mirror:
        for _ in range(2):
            mirror.sync()
            last.rename(tmp_path / "away")
            mirror.sync()
            assert contents(here) == contents(served)
            (tmp_path / "away").rename(last)
        mirror.sync()
    assert contents(here) == contents(served)


def test_the_log_is_looked_at_between_frames_and_an_ended_run_is_live_until_it_is_whole(
    recorded: Path, here: Path
) -> None:
    with mirroring(recorded, here, frames_for=-1.0) as mirror:
        assert not mirror.sync().running
        assert not mirror.complete
        assert RunReader(here).status == "running"
    with mirroring(recorded, here) as mirror:
        mirror_until_end(mirror, lambda words, lost: pytest.fail(words), lambda seconds: False)
        assert mirror.complete
        assert RunReader(here).status == "finished"
    assert contents(here) == contents(recorded)


# Lines that are dropped


def test_a_dropped_line_is_said_once_and_tried_less_and_less_often_each_time_it_drops(
    here: Path,
) -> None:
    is_there, running = False, True
    told: list[bool] = []
    waits: list[float] = []

    def answer(_: str, send: Send) -> None:
        if not is_there:
            raise OSError
        send(reply(listing(LOG, running=running)))

    def wait(seconds: float) -> bool:
        nonlocal is_there, running
        waits.append(seconds)
        is_there = len(waits) in (8, 11, 12)
        running = len(waits) < 12
        return True

    with false_server(answer) as port, closing(RunMirror(port, "t", here)) as mirror:
        mirror_until_end(mirror, lambda words, lost: told.append(lost), wait)
    assert told == [True, False, True, False]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 0.5, 0.5, 1.0, 0.5]


# Which run it is of


@pytest.mark.parametrize("older", [False, True])
def test_the_mirror_of_another_run_is_not_written_over(
    two_runs: tuple[Path, Path], here: Path, older: bool
) -> None:
    one, two = two_runs
    mirror_once(one, here)
    if older:  # a mirror of before does not say itself which run it is
        (here / layout.MIRROR).write_bytes(b"")
    before = contents(here)
    with refused("other-run", value=here):
        mirror_once(two, here)
    assert contents(here) == before
    mirror_once(one, here)  # its own run may come again
    assert contents(here) == before


def test_a_run_in_the_place_of_the_one_that_is_mirrored_is_refused(
    two_runs: tuple[Path, Path], served: Path, here: Path
) -> None:
    with mirroring(served, here) as mirror:
        mirror.sync()
        before = contents(here)
        for name in (layout.LOG, layout.RUN, layout.CONFIG):
            write_over(served / name, (two_runs[1] / name).read_bytes())
        with refused("other-run"):
            mirror.sync()
    assert contents(here) == before
    assert find_damage(here) == []


def test_lines_that_came_before_the_change_was_seen_are_cut_off(
    two_runs: tuple[Path, Path], served: Path, here: Path
) -> None:
    own = (served / layout.LOG).read_bytes()
    with mirroring(served, here) as mirror:
        mirror.sync()
        write_over(served / layout.LOG, own + (two_runs[1] / layout.LOG).read_bytes())
        mirror.sync()
        assert len((here / layout.LOG).read_bytes()) > len(own)
        write_over(served / layout.RUN, (two_runs[1] / layout.RUN).read_bytes())
        with refused("other-run"):
            mirror.sync()
    assert (here / layout.LOG).read_bytes() == own


def test_a_run_without_an_id_is_known_by_when_it_was_begun(
    two_runs: tuple[Path, Path], tmp_path: Path, here: Path
) -> None:
    runs = [Path(shutil.copytree(run, tmp_path / run.name)) for run in two_runs]
    for date, run in zip(("2024-01-01", "2024-01-02"), runs, strict=True):
        info = {key: value for key, value in run_info.read_run_info(run).items() if key != "id"}
        run_info.write_run_info(run, {**info, "created": f"{date}T00:00:00+00:00"})
    mirror_once(runs[0], here)
    with refused("other-run"):
        mirror_once(runs[1], here)


def test_a_mirror_is_named_as_the_run_and_found_again_by_its_id(
    recorded: Path, tmp_path: Path
) -> None:
    below = tmp_path / "runs"
    shutil.copytree(recorded, below / "run")  # a run of this machine that has the same name
    with serving(recorded) as server:
        for _ in range(2):
            mirror = RunMirror(server.port, server.token, below=below)
            assert mirror.folder is None
            mirror.sync()
            assert mirror.folder == below / "run-2"
    assert sorted(path.name for path in below.iterdir()) == ["run", "run-2"]


def test_a_mirror_does_not_take_the_name_of_the_limits(recorded: Path, tmp_path: Path) -> None:
    named = Path(shutil.copytree(recorded, tmp_path / "limits.toml"))
    with serving(named) as server:
        with closing(RunMirror(server.port, server.token, below=tmp_path / "runs")) as mirror:
            mirror.sync()
            assert mirror.folder == tmp_path / "runs" / "limits.toml-2"
        with refused("reserved-name"):
            RunMirror(server.port, server.token, tmp_path / "runs" / "limits.toml")


# What is done with a mirror


def test_an_honest_mirror_is_sound_exported_and_deleted(
    trained: Path, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror_once(trained, here)
    assert find_damage(here) == []
    assert main(["runs", "verify", str(here)]) == 0
    assert "mirror" in capsys.readouterr().out
    before = contents(here)
    assert repair_run_folder(here) == []
    assert contents(here) == before
    (tmp_path / "unpacked").mkdir()
    export_run(here, tmp_path / "run.dgn")
    assert find_damage(unpack_session(tmp_path / "run.dgn", tmp_path / "unpacked").folder) == []
    frame = next((here / layout.FRAMES).iterdir())
    frame.write_bytes(frame.read_bytes()[:-1])
    assert [one.path for one in find_damage(here)] == [f"{layout.FRAMES}/{frame.name}"]
    delete_run(here)
    assert not here.exists()
