"""Thousands of runs are read by several processes, each a share of them.

`python -m dgn_engine.storage.runs.index_shares` reads one share: JSON in, a line of JSON a run out.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

from dgn_engine.confinement.child_process import (
    ChildProcess,
    module_command,
    one_thread,
    own_folder,
    python_environment,
    usable_cores,
)
from dgn_engine.confinement.parent_watch import end_with_parent
from dgn_engine.storage.runs.index_entry import IndexEntry, from_cache, read_entry, to_cache

SHARE = 500  # runs; a process that reads fewer is not worth its start

Wanted = Sequence[tuple[str, str]]  # names of folders and stamps of what lies in them


def read_entries(root: Path, wanted: Wanted) -> Iterator[IndexEntry]:
    """Of each run that is still there, in no order."""
    count = max(1, min(usable_cores(), len(wanted) // SHARE))
    shares = [wanted[number::count] for number in range(count)]
    with ExitStack() as stack:
        children = []
        with suppress(OSError):  # no process can be started: all that is left is read here
            while len(shares) > 1:
                children.append(stack.enter_context(_Child(root, shares[-1])))
                shares.pop()
        for name, stamp in chain.from_iterable(shares):
            if (entry := read_entry(root / name, stamp)) is not None:
                yield entry
        for child in children:
            yield from child.entries()


class _Child:
    """A process that reads a share into a file, so that nobody waits for a pipe."""

    def __init__(self, root: Path, share: Wanted) -> None:
        self._root, self._share = root, share
        self._answers = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `__exit__`)
        with tempfile.TemporaryFile() as orders:
            orders.write(json.dumps([str(root.absolute()), share]).encode())
            orders.seek(0)
            try:
                self._process = ChildProcess(
                    module_command(__name__),
                    environment=python_environment() | one_thread(),
                    folder=own_folder(),
                    stdin=orders,
                    stdout=self._answers,
                )
            except OSError:
                self._answers.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()
        self._answers.close()

    def entries(self) -> Iterator[IndexEntry]:
        """Raises nothing: what the child did not read is read here."""
        self._process.wait()
        self._answers.seek(0)
        answered = {one.name: one for one in map(_answer, self._answers) if one is not None}
        for name, stamp in self._share:
            told = answered.get(name)
            entry = told.entry(stamp) if told is not None else read_entry(self._root / name, stamp)
            if entry is not None:
                yield entry


@dataclass(frozen=True)
class _Answer:
    name: str
    known: object  # an entry as the cache has it, None where the run went

    def entry(self, stamp: str) -> IndexEntry | None:
        return from_cache(self.name, self.known, stamp)


def _answer(line: bytes) -> _Answer | None:
    """None where the child ended in the middle of it."""
    try:
        name, known = json.loads(line)
    except ValueError:
        return None
    return _Answer(name, known)


def main() -> None:
    """The child: one line for each run, in their order."""
    end_with_parent()
    gc.disable()  # it ends in seconds
    root, share = json.load(sys.stdin)
    for name, stamp in share:
        entry = read_entry(Path(root) / name, stamp)
        sys.stdout.write(f"{json.dumps([name, None if entry is None else to_cache(entry)])}\n")


if __name__ == "__main__":
    main()
