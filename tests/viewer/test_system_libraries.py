"""Trouble with display and libraries is told in one sentence, before Qt aborts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dgn_viewer import system_libraries


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
    assert system_libraries.complaint(packages).endswith("sudo apt-get install libegl1")


def test_xcb_libraries_are_needed_only_for_xcb() -> None:
    def loads(name: str) -> bool:
        return "xcb" not in name

    assert system_libraries.missing_packages("offscreen", loads, "linux") == ()
    assert "libxcb-cursor0" in system_libraries.missing_packages("xcb", loads, "linux")


def test_without_a_display_the_ways_out_are_named() -> None:
    sentence = system_libraries.trouble({})
    if sys.platform.startswith("linux"):
        for way in ("--offscreen", "dgn train", "xvfb-run", "ssh -X"):
            assert way in sentence


def test_importing_the_viewer_loads_no_qt_and_no_torch() -> None:
    code = (
        "import sys, dgn_viewer, dgn_viewer.__main__, dgn_viewer.system_libraries;"
        "print([m for m in ('PySide6', 'torch') if m in sys.modules])"
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
    ("arguments", "words"),
    [
        (["--offscreen"], "--offscreen needs --steps N and --screenshot F.png"),
        (["--steps", "3"], "go with --offscreen"),
        (["--offscreen", "--steps", "3", "--screenshot", "/nowhere/a.png"], "Cannot write"),
        (["--offscreen", "--steps", "0", "--screenshot", "a.png"], "number of steps"),
        (["--config", "/nowhere.toml"], "Cannot read the configuration /nowhere.toml"),
        (["--size", "huge"], "write it as 1440x900"),
    ],
)
def test_bad_arguments_exit_2_with_a_sentence(arguments: list[str], words: str) -> None:
    result = _python("-m", "dgn_viewer", *arguments, QT_QPA_PLATFORM="offscreen")
    assert result.returncode == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
