"""How much of a stranger's file is taken, and how much its reader may use."""

from __future__ import annotations

FILE = 2 << 30  # bytes of a file
MEMBERS = 20_000  # tensors, or members of an archive
HEADER = 8 << 20  # bytes of a safetensors header, and of a torch file's pickle
DIMENSIONS = 16
NODES = 200_000  # things met on the way through nested dictionaries
NAME = 300  # characters of a tensor's name


def expanded(size: int) -> int:
    """Bytes that the tensors of a file of `size` bytes may take once they are unpacked.

    Half precision doubles; archives of numbers rarely shrink to a twentieth.
    """
    return min((64 << 20) + 20 * size, max(FILE, 2 * size))


def working_memory(size: int) -> int:
    """Bytes of memory that the reader may use on top of its own code."""
    return (768 << 20) + 4 * size
