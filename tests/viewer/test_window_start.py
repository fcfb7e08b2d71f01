"""What the window waits for: a process of its own says which modules it had at first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_CHILD = """
import json, sys
from pathlib import Path
from PySide6.QtCore import QEvent, QObject, QTimer
from dgn_viewer.__main__ import first_run
from dgn_viewer.application import Options, Viewer

class Painted(QObject):
    said = None
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint and self.said is None:
            hosts = [host for host in viewer.window.docks.hosts.values() if host.isVisible()]
            self.said = {
                "modules": sorted(sys.modules),
                "titles": [host.spec.title for host in hosts],
                "words": [host.message.words()[0] for host in hosts],
                "menus": [action.text() for action in viewer.window.menuBar().actions()],
            }
        return False

class Engine:
    begun_after_paint = False
    def notify(self, wake): pass
    def start(self):
        self.begun_after_paint = painted.said is not None
        QTimer.singleShot(0, viewer.window.close)
    def send(self, command): pass
    def drain(self): return []
    def latest(self): return None
    def close(self, timeout): return True

painted, engine = Painted(), Engine()
viewer = Viewer(Options(first_run(), settings=Path(sys.argv[1]) / "settings.ini"), engine)
viewer.window.installEventFilter(painted)
viewer.run()
viewer.close()
print(json.dumps({**painted.said, "begun after": engine.begun_after_paint}))
"""


def at_first_paint(folder: Path) -> dict[str, Any]:
    """Modules that were imported, titles and words of the panels in sight, and the menus."""
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-c", _CHILD, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_the_window_is_painted_whole_before_torch_and_pyqtgraph_are_imported(
    tmp_path: Path,
) -> None:
    said = at_first_paint(tmp_path)
    late = {"torch", "torchvision", "sklearn", "scipy", "matplotlib", "pyqtgraph", "rich"}
    assert {module.partition(".")[0] for module in said["modules"]}.isdisjoint(late)
    assert said["begun after"]
    assert {"File", "View", "Help"} <= {menu.replace("&", "") for menu in said["menus"]}
    assert "Training" in said["titles"]
    assert len(set(said["words"])) == 1  # all say the same: what they wait for
    assert said["words"][0]
