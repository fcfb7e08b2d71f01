"""The program's log: who writes it, how much is kept, and that it never is in the way."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dgn_engine import cli
from dgn_engine.cli import Subcommand
from dgn_engine.storage import program_log
from dgn_engine.storage.program_log import RotatingLog, end_of_log, log_path

HERE = logging.getLogger("dgn_viewer.tests")


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A state folder with a space and an umlaut in its path."""
    monkeypatch.delenv("DGN_HOME", raising=False)
    monkeypatch.setenv("DGN_HOME", str(tmp_path / "a stick ü"))
    return tmp_path / "a stick ü"


def test_a_program_logs_its_start_and_its_notices_for_this_user_alone(state: Path) -> None:
    with program_log.program_log("dgn-viewer", ["--config", "my run.toml"]):
        HERE.info("refused: %s", "no such\x1b file")
        HERE.debug("not this")
        logging.getLogger("a.library").info("nor this")
    HERE.info("it is over")
    begins, refused = end_of_log().splitlines()
    assert re.match(rf"\d{{4}}-\d\d-\d\d [\d:,]+ \[{os.getpid()}\] INFO dgn-viewer \d", begins)
    assert begins.endswith("; --config my run.toml")
    assert refused.endswith("refused: no such\\x1b file")
    assert log_path().is_relative_to(state)
    assert log_path().stat().st_mode & 0o077 == 0
    assert log_path().parent.stat().st_mode & 0o077 == 0


def test_a_fault_that_ends_a_program_is_in_the_log_with_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), program_log.program_log("dgn-viewer", []):
        print(1 // 0)
    assert re.search(r"dgn-viewer .*\nTraceback", end_of_log())
    assert end_of_log().endswith("ZeroDivisionError: integer division or modulo by zero\n")


def test_a_fault_in_a_command_is_in_the_log_and_goes_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: object) -> int:
        raise RuntimeError("a fault of ours")

    command = Subcommand("Fail.", lambda _: None, fail)
    monkeypatch.setattr(cli, "_select_commands", lambda _: {"fail": command})
    with pytest.raises(RuntimeError, match="a fault of ours"):
        cli.main(["fail"])
    assert re.search(r"ERROR dgn fail [\d.]+ .*\nTraceback", end_of_log())
    assert end_of_log().count("RuntimeError: a fault of ours") == 1


def test_a_crash_of_the_interpreter_leaves_its_stacks_in_the_log() -> None:
    code = (
        "import os, signal\n"
        "from dgn_engine.storage.program_log import crashes_logged\n"
        "def crash(): os.kill(os.getpid(), signal.SIGSEGV)\n"
        "with crashes_logged(): crash()"
    )
    root = Path(__file__).parents[3]
    given = {**os.environ, "PYTHONPATH": str(root), "PYTHONFAULTHANDLER": ""}
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, check=False)
    assert done.returncode < 0
    assert "Fatal Python error: Segmentation fault" in end_of_log()
    assert "in crash" in end_of_log()


def test_so_much_is_kept_and_no_more(state: Path) -> None:
    log = RotatingLog(log_path(), largest=100)
    for number in range(10):
        log.append_entry(f"{number}{'.' * 60}\n".encode())
    files = {path.name: path.read_text("utf-8")[0] for path in sorted((state / "log").iterdir())}
    assert files == {"dgn-viewer.1.log": "6", "dgn-viewer.2.log": "4", "dgn-viewer.log": "8"}


def test_the_end_of_a_long_log_begins_with_a_whole_line() -> None:
    RotatingLog(log_path()).append_entry(b"first line\nsecond line\nthird line\n")
    assert end_of_log(15) == "third line\n"


def test_a_folder_that_cannot_be_written_stops_nothing(state: Path) -> None:
    state.write_text("a file where the folder should be")
    with program_log.program_log("dgn-viewer", []):
        HERE.info("lost")
    with pytest.raises(NotADirectoryError):
        end_of_log()


def test_what_lies_there_as_a_link_is_not_written(state: Path) -> None:
    (state / "log").mkdir(parents=True)
    other = state / "other.txt"
    other.write_text("mine")
    log_path().symlink_to(other)
    with program_log.program_log("dgn-viewer", []):
        HERE.info("lost")
    assert other.read_text() == "mine"
