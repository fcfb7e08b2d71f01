"""Every kind of hostile run: listed on the command line and in the window beside honest ones, put
into a session file, shown, verified, repaired. `make safety-report` makes a table of it.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from dgn_engine.cli import main
from dgn_engine.cli.run.show_run import describe_run
from dgn_engine.errors import UserError
from dgn_engine.scene.theme import LIGHT
from dgn_engine.storage.runs import index
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.recorded_curves import read_curves
from dgn_engine.storage.runs.repair import repair_run_folder
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.storage.session_file.loaded_run import read_run
from dgn_engine.storage.session_file.session_reader import (
    UnpackedSession,
    adopt_run,
    unpack_session,
)
from dgn_engine.storage.session_file.session_writer import export_run
from dgn_viewer.rail.runs_rail import RunsRail
from tests.engine.files_read_here import read_files_here
from tests.faults import hostile_runs
from tests.faults.tables import append_rows
from tests.viewer.rail.listed_rows import show_every_cell

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]

HONEST = ("a", "b", "c")
USED = 600  # kinds that are also shown, verified, repaired
MEMORY = Path("/dev/shm")
Rows = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """In memory where there is such a place: they are 30,000 files."""
    found = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    yield found
    shutil.rmtree(found)


@pytest.fixture(scope="module")
def families() -> Iterator[Rows]:
    """A row for each family; printed and kept at the end."""
    found: Rows = {}
    for kind in hostile_runs.kinds():
        name = hostile_runs.family(kind)
        zeros = dict.fromkeys(("kinds", "damaged", "listed", "refused", "taken"), 0)
        found.setdefault(name, {"family": name, **zeros})["kinds"] += 1
    yield found
    for row in found.values():
        print(row)
    append_rows("hostile_runs", list(found.values()))


@pytest.fixture(scope="module")
def root(place: Path) -> Path:
    for seed, name in enumerate(HONEST):
        hostile_runs.make_honest(place / "runs" / name, seed)
    return place / "runs"


def test_every_hostile_run_is_one_line_and_hides_no_other(
    root: Path, place: Path, families: Rows, qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = {run.name: repr(run) for run in index.list_runs(str(root)).runs}
    made = hostile_runs.make_all(root)
    began = time.monotonic()
    listed = index.list_runs(str(root))
    seconds = time.monotonic() - began
    found = {run.name: run for run in listed.runs}
    assert set(found) == {*HONEST, *made}
    assert {name: repr(found[name]) for name in HONEST} == honest
    assert repr(index.list_runs(str(root))) == repr(listed), "from the cache"
    for name, kind in made.items():
        damaged = found[name].status == "damaged"
        trouble = found[name].trouble  # a run whose log has a gap is listed, and says so
        assert trouble if damaged else not trouble or "of its log" in trouble, kind
        families[hostile_runs.family(kind)]["damaged" if damaged else "listed"] += 1
    assert main(["runs", "list", str(root)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(found)
    assert main(["runs", "list", str(root), "--json"]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert {row["name"] for row in told} == set(found)
    rail = RunsRail(lambda _: None, LIGHT)
    qtbot.addWidget(rail)
    show_every_cell(rail, listed)
    assert rail.runs.rowCount() == len(found)
    print(f"{len(found):,} runs were read in {seconds:.1f} s")


@pytest.fixture
def read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    read_files_here(monkeypatch)


def opened(file: Path, unpacked: Path) -> tuple[UnpackedSession | None, str]:
    try:
        return unpack_session(file, unpacked), ""
    except UserError as refusal:
        return None, str(refusal)


@pytest.mark.usefixtures("read_here")
def test_every_hostile_run_in_a_session_is_refused_or_harmless(place: Path, families: Rows) -> None:
    """What is imported is listed, shown and found sound, as any run."""
    hostile_runs.make_honest(place / "pattern")
    honest = hostile_runs.members_of(place / "pattern")
    file, unpacked, root = place / "x.dgn", place / "unpacked", place / "imported"
    unpacked.mkdir()
    file.write_bytes(hostile_runs.packed(honest))
    first = unpack_session(file, unpacked)
    adopt_run(first.folder, root, "honest")
    shutil.rmtree(first.folder.parent)
    for kind, make in hostile_runs.kinds().items():
        hostile = place / "hostile"
        shutil.copytree(place / "pattern", hostile)
        make(hostile)
        members = hostile_runs.members_of(hostile)
        shutil.rmtree(hostile)
        if members == honest:
            continue
        file.write_bytes(hostile_runs.packed(members))
        row = families[hostile_runs.family(kind)]
        session, told = opened(file, unpacked)
        row["taken" if session is not None else "refused"] += 1
        if session is None:
            assert re.fullmatch(r"x\.dgn .{1,700}\.", told), kind
            assert list(unpacked.iterdir()) == [], kind
            continue
        why = refused(partial(read_run, session=session), session.folder)
        assert why == "" or "nothing to show" in why, kind
        folder = adopt_run(session.folder, root, "taken")
        describe_run(folder, "x")
        statuses = {run.name: run.status for run in index.list_runs(str(root)).runs}
        assert statuses["honest"] == "finished", kind
        assert statuses[folder.name] != "damaged", kind
        shutil.rmtree(folder)
        shutil.rmtree(session.folder.parent)


def go_on(folder: Path) -> None:
    RunFolder(folder).close()


def make_whole(folder: Path) -> None:
    repair_run_folder(folder)
    assert [one for one in find_damage(folder) if not one.harmless] == []


def refused(act: Callable[[Path], object], folder: Path) -> str:
    try:
        act(folder)
    except UserError as refusal:
        return str(refusal)
    return ""


USES: dict[str, Callable[[Path], object]] = {
    "shown": lambda folder: describe_run(folder, "x"),
    "verified": find_damage,
    "drawn": read_curves,
    "opened": read_run,
    "exported": lambda folder: export_run(folder, folder.with_name("x.dgn")),
    "gone on with": go_on,
    "repaired": make_whole,
}


def test_a_hostile_run_is_used_or_refused_in_one_sentence(place: Path) -> None:
    kinds = hostile_runs.kinds()
    chosen = random.Random(20260101).sample(sorted(kinds), USED)
    made = hostile_runs.make_all(place / "used", {kind: kinds[kind] for kind in chosen})
    for name, kind in made.items():
        for use, act in USES.items():
            told = refused(act, place / "used" / name)
            assert "\n" not in told, (kind, use)
            assert len(told) < 1500, (kind, use)
