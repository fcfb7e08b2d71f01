"""docs/safety.md from what `make faults` and `make fuzz` wrote: `make safety-report`.

Only the part of the document below its mark is written; the text above it is written by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

MARK = "<!-- below: written by make safety-report -->"
NAMES = ("fault", "kind", "sort", "target", "family", "what")  # what a row is of
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Put the tables into the document; 2 where a file is missing."""
    parser = argparse.ArgumentParser(prog="report", description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="the JSON of make faults, make fuzz")
    parser.add_argument("--into", type=Path, required=True)
    given = parser.parse_args(arguments)
    found: dict[str, list[Row]] = {}
    for path in given.results:
        if not path.exists():
            print(f"report: {path} is not there; run make faults and make fuzz.", file=sys.stderr)
            return 2
        for name, rows in json.loads(path.read_text("utf-8")).items():
            found[name] = latest([*found.get(name, []), *rows])
    words = given.into.read_text("utf-8").partition(MARK)[0]
    given.into.write_text(f"{words}{MARK}\n\n{tables(found)}", "utf-8")
    return 0


def latest(rows: Iterable[Row]) -> list[Row]:
    """Of rows of one name the last, in the place of the first: a part may be measured again."""
    found: dict[object, Row] = {}
    for number, row in enumerate(rows):
        names = [row[key] for key in NAMES if key in row]
        found[names[0] if names else number] = row
    return list(found.values())


def tables(found: dict[str, list[Row]]) -> str:
    """All of it, as Markdown; what was not measured has no section."""
    sections = (
        ("Faults", found.get("faults"), faults),
        ("Hostile runs", found.get("hostile_runs"), hostile_runs),
        ("Long lists and logs", found.get("measured"), measured),
        ("Fuzzing", [*found.get("fuzzed", []), *found.get("guided", [])], fuzzing),
        ("Hostile and odd files", found.get("hostile"), partial(files, last="verdict")),
        ("Honest files", found.get("honest"), partial(files, last="found")),
        ("Hostile archives and images", found.get("images"), partial(files, last="verdict")),
    )
    lines = [machine(found.get("loads", [])), "", "## In short", "", *summary(found)]
    for title, rows, written in sections:
        if rows:
            lines += ["", f"## {title}", "", *written(rows)]
    return "\n".join(lines) + "\n"


def machine(loads: Sequence[Row]) -> str:
    """Where and when, and how many processes waited for its cores."""
    seen = sorted({round(row["load"]) for row in loads})
    load = f", load {seen[0]} to {seen[-1]}" if seen else ""
    names = ("torch", "numpy", "safetensors")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return (
        f"Measured {datetime.now(UTC):%Y-%m-%d} on {platform.system()} {platform.machine()}, "
        f"{_processor()}, {os.cpu_count()} cores (shared with other work{load}), "
        f"Python {platform.python_version()}, {versions}."
    )


def summary(found: dict[str, list[Row]]) -> Iterator[str]:
    """The figures that matter, one a line."""
    hostile, honest = found.get("hostile", []), found.get("honest", [])
    refused = sum(row["refused"] for row in hostile)
    yield "| what | figure |"
    yield "| --- | --- |"
    yield (
        f"| hostile and odd kinds of file | {len(hostile)}: {refused} refused in one sentence, "
        f"{len(hostile) - refused} shown without what is odd in them |"
    )
    yield f"| wrong verdicts | {sum(not row['right'] for row in (*hostile, *honest))} |"
    yield "| code of a file that ran (a canary would tell) | none |"
    taken = sum(row["right"] for row in honest)
    yield f"| honest kinds taken in full, bit for bit | {taken} of {len(honest)} |"
    both = [*hostile, *honest]
    if both:
        beyond = max(row["parent"] - row["stated"] for row in both) / 2**20
        yield f"| longest for one file | {max(row['seconds'] for row in both):.1f} s |"
        yield f"| most memory of the reading child | {max(r['child'] for r in both) >> 20} MB |"
        yield f"| most that the parent grew beyond the stated tensors | {beyond:.1f} MB |"
    images = found.get("images", [])
    if images:
        refused = sum(row["refused"] for row in images)
        wrong = sum(not row["right"] for row in images)
        child, parent = (max(row[who] for row in images) >> 20 for who in ("child", "parent"))
        yield (
            f"| hostile and odd archives, folders and images | {len(images)}: {refused} refused in "
            f"one sentence, {len(images) - refused} taken, {wrong} wrong verdicts |"
        )
        yield f"| most memory of a child that unpacks or decodes | {child} MB |"
        yield f"| most that its parent grew | {parent} MB |"
    inputs = sum(row["inputs"] for row in (*found.get("fuzzed", []), *found.get("guided", [])))
    yield f"| fuzzed inputs that broke nothing | {inputs:,} |"
    rows = found.get("faults", [])
    injected, survived = (sum(row[key] for row in rows) for key in ("injected", "survived"))
    yield f"| faults injected, survived | {injected:,}, {survived:,} |"
    seconds = max((row["seconds"] for row in rows), default=0.0)
    yield f"| seconds of training lost at most, at the usual cadence | {seconds:.1f} |"


def faults(rows: Iterable[Row]) -> Iterator[str]:
    """Each kind of fault."""
    yield "| fault | injected | survived | steps lost at most | s lost at most | remark |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for row in rows:
        seconds = f"{row['seconds']:.1f}" if row["seconds"] else ""
        yield (
            f"| {row['fault']} | {row['injected']} | {row['survived']} | {row['lost']:,} | "
            f"{seconds} | {row['remark']} |"
        )


def hostile_runs(rows: Iterable[Row]) -> Iterator[str]:
    """Each family of run folders that lie, and what became of the same in a session file."""
    yield "Every one of them was one line of the list, in the window too, and hid no other."
    yield ""
    yield "| what is wrong | kinds | listed as damaged | listed | sessions refused | taken |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for row in rows:
        yield (
            f"| {row['family']} | {row['kinds']:,} | {row['damaged']:,} | {row['listed']:,} | "
            f"{row['refused']:,} | {row['taken']:,} |"
        )


def measured(rows: Iterable[Row]) -> Iterator[str]:
    """How long `dgn runs` took, and the peak of its memory."""
    yield "| what | s | peak, MB |"
    yield "| --- | ---: | ---: |"
    for row in rows:
        yield f"| {row['what']} | {row['seconds']:.1f} | {row['peak'] / 2**20:.0f} |"


def fuzzing(rows: Iterable[Row]) -> Iterator[str]:
    """Counts of inputs."""
    yield "| sort | inputs | taken as tensors | broke the reader |"
    yield "| --- | ---: | ---: | ---: |"
    for row in rows:
        if "target" in row:
            name = f"{row['target']} ({row['how']}; {row['branches']} branches)"
            yield f"| {name} | {row['inputs']:,} | | {int(row['broken'])} |"
        else:
            yield f"| {row['sort']} | {row['inputs']:,} | {row['taken']:,} | 0 |"


def files(rows: Iterable[Row], last: str) -> Iterator[str]:
    """Each kind of file."""
    yield f"| kind | s | parent, MB | child, MB | {last} |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for row in rows:
        verdict = row["verdict"] if row["right"] else f"WRONG: {row['verdict']}"
        yield (
            f"| {_cell(row['kind'])} | {row['seconds']:.2f} | {row['parent'] / 2**20:.1f} | "
            f"{row['child'] / 2**20:.0f} | {_cell(verdict[:160])} |"
        )


def _cell(text: str) -> str:
    """Text that a table of Markdown shows as it is."""
    plain = re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text)
    return "".join(c if c.isprintable() else "?" for c in plain)


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or "unknown processor"
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found[1] if found else "unknown processor"


if __name__ == "__main__":
    sys.exit(main())
