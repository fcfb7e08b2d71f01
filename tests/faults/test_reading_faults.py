"""Tens of thousands of ambiguous files: read as torch, NumPy and safetensors read them, or refused.

Two minutes; `make faults` runs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.contents import UnreadableFile, decoded
from dgn_engine.storage.checkpoints.reader_child import tidy
from tests.faults import ambiguous_files
from tests.faults.differential import compare, read_inertly, table
from tests.faults.reference_readers import ReferenceReaders
from tests.faults.sandbox import Sandbox
from tests.faults.tables import keep

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]
SEED, COUNT = 1000, 2000  # the usual tests have another seed
IN_THE_CHILD = 40


def test_no_ambiguous_file_is_read_otherwise_than_by_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ReferenceReaders(tmp_path) as readers:
        found = compare(ambiguous_files.files(SEED, COUNT), readers)
        deaths = readers.deaths
    with capsys.disabled():
        print(f"\n{table(found)}\nthe other readers died {deaths} times")
    keep("fuzzed", [row.row(kind) for kind, row in found.items()])
    assert {kind: row.different[0][0] for kind, row in found.items() if row.different} == {}
    assert found["as saved"].equal == COUNT


def test_the_confined_reader_gives_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    taken = refused = 0
    with Sandbox() as sandbox:
        for kind, content in ambiguous_files.files(SEED + 1, IN_THE_CHILD):
            here = _numbers(content)
            verdict = sandbox.read(content)
            there = verdict.contents.arrays if verdict.contents else {}
            assert there.keys() == here.keys(), kind
            for name, array in here.items():
                np.testing.assert_array_equal(there[name], array, err_msg=kind)
            taken, refused = taken + bool(here), refused + (not here)
        assert sandbox.deaths == 0
    with capsys.disabled():
        print(f"\nambiguous files in the confined reader: {taken:,} taken, {refused:,} refused")
    assert taken > IN_THE_CHILD


def _numbers(content: bytes) -> dict[str, Any]:
    try:
        found = tidy(read_inertly(content, CallRecorder()))
    except UnreadableFile:
        return {}
    return {name: decoded(array, found.dtypes[name]) for name, array in found.arrays.items()}
