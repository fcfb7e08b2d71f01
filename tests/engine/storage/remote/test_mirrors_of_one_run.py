"""A mirror is of one run for ever: nothing of another run comes into it, nor in its place."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import dgn_engine as dgn
from dgn_engine.cli import main
from dgn_engine.errors import UserError
from dgn_engine.storage.remote.run_mirror import RunMirror
from dgn_engine.storage.remote.run_server import RunServer
from dgn_engine.storage.runs import folder_layout as layout
from dgn_engine.storage.runs import run_info
from dgn_engine.storage.runs.log import LogWriter
from dgn_engine.storage.runs.manifest import verify
from dgn_engine.storage.runs.repair import repair
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.runs.run_removal import delete_run
from dgn_engine.storage.session_file.session_reader import unpack
from dgn_engine.storage.session_file.session_writer import export_run
from dgn_engine.training.headless_run import HeadlessRun
from tests.engine.attachment.loops import examples, mlp, train
from tests.engine.conftest import SMALL


class Quiet:
    def stepped(self, step: int) -> None:
        pass

    def on_event(self, event: object) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[RunServer]:
    server = RunServer(folder)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def mirror_once(folder: Path, here: Path) -> None:
    with serving(folder) as server:
        mirror = RunMirror(server.port, server.token, here)
        try:
            mirror.sync()
        finally:
            mirror.close()


def record(folder: Path, steps: int) -> Path:
    with dgn.watch(mlp(), probe=examples(), out=folder, probes=("gates",)) as w:
        train(w._module, steps, w.step)
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs, the second has the longer log."""
    root = tmp_path_factory.mktemp("both")
    return record(root / "one", 3), record(root / "two", 9)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints and weights."""
    folder = RunFolder.create(tmp_path_factory.mktemp("trained") / "run", SMALL)
    HeadlessRun(Quiet(), lambda: False, ("gates",), 0.0).train(SMALL, folder)
    assert (folder.path / layout.WEIGHTS).is_file()
    return folder.path


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != layout.LOCK)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def write_over(path: Path, content: bytes) -> None:
    """In place: the file keeps its inode number, as one does that was removed and made anew."""
    with path.open("r+b") as file:
        file.truncate()
        file.write(content)


@pytest.mark.parametrize("older", [False, True])
def test_the_mirror_of_another_run_is_not_written_over(
    both: tuple[Path, Path], tmp_path: Path, older: bool
) -> None:
    one, two = both
    mirror_once(one, tmp_path / "here")
    if older:  # a mirror of before does not say itself which run it is
        (tmp_path / "here" / layout.MIRROR).write_bytes(b"")
    before = contents(tmp_path / "here")
    with pytest.raises(UserError, match="another run"):
        mirror_once(two, tmp_path / "here")
    assert contents(tmp_path / "here") == before
    mirror_once(one, tmp_path / "here")  # its own run may come again
    assert contents(tmp_path / "here").keys() == before.keys()


def test_a_run_in_the_place_of_the_one_that_is_mirrored_is_refused(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    one, two = both
    served, here = tmp_path / "served", tmp_path / "here"
    shutil.copytree(one, served)
    with serving(served) as server:
        mirror = RunMirror(server.port, server.token, here)
        mirror.sync()
        before = contents(here)
        for name in (layout.LOG, layout.RUN, layout.CONFIG):
            write_over(served / name, (two / name).read_bytes())
        with pytest.raises(UserError, match="another run"):
            mirror.sync()
        mirror.close()
    assert contents(here) == before
    assert verify(here) == []


def test_lines_that_came_before_the_change_was_seen_are_cut_off(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    one, two = both
    served, here = tmp_path / "served", tmp_path / "here"
    shutil.copytree(one, served)
    own = (one / layout.LOG).read_bytes()
    with serving(served) as server:
        mirror = RunMirror(server.port, server.token, here)
        mirror.sync()
        write_over(served / layout.LOG, own + (two / layout.LOG).read_bytes())
        mirror.sync()
        assert len((here / layout.LOG).read_bytes()) > len(own)
        write_over(served / layout.RUN, (two / layout.RUN).read_bytes())
        with pytest.raises(UserError, match="another run"):
            mirror.sync()
        mirror.close()
    assert (here / layout.LOG).read_bytes() == own


def test_a_log_whose_end_was_written_anew_in_place_comes_anew(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    served, here = tmp_path / "served", tmp_path / "here"
    shutil.copytree(both[0], served)
    whole = (served / layout.LOG).read_bytes()
    write_over(served / layout.LOG, whole + b'{"seq":7,"at":17')  # its writer was killed
    with serving(served) as server:
        mirror = RunMirror(server.port, server.token, here)
        mirror.sync()
        writer = LogWriter(served / layout.LOG)  # cuts the torn line off
        for _ in range(9):
            writer.append("Note", {"text": "goes on"})
        writer.close()
        mirror.sync()
        mirror.close()
    assert (here / layout.LOG).read_bytes() == (served / layout.LOG).read_bytes()


def test_an_honest_mirror_is_sound(
    both: tuple[Path, Path],
    tmp_path: Path,
    trained: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = tmp_path / "here"
    mirror_once(trained, here)
    assert verify(here) == []
    assert main(["runs", "verify", str(here)]) == 0
    assert "mirror" in capsys.readouterr().out
    before = contents(here)
    assert repair(here) == []
    assert contents(here) == before
    frame = next((here / layout.FRAMES).iterdir())
    frame.write_bytes(frame.read_bytes()[:-1])
    assert [one.path for one in verify(here)] == [f"{layout.FRAMES}/{frame.name}"]


def test_a_session_of_a_mirror_claims_what_it_holds(trained: Path, tmp_path: Path) -> None:
    mirror_once(trained, tmp_path / "here")
    (tmp_path / "unpacked").mkdir()
    export_run(tmp_path / "here", tmp_path / "run.dgn")
    assert verify(unpack(tmp_path / "run.dgn", tmp_path / "unpacked").folder) == []


def test_a_mirror_that_is_deleted_leaves_no_folder(both: tuple[Path, Path], tmp_path: Path) -> None:
    mirror_once(both[0], tmp_path / "here")
    delete_run(tmp_path / "here")
    assert not (tmp_path / "here").exists()


def test_a_run_without_an_id_is_known_by_when_it_was_begun(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    runs = [shutil.copytree(run, tmp_path / run.name) for run in both]
    for begun, run in zip(("2024-01-01", "2024-01-02"), runs, strict=True):
        info = {key: value for key, value in run_info.read(run).items() if key != "id"}
        run_info.write(run, {**info, "created": f"{begun}T00:00:00+00:00"})
    mirror_once(runs[0], tmp_path / "here")
    with pytest.raises(UserError, match="another run"):
        mirror_once(runs[1], tmp_path / "here")
