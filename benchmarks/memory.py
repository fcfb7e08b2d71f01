"""Peak memory of one method over its baseline.

On a CPU it is measured in a process of its own: set-up and a warm-up on two examples come first,
then the highest resident set is reset through /proc. On a card the allocator keeps the peak.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.case import Case, Work
from benchmarks.timing import pin
from dgn_engine.confinement.child_process import python_command, python_environment
from dgn_engine.plugins import discover_plugins

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak(case: str, method: int, n: int, device: torch.device) -> int | None:
    """Bytes over the baseline for a method of `cases/CASE.py`; None where it cannot be measured."""
    if not RESET.exists():
        return None
    command = python_command("-m", "benchmarks.memory", case, str(method), str(n), str(device))
    environment = python_environment() | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        print(result.stderr, file=sys.stderr)
        return None
    return int(result.stdout.split()[-1])


def peak_on_card(work: Work) -> int:
    """Return the bytes of the card that the work takes over what was allocated before it."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - before)


def resident_now() -> int:
    """Bytes of this process that lie in memory."""
    return _resident("VmRSS")


def _resident(field: str) -> int:
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"{STATUS} has no {field}.")


def _measure(case: str, method: int, n: int, device: torch.device) -> int:
    pin()
    prepare = discover_plugins("benchmarks.cases", "CASE", Case)[case].methods[method].prepare
    prepare(device, 2)()
    work = prepare(device, n)
    RESET.write_text("5", encoding="ascii")
    before = _resident("VmRSS")
    kept = work()
    highest = _resident("VmHWM")
    del kept
    return highest - before


if __name__ == "__main__":
    name, place, count, kind = sys.argv[1:]
    print(_measure(name, int(place), int(count), torch.device(kind)))
