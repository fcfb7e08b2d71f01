"""Measure the peak memory of one method above its baseline.

On a CPU this happens in a separate process: after set-up and a warm-up on two examples, the peak
resident set size is reset through /proc. On CUDA the allocator tracks the peak.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from benchmarks.case import Case, Work
from benchmarks.timing import pin_to_one_core
from dgn_engine.confinement.child_process import python_command, python_environment
from dgn_engine.plugins import discover_plugins

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def measure_peak(case: str, method: int, n: int, device: torch.device) -> int | None:
    """Return the peak bytes above the baseline of a method in `cases/CASE.py`, None if unknown."""
    if not RESET.exists():
        return None
    command = python_command("-m", "benchmarks.memory", case, str(method), str(n), str(device))
    environment = python_environment() | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        print(result.stderr, file=sys.stderr)
        return None
    return int(result.stdout.split()[-1])


def measure_peak_on_card(work: Work) -> int:
    """Return the peak CUDA bytes the work allocates above what was allocated before."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return int(torch.cuda.max_memory_allocated() - before)


def read_resident_bytes() -> int:
    """Return the resident set size of this process in bytes."""
    return _read_status("VmRSS")


def _read_status(field: str) -> int:
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"{STATUS} has no {field}.")


def _measure_here(case: str, method: int, n: int, device: torch.device) -> int:
    pin_to_one_core()
    prepare = discover_plugins("benchmarks.cases", "CASE", Case)[case].methods[method].prepare
    prepare(device, 2)()
    work = prepare(device, n)
    RESET.write_text("5", encoding="ascii")
    before = _read_status("VmRSS")
    result = work()
    highest = _read_status("VmHWM")
    del result
    return highest - before


if __name__ == "__main__":
    name, place, count, kind = sys.argv[1:]
    print(_measure_here(name, int(place), int(count), torch.device(kind)))
