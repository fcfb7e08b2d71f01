"""Install the Debian package on this machine, run it and remove it (`make deb-check`).

    python packaging/debian_check.py dist/dgn-viewer_0.2.0_amd64.deb

Requires root; use a disposable machine, such as a CI runner. Checks that a user's recorded run
survives the removal. lintian, desktop-file-validate and appstreamcli check the package first, if
they are installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

INSTALLED = Path("/usr/lib/dgn-viewer")
LOOKS = (
    ("desktop-file-validate", ["usr/share/applications/dgn-viewer.desktop"]),
    ("appstreamcli", ["validate", "--no-net", "usr/share/metainfo/{metainfo}"]),
)


class CheckError(Exception):
    """A failed check, described in one sentence."""


def main() -> int:
    package = Path(sys.argv[1]).resolve()
    if os.geteuid() or INSTALLED.exists():
        print("deb-check: run it as root, with no dgn-viewer installed.", file=sys.stderr)
        return 2
    try:
        with tempfile.TemporaryDirectory(prefix="dgn-deb-") as folder:
            _lint_package(package, Path(folder))
            _install_run_remove(package, Path(folder))
    except CheckError as error:
        print(f"deb-check: {error}", file=sys.stderr)
        return 1
    return 0


def _lint_package(package: Path, folder: Path) -> None:
    tree = folder / "tree"
    _run(["dpkg-deb", "--extract", str(package), str(tree)])
    [metainfo] = (tree / "usr/share/metainfo").iterdir()
    for program, words in LOOKS:
        if shutil.which(program):
            named = [word.format(metainfo=metainfo.name) for word in words]
            _run([program, *named], cwd=tree)
            print(f"{program}: sound")
        else:
            print(f"{program} is not installed: skipped")
    shutil.rmtree(tree)
    if shutil.which("lintian"):
        output = _run(["lintian", "--fail-on", "error", "--allow-root", str(package)])
        print(f"lintian: no error, {len(output.splitlines())} remarks")


def _install_run_remove(package: Path, folder: Path) -> None:
    home = folder / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
    }
    try:
        _run(["dpkg", "--install", str(package)])
        train = "dgn train --data digits --train-limit 64 --epochs 1 --quiet"
        _run(train.split(), cwd=home, env=environment)
        shot = "dgn-viewer --offscreen --steps 3 --screenshot window.png"
        _run(shot.split(), cwd=home, env=environment)
    finally:
        _run(["dpkg", "--remove", "dgn-viewer"])
    runs = list((home / ".local/share/dgn-viewer/runs").glob("*/run.json"))
    if not runs or not (home / "window.png").is_file():
        raise CheckError("The recorded run is missing after the removal.")
    if INSTALLED.exists() or shutil.which("dgn-viewer", path="/usr/bin"):
        raise CheckError(f"The removal left {INSTALLED} or a program.")
    print("installed, trained, drew the window, removed; the run is still there")


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        output = (done.stderr.strip() + "\n" + done.stdout.strip())[-1500:]
        raise CheckError(f"{' '.join(command)} ended with {done.returncode}: {output.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
