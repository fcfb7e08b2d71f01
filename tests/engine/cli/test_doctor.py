"""`dgn doctor` says on one screen whether the program can work here, and with what."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dgn_engine.cli import main
from dgn_engine.cli.run import examine_health
from dgn_engine.cli.run.examine_health import HealthFinding, examine
from tests.hostile_names import HOSTILE, hidden

SUBJECTS = ("versions", "device", "confinement", "folders", "data sets")


def found(subject: str) -> dict[str, HealthFinding]:
    return {one.name: one for one in examine() if one.subject == subject}


def test_a_screen_names_versions_device_confinement_folders_and_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 60
    for subject in SUBJECTS:
        assert any(line[2:].startswith(subject) for line in lines)
    assert lines[-1].startswith("no faults (✗), ")


def test_json_holds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["works"] is True
    assert set(SUBJECTS) <= {one["subject"] for one in tree["findings"]}
    assert {"subject", "name", "state", "about"} == set(tree["findings"][0])


def test_versions_are_those_that_are_installed_and_what_is_missing_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from importlib.metadata import version

    assert found("versions")["torch"].about == version("torch")
    monkeypatch.setattr(examine_health, "_ALWAYS", ("no-such-package",))
    monkeypatch.setattr(examine_health, "_required", list)
    assert found("versions")["no-such-package"].state == "fault"
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "no-such-package    is not installed" in said
    assert "1 fault (✗)" in said


def test_torch_and_qt_are_not_loaded_to_be_reported() -> None:
    code = (
        "import sys; from dgn_engine.cli import main; main(['doctor']);"
        "sys.exit(bool({'torch', 'PySide6', 'matplotlib', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_folder_that_others_can_write_is_a_warning_and_one_of_nobody_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs"
    runs.mkdir(mode=0o700)
    monkeypatch.setenv("DGN_RUNS_ROOT", str(runs))
    monkeypatch.setattr(examine_health, "_parents", lambda folder: ())
    assert found("folders")["runs"].about.endswith(": private")
    runs.chmod(0o777)
    assert found("folders")["runs"].state == "note"
    assert "everybody can write into it" in found("folders")["runs"].about
    monkeypatch.setenv("DGN_RUNS_ROOT", str(runs / "later"))
    assert "everybody can write into" in found("folders")["runs"].about
    (tmp_path / "file").touch()
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / "file"))
    assert found("folders")["runs"].state == "fault"
    monkeypatch.setattr(examine_health.os, "access", lambda *_: False)
    assert found("folders")["cache"].state == "fault"


def test_a_hostile_folder_is_named_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / HOSTILE))
    assert main(["doctor"]) == 0
    assert hidden(capsys.readouterr().out) == {"\n"}


def test_what_a_window_lacks_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "display"

        def load(self) -> object:
            return lambda environment: "There is no display."

    monkeypatch.setattr(examine_health, "entry_points", lambda group: [Entry()])
    assert found("window")["display"].state == "note"
    assert found("window")["display"].about == "There is no display."
