"""What an import drags in, seen in an interpreter that has imported nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "torchvision", "sklearn")
QT = ("PySide6", "pyqtgraph")
SOURCES = (ROOT / "app" / "dgn_viewer", ROOT / "dgn_engine")
PANELS = sorted(
    f"dgn_engine.panels.{path.stem}"
    for path in (ROOT / "dgn_engine" / "panels").glob("*.py")
    if path.stem != "__init__"
)
PROTOCOL = sorted(
    f"dgn_engine.protocol.{path.stem}"
    for path in (ROOT / "dgn_engine" / "protocol").glob("*.py")
    if path.stem != "__init__"
)


def roots_after(statement: str) -> set[str]:
    """Names of the top-level packages in sys.modules once the statement has run."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    paths = [str(ROOT / "app"), str(ROOT / "resources"), str(ROOT)]
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    environment |= {"PYTHONPATH": os.pathsep.join(paths)}
    environment.pop("QT_QPA_PLATFORM", None)
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return {name.split(".")[0] for name in json.loads(result.stdout)}


def test_the_protocol_needs_neither_torch_nor_qt() -> None:
    loaded = roots_after("\n".join(f"import {name}" for name in (*PROTOCOL, "dgn_engine.config")))
    assert loaded.isdisjoint({*HEAVY, *QT})


def test_a_panel_needs_neither_torch_nor_qt() -> None:
    """One interpreter for all of them: what none of them loads, each does without."""
    assert PANELS
    loaded = roots_after("\n".join(f"import {panel}" for panel in PANELS))
    assert loaded.isdisjoint({*HEAVY, *QT, "matplotlib"})


def test_the_viewer_imports_without_a_display_and_without_torch() -> None:
    statement = (
        "import dgn_viewer, dgn_viewer.__main__, dgn_engine.scene.panel_spec;"
        "import dgn_engine.scene.elements"
    )
    assert roots_after(statement).isdisjoint(HEAVY)


def test_the_window_is_put_together_before_torch_and_matplotlib_are_loaded() -> None:
    """They take seconds: the engine's thread loads torch while the window is already there."""
    loaded = roots_after("import dgn_viewer.application, dgn_viewer.shell.export")
    assert loaded.isdisjoint({*HEAVY, "matplotlib", "scipy"})


def test_a_window_whose_engine_is_another_process_never_loads_torch() -> None:
    statement = (
        "import time\n"
        "from dgn_engine.config import RunConfig\n"
        "from dgn_engine.protocol.training import Advance, Paused, StartRun\n"
        "from dgn_engine.protocol.watching import ProbeRequest, Watch\n"
        "from dgn_engine.session.process_session import ProcessSession\n"
        "session, events, frame = ProcessSession(), [], None\n"
        "session.start()\n"
        "watch = Watch((ProbeRequest('gates'), ProbeRequest('npk')))\n"
        "for command in (watch, StartRun(RunConfig(), paused=True), Advance(5)):\n"
        "    session.send(command)\n"
        "until = time.monotonic() + 150\n"
        "while not (frame and any(isinstance(event, Paused) for event in events)):\n"
        "    assert time.monotonic() < until, events\n"
        "    time.sleep(0.05)\n"
        "    events += session.drain_events()\n"
        "    frame = session.take_latest_frame() or frame\n"
        "session.close()\n"
    )
    assert roots_after(statement).isdisjoint({*HEAVY, *QT})


def test_recorded_runs_are_listed_without_torch() -> None:
    statement = "import dgn_engine.storage.runs.run_reader, dgn_engine.storage.runs.index"
    assert roots_after(statement).isdisjoint({*HEAVY, *QT})


def test_looking_for_system_libraries_needs_nothing_but_python() -> None:
    """`make run` asks for them before anything is installed."""
    loaded = roots_after("import dgn_viewer.system_libraries")
    assert loaded.isdisjoint({*HEAVY, *QT, "numpy", "matplotlib", "dgn_engine"})


def test_the_whole_engine_loads_without_qt_and_trains_without_torchs_compiler() -> None:
    """The compiler, with sympy, takes a second and a half of each process that would load it."""
    statement = (
        "import importlib, pkgutil, dgn_engine\n"
        "for found in pkgutil.walk_packages(dgn_engine.__path__, 'dgn_engine.'):\n"
        "    if not found.name.endswith('__main__'):\n"
        "        importlib.import_module(found.name)\n"
        "import torch\n"
        "from dgn_engine.config import TrainingConfig\n"
        "from dgn_engine.training.steps.optimizer import make_optimiser\n"
        "weight = torch.nn.Parameter(torch.zeros(3))\n"
        "for word in ('adam', 'sgd', 'rmsprop'):\n"
        "    optimiser = make_optimiser([{'params': [weight]}], TrainingConfig(optimiser=word))\n"
        "    weight.grad = torch.ones(3)\n"
        "    optimiser.step()\n"
        "    optimiser.zero_grad()\n"
    )
    assert roots_after(statement).isdisjoint({*QT, "dgn_viewer", "sympy"})


def test_the_library_is_imported_without_torch() -> None:
    """`import dgn_engine as dgn` is quick; what is used of it loads what it needs."""
    assert roots_after("import dgn_engine; dir(dgn_engine)").isdisjoint({*HEAVY, *QT, "numpy"})
