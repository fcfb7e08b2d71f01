"""The table of branches, and that it looks for what is there."""

from __future__ import annotations

import json
from pathlib import Path

from tests.branches.__main__ import (
    CONCERNED,
    LEFT_OUT,
    ROOT,
    Taken,
    by_package,
    chosen,
    not_taken,
    table,
    taken,
)

KERNELS, *_ = CONCERNED


def test_every_package_and_every_module_of_tests_is_there() -> None:
    assert all((ROOT / package).is_dir() for package in CONCERNED)
    modules = chosen()
    assert all(path.is_file() for path in modules)
    assert not {path.stem for path in modules} & set(LEFT_OUT)
    assert all((ROOT / "tests/engine/kernels" / f"{name}.py").is_file() for name in LEFT_OUT)


def test_a_package_that_is_short_of_branches_is_named() -> None:
    files = {f"{KERNELS}/a.py": Taken(10, 9, 18, 18), f"{KERNELS}/b.py": Taken(5, 5, 2, 0)}
    assert by_package(files)[KERNELS] == Taken(15, 14, 20, 18)
    [line] = [line for line in table(files) if line.startswith(f"{KERNELS} ")]
    assert " ".join(line.split()[1:]) == "14/15 18/20 90.0 % less than 95 %"
    full = {f"{KERNELS}/a.py": Taken(10, 10, 20, 19)}
    assert not [line for line in table(full) if "less than" in line]


def test_a_file_without_branches_lacks_none() -> None:
    assert Taken(3, 0, 0, 0).share == 100.0


def test_branches_that_were_not_taken_are_listed(tmp_path: Path) -> None:
    summary = {"num_statements": 4, "covered_lines": 3, "num_branches": 4, "covered_branches": 2}
    files = {f"{KERNELS}/a.py": {"summary": summary, "missing_branches": [[3, 5], [7, -1]]}}
    (tmp_path / "report.json").write_text(json.dumps({"files": files}))
    assert list(not_taken(taken(tmp_path / "report.json"))) == [
        f"{KERNELS}/a.py:3 never goes on to line 5",
        f"{KERNELS}/a.py:7 never goes on to the end",
    ]
