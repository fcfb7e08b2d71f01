"""Hostile files get their verdict, honest ones are taken in full, random ones harm nobody."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints import reader_child
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from tests.daily import nightly
from tests.faults import fuzzing, honest_files, hostile_files, hostile_pickles
from tests.faults.answered import answer_or_reason
from tests.faults.hostile_files import Hostile
from tests.faults.judging import differences, misjudged, unsound
from tests.faults.pickle_grammar import drawn, judged, loaded
from tests.faults.sandbox import Sandbox

FUZZED = 12  # of each sort; `make faults` tries many more
# A second each at least, and a file that wears out the same limit is in the corpus: `make faults`.
LONG = {
    "instructions without end",
    "20,001 tensors",
    "a large tuple in many calls",
    "a tensor under a billion names",
}
LONG_HERE = {
    "marks without end",
    "a tensor under a billion names",
    "a list of 10^5",
    "5,001 modules in one",
    "a long path for 100,000 names",
    "averaged weights that are one large table",
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


def test_every_hostile_file_gets_its_verdict_and_no_code_is_shown_as_clean(
    canary: Path, kinds: dict[str, Hostile]
) -> None:
    """By the parsers themselves; what takes more memory than a child may have is left to it."""
    wrong: dict[str, str] = {}
    code = hostile_pickles.code(canary).keys()
    assert code <= kinds.keys() - LONG_HERE
    for name, kind in kinds.items():
        if name in LONG_HERE or len(kind.content) >= 1 << 20:
            continue
        contents, reason = answer_or_reason(kind.content)
        if fault := misjudged(kind, contents, f"x {reason}."):
            wrong[name] = fault
        elif name in code and not (contents and contents.would_call + contents.would_import):
            wrong[name] = "it is shown as clean"
    assert wrong == {}
    assert not canary.exists()


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch, on sparse and quantised tensors
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_honest_file_is_taken_in_full_and_shown_without_a_warning() -> None:
    wrong: dict[str, object] = {}
    for name, make in honest_files.KINDS.items():
        content, wanted = make()
        contents, sentence = answer_or_reason(content)
        if contents is None:
            wrong[name] = sentence
            continue
        warned = contents.would_call + contents.would_look_up + contents.would_import
        odd = [one for one in warned if not one.startswith("tests.")]
        if found := [*differences(contents.arrays, wanted), *odd]:
            wrong[name] = found
    assert wrong == {}


@pytest.mark.nightly  # each is read in this process at every push
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
    for name in ("a call of os.mkdir", "code in a legacy file", "code alone"):
        try:
            contents, sentence = read_tensors(kinds[name].place(tmp_path)), ""
        except UserError as refusal:
            contents, sentence = None, str(refusal)
        assert misjudged(kinds[name], contents, sentence) == "", name
    assert not canary.exists()


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


@pytest.mark.parametrize("count", [1000, 1001, *nightly(999, 2001)])
@pytest.mark.parametrize("legacy", [False, True])
def test_every_tensor_of_a_large_state_dict_is_read(count: int, legacy: bool) -> None:
    """1,001 leave one over, which pickle writes with another instruction."""
    file = io.BytesIO()
    tensors = {f"layers.{n}.weight": torch.full((1, 2), float(n)) for n in range(count)}
    torch.save(tensors, file, _use_new_zipfile_serialization=not legacy)
    found = reader_child.read_contents(file.getvalue()).arrays
    assert list(found) == list(tensors)
    assert all((array == float(n)).all() for n, array in enumerate(found.values()))


@pytest.mark.parametrize("count", [1001, *nightly(2000)])
def test_every_tensor_of_a_long_list_is_read(count: int) -> None:
    file = io.BytesIO()
    torch.save([torch.full((2, 1), float(n)) for n in range(count)], file)
    found = reader_child.read_contents(file.getvalue()).arrays
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
