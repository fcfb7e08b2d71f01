"""Processes are started in listed modules alone, in the program by `ChildProcess` alone, Python
always by the command of `confinement`.

Not the tests themselves: they start Python in folders that they have made.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("dgn_engine", "app", "benchmarks", "documentation", "packaging", "resources")
SUBPROCESS = {"Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "run"}
AS_NAMES = SUBPROCESS | {"fork", "get_context", "popen", "Pool", "Process", "system", "which"}
# Names that start a process, wherever they come from, or find what is to be started.
STARTERS = re.compile(
    r"(?:os\.)?(?:exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?|system|popen|startfile|forkpty|fork)"
    r"|(?:multiprocessing\.)?(?:get_context|set_start_method|Process|Pool)"
    r"|(?:asyncio\.)?create_subprocess_(?:exec|shell)|ProcessPoolExecutor|QProcess"
    r"|SpawnContext|SLURMCluster|LocalCluster|Nanny|spawnv_passfds|get_loky_context"
    r"|sys\.executable|shutil\.which|webbrowser\.open|QDesktopServices\.openUrl"
)
BARE = {"Process", "Pool", "call", "run", "system", "fork", "popen"}  # ours are called so, too
# What each does, or why it needs nothing of `confinement`.
STARTS = {
    "app/dgn_viewer/experiments/dgn_process.py": "a command: `module_command`",
    "dgn_engine/figures/animation.py": "ffmpeg: `find_program`, in a folder of its own",
    "dgn_engine/figures/film_process.py": "the process of a film: `module_command`",
    "dgn_engine/storage/checkpoints/checkpoint_reader.py": "readers: `confined_command`",
    "dgn_engine/storage/images/decoder_pool.py": "readers: `confined_command`",
    "app/dgn_viewer/shell/experiment_runner.py": "a report, in the desktop's browser",
    "app/dgn_viewer/shell/help_window.py": "a link, in the desktop's browser",
    "app/dgn_viewer/shell/log_window.py": "a folder, in the desktop's window of files",
    "benchmarks/children.py": "measures: `python_environment`",
    "benchmarks/gpu.py": "names the interpreter in a sentence",
    "benchmarks/house.py": "git, in the checkout that it measures",
    "benchmarks/memory.py": "measures: `python_command`",
    "benchmarks/peer.py": "another library, in an environment of its own, in our tree",
    "benchmarks/scaling.py": "makes a run: `python_command`",
    "benchmarks/scrubbing.py": "makes a run: `python_command`",
    "benchmarks/start.py": "measures: `python_command`",
    "benchmarks/sweep_on_cores.py": "runs its own main script again, in our tree",
    "dgn_engine/cli/docs.py": "a page, in the browser; a program's PATH is cleaned at its start",
    "dgn_engine/confinement/child_process.py": "every child; command and environment of Python",
    "dgn_engine/confinement/start_folder.py": "this program again: `distrust_start_folder`",
    "dgn_engine/confinement/spawn_context.py": "the processes of multiprocessing",
    "dgn_engine/confinement/tied_program.py": "ffmpeg, tied to its parent: `python_command`",
    "dgn_engine/confinement/trial.py": "a confined process: `confined_command`; tries to fork",
    "dgn_engine/errors.py": "names the interpreter in a sentence",
    "dgn_engine/session/live_branch.py": "a branch: `module_command`",
    "dgn_engine/storage/user_folders.py": "the folder of a bundle",
    "dgn_engine/sweep/slurm.py": "workers of Dask: `METHOD`; jobs of Slurm: `python_command`",
    "dgn_engine/training/readings/process_readings.py": "readings: `module_command`",
    "documentation/screenshots/__main__.py": "a picture at another scale, in our tree",
    "documentation/shell_commands.py": "commands of the documents, in a folder that it has made",
    "packaging/bundle_check.py": "what was packed, in a folder that it has made",
    "packaging/debian_check.py": "what was packed, in a folder that it has made",
    "packaging/debian_package.py": "tools of Debian, in the tree",
    "packaging/package_check.py": "pip and what was packed, in a folder that it has made",
}
CHILDREN = {"ChildProcess", "start_confined"}  # the one way in which the program starts a process
START_NOTHING = {"sys.executable", "webbrowser.open", "QDesktopServices.openUrl"}
OTHERWISE = {  # where that way cannot be taken
    "dgn_engine/confinement/child_process.py": {"subprocess.Popen"},  # it is that way
    "dgn_engine/confinement/spawn_context.py": {"SpawnContext"},  # pipes of multiprocessing
    "dgn_engine/confinement/start_folder.py": {"os.execve"},  # this program again
    "dgn_engine/confinement/tied_program.py": {"os.execvp"},  # the child becomes the program
    "dgn_engine/sweep/slurm.py": {"LocalCluster", "SLURMCluster"},  # workers of Dask
}
WALLS = re.compile(
    r"\b(?:module_command|confined_command|python_command|python_environment|confined_environment"
    r"|find_program|METHOD|distrust_start_folder)\b"
)
NO_PYTHON = (
    "app/dgn_viewer/shell/",
    "dgn_engine/cli/docs.py",
    "dgn_engine/errors.py",
    "dgn_engine/storage/user_folders.py",
)


@pytest.fixture(scope="module")
def starts() -> dict[str, set[str]]:
    """By module, what in it starts a process."""
    modules = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = {path.relative_to(ROOT).as_posix(): set(starters(path)) for path in modules}
    return {name: what for name, what in found.items() if what}


def starters(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text("utf-8"))
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module in ("subprocess", "os", "multiprocessing", "shutil")
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from CHILDREN & {ast.unparse(base) for base in node.bases}
        if isinstance(node, ast.Call):
            called = with_its_owner(node.func)
            module, _, function = called.rpartition(".")
            if function in CHILDREN:
                yield function
            if (module == "subprocess" and function in SUBPROCESS) or called in imported & AS_NAMES:
                yield called
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = with_its_owner(node)
            if STARTERS.fullmatch(name) and name not in BARE:
                yield name


def with_its_owner(node: ast.expr) -> str:
    """'os.fork', 'fork', or '?.fork' of what is no bare name; '' of other expressions."""
    if isinstance(node, ast.Attribute):
        return f"{getattr(node.value, 'id', '?')}.{node.attr}"
    return getattr(node, "id", "")


def test_processes_are_started_in_listed_modules_alone(starts: dict[str, set[str]]) -> None:
    assert {name: what for name, what in starts.items() if name not in STARTS} == {}
    assert [name for name in STARTS if name not in starts] == []


def test_what_the_program_starts_is_kept_from_the_folder_where_the_user_stands(
    starts: dict[str, set[str]],
) -> None:
    programs = [
        name
        for name in starts
        if name.startswith(("dgn_engine/", "app/")) and not name.startswith(NO_PYTHON)
    ]
    unguarded = [name for name in programs if not WALLS.search((ROOT / name).read_text("utf-8"))]
    assert unguarded == []


def test_the_program_starts_processes_by_the_child_process_alone(
    starts: dict[str, set[str]],
) -> None:
    program = {n: what for n, what in starts.items() if n.startswith(("dgn_engine/", "app/"))}
    others = {name: what - CHILDREN - START_NOTHING for name, what in program.items()}
    assert {name: what for name, what in others.items() if what} == OTHERWISE


def test_subprocess_is_imported_where_children_are_started_and_nowhere_else() -> None:
    modules = [path for folder in ("dgn_engine", "app") for path in (ROOT / folder).rglob("*.py")]
    imported = re.compile(r"^\s*(?:import|from) subprocess\b", re.MULTILINE)
    named = [path for path in modules if imported.search(path.read_text("utf-8"))]
    assert named == [ROOT / "dgn_engine/confinement/child_process.py"]


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess\nsubprocess.run(['python'])",
        "from subprocess import Popen\nPopen(['python'])",
        "import os\nos.execv('/bin/sh', [])",
        "import multiprocessing\nmultiprocessing.Process(target=print)",
        "from multiprocessing import get_context\nget_context('spawn')",
        "from distributed import LocalCluster\nLocalCluster()",
        "from PySide6.QtCore import QProcess\nQProcess()",
        "import sys\nprint(sys.executable)",
        "import shutil\nshutil.which('latex')",
        "from dgn_engine.confinement.child_process import ChildProcess\nChildProcess(['python'])",
        "class Own(ChildProcess):\n    pass",
    ],
)
def test_a_new_way_to_start_a_process_is_noticed(code: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(code)
    assert list(starters(module))


def test_every_program_of_ours_distrusts_the_folder_in_which_it_is_started() -> None:
    programs = (
        "app/dgn_viewer/__main__.py",
        "dgn_engine/cli/__init__.py",
        "dgn_engine/confinement/run_module.py",
        "dgn_engine/confinement/spawn_context.py",
        "dgn_engine/sweep/workers/dask_preload.py",
        "packaging/launcher.py",
    )
    for name in programs:
        tree = ast.parse((ROOT / name).read_text("utf-8"))
        called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        assert "distrust_start_folder" in called, name
