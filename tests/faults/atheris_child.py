"""One target under atheris: `python -m tests.faults.atheris_child TARGET OPTION …` of libFuzzer.

atheris instruments the reader while it is imported, so nothing may import it before.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["dgn_engine.storage.checkpoints", "pickle", "zipfile"]):
    from dgn_engine.storage.checkpoints import reader_child  # noqa: F401

from tests.faults import fuzz_targets


def main() -> None:
    """Does not return: libFuzzer ends the process."""
    check = fuzz_targets.checked(sys.argv[1])
    atheris.Setup([sys.argv[0], *sys.argv[2:]], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
