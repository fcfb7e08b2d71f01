"""Check the wheel and the sdist as a new user gets them (`make package-check`).

    python packaging/package_check.py [dist]

Builds both twice, the second time from the unpacked sdist, and compares the bytes; checks them
with twine and check-wheel-contents; installs the wheel into a fresh environment that does not see
this checkout, and starts both programs there. The dependencies come from the environment that runs
this script, added by path: this needs no download.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
XDG = ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
PACKAGES = ("app/dgn_viewer", "dgn_engine", "resources/dgn_resources")
SEEN_INSIDE = """
import dgn_engine, dgn_viewer, pathlib, sys
from dgn_engine.cli import _own_commands
from dgn_engine.experiments.report.experiment_list import experiment_entries
from dgn_engine.plugins import plugin_names
from dgn_engine.text.documents import document_titles, documents_folder
for package in (dgn_engine, dgn_viewer):
    assert pathlib.Path(package.__file__).is_relative_to(sys.prefix), package.__file__
assert {"train", "runs", "figure"} <= set(_own_commands())
assert len(document_titles()) > 20 and documents_folder().is_relative_to(sys.prefix)
assert experiment_entries()
for package in ("dgn_engine.data", "dgn_engine.regimes", "dgn_engine.panels"):
    print(package, len(plugin_names(package)), end=", ")
"""


class CheckError(Exception):
    """A failed check, described in one sentence."""


def main() -> int:
    into = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").resolve()
    try:
        with tempfile.TemporaryDirectory(prefix="dgn package ü ") as folder:
            wheel, sdist = _build_twice(into, Path(folder))
            _check_contents(wheel, sdist)
            _install_and_start(wheel, Path(folder))
    except CheckError as failure:
        print(f"package-check: {failure}", file=sys.stderr)
        return 1
    return 0


def _build_twice(into: Path, folder: Path) -> tuple[Path, Path]:
    """Build into `into`, and again from the sdist; both builds must have the same bytes."""
    built = _build(ROOT, into)
    with tarfile.open(built[1]) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    [source] = (folder / "unpacked").iterdir()
    (source / "PKG-INFO").unlink()  # the build would add its own to it
    again = _build(source, folder / "again")
    for first, second in zip(built, again, strict=True):
        if _hash_file(first) != _hash_file(second):
            raise CheckError(f"{first.name} has different bytes when built from the sdist.")
        print(f"{first.name}: {first.stat().st_size / 1e6:.1f} MB, the same bytes both times")
    return built


def _build(source: Path, into: Path) -> tuple[Path, Path]:
    """Build `source`; return the wheel and the sdist."""
    into.mkdir(parents=True, exist_ok=True)
    for old in (*into.glob("dgn_viewer-*.whl"), *into.glob("dgn_viewer-*.tar.gz")):
        old.unlink()
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(into)], cwd=source)
    [wheel], [sdist] = into.glob("*.whl"), into.glob("*.tar.gz")
    return wheel, sdist


def _check_contents(wheel: Path, sdist: Path) -> None:
    """Run twine and check-wheel-contents, and check that the wheel has every file."""
    _run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)])
    _run([sys.executable, "-m", "check_wheel_contents", str(wheel)], cwd=ROOT)
    packed = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to((ROOT / folder).parent).as_posix()
        for folder in PACKAGES
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if lost := sorted(wanted - packed):
        raise CheckError(f"The wheel lacks {', '.join(lost[:5])} ({len(lost)} in all).")
    print(f"twine, check-wheel-contents: sound; {len(wanted)} files of the packages are in it")


def _install_and_start(wheel: Path, folder: Path) -> None:
    """Install into a fresh environment, without a checkout, and start both programs."""
    place = folder / "fresh"
    venv.create(place, with_pip=False)
    programs = place / ("Scripts" if os.name == "nt" else "bin")
    python = programs / "python"
    site_packages = Path(
        _run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    )
    # A path in a .pth file makes packages importable, but does not process the .pth files there:
    # an editable installation of this checkout stays invisible.
    places = [p for p in sys.path if Path(p).name == "site-packages"]
    (site_packages / "needed.pth").write_text("\n".join(places), "utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", str(wheel)])
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    home = {name: str(elsewhere / name) for name in XDG}
    environment = {**os.environ, **home, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)

    def run(*command: str) -> str:
        return _run([str(programs / command[0]), *command[1:]], cwd=elsewhere, env=environment)

    print(f"found inside: {run('python', '-c', SEEN_INSIDE).strip(' ,')}")
    print(run("dgn", "--version").strip(), "·", run("dgn-viewer", "--version").strip())
    train = "train --data digits --train-limit 64 --epochs 1 --out run --quiet"
    run("dgn", *train.split())
    run("dgn", "runs", "list", ".")
    run("dgn-viewer", "--offscreen", "--steps", "3", "--screenshot", "window.png")
    if not (elsewhere / "window.png").stat().st_size:
        raise CheckError("dgn-viewer saved no screenshot.")
    print("dgn and dgn-viewer trained; dgn-viewer saved a screenshot")


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a command and return its output; raises `CheckError` with its error message."""
    done = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode:
        complaint = (done.stderr.strip() or done.stdout.strip() or "it said nothing")[-1500:]
        raise CheckError(f"{shutil.which(command[0])} {' '.join(command[1:])}: {complaint}")
    return done.stdout


def _hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
