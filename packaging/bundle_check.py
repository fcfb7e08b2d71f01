"""Starts the bundle where there is no Python of ours (`make bundle-check`).

    python packaging/bundle_check.py dist/dgn-viewer

Trains, draws every panel and an animation, reads a sound checkpoint and refuses a hostile one,
sweeps in worker processes, serves a run and mirrors it, opens the window with the engine in a
thread and in a process of its own, and again on a virtual X display where `Xvfb` is installed.
Prints size, seconds to the first picture, and what it did; ends with 1 at the first thing that does
not work. Needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

COMMANDS = {
    "docs",
    "doctor",
    "figure",
    "gate-information",
    "inspect",
    "kernels",
    "mirror",
    "reproduce",
    "runs",
    "serve",
    "sweep",
    "train",
}
NEED_MORE = ("agreement",)  # panels that show nothing of one run alone
MOST = 950e6  # bytes that the folder may have
LIMIT = 300  # seconds for one command, however slow the machine
SWEEP = """[base.data]
name = "digits"
train_limit = 64
[base.training]
epochs = 1
[grid]
seed = [0, 1]
"""


class CheckError(Exception):
    """A check that did not hold, in one sentence."""


class Hostile:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch '{self._mark}'",)


class Bundle:
    """The programs of a folder, run in an empty place with the environment of a stranger."""

    def __init__(self, folder: Path, place: Path) -> None:
        self.folder, self.place = folder, place
        names = ("DATA", "CACHE", "CONFIG", "STATE")
        homes = {f"XDG_{name}_HOME": str(place / name.lower()) for name in names}
        self._given = {
            **homes,
            "HOME": str(place),
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "QT_QPA_PLATFORM": "offscreen",
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        }

    def start(self, program: str, *words: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.folder / program), *words],
            cwd=self.place,
            env={**self._given, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def run(self, program: str, *words: str, code: int = 0) -> tuple[str, str]:
        """What it says on stdout and stderr; raises `CheckError` on another exit code."""
        child = self.start(program, *words)
        try:
            said, complaint = child.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            child.kill()
            raise CheckError(f"{program} {' '.join(words)} did not end in {LIMIT} s.") from None
        if child.returncode != code or "Traceback" in complaint:
            ending = complaint.strip()[-1500:] or said.strip()[-500:]
            raise CheckError(f"{program} {' '.join(words)} ended with {child.returncode}: {ending}")
        return said, complaint


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="dgn bundle ü ") as place:
        bundle = Bundle(folder, Path(place))
        try:
            _size(folder)
            checks = (_commands, _panels_drawn, _served, _checkpoints, _sweep, _window, _display)
            for check in checks:
                print(f"{check(bundle)}", flush=True)
        except CheckError as failure:
            print(f"bundle-check: {failure}", file=sys.stderr)
            return 1
    return 0


def _size(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files)
    print(f"size: {size / 1e6:.0f} MB in {len(files)} files")
    if size > MOST:
        raise CheckError(f"The bundle has {size / 1e6:.0f} MB, more than {MOST / 1e6:.0f}.")


def _commands(bundle: Bundle) -> str:
    """Train, list, export; confined processes work, and every experiment is there."""
    version, _ = bundle.run("dgn", "--version")
    listed = set(bundle.run("dgn", "--help")[0].split())
    if lost := sorted(COMMANDS - listed):
        raise CheckError(f"'dgn --help' does not name {', '.join(lost)}.")
    train = "train --data digits --train-limit 64 --epochs 2 --record gates,npk --out run --quiet"
    bundle.run("dgn", *train.split())
    for kind in ("svg", "pdf", "png"):
        bundle.run("dgn", "figure", "run", "--panel", "training", "-o", f"figure.{kind}")
        _wanted(bundle.place / f"figure.{kind}")
    bundle.run("dgn", "runs", "export", "run", "run.dgn")
    experiments = bundle.run("dgn", "reproduce", "--list")[0].splitlines()
    health, _ = bundle.run("dgn", "inspect", "--confinement")
    if len(experiments) < 10:
        raise CheckError(f"{len(experiments)} lines of experiments; {health}")
    topics = bundle.run("dgn", "docs", "--list")[0].splitlines()
    if len(topics) < 20 or "# User guide" not in bundle.run("dgn", "docs", "guide")[0]:
        raise CheckError(f"'dgn docs' knows {len(topics)} documents.")
    done = "trained, exported svg, pdf, png and .dgn"
    found = f"{len(experiments)} lines of experiments, {len(topics)} documents"
    return f"{version.strip()}: {done}; {len(COMMANDS)} commands, {found}"


def _panels_drawn(bundle: Bundle) -> str:
    """Every panel is found and draws what a run recorded, and one is made a film."""
    engine = bundle.folder / "_internal" / "dgn_engine"
    sources = sorted((engine / "panels").glob("[!_]*.py"))
    panels = [path.stem for path in sources if path.stem not in NEED_MORE]
    probes = sorted((engine / "training" / "probes").glob("[!_]*.py"))
    if not (panels and probes):
        raise CheckError(f"The bundle has {len(panels)} panels and {len(probes)} probes.")
    train = "train --data digits --train-limit 64 --epochs 2 --record-every 2 --out all --quiet"
    bundle.run("dgn", *train.split(), "--record", ",".join(path.stem for path in probes))
    for name in panels:
        bundle.run("dgn", "figure", "all", "--panel", name, "-o", f"{name}.png", "--dpi", "50")
        _wanted(bundle.place / f"{name}.png")
    film = "figure all --panel overlap,ntk --animate all -o film.gif"
    bundle.run("dgn", *film.split())
    _wanted(bundle.place / "film.gif")
    return f"{len(panels)} panels drawn, {len(probes)} probes, an animation"


def _served(bundle: Bundle) -> str:
    """`dgn serve` and `dgn mirror` in two processes; the mirror is equal."""
    server = bundle.start("dgn", "serve", "run")
    assert server.stdout is not None
    told: list[str] = []
    try:
        while not told or not told[-1].startswith("Token"):
            told.append(server.stdout.readline())
            if not told[-1]:
                raise CheckError("'dgn serve' ended.")
        port = told[0].rpartition("127.0.0.1:")[2].partition(".")[0]
        (bundle.place / "token").write_text(told[-1].split()[-1], "utf-8")
        address = f"dgn://127.0.0.1:{port}"
        bundle.run("dgn", "mirror", address, "mirrored", "--token-file", "token")
    finally:
        server.kill()
        server.communicate()
    one, two = (bundle.place / name / "log.jsonl" for name in ("run", "mirrored"))
    if one.read_bytes() != two.read_bytes():
        raise CheckError("A mirrored run has another log.")
    return "served a run, and mirrored it"


def _checkpoints(bundle: Bundle) -> str:
    """A run's own weights are listed by the confined reader; a pickle that calls is only named."""
    sound, _ = bundle.run("dgn", "inspect", "run/weights.safetensors", "--json")
    mark, hostile = bundle.place / "it ran", bundle.place / "hostile.pt"
    hostile.write_bytes(pickle.dumps({"weight": Hostile(mark)}))
    child = bundle.start("dgn", "inspect", "hostile.pt")
    said, complaint = child.communicate(timeout=LIMIT)
    if mark.exists() or "Traceback" in complaint or "system" not in said + complaint:
        raise CheckError(
            f"A hostile checkpoint was met with {child.returncode}: {said} {complaint}"
        )
    facts = len(json.loads(sound))
    return f"read a checkpoint ({facts} facts); refused a hostile one: {_last(said + complaint)}"


def _sweep(bundle: Bundle) -> str:
    (bundle.place / "sweep.toml").write_text(SWEEP, "utf-8")
    words = "sweep sweep.toml --executor processes --workers 2 --out sweep --quiet"
    said, complaint = bundle.run("dgn", *words.split())
    return f"swept in two processes: {_last(said + complaint)}"


def _window(bundle: Bundle) -> str:
    """The window draws, with the engine in a thread and in a process of its own."""
    seconds = []
    for name, more in (("thread", ()), ("thread", ()), ("process", ("--process",))):
        begun = time.monotonic()
        picture = bundle.place / f"{name}.png"
        taken = ("--offscreen", "--steps", "5", "--screenshot", str(picture))
        bundle.run("dgn-viewer", *taken, *more)
        seconds.append(time.monotonic() - begun)
        _wanted(picture)
    shown = [
        json.loads((bundle.place / f"{name}.json").read_text("utf-8"))
        for name in ("thread", "process")
    ]
    panels = [_panels(facts) for facts in shown]
    if panels[0] != panels[1] or not panels[0]:
        raise CheckError(f"The panels in a thread and in a process differ: {panels}")
    first, again, other = seconds
    return (
        f"window with five steps and every panel: {first:.1f} s, again {again:.1f} s, "
        f"--process {other:.1f} s; panels {', '.join(panels[0])}"
    )


def _display(bundle: Bundle) -> str:
    """On an X display: the window opens, and SIGTERM closes it in order."""
    if shutil.which("Xvfb") is None:
        return "Xvfb is not installed: not tried on a display"
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1440x900x24"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    with os.fdopen(read) as told:
        number = told.readline().strip()
    try:
        begun = time.monotonic()
        child = bundle.start("dgn-viewer", DISPLAY=f":{number}", QT_QPA_PLATFORM="xcb")
        runs = bundle.place / "data" / "dgn-viewer" / "runs"
        while child.poll() is None and not list(runs.glob("*/log.jsonl")):
            if time.monotonic() - begun > LIMIT:
                break
            time.sleep(0.05)
        opened = time.monotonic() - begun
        child.send_signal(signal.SIGTERM)
        _, complaint = child.communicate(timeout=LIMIT)
        if child.returncode != 128 + signal.SIGTERM or "Traceback" in complaint:
            raise CheckError(f"On a display it ended with {child.returncode}: {complaint[-1500:]}")
    finally:
        server.kill()
        server.wait()
    return f"on a virtual X display: training after {opened:.1f} s, closed by SIGTERM in order"


def _panels(facts: Mapping[str, object]) -> list[str]:
    found = facts.get("panels", ())
    return sorted(map(str, found)) if isinstance(found, dict | list) else []


def _wanted(path: Path) -> None:
    if not path.is_file() or not path.stat().st_size:
        raise CheckError(f"{path.name} was not written.")


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


if __name__ == "__main__":
    sys.exit(main())
