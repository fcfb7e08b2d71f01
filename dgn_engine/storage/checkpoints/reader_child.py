"""The short-lived process that reads an untrusted checkpoint.

`python -m dgn_engine.storage.checkpoints.reader_child`

It reads the file from standard input and answers on standard output, only with numbers and text. It
may use little memory, little time and no files. torch is not imported here.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import IO

import numpy as np

from dgn_engine.confinement.child_entry import begin_child
from dgn_engine.confinement.process import confine_process
from dgn_engine.storage.checkpoints import limits, wire
from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.contents import (
    AGAIN,
    TAKES_A_PART,
    ParsedFile,
    UnreadableFile,
    common_prefix,
    no_such_part,
    wire_dtype,
)
from dgn_engine.storage.checkpoints.double_formats import check_not_pickle, check_not_tar
from dgn_engine.storage.checkpoints.file_content import Content, content_of
from dgn_engine.storage.checkpoints.numpy_file import NPY, is_npz, read_npy, read_npz
from dgn_engine.storage.checkpoints.safetensors_file import looks_like_safetensors, read_safetensors
from dgn_engine.storage.checkpoints.stated_layers import children_below
from dgn_engine.storage.checkpoints.torch_files import (
    PICKLE,
    is_torch_zip,
    read_pickled,
    read_torch_zip,
)
from dgn_engine.storage.checkpoints.zip_archive import EMPTY, START, checked_zip
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.printable import plain_text

MOST_IGNORED = 200
_OLD_PICKLE = re.compile(  # start of a protocol 0 or 1 pickle, but of no text in brackets
    rb"c[\w.]+\r?\n[\w.]+\r?\n"
    rb"|\((?:[dl]p\d+\r?\n|[dlt]\.|[IFL]-?\d[^\n]*\n|S['\"][^\n]*\n|[ic][\w.]+\r?\n[\w.]+\r?\n)",
    re.ASCII,
)
_LONGEST_START = 256  # bytes that identify a format
_MOST_NOTES = 1000  # entries of metadata, each of at most 100,000 characters
_OTHER = {
    b"\x89HDF": "is an HDF5 file (Keras or MATLAB), which is not supported",
    b"GGUF": "is a GGUF file of quantised weights, which is not supported",
    b"\x1f\x8b": "is compressed with gzip; unpack it first",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; unpack it first",
    b"\xfd7zXZ": "is compressed with xz; unpack it first",
    b"BZh": "is compressed with bzip2; unpack it first",
    b"version https://git-lfs": "is a Git LFS pointer, not the file; fetch it with git lfs pull",
}
_HTML = re.compile(
    rb"\s*(?:<!--.*?-->\s*)*+<(?:!doctype\s+html|html|head|body)(?=[\s>])",
    re.IGNORECASE | re.DOTALL,
)
_SHOWN = 60  # characters of a text that is not a checkpoint


def main(seconds: int, part: str = "", shard: str = "") -> None:
    """Read one file; with `shard` it is one of several, and names stay unchanged."""
    serve_request(partial(answer_tensors, part=part, bare=not shard), seconds)


def serve_request(answer: Callable[[Content, IO[bytes]], None], seconds: int) -> None:
    """Read standard input and answer on standard output, confined."""
    pipe = begin_child(confined=True)
    content = content_of(sys.stdin.buffer)
    seconds += len(content) // limits.PACE
    gc.disable()  # with millions of objects it takes most of the time, and the process ends soon
    confine_process(seconds, limits.working_memory(len(content)))
    answer(content, pipe)


def answer_tensors(content: Content, pipe: IO[bytes], part: str = "", *, bare: bool = True) -> None:
    calls = CallRecorder()
    with wire.refusals_to(pipe), _naming_calls(calls):
        contents = tidy_names(read_contents(content, part, calls, whole=not bare), calls, bare=bare)
        if part and contents.part != part:
            contents = tidy_names(_select_part(contents, part), calls, bare=bare)
        if not contents.arrays:
            raise UnreadableFile(
                f"has no tensors that can be read{_describe_other_content(contents)}",
                kind="no-tensors",
            )
        _check_size(contents, len(content))
        wire.send_contents(contents, pipe, content)


def _check_size(contents: ParsedFile, size: int) -> None:
    """Raise `UnreadableFile` if the numbers exceed the limits."""
    arrays = contents.arrays.items()
    total = sum(a.size * np.dtype(wire_dtype(contents.dtypes[name])).itemsize for name, a in arrays)
    if total > limits.TAKEN:
        raise UnreadableFile(
            f"has {binary_size_in_words(total)} of tensor data; the limit is "
            f"{binary_size_in_words(limits.TAKEN)}; {TAKES_A_PART}",
            kind="too-large",
        )
    if total > limits.expansion_limit(size):
        raise UnreadableFile(
            "has more numbers than its size allows, and was refused", kind="too-large"
        )


@contextmanager
def _naming_calls(calls: CallRecorder) -> Iterator[None]:
    """Add to a refusal what loading the file would have called up to that point."""
    try:
        yield
    except UnreadableFile as verdict:
        if would := _describe_calls(calls):
            raise UnreadableFile(f"{verdict}{would}", verdict.kind, verdict.value) from None
        raise


def read_contents(
    content: Content, part: str = "", calls: CallRecorder | None = None, *, whole: bool = False
) -> ParsedFile:
    """Return the tensors of a file, identified by its content and never by its name.

    Args:
        part: Return only what is under this key of the file's dictionary.
        calls: Notified of what loading the file would call.
        whole: Return the whole dictionary.

    Raises:
        UnreadableFile: It is not a checkpoint, or is refused.
    """
    calls = calls or CallRecorder()
    if not content:
        raise UnreadableFile(f"is empty; {AGAIN}", kind="empty")
    start = content[:_LONGEST_START]
    most = limits.description_limit(len(content))
    if not start.startswith((START, EMPTY)):
        check_not_tar(content)
    if start.startswith(NPY):
        _check_whole(content)
        return read_npy(content, calls)
    if looks_like_safetensors(content):
        check_not_pickle(content, calls)
        return read_safetensors(content)
    if start.startswith((START, EMPTY)):
        archive = checked_zip(content)
        if not is_npz(archive):
            return read_torch_zip(archive, most, part, calls, whole=whole)
        if is_torch_zip(archive):
            calls.look_through_members(archive)
            raise UnreadableFile(
                "is both a torch and a NumPy file, and was refused", kind="two-readings"
            )
        _check_whole(content)
        return read_npz(archive, calls)
    if start.startswith(PICKLE):
        _check_whole(content)
        return read_pickled(content, most, part, calls, whole=whole)
    old = CallRecorder()  # a separate one: text is full of what could be names
    old.look_through(content[: limits.OPERATIONS])
    if old.would_call or _OLD_PICKLE.match(start):
        raise UnreadableFile(
            f"is a pickle of protocol 0 or 1, which is not supported{_describe_calls(old)}",
            kind="old-pickle",
        )
    for known, verdict in _OTHER.items():
        if start.startswith(known):
            raise UnreadableFile(verdict, kind="other-format", value=known)
    raise UnreadableFile(_describe_not_checkpoint(start), kind="no-checkpoint")


def _describe_not_checkpoint(start: bytes) -> str:
    """Describe a file that is not a checkpoint; text is shown, as a server may have sent it."""
    if _HTML.match(start):
        return "is a web page (HTML) instead of the file; download the file itself"
    text = start.decode("latin-1").strip()
    if text and text.isascii() and all(char.isprintable() or char.isspace() for char in text):
        return f"is not a checkpoint but text: '{plain_text(text, _SHOWN)}'"
    kinds = ".pt, .pth, .safetensors, .npz or .npy"
    return f"is not a checkpoint, or is damaged. Supported: {kinds}"


def _check_whole(content: Content) -> None:
    """Raise `UnreadableFile` if a file is too large to be read into memory."""
    if len(content) > limits.FILE:
        raise UnreadableFile(
            "is larger than 2 GiB, which only safetensors and torch files since 1.6 may be",
            kind="too-large",
        )


def tidy_names(
    contents: ParsedFile, calls: CallRecorder | None = None, *, bare: bool = True
) -> ParsedFile:
    """Make names printable, strip prefixes if `bare`, and add the recorded calls.

    Prefixes are those of DataParallel and torch.compile.
    """
    prefix = common_prefix(contents.arrays) if bare else ""
    shown = {name: plain_text(name.removeprefix(prefix)) for name in contents.arrays}
    if len(set(shown.values())) != len(shown):
        raise UnreadableFile("has tensors with indistinguishable names", kind="named-twice")
    ignored = [plain_text(line) for line in contents.ignored[:MOST_IGNORED]]
    if len(contents.ignored) > MOST_IGNORED:
        ignored.append(f"and {len(contents.ignored) - MOST_IGNORED:,} more")
    notes = list(contents.metadata.items())[:_MOST_NOTES]
    return replace(
        contents,
        arrays={shown[old]: array for old, array in contents.arrays.items()},
        dtypes={shown[old]: dtype for old, dtype in contents.dtypes.items()},
        ignored=tuple(ignored),
        metadata={plain_text(k): v[:100_000] for k, v in notes},
        layers=tuple(
            replace(layer, name=layer.name.removeprefix(prefix)) for layer in contents.layers
        ),
        children=children_below(contents.children, prefix),
        would_call=tuple(plain_text(name) for name in calls.would_call) if calls else (),
        would_look_up=tuple(plain_text(name) for name in calls.would_look_up) if calls else (),
        would_import=tuple(plain_text(name) for name in calls.would_import) if calls else (),
    )


def _select_part(contents: ParsedFile, part: str) -> ParsedFile:
    """Return the tensors whose names begin with the part and a dot, without that prefix."""
    start = f"{part}."
    names = [name for name in contents.arrays if name.startswith(start)]
    if not names or contents.layers:
        first = dict.fromkeys(name.partition(".")[0] for name in contents.arrays)
        known = [contents.part, *contents.others] if contents.part else list(first)
        raise UnreadableFile(no_such_part(part, known))
    return replace(
        contents,
        arrays={name.removeprefix(start): contents.arrays[name] for name in names},
        dtypes={name.removeprefix(start): contents.dtypes[name] for name in names},
        children=children_below(contents.children, start),
        part=part,
    )


def _describe_other_content(contents: ParsedFile) -> str:
    """Describe what a file without tensors has, to complete a sentence."""
    if contents.would_call:
        return ""
    return f"; it has {', '.join(contents.ignored[:3])}" if contents.ignored else ""


def _describe_calls(calls: CallRecorder) -> str:
    """Describe what loading a refused file would call or look up, to end a sentence; or ''."""
    names = calls.would_call or calls.would_look_up
    if not names:
        return ""
    act = "call" if calls.would_call else "look up"
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return (
        f"; loading it would {act} {', '.join(map(plain_text, names[:3]))}{more}; nothing was run"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:4])
