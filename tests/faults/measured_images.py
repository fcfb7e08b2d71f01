"""Loads `folder:PATH` and writes what came of it as JSON: `measured_images PATH`."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.errors import UserError


def _peak() -> int:
    text = Path("/proc/self/status").read_text("ascii")
    return int(text.partition("VmHWM:")[2].split()[0]) << 10


def main(path: str) -> None:
    before, begun = _peak(), time.perf_counter()
    sentence, images = "", 0
    try:
        examples = load_examples(DataConfig(name=f"folder:{path}"))
        images = len(examples.train_y) + len(examples.test_y)
    except UserError as refusal:
        sentence = str(refusal)
    found = {
        "sentence": sentence,
        "images": images,
        "seconds": time.perf_counter() - begun,
        "parent": _peak() - before,
        "child": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
