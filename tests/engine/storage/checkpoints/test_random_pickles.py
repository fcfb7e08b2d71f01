"""Where loading a random pickle calls a function, the reader warned of it or refused the file."""

from __future__ import annotations

from pathlib import Path

from tests.faults.pickle_grammar import drawn, judged, loaded

DRAWS = 80


def test_no_random_pickle_calls_a_function_without_a_warning(tmp_path: Path) -> None:
    files = [drawn(seed) for seed in range(DRAWS)]
    touched = loaded(files, tmp_path)
    silent = [seed for seed, called in enumerate(touched) if called and not judged(files[seed])]
    assert silent == []
    assert sum(touched) > DRAWS // 10  # or nothing was tried
    assert sum(not judged(content) for content in files) > DRAWS // 50  # not all are warned of
