"""In a folder full of traps every kind of child does its work, and no trap is sprung."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dgn_engine.config import NetConfig, RunConfig, TrainingConfig
from dgn_engine.confinement import start_folder
from dgn_engine.confinement.start_folder import (
    find_program,
    import_folders,
    safe_environment,
)
from tests.daily import nightly
from tests.engine.confinement.trap_folder import BIN, LIBRARY, ROOT, TrapFolder, make_trap_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the traps are shell scripts")


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> TrapFolder:
    return make_trap_folder(tmp_path_factory.mktemp("start"))


def library(traps: TrapFolder, code: str) -> Any:
    """What a script of a user says in JSON, in which that folder is on every path."""
    script = traps.safe / "script.py"
    script.write_text(code.replace("LIBRARY\n", LIBRARY))
    command = (sys.executable, "-P", str(script))
    return json.loads(run(traps, *command, PATH=os.environ["PATH"]))  # its PATH is its own affair


def run(traps: TrapFolder, *command: str, **more: str) -> str:
    done = subprocess.run(
        command,
        cwd=traps.folder,
        env=traps.environment() | more,
        capture_output=True,
        text=True,
        check=False,
    )
    assert traps.marks == []
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_traps_are_sprung_by_a_python_without_flags(traps: TrapFolder) -> None:
    """Otherwise the other tests would show nothing."""
    said = subprocess.run(
        [sys.executable, "-c", "import json"], cwd=traps.folder, capture_output=True, check=False
    )
    assert "json" in traps.marks, said.stderr
    subprocess.run(["uname"], cwd=traps.folder, env={"PATH": ""}, check=True)
    assert traps.marks == ["program uname"]


@pytest.mark.parametrize("command", ["train", *nightly("sweep")])  # SPAWN starts its processes
def test_a_command_and_the_processes_of_a_sweep_run_nothing_of_the_folder(
    command: str, traps: TrapFolder
) -> None:
    config = RunConfig(
        net=NetConfig(options=(("width", 4), ("depth", 3))), training=TrainingConfig(epochs=1)
    )
    base, sweep, out = traps.safe / "base.toml", traps.safe / "sweep.toml", traps.safe / command
    base.write_text(config.to_toml())
    sweep.write_text('base = "base.toml"\n[grid]\nseed = [0]\n')
    how = (base,) if command == "train" else (sweep, "--executor", "processes", "--workers", "1")
    run(traps, str(BIN / "dgn"), command, *map(str, how), "--out", str(out), "--quiet")
    assert list(out.rglob("weights.safetensors"))


def test_matplotlib_and_numba_read_no_settings_of_the_folder_in_our_programs(
    traps: TrapFolder,
) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    found = run(
        traps,
        sys.executable,
        "-s",
        "-P",
        "-c",
        "from dgn_engine.confinement.start_folder import distrust_start_folder\n"
        "distrust_start_folder()\n"
        "import json, os, matplotlib, numba\n"
        "twice = numba.njit(lambda x: 2 * x)\n"
        "print(json.dumps([matplotlib.matplotlib_fname(), twice(21), bool(twice.signatures),\n"
        "    os.path.exists('json.py')]))",
    )
    settings, *rest = json.loads(found)
    assert Path(settings).is_absolute()
    assert rest == [42, True, True]


CHILDREN = """
from pathlib import Path
from dgn_engine.confinement.child_process import python_command, python_environment
from dgn_engine.confinement.spawn_context import SPAWN, start_resource_tracker
from dgn_engine.confinement.trial import confinement_here
from dgn_engine.session.live_branch import BranchChild
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.training.readings.reading_jobs import ProcessReady
from dgn_engine.training.readings.process_readings import ReadingProcess
import json, subprocess, time
import numpy as np
from safetensors.numpy import save_file
LIBRARY
before = dict(os.environ), list(sys.path)
safe = Path(sys.argv[0]).parent
branch = BranchChild(["--version"])
while branch.exit_code is None:
    time.sleep(0.01)
reading, answers = ReadingProcess(), []
while not answers and not reading.ended:
    answers = reading.take_answers()
    time.sleep(0.01)
reading.kill()
save_file({"fc1.weight": np.zeros((3, 2), np.float32)}, safe / "net.safetensors")
start_resource_tracker()
with SPAWN.Pool(1) as pool:
    spawned = pool.apply(eval, ("[__import__('sys').path, dict(__import__('os').environ)]",))
told = subprocess.run(
    python_command("-c", "import sys; print(sys.flags.safe_path, sys.flags.no_user_site)"),
    env=python_environment(), stdout=subprocess.PIPE, text=True,
).stdout.split()
print(json.dumps({
    "branch": branch.exit_code,
    "reading": [type(one).__name__ for one in answers],
    "confined": len(confinement_here()["layers"]) > 1,
    "checkpoint": [list(shape.shape) for shape in
                   read_tensors(safe / "net.safetensors").arrays.values()],
    "path": spawned[0],
    "switch": spawned[1]["PYTHONSAFEPATH"],
    "flags": told,
    "unchanged": before == (dict(os.environ), list(sys.path)),
}))
"""


def test_children_of_the_library_run_nothing_of_the_folder_and_leave_the_process_as_it_was(
    traps: TrapFolder,
) -> None:
    found = library(traps, CHILDREN)
    path = found.pop("path")
    assert all(Path(one).is_absolute() for one in path)
    assert str(traps.folder) not in path
    assert found == {
        "branch": 0,
        "reading": ["ProcessReady"],
        "confined": True,
        "checkpoint": [[3, 2]],
        "switch": "1",
        "flags": ["True", "1"],
        "unchanged": True,
    }


@pytest.mark.nightly  # the test below has a cluster too, of a program
def test_workers_of_dask_import_nothing_of_the_folder(traps: TrapFolder) -> None:
    pytest.importorskip("distributed", reason="dask is not installed")
    found = library(
        traps,
        "import json\n"
        "from dgn_engine.sweep.slurm import connect_client\n"
        "from dgn_engine.sweep.cluster_tls import ClusterTls\n"
        "from pathlib import Path\n"
        "import dask_jobqueue, distributed\n"
        "LIBRARY\n"
        "if __name__ == '__main__':\n"
        "    with connect_client('local', 1, ClusterTls(), Path('.')) as client:\n"
        "        print(json.dumps(client.submit(eval, \"__import__('sys').path\").result()))\n",
    )
    assert str(traps.folder) not in found
    assert "" not in found


def test_the_scratch_space_of_dask_in_a_shared_temporary_folder_is_not_touched(
    traps: TrapFolder,
) -> None:
    """Whoever can write to that folder may have made it."""
    pytest.importorskip("distributed", reason="dask is not installed")
    shared = traps.safe / "tmp"
    planted = shared / "dask-scratch-space"
    planted.mkdir(parents=True)
    for trap in traps.folder.glob("*.py"):
        (planted / trap.name).symlink_to(trap)
    (planted / "dgn_engine.py").symlink_to(traps.folder / "json.py")
    precious = traps.safe / "precious"
    precious.write_text("precious")
    (planted / "global.lock").symlink_to(precious)
    (planted / "left.dirlock").symlink_to(precious)
    script = traps.safe / "cluster.py"
    script.write_text(
        "import json, sys, tempfile\n"
        "from dgn_engine.confinement.start_folder import distrust_start_folder, import_folders\n"
        "from dgn_engine.sweep.cluster_tls import ClusterTls\n"
        "from dgn_engine.sweep.slurm import connect_client\n"
        "from pathlib import Path\n"
        "if __name__ == '__main__':\n"
        "    distrust_start_folder()\n"
        "    with connect_client('local', 1, ClusterTls(), Path('.')) as client:\n"
        "        there = client.submit(eval, \"__import__('sys').path\").result()\n"
        "        print(json.dumps([tempfile.gettempdir(), [*there, *import_folders()]]))\n"
    )
    said = run(traps, sys.executable, "-P", str(script), TMPDIR=str(shared), PYTHONPATH=str(ROOT))
    temporary, folders = json.loads(said)
    assert temporary == str(shared)
    assert not [one for one in folders if one.startswith(str(shared))]
    assert precious.read_text() == "precious"
    assert list(shared.iterdir()) == [planted]


def test_the_current_folder_is_handed_on_only_where_our_packages_lie_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = f"/some{os.pathsep}where"
    monkeypatch.setattr(sys, "path", ["", "relative", str(tmp_path), split, "/modules"])
    monkeypatch.chdir(tmp_path)
    assert import_folders() == [str(ROOT), "/modules"]
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    monkeypatch.setattr(sys, "path", [str(link), "/modules"])
    assert import_folders() == [str(ROOT), "/modules"]
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", ["/modules", str(ROOT)])
    assert import_folders() == ["/modules", str(ROOT)]


def test_programs_are_taken_from_absolute_folders_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "made_up"
    program.write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", "/bin"]))
    program.chmod(0o755)
    assert find_program("made_up") is None
    assert safe_environment()["PATH"] == "/bin"
    monkeypatch.setenv("PATH", os.pathsep.join(["", str(tmp_path)]))
    assert find_program("made_up") == str(program)
    program.chmod(0o644)
    assert find_program("made_up") is None


def test_a_program_forgets_a_list_of_folders_in_which_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "PYTHONSAFEPATH", "NoDefaultCurrentDirectoryInExePath"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "lib", str(tmp_path), "/modules"]))
    monkeypatch.setenv("LD_LIBRARY_PATH", ":")
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setattr(os.path, "exists", os.path.exists)
    monkeypatch.setattr(start_folder, "_found_unsafe", set())
    monkeypatch.chdir(tmp_path)
    start_folder.distrust_start_folder()
    assert os.environ["PYTHONPATH"] == "/modules"
    assert os.environ["PYTHONSAFEPATH"] == "1"
    assert "LD_LIBRARY_PATH" not in os.environ
    assert "" not in sys.path


def test_variables_that_name_a_relative_place_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_folder, "_found_unsafe", set())
    before = start_folder.unsafe_variables()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path};.")
    monkeypatch.setenv("XDG_DATA_DIRS", f"share{os.pathsep}/usr/share")
    monkeypatch.setenv("XDG_CONFIG_HOME", ".config")
    monkeypatch.setenv("MATPLOTLIBRC", ".")
    monkeypatch.setenv("DASK_CONFIG", "")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    found = safe_environment()
    assert found["LD_LIBRARY_PATH"] == found["MPLCONFIGDIR"] == str(tmp_path)
    assert found["XDG_DATA_DIRS"] == "/usr/share"
    assert not {"XDG_CONFIG_HOME", "MATPLOTLIBRC", "DASK_CONFIG"} & set(found)
    named = {"LD_LIBRARY_PATH", "MATPLOTLIBRC", "XDG_CONFIG_HOME", "XDG_DATA_DIRS"}
    assert set(start_folder.unsafe_variables()) - set(before) == named


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLURM_CONF", "slurm.conf"),
        ("SBATCH_NEW_OPTION", "./script"),
        ("LD_PRELOAD", "/usr/lib/real.so ./x.so"),
        ("LD_AUDIT", "sub/x.so"),
        ("QT_LOGGING_CONF", "ql.ini"),
        ("QT_QPA_PLATFORM", "offscreen:configfile=./screens.json"),
        ("DASK_TEMPORARY_DIRECTORY", "."),
        ("DASK_temporary_directory", "scratch"),
        ("DASK_DISTRIBUTED__SCHEDULER__PRELOAD", "['pre.py']"),
        ("TMPDIR", "."),
        ("TMP", "tmp"),
        ("OMP_TOOL_LIBRARIES", "./tool.so"),
        ("BROWSER", "./browser %s"),
        ("CC", "bin/gcc -O2"),
        ("CPATH", ":"),
        ("SSL_CERT_DIR", "/etc/ssl:certificates"),
        ("TORCH_OF_A_LATER_VERSION", ".."),
    ],
)
def test_what_a_library_reads_from_the_folder_is_dropped_by_how_its_name_begins(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pre.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    assert name not in safe_environment()
    assert name in start_folder.unsafe_variables()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_VISIBLE_DEVICES", ""),
        ("CUDA_VISIBLE_DEVICES", "MIG-GPU-8f2a/1/0"),
        ("DASK_DISTRIBUTED__DASHBOARD__LINK", "{scheme}://{host}:{port}/status"),
        ("DASK_INTERNAL_INHERIT_CONFIG", "eyJh/b+c="),
        ("DASK_DISTRIBUTED__WORKER__PRELOAD", "dask_cuda.initialize"),
        ("LD_PRELOAD", "libtcmalloc.so"),
        ("MPLBACKEND", "module://matplotlib_inline.backend_inline"),
        ("OMP_NUM_THREADS", "4"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
        ("QT_QPA_PLATFORM", "linuxfb:fb=/dev/fb0"),
        ("QT_SCALE_FACTOR", "1.5"),
        ("SLURM_JOB_ID", "26"),
        ("SLURM_TRES_PER_TASK", "cpu=1,gres/gpu=1"),
        ("XDG_MENU_PREFIX", "gnome-"),
        ("XDG_SEAT_PATH", "/org/freedesktop/DisplayManager/Seat0"),
        ("MY_OWN_FILE", "data/mine"),
        ("DGN_RUNS_ROOT", "runs"),
    ],
)
def test_a_value_that_names_nothing_in_the_folder_stays_whatever_lies_there(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in ("4", "26", "1.5", "expandable_segments"):
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(name, value)
    assert safe_environment()[name] == value
    assert name not in start_folder.unsafe_variables()


PROGRAM = """
import json, os, sys
from dgn_engine.confinement.start_folder import distrust_start_folder, unsafe_variables
print("begun", flush=True)
distrust_start_folder(restart=True)
started = dict(one.split("=", 1) for one in open("/proc/self/environ").read().split("\\0") if one)
print(json.dumps([unsafe_variables(), started.get("LD_LIBRARY_PATH"), started["PYTHONPATH"],
    sys.argv, os.getcwd() in sys.path, "DGN_RESTARTED" in os.environ]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how a process was started")
@pytest.mark.parametrize(
    ("given", "unsafe"),
    [
        ({"PYTHONPATH": f"{ROOT}:pp:"}, ["PYTHONPATH"]),
        ({"LD_LIBRARY_PATH": "lib;/usr/lib", "PATH": ".:/bin"}, ["LD_LIBRARY_PATH", "PATH"]),
        *nightly(
            ({"LD_LIBRARY_PATH": ":"}, ["LD_LIBRARY_PATH"]),
            ({"PYTHONUSERBASE": "."}, ["PYTHONUSERBASE"]),
            ({"LD_BIND_NOT": "./x"}, ["LD_BIND_NOT"]),  # as LD_PRELOAD, but loads nothing
        ),
        ({"PATH": ".:/bin"}, ["PATH"]),  # nobody has looked into it before our code runs
        ({}, []),
    ],
)
def test_a_program_starts_again_where_the_loader_or_python_was_sent_into_the_folder(
    given: dict[str, str], unsafe: list[str], tmp_path: Path
) -> None:
    variables = {"PYTHONPATH": str(ROOT), "PATH": "/bin", "HOME": str(tmp_path), **given}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, "a word", "-x"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    *begun, last = done.stdout.splitlines()
    assert len(begun) == (1 if unsafe in ([], ["PATH"]) else 2)
    names, libraries, modules, words, on_path, marked = json.loads(last)
    assert names == unsafe
    assert libraries == ("/usr/lib" if "PATH" in unsafe[1:] else None)
    assert modules == str(ROOT)
    assert words == ["-c", "a word", "-x"]
    assert not on_path
    assert not marked


def test_the_program_started_again_runs_no_module_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("open('mark', 'a').write('x')")
    done = subprocess.run(
        [str(BIN / "dgn"), "doctor", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep, "DGN_HOME": str(tmp_path)},
        check=False,
    )
    findings = json.loads(done.stdout)["findings"]
    named = [one["name"] for one in findings if one["subject"] == "environment"]
    assert "PYTHONPATH" in named
    assert (tmp_path / "mark").read_text() == "x"  # by Python itself, before ours begins
