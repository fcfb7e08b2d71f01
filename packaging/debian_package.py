"""Build a Debian package of the bundle (`make deb`), with dpkg-deb alone.

    python packaging/debian_package.py dist/dgn-viewer dist

The bundle goes to /usr/lib/dgn-viewer, both programs to /usr/bin, and the desktop files (menu
entry, icon, type of session files, description for software centres) to /usr/share. The build is
reproducible: all timestamps are `SOURCE_DATE_EPOCH`, or the time of the last commit. A user's own
data is in their home directory and is never touched.
"""

from __future__ import annotations

import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dgn_viewer import system_libraries

ROOT = Path(__file__).resolve().parents[1]
LINUX = ROOT / "packaging" / "linux"
METAINFO = "io.github.dgn_viewer.dgn_viewer.metainfo.xml"
CONTROL = """Package: dgn-viewer
Version: {version}
Section: science
Priority: optional
Architecture: {architecture}
Maintainer: The dgn-viewer authors <dgn-viewer@example.org>
Installed-Size: {size}
Depends: libc6 (>= {glibc}), {libraries}
Description: train deep gated networks live and see what their gates know
 Deep gated networks split a network with rectified linear units into gates
 and values. dgn-viewer trains them in front of you and shows at every step
 which gates are open, which paths two examples share, and what that predicts.
 .
 The package holds Python, PyTorch for the CPU and Qt: it needs no other.
"""
RENAMED = {"libglib2.0-0": "libglib2.0-0t64 | libglib2.0-0"}  # since Debian 13, Ubuntu 24.04


def main() -> int:
    bundle, into = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    if not (bundle / "dgn-viewer").is_file():
        print(f"{bundle} is not a bundle: run `make bundle` first.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="dgn-deb-", dir=into) as folder:
        tree = Path(folder) / "tree"
        moment = build_tree(bundle, tree)
        name = f"dgn-viewer_{read_version()}_{read_architecture()}.deb"
        subprocess.run(
            [
                "dpkg-deb",
                "--root-owner-group",
                "-Zxz",
                "-z1",
                "--build",
                str(tree),
                str(into / name),
            ],
            check=True,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(moment)},
            stdout=subprocess.DEVNULL,
        )
    size = (into / name).stat().st_size
    print(f"{name}: {size / 1e6:.0f} MB")
    return 0


def build_tree(bundle: Path, tree: Path) -> int:
    """Write the files of the package below `tree`; return their common timestamp."""
    moment = _source_date()
    place = tree / "usr" / "lib" / "dgn-viewer"
    place.parent.mkdir(parents=True)
    shutil.copytree(bundle, place, symlinks=True)
    programs = tree / "usr" / "bin"
    programs.mkdir()
    for program in ("dgn", "dgn-viewer"):
        (programs / program).symlink_to(f"../lib/dgn-viewer/{program}")
    share = tree / "usr" / "share"
    _copy(LINUX / "dgn-viewer.desktop", share / "applications" / "dgn-viewer.desktop")
    _copy(LINUX / "dgn-viewer.xml", share / "mime" / "packages" / "dgn-viewer.xml")
    icon = ROOT / "resources" / "dgn_resources" / "program.svg"
    _copy(icon, share / "icons" / "hicolor" / "scalable" / "apps" / "dgn-viewer.svg")
    _copy(LINUX / "lintian-overrides", share / "lintian" / "overrides" / "dgn-viewer")
    day = time.strftime("%Y-%m-%d", time.gmtime(moment))
    described = (LINUX / f"{METAINFO}.in").read_text("utf-8")
    dated = described.replace("@VERSION@", read_version()).replace("@DATE@", day)
    _write(share / "metainfo" / METAINFO, dated)
    _write_documents(share / "doc" / "dgn-viewer", moment)
    files = [path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files) // 1024
    needed = {*system_libraries.NEEDED.values(), *system_libraries.NEEDED_FOR_X11.values()}
    wanted = ", ".join(RENAMED.get(name, name) for name in sorted(needed))
    control = CONTROL.format(
        version=read_version(),
        architecture=read_architecture(),
        size=size,
        glibc=platform.libc_ver()[1],  # the bundle holds libraries of this system
        libraries=wanted,
    )
    _write(tree / "DEBIAN" / "control", control)
    for path in (tree, *tree.rglob("*")):
        os.utime(path, (moment, moment), follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or _is_program(path, place) else 0o644)
    return moment


def read_version() -> str:
    source = (ROOT / "dgn_engine" / "__init__.py").read_text("utf-8")
    match = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    assert match is not None
    return match[1]


def read_architecture() -> str:
    output = subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True)
    return output.stdout.decode().strip()


def _is_program(path: Path, place: Path) -> bool:
    """Return whether a file of the bundle is a program; PyInstaller marks libraries too."""
    return path.parent in (place, place / "_internal" / "torch" / "bin")


def _write_documents(folder: Path, moment: int) -> None:
    """Write the licence and the changelog as Debian's policy requires."""
    head = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
    licence = (ROOT / "LICENSE").read_text("utf-8").strip()
    indented = "\n".join(f" {line}" if line.strip() else " ." for line in licence.splitlines())
    who = "Files: *\nCopyright: The dgn-viewer authors\nLicense: Expat\n"
    _write(folder / "copyright", f"{head}\n{who}{indented}\n")
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(moment))
    entry = f"dgn-viewer ({read_version()}) unstable; urgency=low\n\n  * See CHANGELOG.md.\n\n"
    signed = f" -- The dgn-viewer authors <dgn-viewer@example.org>  {date}\n"
    _write_compressed(folder / "changelog.gz", entry + signed)


def _write_compressed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _source_date() -> int:
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    if seconds:
        return int(seconds)
    output = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(output.stdout) if output.returncode == 0 else int(time.time())


def _copy(source: Path, target: Path) -> None:
    _write(target, source.read_text("utf-8"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o644)


if __name__ == "__main__":
    sys.exit(main())
