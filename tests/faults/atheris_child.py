"""One target under atheris: `python -m tests.faults.atheris_child TARGET OPTION …` of libFuzzer.

The reader is imported while atheris looks on, and before anything else imports it.
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["dgn_engine.storage.checkpoints", "zipfile"]):
    pass

from tests.faults import fuzz_targets


def main() -> None:
    """Does not return: libFuzzer ends the process."""
    check = fuzz_targets.checked(sys.argv[1])
    atheris.Setup([sys.argv[0], *sys.argv[2:]], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
