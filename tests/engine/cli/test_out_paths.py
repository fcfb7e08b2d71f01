"""Where commands write: a fresh path or a regular file, and nothing else is replaced."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.atomic_write import (
    NotReplaced,
    check_output,
    check_output_folder,
    replace_file,
    require_replaceable,
    save_file,
    write_file,
)
from dgn_engine.storage.inner_path import inner_folder
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.session_file.session_writer import save_session
from dgn_engine.sweep.checks import check_folder
from dgn_engine.sweep.unit import unit_folder
from tests.engine.cli.typed import refused_command_of_kind
from tests.refusals import refused_command


def a_link(path: Path) -> None:
    path.symlink_to(path.with_name("precious"))


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


def a_folder(path: Path) -> None:
    path.mkdir()


def a_socket(path: Path) -> None:
    place = Path.cwd()
    os.chdir(path.parent)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(place)


@pytest.mark.skipif(os.name != "posix", reason="names of bytes")
@pytest.mark.parametrize(
    "command",
    [
        "train --epochs 1 --out",
        "sweep sweep.toml --out",
        "reproduce theory-depth --out",
        "gate-information file.pt run.toml --out",
        "kernels run --examples 4 --out",
        "inspect run --out",
        "runs export run",
    ],
)
def test_a_name_that_is_no_utf8_is_refused_before_the_work(command: str, tmp_path: Path) -> None:
    refused_command_of_kind("no-text", *command.split(), tmp_path / "a\udcffb")
    with pytest.raises(UserError):  # nor the users' folder of runs
        RunFolder.create(tmp_path / "a\udcffb" / "run", RunConfig())
    assert [*tmp_path.iterdir()] == []


@pytest.mark.skipif(os.name != "posix", reason="names of bytes")
def test_a_run_in_a_folder_of_such_a_name_is_exported(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", RunConfig()).close()
    folder = (tmp_path / "run").rename(tmp_path / "a\udcffb")
    assert save_session(folder, tmp_path / "out.dgn") > 0
    assert (tmp_path / "out.dgn").stat().st_size > 0


THINGS = (os.mkfifo, a_link, a_link_to_nothing, a_folder, a_socket)


def kind_of(path: Path) -> int:
    return stat.S_IFMT(path.lstat().st_mode)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "precious").write_text("precious")
    return tmp_path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = RunFolder.create(tmp_path / "run", RunConfig())
    folder.close()
    return folder.path


def test_a_device_is_not_replaced() -> None:
    with pytest.raises(NotReplaced, match="device"):
        require_replaceable(Path(os.devnull))
    with pytest.raises(UserError, match=r"/dev/null.* device"):
        check_output(Path("/dev/null"))


@pytest.mark.parametrize("thing", THINGS)
def test_only_a_regular_file_is_replaced(thing: Callable[[Path], None], place: Path) -> None:
    path = place / "x"
    thing(path)
    kind = kind_of(path)
    with pytest.raises(NotReplaced):
        write_file(path, b"new")
    with pytest.raises(NotReplaced), replace_file(path):
        pass
    with pytest.raises(UserError, match="x"):
        save_file(path, b"new")
    with pytest.raises(UserError, match="x"):
        check_output_folder(place, ["x"])
    assert kind_of(path) == kind
    assert (place / "precious").read_text() == "precious"
    assert sorted(one.name for one in place.iterdir()) == ["precious", "x"]
    check_output(place / "new")
    check_output(place / "precious")
    check_output(place / "precious" / "deep")  # whoever writes it says what is wrong
    write_file(place / "precious", b"new")
    assert (place / "precious").read_bytes() == b"new"


@pytest.mark.wide
@pytest.mark.parametrize("thing", [os.mkfifo, a_link, a_link_to_nothing])
@pytest.mark.parametrize(
    "command",
    [
        "kernels no.pt --inputs no.npy --out x.npz",
        "runs export run x.dgn",
        "runs export run x.csv",
        "train --out x.npz",
        "inspect no.pt --data digits --out folder",
        "sweep sweep.toml --out x.npz",
        "reproduce npf-nu --out x.npz",
        "figure run --panel training --out x.pdf",
    ],
)
def test_a_command_refuses_what_is_no_file_before_it_works(
    command: str,
    thing: Callable[[Path], None],
    run: Path,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(run.parent)
    (place / "sweep.toml").write_text("[grid]\nseed = [0, 1]\n")
    (place / "folder").mkdir()
    path = place / ("folder/kernels.npz" if "inspect" in command else command.split()[-1])
    if thing is a_link:
        (place / "folder" / "precious").touch()
    thing(path)
    before = sorted(one.name for one in place.iterdir())
    kind = kind_of(path)
    assert path.name in str(refused_command(*command.split()))
    assert kind_of(path) == kind
    assert sorted(one.name for one in place.iterdir()) == before
    assert (place / "precious").read_text() == "precious"


def test_no_path_at_all_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (".", "..", "/"):
        with pytest.raises(UserError, match="folder"):
            check_output(Path(name))


@pytest.mark.parametrize("name", ["units", "units/one", "logs", "lock", "figures"])
def test_links_in_a_folder_of_results_are_refused(name: str, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    (root / "units").mkdir(parents=True)
    elsewhere.mkdir()
    check_folder(root, ("figures",))
    if name == "units":
        (root / "units").rmdir()
    (root / name).symlink_to(elsewhere)
    with pytest.raises(UserError, match=f"'{name}'.* link"):
        check_folder(root, ("figures",))
    if name.startswith("units"):
        with pytest.raises(UserError, match="link"):
            unit_folder(root, "one")
    with pytest.raises(OSError, match="link"):
        write_file(inner_folder(root) / name / "x", b"")
    assert list(elsewhere.iterdir()) == []
