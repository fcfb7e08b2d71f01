"""What a command of `dgn` imports: one that computes nothing loads nothing that computes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dgn_engine.cli import _own_commands, main

COMPUTING = {"torch", "torchvision", "sklearn", "scipy", "matplotlib", "numba"}
DRAWING = {"PySide6", "pyqtgraph"}
_CHILD = """
import contextlib, io, json, sys
from dgn_engine.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    try:
        code = main(sys.argv[1:])
    except SystemExit as left:
        code = left.code
print(json.dumps([code, sorted(sys.modules)]))
"""


def modules_of(*words: str | Path) -> set[str]:
    """What is in `sys.modules` after a command that has done what it was asked for."""
    command = [sys.executable, "-c", _CHILD, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stdout)
    assert code == 0, done.stderr
    return set(modules)


def packages_of(*words: str | Path) -> set[str]:
    """The names of the packages among them."""
    return {module.partition(".")[0] for module in modules_of(*words)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that holds `one`."""
    folder = tmp_path_factory.mktemp("runs")
    options = ["--data", "digits", "--width", "4", "--depth", "3", "--epochs", "1"]
    assert main(["train", *options, "--quiet", "--out", str(folder / "one")]) == 0
    return folder


@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_the_help_loads_nothing_that_computes_or_draws(words: tuple[str, ...]) -> None:
    assert packages_of(*words).isdisjoint({*COMPUTING, *DRAWING, "numpy", "rich"})


@pytest.mark.discovery
@pytest.mark.parametrize("command", sorted(_own_commands()))
def test_the_help_of_a_command_loads_nothing_that_computes_or_draws(command: str) -> None:
    loaded = modules_of(command, "--help")
    assert loaded.isdisjoint({*COMPUTING, *DRAWING, "numpy", "rich"})
    assert [name for name in loaded if name.startswith("dgn_engine.cli.run.")] == []


@pytest.mark.parametrize("verb", ["list", "show", "verify"])
def test_recorded_runs_are_listed_and_shown_without_numpy(runs: Path, verb: str) -> None:
    """`verify` reads the frames."""
    where = runs if verb == "list" else runs / "one"
    loaded = packages_of("runs", verb, where)
    readers = set() if verb == "verify" else {"numpy", "safetensors"}
    assert loaded.isdisjoint({*COMPUTING, *DRAWING, *readers})


@pytest.mark.parametrize(
    "words", [("doctor",), ("reproduce", "--list"), ("train", "--print-config")]
)
def test_what_computes_nothing_loads_nothing_that_computes(words: tuple[str, ...]) -> None:
    loaded = packages_of(*words) if words != ("doctor",) else examined()
    assert loaded.isdisjoint({*COMPUTING, *DRAWING})


def examined() -> set[str]:
    """As `packages_of("doctor")`, whose exit code says what it thinks of this machine."""
    looked = "from dgn_engine.cli.run.examine_health import examine\nexamine()\n"
    code = f"{looked}import json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {module.partition(".")[0] for module in json.loads(done.stdout)}


def test_only_the_command_that_is_asked_for_is_imported(runs: Path) -> None:
    loaded = modules_of("runs", "list", runs)
    others = {f"dgn_engine.cli.{name.replace('-', '_')}" for name in _own_commands()}
    assert loaded & others == {"dgn_engine.cli.runs"}
    assert "importlib.metadata" not in loaded  # it reads the list of every installed package
