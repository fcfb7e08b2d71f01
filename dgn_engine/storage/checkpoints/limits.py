"""Limits on how much of an untrusted file is read, and how much memory its reader may use."""

from __future__ import annotations

FILE = 2 << 30  # bytes of a file that is read into memory
LARGE = 64 << 30  # bytes of a file that is read in place: safetensors, torch zip archives
TAKEN = 4 << 30  # bytes of numbers that are read from a file at once
MEMBERS = 20_000  # tensors, or members of an archive
HEADER = 8 << 20  # bytes of a safetensors header
PICKLE = 32 << 20  # bytes of a torch file's pickle, and of the text in any pickle
OPERATIONS = 2_000_000  # instructions of a file's pickles; a state dict has about 30 per tensor
INTEGER = 256  # bytes of an integer in a pickle
DIMENSIONS = 16
NODES = 200_000  # visited while walking nested containers
DEPTH = 100  # nested containers
NAME = 300  # characters of a tensor's name
EXTENT = 1 << 42  # product of the nonzero sides of a shape
PACE = 32 << 20  # bytes per second that are read at least, on top of the usual time


COPIED_ITEM = 64  # bytes counted for an item of a list or table that a call copies


def copy_limit(size: int) -> int:
    """Return the bytes that calls in a pickle may copy; a file of `size` bytes is copied once."""
    return (256 << 20) + 4 * size


def description_limit(size: int) -> int:
    """Return the bytes of numbers that a file of `size` bytes may describe when unpacked.

    Half precision doubles; archives of numbers rarely shrink to a twentieth.
    """
    return min((64 << 20) + 20 * size, max(FILE, 2 * size))


def expansion_limit(size: int) -> int:
    """Return the bytes of tensors that may be read from a file of `size` bytes."""
    return min(description_limit(size), TAKEN)


def working_memory(size: int) -> int:
    """Return the bytes of memory that the reader may use besides its own code.

    It needs room for the objects of a pickle, the file if it is read into memory, its unpacked
    tensors and a copy of one of them.
    """
    return (512 << 20) + 2 * min(size, FILE) + expansion_limit(size)
