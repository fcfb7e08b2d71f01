"""Loads the files 0.pt, 1.pt … of the folder as torch does with `weights_only=False`.

The last line of the output is a list: whether the canary's function was called by each. Memory and
time are limited, for these pickles are random. It unpickles what a test has just drawn, nothing
else.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import pickle
import resource
import sys
import warnings
from pathlib import Path

import torch

from tests.faults.pickle_grammar import CANARY

_MEMORY, _SECONDS = 8 << 30, 1800


def main(count: int) -> None:
    warnings.simplefilter("ignore")
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    canary = importlib.import_module(CANARY)
    setattr(torch.serialization, CANARY, canary)  # where a dotted name finds it
    told = []
    for number in range(count):
        path = Path(f"{number}.pt")
        canary.touched = False
        with contextlib.suppress(Exception):
            torch.load(path, weights_only=False)
        with contextlib.suppress(Exception):
            pickle.loads(path.read_bytes())
        told.append(canary.touched)
    print(json.dumps(told))


if __name__ == "__main__":
    main(int(sys.argv[1]))
