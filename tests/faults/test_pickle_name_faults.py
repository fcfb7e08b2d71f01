"""Thousands of random pickles: whatever calls a function is warned of or refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.pickle_grammar import drawn, judged, loaded

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]
DRAWS, FIRST, AT_ONCE = 6000, 1000, 1000  # those before are in the usual tests


@pytest.mark.parametrize("first", range(FIRST, FIRST + DRAWS, AT_ONCE))
def test_no_random_pickle_calls_a_function_without_a_warning(first: int, tmp_path: Path) -> None:
    files = {seed: drawn(seed) for seed in range(first, first + AT_ONCE)}
    touched = dict(zip(files, loaded(list(files.values()), tmp_path), strict=True))
    said = {seed: judged(content) for seed, content in files.items()}
    print(
        f"pickles {first} to {first + AT_ONCE - 1}: {sum(touched.values())} call the function, "
        f"{sum(not words for words in said.values())} are shown without a warning"
    )
    assert [seed for seed, called in touched.items() if called and not said[seed]] == []
    assert sum(touched.values()) > AT_ONCE // 10


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
