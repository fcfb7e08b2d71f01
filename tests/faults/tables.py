"""What was injected and what was survived: rows that are printed at the end and kept as JSON."""

from __future__ import annotations

import json
import os
import platform
import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

KEPT = "DGN_FAULTS_JSON"  # names the file that the tables are added to; none is written without it


@dataclass
class Row:
    """One kind of fault. `lost`: most steps that had to be taken again; `seconds`: their time."""

    fault: str
    injected: int = 0
    survived: int = 0
    lost: int = 0
    seconds: float = 0.0
    remark: str = ""


@dataclass
class Table:
    """Rows in the order in which they were asked for."""

    rows: list[Row] = field(default_factory=list)

    def row(self, fault: str) -> Row:
        """A new one."""
        self.rows.append(Row(fault))
        return self.rows[-1]

    def show(self) -> None:
        """Print all of it."""
        head = f"{'fault':44} {'injected':>8} {'survived':>8} {'steps lost':>10} {'s lost':>6}"
        print(f"\n{head}  remark")
        for row in self.rows:
            seconds = f"{row.seconds:6.1f}" if row.seconds else f"{'':6}"
            print(
                f"{row.fault:44} {row.injected:8} {row.survived:8} {row.lost:10} {seconds}  "
                f"{row.remark}"
            )
        injected, survived = (
            sum(getattr(r, k) for r in self.rows) for k in ("injected", "survived")
        )
        print(f"faults injected {injected}, survived {survived}")


def append_rows(what: str, rows: list[dict[str, Any]]) -> None:
    """Add rows to the list `what` of the file that the environment names, and note the machine."""
    if not os.environ.get(KEPT):
        return
    path = Path(os.environ[KEPT])
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    known.setdefault(what, []).extend(rows)
    load = round(os.getloadavg()[1], 1) if hasattr(os, "getloadavg") else None
    now = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": describe_machine(), "load": load}
    machines = known.setdefault("machines", [])
    if now not in machines:
        machines.append(now)
    path.write_text(json.dumps(known, indent=1), "utf-8")


def append_table(table: Table) -> None:
    """Add the rows of a table to the list 'faults'."""
    append_rows("faults", [asdict(row) for row in table.rows])


@cache
def describe_machine() -> str:
    """Return the system, the processor and the versions that a measurement depends on."""
    names = ("torch", "numpy", "safetensors")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return (
        f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, {versions}"
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or "unknown processor"
    model = re.search(r"model name\s*:\s*(.+)", text)
    return model[1] if model else "unknown processor"
