"""The memory still available to this process, by the machine and by its control groups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

_MACHINE = Path("/proc/meminfo")
_MEMBERSHIP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
# Limit, usage, and the reclaimable entry of `memory.stat`: for control groups of version 2, and of
# version 1, which are in a separate folder.
_LAYOUTS = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_memory() -> float:
    """Return the available bytes of main memory; infinite if unknown."""
    return min((_free_of_machine(), *_free_of_groups()))


def _free_of_machine() -> float:
    try:
        text = _MACHINE.read_text("ascii")
        return int(text.partition("MemAvailable:")[2].split(maxsplit=1)[0]) << 10
    except (OSError, ValueError, IndexError):
        return math.inf


def _free_of_groups() -> Iterator[float]:
    """Yield what the limits of this process's control group and its parents leave."""
    try:
        lines = _MEMBERSHIP.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, *names = _LAYOUTS[bool(controllers)]
        root = _GROUPS / folder
        own = root / path.lstrip("/")
        # In a container the path may be the host's, which does not exist; use the root instead.
        for group in (own, *own.parents) if own.is_relative_to(root) else (root,):
            yield _free_of_group(group, *names)
            if group == root:
                break


def _free_of_group(group: Path, limit: str, use: str, dropped: str) -> float:
    try:
        most = int((group / limit).read_text("ascii"))
        used = int((group / use).read_text("ascii"))
        stat = (group / "memory.stat").read_text("ascii")
        files = next((line for line in stat.splitlines() if line.startswith(f"{dropped} ")), "0")
        return max(0, most - used + int(files.split()[-1]))
    except (OSError, ValueError):  # no such group, or its limit is 'max'
        return math.inf
