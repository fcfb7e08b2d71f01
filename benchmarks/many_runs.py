"""Measure the list of runs with thousands of them: `python -m benchmarks.many_runs SOURCE…`.

Each SOURCE is a recorded run; the folders are copies of these with other seeds, learning rates and
times, whose large files are links. What is measured: listing without and with the index, showing
the list, a step of the scroll bar, and a letter typed into the filter, in milliseconds of processor
time, so that a busy machine counts nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time

from dgn_engine.storage.runs import folder_layout, index, run_info
from dgn_engine.storage.runs.run_notes import RunNotes, write_notes

_NAMES = ("", "", "", "", "wide gates", "paper figure 3", "baseline")
_NOTES = ("", "", "", "#paper", "lr was too high #tuning", "#paper #baseline")
_RATES = (1e-4, 3e-4, 1e-3, 3e-3)


def fake_runs(root: Path, sources: list[Path], count: int, days: int = 60) -> None:
    """Create `count` folders of runs, with plausible times over the last days."""
    draw = random.Random(0)
    root.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    infos = {source: run_info.read_run_info(source) for source in sources}
    for number in range(count):
        source = draw.choice(sources)
        started = now - timedelta(minutes=1 + days * 24 * 60 * draw.random() ** 2)
        info = dict(infos[source])
        config = {key: dict(value) if isinstance(value, dict) else value
                  for key, value in info["config"].items()}  # fmt: skip
        config["seed"] = draw.randrange(5)
        config["training"]["learning_rate"] = draw.choice(_RATES)
        info |= {"config": config, "created": started.isoformat(timespec="seconds")}
        name = f"{started:%Y%m%d-%H%M%S}-{number}-{source.name}"
        folder = root / name
        shutil.copytree(source, folder, copy_function=os.link)
        (folder / folder_layout.RUN).unlink()
        run_info.write_run_info(folder, info)
        log = folder / folder_layout.LOG
        log.unlink()
        shutil.copyfile(source / folder_layout.LOG, log)
        os.utime(log, (started.timestamp() + 60,) * 2)
        notes = RunNotes(draw.choice(_NAMES), draw.choice(_NOTES))
        if notes != RunNotes():
            write_notes(folder, notes)


def _timed(act: Callable[[], object]) -> float:
    before = process_time()
    act()
    return 1000 * (process_time() - before)


def _p95(times: list[float]) -> float:
    return sorted(times)[int(0.95 * (len(times) - 1))]


def measure_list(root: Path, anew: bool = True) -> None:
    """Print how long listing and showing these runs take, in milliseconds."""
    if anew:
        index.forget_index(root)
        print(f"first listing       {_timed(lambda: index.list_runs(str(root))):8.0f} ms")
    again = [_timed(lambda: index.list_runs(str(root))) for _ in range(3)]
    print(f"listing again       {min(again):8.0f} ms")
    listed = index.list_runs(str(root))

    from dgn_engine.scene.theme import LIGHT
    from dgn_viewer.application import qt_application
    from dgn_viewer.rail.runs_rail import RunsRail
    from dgn_viewer.style import appearance

    application = qt_application()
    appearance.style_application(application, LIGHT)
    rail = RunsRail(lambda _: None, LIGHT)
    rail.resize(252, 760)
    rail.show()
    print(f"show {len(listed.runs):,} runs     {_timed(lambda: rail.show_runs(listed)):8.0f} ms")
    print(f"show them again     {_timed(lambda: rail.show_runs(listed)):8.0f} ms")
    application.processEvents()
    for wide in (False, True):
        change = _timed(lambda wide=wide: (rail.show_form(wide), application.processEvents()))
        rail.resize(760 if wide else 252, 760)
        application.processEvents()
        bar, times = rail.table.verticalScrollBar(), []
        for step in range(200):
            bar.setValue(step * 97 % max(1, bar.maximum()))
            times.append(_timed(lambda: rail.table.viewport().repaint()))
        form = "table" if wide else "list "
        print(f"to the {form}        {change:8.0f} ms")
        print(f"paint the {form}     {_p95(times):8.1f} ms (p95 of 200 scroll steps)")
    rail.show_form(False)
    rail.resize(252, 760)
    application.processEvents()
    keys = []
    for text in ("r", "re", "reg", "regime:d", "regime:dl", "regime:dl b", "regime:dl best>9", ""):
        keys.append(
            _timed(lambda text=text: (rail.search.setText(text), application.processEvents()))
        )
    print(f"a letter typed      {_p95(keys):8.0f} ms (p95), at most {max(keys):.0f}")
    order = _timed(lambda: (rail.table.sort_by("best"), application.processEvents()))
    print(f"sort by best        {order:8.0f} ms")
    rail.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="create the folders here and keep them")
    parser.add_argument("--anew", action="store_true", help="forget the index first")
    arguments = parser.parse_args()
    if arguments.keep is not None:
        if not arguments.keep.exists():
            fake_runs(arguments.keep, arguments.sources, arguments.count)
        measure_list(arguments.keep, arguments.anew)
        return
    with tempfile.TemporaryDirectory(dir=arguments.sources[0].parent.parent) as folder:
        root = Path(folder) / "runs"
        fake_runs(root, arguments.sources, arguments.count)
        measure_list(root)


if __name__ == "__main__":
    main()
