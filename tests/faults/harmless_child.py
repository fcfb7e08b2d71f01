"""Calls every name on the lists of `harmless_names` with values that a pickle can hold.

The last line of the output is a list of what an audit hook saw that is more than making a value:
files that are opened to be written, processes, sockets, libraries, and code made of an argument.
Text codings are looked up by their names, in Python's package `encodings` alone.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import torch

from dgn_engine.storage.checkpoints.harmless_names import CALLS_ARGUMENTS, MADE, SHOWN

MARK = "canary_mark"
_SEEN = ("os.", "subprocess.", "socket.", "shutil.", "ctypes.", "urllib.", "tempfile.", "code.")
_READS = ("os.listdir", "os.scandir")  # by imports
_CODINGS = "encodings."
_ARGUMENTS = (
    *(0, 1, None, MARK, f"open('{MARK}', 'w')", f"{MARK}.{MARK}", MARK.encode(), "latin1", "f4"),
    *([1, 2], {"a": 1}, (MARK, MARK), torch.ones(2), torch.nn.Identity(), np.ones(2)),
)


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    tables = (MADE, SHOWN)
    names = [(m, n) for table in tables for m, names in table.items() for n in names.split()]
    for module, name in (
        *names,
        *((m, n) for m, _, n in (c.rpartition(".") for c in CALLS_ARGUMENTS)),
    ):
        with contextlib.suppress(ImportError, AttributeError):  # of another version
            thing = getattr(import_module(module), name)
            if callable(thing):
                yield f"{module}.{name}", thing


def main() -> None:
    warnings.simplefilter("ignore")
    seen: dict[str, None] = {}
    running = ""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if not running:
            return
        writes = event == "open" and isinstance(arguments[1], str) and arguments[1][:1] in "wax+"
        runs = event in ("compile", "exec", "import") and MARK in str(arguments[0])
        runs = runs and not (event == "import" and arguments[0].startswith(_CODINGS))
        acts = event.startswith(_SEEN) and event not in _READS
        if writes or runs or acts:
            seen[f"{running}: {event} {str(arguments)[:80]}"] = None

    things = list(callables())
    torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])  # imports what optimisers need
    sys.addaudithook(watch)
    for running, thing in things:  # noqa: B007 - the hook reads it
        for count in range(3):
            for arguments in itertools.product(_ARGUMENTS, repeat=count):
                with contextlib.suppress(Exception):
                    thing(*arguments)
    running = ""
    print(json.dumps([len(things), list(seen)]))


if __name__ == "__main__":
    main()
