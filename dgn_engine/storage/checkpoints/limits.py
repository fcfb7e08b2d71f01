"""How much of an untrusted file is read, and how much memory its reader may use."""

from __future__ import annotations

FILE = 2 << 30  # bytes of a file that is read whole
LARGE = 64 << 30  # bytes of a file that is read in place: safetensors, torch's zip archives
TAKEN = 4 << 30  # bytes of numbers that are taken from a file at once
MEMBERS = 20_000  # tensors, or members of an archive
HEADER = 8 << 20  # bytes of a safetensors header
PICKLE = 32 << 20  # bytes of a torch file's pickle, and of the text in any pickle
OPERATIONS = 2_000_000  # instructions of a file's pickles; a state dict has about 30 a tensor
INTEGER = 256  # bytes of one whole number in a pickle
DIMENSIONS = 16
NODES = 200_000  # visited on the way through nested containers
DEPTH = 100  # containers in each other
NAME = 300  # characters of a tensor's name
EXTENT = 1 << 42  # product of the sides of a shape, those of 0 left out
PACE = 32 << 20  # bytes of a file that are read in a second at least, on top of the usual time


COPIED_ITEM = 64  # bytes that an item of a list or a table counts as, where a call copies it


def copied(size: int) -> int:
    """Bytes that the calls in a pickle may copy, where the file has `size` bytes. A file is copied
    about once."""
    return (256 << 20) + 4 * size


def described(size: int) -> int:
    """Bytes of numbers that a file of `size` bytes may describe, unpacked, whoever takes them.

    Half precision doubles; archives of numbers rarely shrink to a twentieth.
    """
    return min((64 << 20) + 20 * size, max(FILE, 2 * size))


def expanded(size: int) -> int:
    """Bytes that the tensors taken from a file of `size` bytes may have."""
    return min(described(size), TAKEN)


def working_memory(size: int) -> int:
    """Bytes of memory that the reader may use on top of its own code.

    For the objects of a pickle, the file where it is read whole, its unpacked tensors and a copy of
    one of them.
    """
    return (512 << 20) + 2 * min(size, FILE) + expanded(size)
