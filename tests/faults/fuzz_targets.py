"""What is fuzzed: the parts of the reader, each fed by itself so that the changes get deep.

The first byte of an input says whether the rest is a whole file or the inside of a sound frame,
because changes of a zip archive's bytes nearly always end at its checksums.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded

from dgn_engine.confinement import process
from dgn_engine.storage.checkpoints import limits, reader_child, wire
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from tests.faults import fuzzing, hostile_headers, hostile_pickles
from tests.faults.pickle_assembly import legacy, torch_zip

Frame = Callable[[bytes], bytes]
LONGEST = 4096  # bytes of an input
_CANARY = Path("/nonexistent/canary")


def _header(text: bytes) -> bytes:
    return b"\x93NUMPY\1\0" + (len(text) & 0xFFFF).to_bytes(2, "little") + text + bytes(64)


# Target → the frame, and which of the known files are its seeds.
TARGETS: dict[str, tuple[Frame, str]] = {
    "pickle in a torch zip": (torch_zip, "torch"),
    "pickle of a legacy file": (lambda code: legacy(code), "torch, before 1.6"),
    "zip archive": (lambda rest: b"PK\3\4" + rest, "npz"),
    "safetensors header": (lambda head: hostile_headers.safetensors(head, bytes(64)), "safet"),
    "npy header": (_header, "npy"),
}


def checked(target: str) -> Callable[[bytes], None]:
    """Feeds one input to the reader; raises where its answer is none, or where it reached out."""
    frame = TARGETS[target][0]
    watch = _Watch()

    def check(data: bytes) -> None:
        content = frame(data[1:]) if data[:1] == b"\1" else data[1:]
        answer = io.BytesIO()
        with watch.on():
            reader_child.answer_tensors(content, answer)
        if watch.reached:
            raise AssertionError(f"the reader reached for {watch.reached}")
        answer.seek(0)
        try:
            contents = wire.receive_contents(answer, limits.expansion_limit(len(content)))
        except UnreadableFile as verdict:
            if "cannot be read (" in str(verdict) or "\n" in str(verdict):
                raise AssertionError(str(verdict)) from None
        else:
            assert contents.arrays

    return check


class _Watch:
    """The forbidden events of confinement, noted while a file is read."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self._listening = False
        for coding in process.CODINGS:
            codecs.lookup(coding)
        sys.addaudithook(self._note)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Listen to this block."""
        self.reached.clear()
        self._listening = True
        try:
            yield
        finally:
            self._listening = False

    def _note(self, event: str, arguments: object) -> None:
        if self._listening:
            try:
                process._forbid_event(event, arguments)
            except process.Forbidden:
                self.reached.append(event)


def seeds(target: str) -> list[bytes]:
    """Inputs of this target that are sound, or nearly."""
    kind = TARGETS[target][1]
    files = [content for name, content in fuzzing.small_files().items() if name.startswith(kind)]
    files += [content for content, _ in _refused(target).values() if len(content) < 4000]
    found = [b"\0" + content for content in files]
    if "pickle" in target:
        for content in (*fuzzing.small_files().values(), *_odd()):
            inside = _pickle_in(content)
            found += [b"\1" + inside] if inside else []
    elif target == "safetensors header":
        for content in files:
            found.append(b"\1" + content[8 : 8 + int.from_bytes(content[:8], "little")])
    elif target == "npy header":
        found += [b"\1" + content[10:] for content in files]
    return [one for one in found if len(one) < 4000]


def write_seeds(target: str, place: Path) -> None:
    """As libFuzzer wants them: one file each, and a list of words."""
    (place / "seeds").mkdir()
    for number, content in enumerate(seeds(target)):
        (place / "seeds" / str(number)).write_bytes(content)
    words = [
        *(f"c{name.module}\n{name.name}\n".encode() for name in fuzzing.NAMES),
        *(n.to_bytes(8, "little") for n in (2**31, 2**32 - 1, 2**63, 2**64 - 1)),
        *(b"F32", b"BF16", b"dtype", b"shape", b"data_offsets", b"__metadata__"),
        *(b"descr", b"fortran_order", b"'<f4'", b"|O", b"PK\1\2", b"PK\5\6", b"data.pkl", b".npy"),
    ]
    lines = ['"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in words]
    (place / "words").write_text("\n".join(lines) + "\n", "ascii")


def blind(target: str, runs: int, seed: int) -> int:
    """Changes made without looking; how many inputs there were."""
    check, tried = checked(target), 0

    @seeded(seed)
    @settings(
        max_examples=runs, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(content=fuzzing.damaged_one_of(seeds(target)))
    def one(content: bytes) -> None:
        nonlocal tried
        tried += 1
        check(content[:LONGEST])

    one()
    return tried


def _refused(target: str) -> dict[str, tuple[bytes, str]]:
    if "safetensors" in target:
        return hostile_headers.safetensors_files()
    if "npy" in target:
        return hostile_headers.npy(_CANARY)
    return {}


def _odd() -> list[bytes]:
    return [content for content, _, _ in hostile_pickles.odd(_CANARY).values()]


def _pickle_in(content: bytes) -> bytes:
    """The bytes of data.pkl in a torch zip, which lie in it as they are."""
    at = content.find(b"data.pkl")
    begin, end = content.find(b"\x80", at), content.find(b"PK\3\4", at)
    return content[begin : content.rfind(b".", begin, end) + 1] if 0 <= at < begin < end else b""
