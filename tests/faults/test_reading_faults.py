"""Tens of thousands of ambiguous files: read as torch, NumPy and safetensors read them, or refused.

Two minutes; `make faults` runs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgn_engine.model.nets import all_nets
from dgn_engine.regimes import all_regimes
from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.contents import UnreadableFile, decode_numbers
from dgn_engine.storage.checkpoints.reader_child import tidy_names
from tests.engine.cli.judged_run import judge
from tests.engine.kernels.module_grammar import judge_module as judged_module
from tests.faults import ambiguous_files
from tests.faults.differential import compare, read_inertly, table
from tests.faults.pickle_grammar import drawn, judged, loaded
from tests.faults.reference_readers import ReferenceReaders
from tests.faults.sandbox import Sandbox
from tests.faults.tables import append_rows
from tests.plugins import each

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]
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
    append_rows("fuzzed", [row.row(kind) for kind, row in found.items()])
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
        found = tidy_names(read_inertly(content, CallRecorder()))
    except UnreadableFile:
        return {}
    return {name: decode_numbers(array, found.dtypes[name]) for name, array in found.arrays.items()}


# Random pickles.

PICKLES, FIRST_PICKLE, PICKLES_AT_ONCE = 6000, 1000, 1000  # those before are in the usual tests


@pytest.mark.parametrize("first", range(FIRST_PICKLE, FIRST_PICKLE + PICKLES, PICKLES_AT_ONCE))
def test_no_random_pickle_calls_a_function_without_a_warning(first: int, tmp_path: Path) -> None:
    files = {seed: drawn(seed) for seed in range(first, first + PICKLES_AT_ONCE)}
    touched = dict(zip(files, loaded(list(files.values()), tmp_path), strict=True))
    said = {seed: judged(content) for seed, content in files.items()}
    print(
        f"pickles {first} to {first + PICKLES_AT_ONCE - 1}: "
        f"{sum(touched.values())} call the function, "
        f"{sum(not words for words in said.values())} are shown without a warning"
    )
    assert [seed for seed, called in touched.items() if called and not said[seed]] == []
    assert sum(touched.values()) > PICKLES_AT_ONCE // 10


def test_no_name_on_the_lists_does_more_than_make_a_value(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tests.faults.harmless_child"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        check=True,
    )
    called, seen = json.loads(child.stdout.splitlines()[-1])
    assert called > 300
    assert seen == []
    assert list(tmp_path.iterdir()) == []


# Random modules.

MODULES, FIRST_MODULE, MODULES_AT_ONCE = 2000, 100, 200  # the first hundred are in the usual tests


@pytest.mark.parametrize("first", range(FIRST_MODULE, FIRST_MODULE + MODULES, MODULES_AT_ONCE))
def test_random_modules_are_refused_or_equal_to_autograd(first: int) -> None:
    verdicts = Counter(judged_module(seed)[0] for seed in range(first, first + MODULES_AT_ONCE))
    print(f"modules {first} to {first + MODULES_AT_ONCE - 1}: {dict(verdicts)}")
    assert min(verdicts["equal"], verdicts["refused"]) > MODULES_AT_ONCE // 4


# Random runs.

SEEDS = 5  # of each pair; that of the usual tests is 0


@pytest.mark.parametrize("net", each(all_nets()))
@pytest.mark.parametrize("regime", each(regime.name for regime in all_regimes()))
def test_files_of_kernels_are_of_the_runs_as_they_are(
    tmp_path: Path, regime: str, net: str
) -> None:
    for seed in range(SEEDS):
        judge(tmp_path / str(seed), regime, net, seed)
    print(f"kernels of {SEEDS} runs of {net} in {regime}: those of the runs")
