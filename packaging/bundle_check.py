"""Check that the bundle works without our Python environment (`make bundle-check`).

    python packaging/bundle_check.py dist/dgn-viewer

Trains, draws every panel and an animation, reads a valid checkpoint and refuses a hostile one,
sweeps in worker processes, serves a run and mirrors it, opens the window with the engine in a
thread and in its own process, and again on a virtual X display if `Xvfb` is installed. Prints the
size, the seconds to the first picture, and what it did; exits with 1 at the first failure. Needs
only Python.
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
NEED_MORE = ("agreement",)  # panels that show nothing for a single run
MOST = 950e6  # bytes, the largest allowed size of the folder
LIMIT = 300  # seconds for one command, even on a slow machine
SWEEP = """[base.data]
name = "digits"
train_limit = 64
[base.training]
epochs = 1
[grid]
seed = [0, 1]
"""


class CheckError(Exception):
    """A failed check, described in one sentence."""


class Hostile:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch '{self._mark}'",)


class Bundle:
    """The programs of the bundle, run in an empty folder with a new user's environment."""

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
        """Run a program; return stdout and stderr. Raises `CheckError` on another exit code."""
        child = self.start(program, *words)
        try:
            output, complaint = child.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            child.kill()
            raise CheckError(f"{program} {' '.join(words)} did not end in {LIMIT} s.") from None
        if child.returncode != code or "Traceback" in complaint:
            ending = complaint.strip()[-1500:] or output.strip()[-500:]
            raise CheckError(f"{program} {' '.join(words)} ended with {child.returncode}: {ending}")
        return output, complaint


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="dgn bundle ü ") as place:
        bundle = Bundle(folder, Path(place))
        try:
            check_size(folder)
            checks = (
                check_commands,
                check_panels,
                check_mirror,
                check_checkpoints,
                check_sweep,
                check_window,
                check_display,
            )
            for check in checks:
                print(f"{check(bundle)}", flush=True)
        except CheckError as failure:
            print(f"bundle-check: {failure}", file=sys.stderr)
            return 1
    return 0


def check_size(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files)
    print(f"size: {size / 1e6:.0f} MB in {len(files)} files")
    if size > MOST:
        raise CheckError(f"The bundle has {size / 1e6:.0f} MB, more than {MOST / 1e6:.0f}.")


def check_commands(bundle: Bundle) -> str:
    """Check training, listing and exporting, the confined reader, experiments and documents."""
    version, _ = bundle.run("dgn", "--version")
    listed = set(bundle.run("dgn", "--help")[0].split())
    if lost := sorted(COMMANDS - listed):
        raise CheckError(f"'dgn --help' does not name {', '.join(lost)}.")
    train = "train --data digits --train-limit 64 --epochs 2 --record gates,npk --out run --quiet"
    bundle.run("dgn", *train.split())
    for kind in ("svg", "pdf", "png"):
        bundle.run("dgn", "figure", "run", "--panel", "training", "-o", f"figure.{kind}")
        _require_file(bundle.place / f"figure.{kind}")
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


def check_panels(bundle: Bundle) -> str:
    """Check that every panel draws a recorded run, and that panels can be animated."""
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
        _require_file(bundle.place / f"{name}.png")
    film = "figure all --panel overlap,ntk --animate all -o film.gif"
    bundle.run("dgn", *film.split())
    _require_file(bundle.place / "film.gif")
    return f"{len(panels)} panels drawn, {len(probes)} probes, an animation"


def check_mirror(bundle: Bundle) -> str:
    """Check `dgn serve` and `dgn mirror` in two processes: the mirror has the same log."""
    server = bundle.start("dgn", "serve", "run")
    assert server.stdout is not None
    output: list[str] = []
    try:
        while not output or not output[-1].startswith("Token"):
            output.append(server.stdout.readline())
            if not output[-1]:
                raise CheckError("'dgn serve' ended.")
        port = output[0].rpartition("127.0.0.1:")[2].partition(".")[0]
        (bundle.place / "token").write_text(output[-1].split()[-1], "utf-8")
        address = f"dgn://127.0.0.1:{port}"
        bundle.run("dgn", "mirror", address, "mirrored", "--token-file", "token")
    finally:
        server.kill()
        server.communicate()
    first, second = (bundle.place / name / "log.jsonl" for name in ("run", "mirrored"))
    if first.read_bytes() != second.read_bytes():
        raise CheckError("A mirrored run has another log.")
    return "served a run, and mirrored it"


def check_checkpoints(bundle: Bundle) -> str:
    """Check that the confined reader lists a run's weights and refuses a hostile pickle."""
    sound, _ = bundle.run("dgn", "inspect", "run/weights.safetensors", "--json")
    mark, hostile = bundle.place / "it ran", bundle.place / "hostile.pt"
    hostile.write_bytes(pickle.dumps({"weight": Hostile(mark)}))
    child = bundle.start("dgn", "inspect", "hostile.pt")
    output, complaint = child.communicate(timeout=LIMIT)
    if mark.exists() or "Traceback" in complaint or "system" not in output + complaint:
        raise CheckError(
            f"A hostile checkpoint gave exit code {child.returncode}: {output} {complaint}"
        )
    facts, refusal = len(json.loads(sound)), _last_line(output + complaint)
    return f"read a checkpoint ({facts} facts); refused a hostile one: {refusal}"


def check_sweep(bundle: Bundle) -> str:
    (bundle.place / "sweep.toml").write_text(SWEEP, "utf-8")
    words = "sweep sweep.toml --executor processes --workers 2 --out sweep --quiet"
    output, complaint = bundle.run("dgn", *words.split())
    return f"swept in two processes: {_last_line(output + complaint)}"


def check_window(bundle: Bundle) -> str:
    """Check that the window draws, with the engine in a thread and in its own process."""
    seconds = []
    for name, more in (("thread", ()), ("thread", ()), ("process", ("--process",))):
        begun = time.monotonic()
        picture = bundle.place / f"{name}.png"
        taken = ("--offscreen", "--steps", "5", "--screenshot", str(picture))
        bundle.run("dgn-viewer", *taken, *more)
        seconds.append(time.monotonic() - begun)
        _require_file(picture)
    shown = [
        json.loads((bundle.place / f"{name}.json").read_text("utf-8"))
        for name in ("thread", "process")
    ]
    panels = [_list_panels(facts) for facts in shown]
    if panels[0] != panels[1] or not panels[0]:
        raise CheckError(f"The panels in a thread and in a process differ: {panels}")
    first, again, other = seconds
    return (
        f"window with five steps and every panel: {first:.1f} s, again {again:.1f} s, "
        f"--process {other:.1f} s; panels {', '.join(panels[0])}"
    )


def check_display(bundle: Bundle) -> str:
    """Check that the window opens on an X display, and that SIGTERM closes it cleanly."""
    if shutil.which("Xvfb") is None:
        return "Xvfb is not installed: not tested on a display"
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1440x900x24"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    with os.fdopen(read) as output:
        number = output.readline().strip()
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
    return f"on a virtual X display: training after {opened:.1f} s, closed cleanly by SIGTERM"


def _list_panels(facts: Mapping[str, object]) -> list[str]:
    panels = facts.get("panels", ())
    return sorted(map(str, panels)) if isinstance(panels, dict | list) else []


def _require_file(path: Path) -> None:
    if not path.is_file() or not path.stat().st_size:
        raise CheckError(f"{path.name} was not written.")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


if __name__ == "__main__":
    sys.exit(main())
