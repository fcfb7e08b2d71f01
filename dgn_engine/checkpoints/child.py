"""The short-lived process that reads a stranger's file: `python -m dgn_engine.checkpoints.child`.

The file is its standard input, the answer its standard output. It may use little memory, little
time and no files, and all it can say is numbers and text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from dgn_engine.checkpoints import limits, wire
from dgn_engine.checkpoints.contents import Contents, Unreadable, plain, widened
from dgn_engine.checkpoints.numpy_file import NPY, read_npy, read_npz
from dgn_engine.checkpoints.safetensors_file import looks_like_safetensors, read_safetensors
from dgn_engine.checkpoints.torch_file import PICKLE, check_torch_zip, read_torch
from dgn_engine.checkpoints.zips import checked_zip

MOST_IGNORED = 200
_PREFIXES = ("module.", "_orig_mod.")


def main(seconds: int) -> None:
    """Read standard input, answer on standard output."""
    pipe = _answer_pipe()
    _limit_time_and_files(seconds)
    try:
        content = sys.stdin.buffer.read(limits.FILE + 1)
        contents = tidy(read(content, lambda torch: _confine(len(content), torch)))
        if not contents.arrays:
            beside = f"; it holds {', '.join(contents.ignored[:3])}" if contents.ignored else ""
            raise Unreadable(f"holds no tensors that can be taken{beside}")
        wire.send(contents, pipe)
    except Unreadable as verdict:
        wire.refuse(str(verdict), pipe)
    except MemoryError:
        wire.refuse("needs more memory than a file of its size may, and was refused", pipe)
    except Exception as error:  # whatever a hostile file provokes, the answer is one sentence
        wire.refuse(f"cannot be read ({type(error).__name__}: {error})", pipe)


def read(content: bytes, confine: Callable[[bool], None]) -> Contents:
    """Tensors of a file, by what is in it and never by what it is called.

    `confine(with_torch)` is called before anything is parsed, and again before torch does.
    Raises `Unreadable`.
    """
    confine(False)
    if not content:
        raise Unreadable("is empty")
    if len(content) > limits.FILE:
        raise Unreadable("is larger than 2 GiB")
    if content.startswith(NPY):
        return read_npy(content)
    if looks_like_safetensors(content):
        return read_safetensors(content)
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        archive = checked_zip(content)
        if any(member.filename.endswith(".npy") for member in archive.infolist()):
            return read_npz(archive)
        check_torch_zip(archive)
    elif not content.startswith(PICKLE):
        raise Unreadable("is no checkpoint that is read here (.pt, .pth, .safetensors, .npz, .npy)")
    confine(True)
    return read_torch(content)


def tidy(contents: Contents) -> Contents:
    """Names that can be shown, without the wrapping of DataParallel or torch.compile."""
    names = list(contents.arrays)
    while names and any(all(n.startswith(p) and n != p for n in names) for p in _PREFIXES):
        names = [n.partition(".")[2] for n in names]
    shown = {old: plain(new, limits.NAME) for old, new in zip(contents.arrays, names, strict=True)}
    if len(set(shown.values())) != len(shown):
        raise Unreadable("holds tensors whose names cannot be told apart")
    ignored = [plain(line) for line in contents.ignored[:MOST_IGNORED]]
    if len(contents.ignored) > MOST_IGNORED:
        ignored.append(f"and {len(contents.ignored) - MOST_IGNORED:,} more")
    return replace(
        contents,
        arrays={shown[old]: widened(array) for old, array in contents.arrays.items()},
        dtypes={shown[old]: dtype for old, dtype in contents.dtypes.items()},
        ignored=tuple(ignored),
        metadata={plain(k): v[:100_000] for k, v in contents.metadata.items()},
    )


def _answer_pipe() -> IO[bytes]:
    """Standard output for the answer alone: what libraries print goes to standard error."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return pipe


def _limit_time_and_files(seconds: int) -> None:
    if sys.platform == "win32":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _confine(size: int, with_torch: bool) -> None:
    """Bound the address space: what is mapped now, and what a file of this size may need."""
    if with_torch:
        _limit_memory(None)
        import torch  # its libraries are mapped before the limit counts

        torch.set_num_threads(1)
    _limit_memory(limits.working_memory(size))


def _limit_memory(more: int | None) -> None:
    if sys.platform != "linux":  # macOS does not honour the limit
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    soft = hard if more is None else pages * resource.getpagesize() + more
    if hard == resource.RLIM_INFINITY or soft <= hard:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


if __name__ == "__main__":
    main(int(sys.argv[1]))
