"""How the program begins: with a display and its libraries, and with arguments that agree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dgn_engine.errors import UserError
from dgn_viewer import system_libraries
from dgn_viewer.__main__ import REFUSED, build_parser, check_arguments, main
from tests.refusals import refused


@pytest.mark.parametrize(
    ("environment", "platform"),
    [
        ({}, ""),
        ({"DISPLAY": ":0"}, "xcb"),
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, "wayland"),
        ({"QT_QPA_PLATFORM": "offscreen"}, "offscreen"),
        ({"QT_QPA_PLATFORM": "wayland;xcb", "DISPLAY": ":0"}, "wayland"),
        ({"QT_QPA_PLATFORM": "vnc:size=800x600"}, "vnc"),
    ],
)
def test_the_platform_follows_the_environment(environment: dict[str, str], platform: str) -> None:
    assert system_libraries.qt_platform(environment, "linux") == platform


def test_other_systems_always_have_a_display() -> None:
    assert system_libraries.qt_platform({}, "darwin") == "native"


def test_a_missing_library_is_named_with_the_apt_line() -> None:
    packages = system_libraries.missing_packages(
        "offscreen", lambda name: "EGL" not in name, "linux"
    )
    assert packages == ("libegl1",)
    assert system_libraries.missing_packages_message(packages).endswith(
        "sudo apt-get install libegl1"
    )


def test_xcb_libraries_are_needed_only_for_xcb() -> None:
    def loads(name: str) -> bool:
        return "xcb" not in name

    assert system_libraries.missing_packages("offscreen", loads, "linux") == ()
    assert "libxcb-cursor0" in system_libraries.missing_packages("xcb", loads, "linux")


def test_without_a_display_the_ways_out_are_named() -> None:
    sentence = system_libraries.reason_no_window({})
    if sys.platform.startswith("linux"):
        for way in ("--offscreen", "dgn train", "xvfb-run", "ssh -X"):
            assert way in sentence


def test_importing_the_viewer_loads_no_qt_and_no_torch() -> None:
    code = (
        "import sys, dgn_viewer, dgn_viewer.__main__, dgn_viewer.system_libraries;"
        "print([m for m in ('PySide6', 'torch') if m in sys.modules])"
    )
    assert _python("-c", code).stdout.strip() == "[]"


def test_the_program_keeps_no_source_of_what_it_imports() -> None:
    code = (
        "from dgn_viewer.__main__ import load_qt; load_qt();"
        "import dgn_viewer.application, linecache;"
        "print([name for name in linecache.cache if 'dgn_' in name])"
    )
    assert _python("-c", code).stdout.strip() == "[]"


def _python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[2]
    paths = ":".join(str(root / part) for part in (".", "app", "resources"))
    return subprocess.run(
        [sys.executable, *arguments],
        env={"PYTHONPATH": paths, "PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a display is always there")
def test_the_program_without_a_display_exits_2_with_one_sentence() -> None:
    result = _python("-m", "dgn_viewer")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (["--offscreen"], "missing"),
        (["--steps", "3"], "contradiction"),
        (["nowhere"], "no-file"),
        (["run", "--seed", "1"], "contradiction"),
        (["dgn://127.0.0.1:1", "--seed", "1"], "contradiction"),
        (["--token-file", "x"], "contradiction"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(given: list[str], kind: str) -> None:
    with refused(kind):
        check_arguments(build_parser().parse_args(given))


@pytest.mark.parametrize("address", ["dgn://example.org:1", "dgn://secret@127.0.0.1:1"])
def test_an_address_of_no_served_run_is_refused_and_no_token_is_repeated(address: str) -> None:
    with pytest.raises(UserError) as refusal:
        check_arguments(build_parser().parse_args([address]))
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("given", [("--steps", "0"), ("--size", "huge"), ("--seed", "-1")])
def test_a_value_that_is_none_ends_the_program_with_2_and_is_named(
    given: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args([f"{given[0]}={given[1]}"])
    assert ended.value.code == 2
    assert repr(given[1]) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--offscreen", "--steps", "3", "--screenshot", "/nowhere/a.png"), "/nowhere/a.png"),
        (("--config", "/nowhere.toml"), "/nowhere.toml"),
    ],
)
def test_a_file_that_cannot_be_used_ends_the_program_with_2_and_is_named(
    given: tuple[str, ...],
    named: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("DGN_HOME", str(tmp_path))
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    assert main(given) == REFUSED == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line


def test_a_run_is_named_by_its_folder(tmp_path: Path) -> None:
    assert build_parser().parse_args([str(tmp_path)]).run == str(tmp_path)
    assert build_parser().parse_args([]).run == ""
