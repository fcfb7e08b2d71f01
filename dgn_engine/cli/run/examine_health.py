"""The checks of `dgn doctor`; package versions are read without importing the packages."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, requires, version
from pathlib import Path
from typing import Literal

from dgn_engine import __version__
from dgn_engine.cli import DAMAGED
from dgn_engine.confinement.start_folder import unsafe_variables
from dgn_engine.confinement.trial import confinement_here
from dgn_engine.data import data_sets
from dgn_engine.data._download import data_root
from dgn_engine.errors import UserError
from dgn_engine.storage.runs.folder_layout import results_root, runs_root
from dgn_engine.storage.user_folders import user_cache, user_config, user_log
from dgn_engine.text.byte_counts import bytes_in_words
from dgn_engine.text.printable import print_json, print_line

CHECKS = "dgn.checks"  # entry points: functions of os.environ that return a problem, or ''
OLDEST = (3, 11)
LITTLE = 1 << 30  # bytes that should be free on disk
_ALWAYS = ("torch", "torchvision", "numpy", "PySide6-Essentials", "pyqtgraph", "matplotlib")
State = Literal["ok", "note", "fault"]
_MARKS: dict[State, str] = {"ok": " ", "note": "!", "fault": "✗"}


@dataclass(frozen=True)
class HealthFinding:
    """One line of the report.

    `state` is 'note' for something worth checking, 'fault' if it stops the program from working.
    """

    subject: str
    name: str
    state: State
    about: str


def print_findings(arguments: argparse.Namespace) -> int:
    """Check the installation and print the findings; exit with 1 if there is a fault."""
    return report_findings(check_health(arguments.devices), arguments.json)


def report_findings(findings: Sequence[HealthFinding], as_json: bool = False) -> int:
    """Print findings; return 1 if there is a fault, else 0."""
    faults = sum(finding.state == "fault" for finding in findings)
    if as_json:
        rows = [vars(finding) for finding in findings]
        print_json({"works": faults == 0, "findings": rows}, indent=1)
        return DAMAGED if faults else 0
    subject = ""
    for finding in findings:
        head = finding.subject if finding.subject != subject else ""
        subject = finding.subject
        print_line(f"{_MARKS[finding.state]} {head:12} {finding.name:18} {finding.about}")
    notes = sum(finding.state == "note" for finding in findings)
    print_line(f"{_count_in_words(faults, 'fault')} (✗), {_count_in_words(notes, 'warning')} (!).")
    return DAMAGED if faults else 0


def _count_in_words(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


def check_health(
    ask_torch: bool = False,
    packages: Sequence[str] | None = None,
    checks: Sequence[EntryPoint] | None = None,
) -> list[HealthFinding]:
    """Return all findings in the order of the report; takes a few tenths of a second.

    Args:
        ask_torch: load torch and list its devices, which takes seconds.
        packages: required packages; by default those of this program.
        checks: checks of the display; by default those of the installed packages.
    """
    with ThreadPoolExecutor(1) as pool:  # this check waits for a process; run the others meanwhile
        confinement = pool.submit(lambda: [*_check_confinement()])
        before = [*_check_versions(packages), *_check_environment(), *_check_device(ask_torch)]
        after = [*_check_folders(), *_check_display(checks), *_check_data_sets()]
        return [*before, *confinement.result(), *after]


def _check_versions(packages: Sequence[str] | None) -> Iterator[HealthFinding]:
    yield HealthFinding("versions", "dgn-viewer", "ok", __version__)
    python = f"{platform.python_version()} ({platform.system()} {platform.machine()})"
    old = sys.version_info[:2] < OLDEST
    needed = f"; {'.'.join(map(str, OLDEST))} or newer is required" if old else ""
    yield HealthFinding("versions", "Python", "fault" if old else "ok", python + needed)
    names = (*_required_packages(), *_ALWAYS) if packages is None else packages
    for name in {name.lower(): name for name in names}.values():
        try:
            yield HealthFinding("versions", name, "ok", version(name))
        except PackageNotFoundError:
            yield HealthFinding("versions", name, "fault", "not installed")


def _required_packages() -> list[str]:
    """Return the names of the packages that this distribution requires."""
    try:
        requirements = requires("dgn-viewer") or []
    except PackageNotFoundError:  # run from source
        return []
    names = [line.partition(";") for line in requirements]
    plain = [head for head, _, marker in names if "extra" not in marker]
    return ["".join(c if c.isalnum() or c in "-_." else " " for c in n).split()[0] for n in plain]


def _check_environment() -> Iterator[HealthFinding]:
    for name in unsafe_variables():
        about = (
            "has an empty or relative entry, which refers to the current folder; remove it (see "
            "docs/environment.md)"
        )
        yield HealthFinding("environment", name, "note", about)


def _check_device(ask_torch: bool) -> Iterator[HealthFinding]:
    cores = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    threads = os.environ.get("OMP_NUM_THREADS", "")
    about_cpu = f"{usable} of {cores} cores" + (f", OMP_NUM_THREADS={threads}" if threads else "")
    yield HealthFinding("device", "CPU", "ok", about_cpu)
    if ask_torch:
        from dgn_engine.training.devices import available_devices, choose_device, device_name

        devices = available_devices()
        name = device_name(choose_device("auto"))
        yield HealthFinding(
            "device", "torch", "ok", f"devices: {', '.join(devices)}; auto uses {name}"
        )
        return
    driver = Path("/proc/driver/nvidia/version").exists()
    try:
        built = version("torch")
    except PackageNotFoundError:
        return
    if built.endswith("+cpu"):
        about = "this build of torch is CPU-only"
        about += "; the NVIDIA GPU is not used" if driver else ""
        yield HealthFinding("device", "GPU", "note" if driver else "ok", about)
    else:
        driver_state = "NVIDIA driver found" if driver else "no NVIDIA driver found"
        yield HealthFinding("device", "GPU", "ok", f"{driver_state}; use --devices to ask torch")


def _check_confinement() -> Iterator[HealthFinding]:
    try:
        report = confinement_here()
    except UserError as refusal:
        yield HealthFinding("confinement", "reading child", "fault", str(refusal))
        return
    for name, layer in report["layers"].items():
        state: State = "ok" if layer["holds"] else "note"
        yield HealthFinding("confinement", name, state, layer["about"])
    open_ = [name for name, attempt in report["attempts"].items() if not attempt["refused"]]
    tried = (
        f"{len(report['attempts'])} attempts in C, all blocked"
        if report["attempts"]
        else "not tested"
    )
    if open_:
        tried = f"not blocked in C: {', '.join(open_)}"
    yield HealthFinding("confinement", "tried", "note" if open_ else "ok", tried)


def _check_folders() -> Iterator[HealthFinding]:
    folders = {
        "configuration": user_config(),
        "runs": runs_root(),
        "results": results_root(),
        "cache": user_cache(),
        "data sets": data_root(),
        "log": user_log(),
    }
    for name, path in folders.items():
        state, about = _folder_state(path)
        yield HealthFinding("folders", name, state, f"{path}: {about}")
    existing = _nearest_existing(runs_root())
    try:
        free = shutil.disk_usage(existing).free
    except OSError as error:
        yield HealthFinding("folders", "free", "note", f"cannot check {existing}: {error.strerror}")
        return
    space = f"{bytes_in_words(free)} on the disk with the runs"
    yield HealthFinding("folders", "free", "ok" if free >= LITTLE else "note", space)


def _folder_state(path: Path) -> tuple[State, str]:
    """Check whether a folder can be written, and who else can write to it."""
    existing = _nearest_existing(path)
    try:
        if not existing.is_dir():
            return "fault", f"{existing} is not a folder"
        if not os.access(existing, os.W_OK | os.X_OK):
            return "fault", "not writable" if existing == path else f"{existing} is not writable"
        writers = _other_writers(existing)
    except OSError as error:
        return "fault", f"cannot be accessed ({error.strerror})"
    if writers:
        return "note", f"{writers} can write to {'it' if existing == path else existing}"
    return "ok", "private" if existing == path else "will be created when needed"


def _other_writers(folder: Path) -> str:
    """Return who else can change files in a folder, directly or via a parent; '' if nobody."""
    if not hasattr(os, "getuid"):
        return ""
    for path in (folder, *_resolved_parents(folder)):
        status = path.stat()
        sticky = bool(status.st_mode & stat.S_ISVTX) and path != folder
        if status.st_uid not in (0, os.getuid()):
            return f"its owner (user {status.st_uid})"
        if status.st_mode & stat.S_IWOTH and not sticky:
            return "everyone"
        if status.st_mode & stat.S_IWGRP and not sticky and status.st_gid != os.getgid():
            return f"group {status.st_gid}"
    return ""


def _resolved_parents(folder: Path) -> Sequence[Path]:
    return folder.resolve().parents


def _nearest_existing(path: Path) -> Path:
    """Return the path, or its closest existing parent."""
    return next(
        (candidate for candidate in (path, *path.absolute().parents) if candidate.exists()),
        Path("/"),
    )


def _check_display(checks: Sequence[EntryPoint] | None) -> Iterator[HealthFinding]:
    for entry in entry_points(group=CHECKS) if checks is None else checks:
        try:
            check = entry.load()
        except ImportError as error:
            trouble = f"a required package is not installed ({error})"
        except AttributeError:  # the name in the metadata of an older installation
            trouble = "installed by another version; run 'pip install' again"
        else:
            trouble = check(os.environ)
        yield HealthFinding(
            "window", entry.name, "note" if trouble else "ok", trouble or "can open a window"
        )


def _check_data_sets() -> Iterator[HealthFinding]:
    for name, entry in data_sets().items():
        if entry.rooted:
            available = entry.available(None)
            yield HealthFinding(
                "data sets", name, "ok", "found" if available else f"not found. {entry.hint}"
            )
    more = ", ".join(name for name, entry in data_sets().items() if not entry.rooted)
    yield HealthFinding("data sets", "always available", "ok", more)
