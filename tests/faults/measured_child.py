"""The reading process, then its peak of memory in a file: measured_child REPORT SECONDS [PART]."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dgn_engine.confinement.start_folder import PARENT
from dgn_engine.storage.checkpoints import reader_child


def main(report: str, seconds: str, part: str = "") -> None:
    """A fork of this small process reads, so that its peak is its own."""
    os.environ[PARENT] = str(os.getpid())
    forked = os.fork()
    if forked == 0:
        reader_child.main(int(seconds), part)
        os._exit(0)
    os.close(1)
    _, status, used = os.wait4(forked, 0)
    place = Path(report)
    part = place.with_suffix(".part")
    part.write_text(str(used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)))
    part.rename(place)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
