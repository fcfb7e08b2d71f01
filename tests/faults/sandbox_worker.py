"""A reader of checkpoints that goes on to the next file, under the limits of the real one.

Standard input: the length of a file as eight bytes, then the file. Standard output: the lengths of
the report and of the answer, then both. The report: seconds and peak of memory, in bytes.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from pathlib import Path
from typing import IO

from dgn_engine.confinement import process
from dgn_engine.storage.checkpoints import limits, reader_child

FOR_FILES_OF = 64 << 20
PROC = Path("/proc/self")


def main() -> None:
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    clear, status = _opened("clear_refs", "wb"), _opened("status", "rb")
    process.unshare_network()
    process.confine_process(100_000, limits.working_memory(FOR_FILES_OF))
    while head := sys.stdin.buffer.read(8):
        content = sys.stdin.buffer.read(int.from_bytes(head, "little"))
        before = _reset(clear, status)
        begun = time.process_time()
        answer = io.BytesIO()
        reader_child.answer_tensors(content, answer)
        seconds = time.process_time() - begun
        grown = max(0, _kilobytes(status, b"VmHWM:") - before) << 10
        report = json.dumps({"seconds": seconds, "grown": grown}).encode()
        for part in (report, answer.getvalue()):
            pipe.write(len(part).to_bytes(8, "little"))
        pipe.write(report + answer.getvalue())
        pipe.flush()


def _opened(name: str, mode: str) -> IO[bytes] | None:
    return (PROC / name).open(mode, buffering=0) if PROC.exists() else None


def _reset(clear: IO[bytes] | None, status: IO[bytes] | None) -> int:
    """Let the peak begin anew; the kilobytes in use."""
    if clear is not None:
        clear.write(b"5")
    return _kilobytes(status, b"VmRSS:")


def _kilobytes(status: IO[bytes] | None, field: bytes) -> int:
    if status is None:
        return 0
    status.seek(0)
    text = status.read(limits.HEADER)
    return int(text.partition(field)[2].split(maxsplit=1)[0])


if __name__ == "__main__":
    main()
