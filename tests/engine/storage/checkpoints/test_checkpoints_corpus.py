"""Hostile files get their verdict, honest ones are taken in full, random ones harm nobody."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.reader_child import read
from tests.faults import fuzzing, honest_files, hostile_files
from tests.faults.hostile_files import Hostile
from tests.faults.judging import differences, misjudged, unsound
from tests.faults.pickle_grammar import drawn, judged, loaded
from tests.faults.sandbox import Sandbox

FUZZED = 25  # of each sort; `make faults` tries many more
# A second each at least, and a file that wears out the same limit is in the corpus: `make faults`.
LONG = {
    "instructions without end",
    "20,001 tensors",
    "a large tuple in many calls",
    "a tensor under a billion names",
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as found:
        yield found


@pytest.fixture(scope="module")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that a hostile file would make."""
    return tmp_path_factory.mktemp("mine") / "canary"


@pytest.fixture(scope="module")
def kinds(canary: Path) -> dict[str, Hostile]:
    return hostile_files.kinds(canary)


@pytest.mark.nightly  # each is read in this process at every push: test_corpus_here
def test_every_hostile_file_gets_its_verdict_and_runs_nothing(
    sandbox: Sandbox, canary: Path, kinds: dict[str, Hostile]
) -> None:
    wrong: dict[str, str] = {}
    assert kinds.keys() > LONG
    for name, kind in kinds.items():
        if name in LONG:
            continue
        verdict = sandbox.read(kind.content)
        fault = misjudged(kind, verdict.contents, verdict.sentence)
        if fault or (fault := unsound(kind.content, verdict)):
            wrong[name] = fault
    assert wrong == {}
    assert sandbox.deaths == 0
    assert not canary.exists()
    assert len(kinds) >= 400


@pytest.mark.parametrize("name", hostile_files.NO_FILES)
def test_what_is_no_file_is_refused_without_reading(name: str, tmp_path: Path) -> None:
    kind = hostile_files.NO_FILES[name]
    with pytest.raises(UserError, match=kind.refused):
        read_tensors(kind.place(tmp_path))


def test_hostile_files_get_the_same_verdict_from_the_real_reader(
    tmp_path: Path, canary: Path, kinds: dict[str, Hostile]
) -> None:
    for name in random.Random(0).sample(sorted(kinds), 4):
        try:
            contents, sentence = read_tensors(kinds[name].place(tmp_path)), ""
        except UserError as refusal:
            contents, sentence = None, str(refusal)
        assert misjudged(kinds[name], contents, sentence) == "", name
    assert not canary.exists()


@pytest.mark.nightly
@pytest.mark.parametrize("name", honest_files.KINDS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch, on sparse and quantised tensors
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_honest_file_is_taken_in_full(name: str, sandbox: Sandbox) -> None:
    content, wanted = honest_files.KINDS[name]()
    verdict = sandbox.read(content)
    assert verdict.contents is not None, verdict.sentence
    assert differences(verdict.contents.arrays, wanted) == []
    assert unsound(content, verdict) == ""


@pytest.mark.parametrize("sort", fuzzing.ALL)
def test_files_that_nobody_thought_of_are_read_or_refused(sort: str, sandbox: Sandbox) -> None:
    @settings(
        max_examples=FUZZED,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(content=fuzzing.ALL[sort]())
    def check(content: bytes) -> None:
        assert unsound(content, sandbox.read(content)) == ""

    check()
    assert sandbox.deaths == 0


@pytest.mark.parametrize("count", [999, 1000, 1001, 2001])
@pytest.mark.parametrize("legacy", [False, True])
def test_every_tensor_of_a_large_state_dict_is_read(count: int, legacy: bool) -> None:
    """1,001 leave one over, which pickle writes with another instruction."""
    file = io.BytesIO()
    tensors = {f"layers.{n}.weight": torch.full((1, 2), float(n)) for n in range(count)}
    torch.save(tensors, file, _use_new_zipfile_serialization=not legacy)
    found = read(file.getvalue()).arrays
    assert list(found) == list(tensors)
    assert all((array == float(n)).all() for n, array in enumerate(found.values()))


@pytest.mark.parametrize("count", [1001, 2000])
def test_every_tensor_of_a_long_list_is_read(count: int) -> None:
    file = io.BytesIO()
    torch.save([torch.full((2, 1), float(n)) for n in range(count)], file)
    found = read(file.getvalue()).arrays
    assert sorted(float(array[0, 0]) for array in found.values()) == [
        float(n) for n in range(count)
    ]


DRAWS = 250


@pytest.mark.nightly  # known calls are drawn at each push: test_known_calls
def test_no_random_pickle_calls_a_function_without_a_warning(tmp_path: Path) -> None:
    files = [drawn(seed) for seed in range(DRAWS)]
    touched = loaded(files, tmp_path)
    silent = [seed for seed, called in enumerate(touched) if called and not judged(files[seed])]
    assert silent == []
    assert sum(touched) > DRAWS // 10  # or nothing was tried
    assert sum(not judged(content) for content in files) > DRAWS // 50  # not all are warned of
