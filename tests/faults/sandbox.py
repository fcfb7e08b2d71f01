"""Feeds files to a reader that lives on; it is started anew whenever it dies or hangs."""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.confinement.child_process import confined_environment
from dgn_engine.storage.checkpoints import wire
from dgn_engine.storage.checkpoints.contents import CheckpointContents, UnreadableFile

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # seconds for one file


@dataclass(frozen=True)
class Verdict:
    """What became of a file: its tensors, or the sentence; how long it took, how much memory."""

    contents: CheckpointContents | None
    sentence: str
    seconds: float
    grown: int  # bytes


class Sandbox:
    """`deaths`: how often the reader had to be started anew."""

    def __init__(self) -> None:
        self.deaths = 0
        self.files = 0
        self._reader: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, content: bytes) -> Verdict:
        """What the reader says of these bytes; a death is a sentence too."""
        self.files += 1
        reader = self._reader = self._reader or _started()
        assert reader.stdin is not None
        try:
            reader.stdin.write(len(content).to_bytes(8, "little") + content)
            reader.stdin.flush()
            sizes = self._taken(16)
            report = json.loads(self._taken(int.from_bytes(sizes[:8], "little")))
            answer = self._taken(int.from_bytes(sizes[8:], "little"))
        except (OSError, EOFError, TimeoutError) as error:
            self._end()
            self.deaths += 1
            return Verdict(None, f"ended or stopped its reader ({type(error).__name__})", 0.0, 0)
        try:
            contents, sentence = wire.receive_contents(io.BytesIO(answer), 1 << 40), ""
        except UnreadableFile as verdict:
            contents, sentence = None, str(verdict)
        return Verdict(contents, sentence, report["seconds"], report["grown"])

    def _taken(self, length: int) -> bytes:
        assert self._reader is not None
        assert self._reader.stdout is not None
        handle, parts, deadline = self._reader.stdout.fileno(), [], time.monotonic() + PATIENCE
        while length:
            ready, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            part = os.read(handle, min(length, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _end(self) -> None:
        if self._reader is None:
            return
        self._reader.kill()
        for pipe in (self._reader.stdin, self._reader.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:  # what was still to be written
                continue
        self._reader.wait()
        self._reader = None


def _started() -> subprocess.Popen[bytes]:
    environment = confined_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment["PYTHONPATH"]])
    return subprocess.Popen(
        [sys.executable, "-s", "-P", "-m", "tests.faults.sandbox_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
