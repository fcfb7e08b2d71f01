"""Reports what `make faults` and `make fuzz` measured: `make safety-report`.

Two files are written: every case as tables of Markdown, and a short table of figures between two
marks of docs/safety.md. What is outside these marks is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from dgn_engine.errors import UserError

BEGIN = "<!-- figures: written by make safety-report -->"
END = "<!-- end of figures -->"
NOT_MEASURED = "not measured"
NAMES = ("fault", "kind", "sort", "target", "family", "what", "test")  # keys that name a row
Row = dict[str, Any]
Results = dict[str, list[Row]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write both files and return 0, or 2 where a file cannot be used."""
    parser = argparse.ArgumentParser(prog="report", description=__doc__)
    parser.add_argument(
        "results", type=Path, nargs="+", help="the JSON files of make faults and make fuzz"
    )
    parser.add_argument("--page", type=Path, required=True, help="its figures are replaced")
    parser.add_argument("--cases", type=Path, required=True, help="all tables; written anew")
    given = parser.parse_args(arguments)
    try:
        results = read_results(given.results)
        page = replace_figures(given.page, "\n".join(figures(results)))
    except UserError as trouble:
        print(f"report: {trouble}", file=sys.stderr)
        return 2
    given.cases.parent.mkdir(parents=True, exist_ok=True)
    given.cases.write_text(format_cases(results), "utf-8")
    given.page.write_text(page, "utf-8")
    print(f"All cases are in {given.cases}, the figures in {given.page}.")
    return 0


def read_results(paths: Iterable[Path]) -> Results:
    """Return the rows of all files by their list; of a row that was measured again, the last."""
    results: Results = {}
    for path in paths:
        try:
            lists = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise UserError(
                f"{path} does not exist; run make faults and make fuzz, "
                "or name the files that exist: make safety-report RESULTS=FILE"
            ) from None
        except ValueError:
            raise UserError(f"{path} is not JSON; remove it and measure again") from None
        for name, rows in lists.items():
            results[name] = keep_latest([*results.get(name, []), *rows])
    return results


def keep_latest(rows: Iterable[Row]) -> list[Row]:
    """Return the last of the rows that have the same name, in the position of the first."""
    latest: dict[object, Row] = {}
    for number, row in enumerate(rows):
        names = [row[key] for key in NAMES if key in row]
        latest[names[0] if names else number] = row
    return list(latest.values())


def replace_figures(path: Path, text: str) -> str:
    """Return the page with `text` between its marks."""
    try:
        page = path.read_text("utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UserError(f"{path} lacks the marks '{BEGIN}' and '{END}'")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def figures(results: Results) -> Iterator[str]:
    """Yield the lines of the short table: a sentence on the machine, then one row per figure."""
    yield describe_machines(results.get("machines", []))
    yield ""
    yield "| What was tried | Result |"
    yield "| --- | --- |"
    for what, result in summarise(results):
        yield f"| {what} | {result or NOT_MEASURED} |"


def describe_machines(machines: Sequence[Row]) -> str:
    """Return one sentence: when the rows were measured, on what, and how busy it was."""
    if not machines:
        return "The machine was not recorded."
    dates = sorted({row["date"] for row in machines})
    period = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    loads = sorted(round(row["load"]) for row in machines if row["load"] is not None)
    load = f"; load average {loads[0]} to {loads[-1]}" if loads else ""
    kinds = dict.fromkeys(row["machine"] for row in machines)
    return f"Measured {period} on {' and on '.join(kinds)}{load}."


def summarise(results: Results) -> Iterator[tuple[str, str]]:
    """Yield what was tried and the result; '' where it was not measured."""
    hostile, honest = results.get("hostile", []), results.get("honest", [])
    yield "Hostile or odd checkpoint files", _count_verdicts(hostile, "read without the odd part")
    ran = sum(row["ran"] for row in hostile)
    yield "Files whose code ran", str(ran) if hostile else ""
    right = sum(row["right"] for row in honest)
    yield "Ordinary checkpoint files read bit for bit", _count_share(right, honest)
    both = [*hostile, *honest]
    yield "Longest time for one file", f"{_largest(both, 'seconds'):.1f} s" if both else ""
    images = results.get("images", [])
    yield "Hostile or odd archives, folders and images", _count_verdicts(images, "read")
    read = [*both, *images]
    peak = f"{_largest(read, 'child') / 2**20:.0f} MB" if read else ""
    yield "Peak memory of a confined process", peak
    runs = results.get("hostile_runs", [])
    kinds, damaged, listed = (_total(runs, key) for key in ("kinds", "damaged", "listed"))
    yield (
        "Hostile or damaged run folders",
        f"{damaged + listed:,} of {kinds:,} listed, {damaged:,} of these as damaged"
        if runs
        else "",
    )
    fuzzed = [*results.get("fuzzed", []), *results.get("guided", [])]
    broken = sum(bool(row.get("broken")) for row in fuzzed)
    yield (
        "Fuzzed inputs",
        f"{_total(fuzzed, 'inputs'):,}; the reader broke in {broken} of {len(fuzzed)} campaigns"
        if fuzzed
        else "",
    )
    faults = results.get("faults", [])
    injected, survived = (_total(faults, key) for key in ("injected", "survived"))
    yield "Faults of programs and disks survived", f"{survived:,} of {injected:,}" if faults else ""
    lost = _largest(faults, "seconds")  # 0 where a fault is not about that
    yield "Training lost to a kill, at most", f"{lost:.1f} s" if lost else ""
    outcomes = [row["outcome"] for row in results.get("tests", [])]
    counts = [f"{outcomes.count(how)} {how}" for how in ("passed", "failed", "skipped")]
    yield "Tests of `make faults`", ", ".join(counts) if outcomes else ""


def format_cases(results: Results) -> str:
    """Return all tables as Markdown; a list without rows has no section."""
    sections = (
        ("Tests", results.get("tests"), list_tests),
        ("Faults", results.get("faults"), list_faults),
        ("Hostile runs", results.get("hostile_runs"), list_hostile_runs),
        ("Long lists and logs", results.get("measured"), list_long_runs),
        ("Fuzzing", [*results.get("fuzzed", []), *results.get("guided", [])], list_fuzzing),
        ("Hostile and odd files", results.get("hostile"), partial(list_files, last="verdict")),
        ("Honest files", results.get("honest"), partial(list_files, last="tensors")),
        ("Archives and images", results.get("images"), partial(list_files, last="verdict")),
    )
    lines = ["# Safety: every case", "", *figures(results)]
    for title, rows, tabulate in sections:
        if rows:
            lines += ["", f"## {title}", "", *tabulate(rows)]
    return "\n".join(lines) + "\n"


def list_tests(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a row for each module of tests, and a line for each test that did not pass."""
    modules: dict[str, list[Row]] = {}
    for row in rows:
        modules.setdefault(PurePosixPath(row["test"].partition("::")[0]).stem, []).append(row)
    yield "| module | passed | failed | skipped | s |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for module, ran in modules.items():
        outcomes = [row["outcome"] for row in ran]
        counts = " | ".join(str(outcomes.count(how)) for how in ("passed", "failed", "skipped"))
        yield f"| {module} | {counts} | {_total(ran, 'seconds'):.0f} |"
    other = [row for row in rows if row["outcome"] != "passed"]
    yield from [""] * bool(other)
    for row in other:
        reason = f": {_cell(row['reason'])}" if row["reason"] else ""
        yield f"- {row['outcome']}: `{row['test']}`{reason}"


def list_faults(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a row for each kind of fault."""
    yield "| fault | injected | survived | steps lost, at most | s lost, at most | remark |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for row in rows:
        seconds = f"{row['seconds']:.1f}" if row["seconds"] else ""
        yield (
            f"| {row['fault']} | {row['injected']} | {row['survived']} | {row['lost']:,} | "
            f"{seconds} | {row['remark']} |"
        )


def list_hostile_runs(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a row for each family of hostile run folders, and of the same in a session file."""
    yield "| what is wrong | kinds | listed as damaged | listed | sessions refused | read |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for row in rows:
        yield (
            f"| {row['family']} | {row['kinds']:,} | {row['damaged']:,} | {row['listed']:,} | "
            f"{row['refused']:,} | {row['taken']:,} |"
        )


def list_long_runs(rows: Iterable[Row]) -> Iterator[str]:
    """Yield how long `dgn runs` took and the peak of its memory."""
    yield "| what | s | peak, MB |"
    yield "| --- | ---: | ---: |"
    for row in rows:
        yield f"| {row['what']} | {row['seconds']:.1f} | {row['peak'] / 2**20:.0f} |"


def list_fuzzing(rows: Iterable[Row]) -> Iterator[str]:
    """Yield a row for each campaign."""
    yield "| campaign | inputs | read as tensors | broke the reader |"
    yield "| --- | ---: | ---: | ---: |"
    for row in rows:
        if "target" in row:
            name = f"{row['target']} ({row['how']}; {row['branches']} branches)"
            yield f"| {name} | {row['inputs']:,} | | {int(row['broken'])} |"
        else:
            yield f"| {row['sort']} | {row['inputs']:,} | {row['taken']:,} | 0 |"


def list_files(rows: Iterable[Row], last: str) -> Iterator[str]:
    """Yield a row for each kind of file; `last` is the heading of its last column."""
    yield f"| kind | s | parent, MB | child, MB | {last} |"
    yield "| --- | ---: | ---: | ---: | --- |"
    for row in rows:
        verdict = row["verdict"] if row["right"] else f"WRONG: {row['verdict']}"
        yield (
            f"| {_cell(row['kind'])} | {row['seconds']:.2f} | {row['parent'] / 2**20:.1f} | "
            f"{row['child'] / 2**20:.0f} | {_cell(verdict[:160])} |"
        )


def _count_verdicts(rows: Sequence[Row], otherwise: str) -> str:
    refused = sum(row["refused"] for row in rows)
    wrong = sum(not row["right"] for row in rows)
    counts = f"{len(rows)}: {refused} refused, {len(rows) - refused} {otherwise}; {wrong} wrong"
    return counts if rows else ""


def _count_share(count: int, rows: Sequence[Row]) -> str:
    return f"{count} of {len(rows)}" if rows else ""


def _total(rows: Iterable[Row], key: str) -> Any:
    return sum(row[key] for row in rows)


def _largest(rows: Iterable[Row], key: str) -> Any:
    return max((row[key] for row in rows), default=0)


def _cell(text: str) -> str:
    """Return text that a table of Markdown shows as it is."""
    plain = re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text)
    return "".join(c if c.isprintable() else "?" for c in plain)


if __name__ == "__main__":
    sys.exit(main())
