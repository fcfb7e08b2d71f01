"""Which safetensors are refused because they are a pickle as well."""

from __future__ import annotations

import json
import struct

import pytest

from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.double_formats import check_not_pickle
from dgn_engine.storage.checkpoints.pickle_file import NoCalls

NAMES = (
    "feature.weights.0",
    "value.biases.1",
    "0.weight",
    "conv1.weight",
    "layer1.0.bn1.bias",
    "w",
)


def safetensors(name: str, length: int) -> bytes:
    """A file with one number, whose header has this length, a multiple of 8."""
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    header = json.dumps({name: entry}, separators=(",", ":")).encode().ljust(length)
    assert len(header) == length
    return struct.pack("<Q", length) + header + struct.pack("<f", 1.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_header_of_any_length_is_no_pickle(name: str) -> None:
    """3,160 bytes begin as a text that ends in the header, 11,912 as the whole pickle of True."""
    for length in range(88, 1 << 17, 8):
        check_not_pickle(safetensors(name, length), NoCalls())


@pytest.mark.parametrize("rest", [b"0cos\ngetpid\n)R0N.", b"0}X\x01\x00\x00\x00w]s."])
def test_a_pickle_that_calls_a_function_or_holds_values_is_refused(rest: bytes) -> None:
    """In a header of 3,160 bytes: its length is a text up to the 17th byte of the file."""
    entry = b'":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    header = (b'{"' + b"x" * 7 + rest + entry).ljust(3160)
    content = struct.pack("<Q", 3160) + header + struct.pack("<f", 1.0)
    assert content[17:].startswith(rest)
    with pytest.raises(UnreadableFile, match="a pickle at once"):
        check_not_pickle(content, NoCalls())
