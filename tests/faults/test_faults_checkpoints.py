"""All hostile and honest files through the real reader, and very many at random; prints tables.

`make faults` runs it: minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings

from dgn_engine.confinement import child_process
from dgn_engine.confinement.child_process import ChildProcess
from dgn_engine.errors import UserError
from dgn_engine.storage.checkpoints import checkpoint_reader, wire
from dgn_engine.storage.checkpoints.array_layout import is_kernel
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from tests.faults import fuzz_targets, fuzzing, honest_files, hostile_files, sparse_files
from tests.faults.judging import differences, misjudged, unsound
from tests.faults.sandbox import Sandbox
from tests.faults.tables import append_rows

pytestmark = [pytest.mark.faults, pytest.mark.timeout(7200)]
FUZZED = 20_000  # of each sort
PARENT_SLACK = 24 << 20  # bytes that the parent may grow beyond the tensors
CHILD_MOST = 400 << 20  # bytes; what the corpus holds is small


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as found:
        yield found


@dataclass(frozen=True)
class Measured:
    contents: CheckpointContents | None
    sentence: str
    seconds: float
    parent: int  # bytes by which its peak rose
    child: int  # bytes at its peak

    @property
    def stated(self) -> int:
        """Bytes of the tensors that the file states to have, as they arrive."""
        return sum(a.nbytes for a in self.contents.arrays.values()) if self.contents else 0

    def row(self, kind: str, verdict: str, right: bool) -> dict[str, Any]:
        """For the tables."""
        return {
            "kind": kind,
            "refused": self.contents is None,
            "verdict": verdict,
            "right": right,
            "seconds": self.seconds,
            "parent": self.parent,
            "child": self.child,
            "stated": self.stated,
        }


class _Patient(ChildProcess):
    """Killed only when it had its chance to say how much memory it took."""

    def kill(self, why: str = "") -> None:
        if self.wait(2.0) is None:
            super().kill(why)


class Reader:
    """The real reader, with the memory of both processes measured."""

    def __init__(self, folder: Path, patched: pytest.MonkeyPatch) -> None:
        self.report = folder / "peak"
        worker = [sys.executable, "-s", "-P", "-m", "tests.faults.measured_child"]
        patched.setattr(
            checkpoint_reader,
            "confined_command",
            lambda _, seconds, *part: [*worker, str(self.report), str(int(seconds)), *part],
        )
        patched.setattr(child_process, "ChildProcess", _Patient)

    def read(self, path: Path, part: str = "") -> Measured:
        self.report.unlink(missing_ok=True)
        before = _peak(anew=True)
        begun = time.perf_counter()
        contents, sentence = None, ""
        try:
            contents = read_tensors(path, part=part)
        except UserError as refusal:
            sentence = str(refusal)
        seconds = time.perf_counter() - begun
        parent = _peak() - before
        child = int(self.report.read_text()) if self.report.exists() else 0
        return Measured(contents, sentence, seconds, parent, child)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    return Reader(tmp_path, monkeypatch)


def _peak(anew: bool = False) -> int:
    """The most memory of this process since it was last asked anew; 0 where it cannot be had."""
    if sys.platform != "linux":
        return 0
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    text = Path("/proc/self/status").read_text("ascii")
    return int(text.partition("VmHWM:")[2].split()[0]) << 10


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Any:
    def line(text: str) -> None:
        with capsys.disabled():
            print(text)

    return line


def test_every_hostile_file(reader: Reader, tmp_path: Path, say: Any) -> None:
    canary = tmp_path / "canary"
    kinds = hostile_files.NO_FILES | hostile_files.kinds(canary)
    say(f"\n{'hostile or odd file':50} {'s':>5} {'parent':>7} {'child':>7}  ran  verdict")
    wrong: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    refused = 0
    for place, (name, kind) in enumerate(kinds.items()):
        folder = tmp_path / str(place)
        folder.mkdir()
        found = reader.read(kind.place(folder))
        fault = misjudged(kind, found.contents, found.sentence)
        if found.parent > found.stated + PARENT_SLACK:
            fault = fault or f"{found.parent >> 20} MB in the parent"
        ran = canary.exists()
        canary.unlink(missing_ok=True)
        if ran:
            fault = "code of the file ran"
        if found.child > CHILD_MOST + 8 * len(kind.content):
            fault = fault or f"{found.child >> 20} MB in the child"
        if fault:
            wrong[name] = fault
        refused += found.contents is None
        shown = found.sentence or f"tensors shown; ignored: {', '.join(found.contents.ignored)}"
        say(
            f"{name:50.50} {found.seconds:5.2f} {found.parent / 2**20:4.0f} MB "
            f"{found.child / 2**20:4.0f} MB  {'RAN' if ran else 'no':>3}  "
            f"{shown[:110]}{'' if not fault else '  WRONG'}"
        )
        rows.append({**found.row(name, shown, not fault), "ran": ran})
    append_rows("hostile", rows)
    say(
        f"{len(kinds)} kinds: {refused} refused, {len(kinds) - refused} shown without what is "
        f"odd in them, {len(wrong)} wrong; code ran in {sum(row['ran'] for row in rows)}"
    )
    assert wrong == {}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_honest_file(reader: Reader, tmp_path: Path, say: Any) -> None:
    say(f"\n{'honest file':50} {'s':>5} {'parent':>7} {'child':>7}  tensors, ignored")
    wrong: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for name, make in honest_files.KINDS.items():
        content, wanted = make()
        # As the reader lays them out; the child hands them on as they stand in the file.
        wanted = {key: value.T if is_kernel(key) else value for key, value in wanted.items()}
        path = tmp_path / "honest.bin"
        path.write_bytes(content)
        found = reader.read(path)
        if found.contents is None:
            wrong[name] = found.sentence
        elif other := differences(found.contents.arrays, wanted):
            wrong[name] = other
        elif found.parent > found.stated + PARENT_SLACK:
            wrong[name] = f"{found.parent >> 20} MB in the parent"
        count = len(found.contents.arrays) if found.contents else 0
        ignored = ", ".join(found.contents.ignored) if found.contents else found.sentence
        say(
            f"{name:50.50} {found.seconds:5.2f} {found.parent / 2**20:4.0f} MB "
            f"{found.child / 2**20:4.0f} MB  {count:5,}  {ignored[:90]}"
        )
        rows.append(found.row(name, f"{count:,} tensors", name not in wrong))
    append_rows("honest", rows)
    taken = len(honest_files.KINDS) - len(wrong)
    say(f"{taken} of {len(honest_files.KINDS)} honest kinds taken in full, bit for bit")
    assert wrong == {}


def test_a_file_cut_at_every_byte(sandbox: Sandbox, say: Any) -> None:
    """No cut may be taken for the whole; zeros at the end of an archive are no data."""
    cut = 0
    for name, content in fuzzing.small_files().items():
        assert sandbox.read(content).contents is not None, name
        for length in range(1, len(content)):
            verdict = sandbox.read(content[:length])
            assert verdict.contents is None, (name, length)
            assert unsound(content[:length], verdict) == "", (name, length)
            cut += 1
    say(f"\n{len(fuzzing.small_files())} formats cut at every byte: {cut:,} files, all refused")
    append_rows("fuzzed", [{"sort": "formats cut at every byte", "inputs": cut, "taken": 0}])
    assert sandbox.deaths == 0


def test_a_file_with_each_byte_changed(sandbox: Sandbox, say: Any) -> None:
    changed = taken = 0
    for name, content in fuzzing.small_files().items():
        for place in range(len(content)):
            for flip in (0xFF, 0x01, 0x80):
                other = bytearray(content)
                other[place] ^= flip
                verdict = sandbox.read(bytes(other))
                assert unsound(bytes(other), verdict) == "", (name, place, flip)
                changed += 1
                taken += verdict.contents is not None
    say(f"\neach byte changed in three ways: {changed:,} files, {taken:,} of them still tensors")
    row = {"sort": "each byte changed in three ways", "inputs": changed, "taken": taken}
    append_rows("fuzzed", [row])
    assert sandbox.deaths == 0


@pytest.mark.parametrize("sort", fuzzing.ALL)
def test_many_files_that_nobody_thought_of(sort: str, sandbox: Sandbox, say: Any) -> None:
    taken = 0
    before, begun = sandbox.files, time.perf_counter()

    @settings(
        max_examples=FUZZED,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(content=fuzzing.ALL[sort]())
    def check(content: bytes) -> None:
        nonlocal taken
        verdict = sandbox.read(content)
        taken += verdict.contents is not None
        assert unsound(content, verdict) == ""

    check()
    tried, seconds = sandbox.files - before, time.perf_counter() - begun
    say(f"\n{sort}: {tried:,} inputs in {seconds:.0f} s, {taken:,} taken, {sandbox.deaths} deaths")
    append_rows("fuzzed", [{"sort": f"{sort} (hypothesis)", "inputs": tried, "taken": taken}])
    assert sandbox.deaths == 0


def test_fuzzing_sees_a_reader_that_reaches_out_or_babbles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The checks of `make fuzz`, broken on purpose."""
    check = fuzz_targets.checked("npy header")
    check(b"\0nonsense")
    child = fuzz_targets.reader_child
    monkeypatch.setattr(
        fuzz_targets.reader_child, "answer_tensors", lambda *_: (tmp_path / "x").write_text("")
    )
    with pytest.raises(AssertionError, match="reached for"):
        check(b"\0nonsense")
    monkeypatch.setattr(child, "answer_tensors", lambda _, pipe: pipe.write(b"{}\n"))
    with pytest.raises(KeyError):
        check(b"\0nonsense")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_large_file_takes_of_the_parent_what_its_tensors_take(
    dtype: str, reader: Reader, tmp_path: Path, say: Any
) -> None:
    count = 32 << 20
    path = tmp_path / "large.pt"
    torch.save({"w": torch.ones(count, dtype=getattr(torch, dtype))}, path)
    found = reader.read(path)
    assert found.contents is not None
    tensors = found.contents.arrays["w"].nbytes
    say(
        f"\n{path.stat().st_size >> 20} MB of {dtype}: {found.seconds:.2f} s, tensors "
        f"{tensors >> 20} MB, parent {found.parent >> 20} MB, child {found.child >> 20} MB"
    )
    assert found.parent <= tensors + PARENT_SLACK
    assert found.child <= path.stat().st_size + 2 * tensors + CHILD_MOST


@pytest.mark.parametrize("kind", ["safetensors", "torch_zip"])
@pytest.mark.parametrize("part", ["net", ""])
def test_of_three_gigabytes_only_what_is_taken_takes_memory(
    kind: str, part: str, reader: Reader, tmp_path: Path, say: Any
) -> None:
    """The file is one of holes; all of it is taken where the machine has memory for it."""
    large = 3 << 30
    if not part and wire.free_memory() < 3 * large:
        pytest.skip("too little free memory")
    path = tmp_path / "large"
    getattr(sparse_files, kind)(path, large)
    if path.stat().st_blocks > 1 << 16:
        pytest.skip("this file system has no holes")
    found = reader.read(path, part)
    assert found.contents is not None, found.sentence
    taken = sum(array.nbytes for array in found.contents.arrays.values())
    assert taken == 4 * sparse_files.SIDE**2 + (0 if part else large)
    say(
        f"\n3 GiB of {kind}, part {part or 'all'}: {found.seconds:.1f} s, taken "
        f"{taken >> 20:,} MB, parent {found.parent >> 20:,} MB, child {found.child >> 20:,} MB"
    )
    assert found.parent <= taken + PARENT_SLACK
    assert found.child <= CHILD_MOST
