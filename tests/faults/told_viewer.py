"""`python -m tests.faults.told_viewer RUN.toml`: the whole window, told by lines what to do.

`start` a run of that configuration, `show FOLDER`, `continue FOLDER`; what it hears is printed, one
line an event. Offscreen, recorded under `DGN_RUNS_ROOT`; SIGINT closes it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QSocketNotifier

from dgn_engine.config import RunConfig
from dgn_engine.protocol.messages import Event, Failed, Refused
from dgn_engine.protocol.runs import ContinueRun, RunContinued, RunShown, ShowRun
from dgn_engine.protocol.training import RunStarted, StartRun
from dgn_engine.storage.runs.folder_layout import runs_root
from dgn_viewer.application import Options, build_viewer, run_to_end

SAID = (RunStarted, RunShown, RunContinued, Refused, Failed)


def main(configuration: str) -> int:
    config = RunConfig.from_toml(Path(configuration).read_text("utf-8"))
    viewer = build_viewer(Options(config, start="card", runs_root=str(runs_root())))

    def hear(event: Event, _state: object) -> None:
        if isinstance(event, SAID):
            print(event, flush=True)

    def obey() -> None:
        word, _, folder = sys.stdin.readline().strip().partition(" ")
        if word == "start":
            viewer.pump.send(StartRun(config))
        elif word:
            kinds = {"show": ShowRun, "continue": ContinueRun}
            viewer.pump.send(kinds[word](folder))
        else:  # whoever told it is gone
            viewer.window.close()

    viewer.window.event_taken.connect(hear)
    lines = QSocketNotifier(sys.stdin.fileno(), QSocketNotifier.Type.Read)
    lines.activated.connect(obey)
    return run_to_end(viewer, 60.0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
