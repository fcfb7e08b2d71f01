"""`make gpu` needs no package that the usual GPU image lacks (gpu_image/sitecustomize.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import gpu

ROOT = Path(__file__).parents[2]
IMAGE = Path(__file__).parent / "gpu_image"
# What `benchmarks.gpu.tests` runs, but for this module and what is about the page.
PYTEST = (
    "-m",
    "pytest",
    *gpu.TESTS,
    "-p",
    "no:cacheprovider",
    "--ignore=tests/gpu/test_gpu_image.py",
    "--ignore=tests/gpu/test_gpu_page.py",
)
IMPORTS = """
import importlib, pkgutil
import benchmarks.gpu, benchmarks.gpu_case, benchmarks.gpu_cases as cases
for module in pkgutil.iter_modules(cases.__path__):
    importlib.import_module(f"{cases.__name__}.{module.name}")
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of an interpreter that finds only the packages of the image, and the checkout where it is
    started."""
    return {
        **os.environ,
        "PYTHONPATH": str(IMAGE),
        "DGN_HOME": str(tmp_path),
        "OMP_NUM_THREADS": "1",
    }


def run_python(environment: dict[str, str], *words: str) -> str:
    """Return what Python prints; fails where it ends with another code than 0."""
    done = subprocess.run(
        (sys.executable, *words),
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_other_packages_cannot_be_imported_there(environment: dict[str, str]) -> None:
    asked = ("hypothesis", "platformdirs", "PySide6", "pyqtgraph", "dask", "pytest")
    words = f"from importlib.util import find_spec; print([*map(bool, map(find_spec, {asked}))])"
    said = run_python(environment, "-c", words)
    assert said == f"{[False] * 5 + [True]}\n"


def test_its_tests_are_collected_there(environment: dict[str, str]) -> None:
    said = run_python(environment, *PYTEST, "-m", "gpu", "--collect-only", "-q")
    assert "<Function test_two_processes_" in said
    assert "error" not in said.splitlines()[-1]


@pytest.mark.nightly
def test_its_cases_are_imported_there_and_one_is_measured(
    environment: dict[str, str], tmp_path: Path
) -> None:
    run_python(environment, "-c", IMPORTS)
    out = tmp_path / "row.json"
    run_python(
        environment,
        "-m",
        "benchmarks.gpu_case",
        "fc_graphs",
        "--quick",
        "--device",
        "cpu",
        "--rounds-for",
        "0",
        "--out",
        str(out),
    )
    assert "methods" in json.loads(out.read_text("utf-8"))


@pytest.mark.nightly
@pytest.mark.slow
def test_recorded_runs_are_written_there(environment: dict[str, str]) -> None:
    """By the processes of a sweep and by an engine in a process of its own."""
    chosen = "two_processes or assertion or goes_on"
    said = run_python(environment, *PYTEST, "-m", "not gpu", "-k", chosen)
    assert "3 passed" in said.splitlines()[-1]
