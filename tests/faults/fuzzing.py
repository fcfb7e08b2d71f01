"""Random files: small sound ones with damage, random pickles, headers and archives."""

from __future__ import annotations

import functools
import json
import math
import pickle
import zipfile

import numpy as np
import torch
from hypothesis import strategies as st

from tests.faults.honest_files import OLD, npy, npz, saved
from tests.faults.hostile_archives import zipped
from tests.faults.hostile_headers import safetensors
from tests.faults.pickle_assembly import Call, Name, Reference, legacy, make_pickle, torch_zip


@functools.cache
def small_files() -> dict[str, bytes]:
    """A sound file of each format."""
    tensors = {"w": torch.arange(4.0).reshape(2, 2), "b": torch.ones(2, dtype=torch.bfloat16)}
    head = {
        "__metadata__": {"k": "v"},
        "w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "b": {"dtype": "BF16", "shape": [2], "data_offsets": [16, 20]},
    }
    return {
        "torch": saved(tensors),
        "torch, protocol 4": saved(tensors, pickle_protocol=4),
        "torch, before 1.6": saved(tensors, **OLD),
        "a module": saved(torch.nn.Linear(2, 2), **OLD),
        "a pickle of arrays": pickle.dumps({"w": np.ones((2, 2)), "n": np.float64(1)}),
        "safetensors": safetensors(head, bytes(20)),
        "npy": npy(np.ones((2, 2))),
        "npz": npz(False, w=np.ones((2, 2)), b=np.arange(3)),
        "npz, compressed": npz(True, w=np.ones((2, 2)), b=np.arange(3)),
    }


def damaged() -> st.SearchStrategy[bytes]:
    """A sound file with some bytes changed, cut out, doubled or put in."""
    files = small_files()
    return damaged_one_of([files[name] for name in sorted(files)])


@st.composite
def damaged_one_of(draw: st.DrawFn, files: list[bytes]) -> bytes:
    """One of these, damaged."""
    content = bytearray(draw(st.sampled_from(files)))
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        match draw(st.integers(0, 4)):
            case 0:
                content[place : place + 1] = bytes([draw(st.integers(0, 255))])
            case 1:
                del content[place : place + draw(st.integers(1, 60))]
            case 2:
                content[place:place] = draw(st.binary(max_size=12))
            case 3:
                content[place : place + 8] = draw(st.sampled_from(_NUMBERS))
            case 4:
                content[place:place] = content[place : place + draw(st.integers(1, 60))]
    return bytes(content)


_NUMBERS = [n.to_bytes(8, "little") for n in (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)]
NAMES = [
    Name(module, name)
    for module, name in (
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_tensor_v3"),
        ("torch._utils", "_rebuild_parameter"),
        ("torch._tensor", "_rebuild_from_type_v2"),
        ("torch.storage", "_load_from_bytes"),
        ("torch", "FloatStorage"),
        ("torch", "Size"),
        ("torch", "float8_e5m2"),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("_codecs", "encode"),
        ("copyreg", "_reconstructor"),
        ("numpy", "dtype"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("os", "mkdir"),
        ("argparse", "Namespace"),
    )
]
_NAMES = st.sampled_from(NAMES)
_SINGLE = (
    st.none()
    | st.booleans()
    | st.integers(-3, 5)
    | st.sampled_from([2**31, 2**62, -(2**63)])
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["0", "f4", "<", "latin1", "storage", "cpu", "_modules", "state_dict"])
    | st.binary(max_size=16)
    | _NAMES
)
_SOUND = Reference(("storage", Name("torch", "FloatStorage"), "0", "cpu", 4))
_STORES = st.just(_SOUND) | st.builds(
    lambda key, kind, count: Reference(("storage", kind, key, "cpu", count)),
    st.sampled_from(["0", "1", "x"]),
    _NAMES | st.just(Name("torch", "FloatStorage")),
    st.sampled_from([4, 0, 2**40, -1]),
)
_SHAPES = st.sampled_from([(2, 2), (4,), (2, 1), (1, 1), ()]) | st.lists(
    st.integers(0, 3) | st.sampled_from([-1, 2**40]), max_size=4
).map(tuple)
_TENSORS = st.builds(
    lambda store, offset, shape, strides: Call(
        "torch._utils", "_rebuild_tensor_v2", (store, offset, shape, strides, False, None)
    ),
    _STORES,
    st.integers(-1, 4),
    _SHAPES,
    _SHAPES,
)
_THINGS = st.recursive(
    _SINGLE | _TENSORS | _STORES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 3), inner, max_size=4)
        | st.builds(
            lambda name, arguments, state: Call(name.module, name.name, tuple(arguments), state),
            _NAMES,
            st.lists(inner, max_size=5),
            inner,
        )
    ),
    max_leaves=25,
)


@st.composite
def random_pickles(draw: st.DrawFn) -> bytes:
    """Trees of the builders' names with arguments of all sorts, in each of the three formats."""
    thing = draw(_THINGS)
    match draw(st.integers(0, 3)):
        case 0:
            return legacy(thing)
        case 1:
            return make_pickle(thing)
        case _:
            return torch_zip({"odd": thing, "w": draw(_TENSORS)})


@st.composite
def random_instructions(draw: st.DrawFn) -> bytes:
    """Instructions of a pickle one after another, whether or not they make sense."""
    parts = st.sampled_from([bytes([code]) for code in _CODES]) | st.binary(max_size=3)
    code = b"\x80\2" + b"".join(draw(st.lists(parts, max_size=60))) + b"."
    return torch_zip(code) if draw(st.booleans()) else legacy(code)


_CODES = b"(.012FIJKMNQRSTUVX]abcdeghijlopqrstu})BC" + bytes(range(0x80, 0x98))


@st.composite
def random_headers(draw: st.DrawFn) -> bytes:
    """Headers of safetensors with places and shapes at random."""
    sides = st.integers(-1, 4) | st.sampled_from([2**31, 2**63, 0.5, True, None, "1"])
    entry = st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["F32", "BF16", "F8_E4M3", "BOOL", "F4", "", 1]),
            "shape": st.lists(sides, max_size=4) | sides,
            "data_offsets": st.lists(sides, min_size=2, max_size=2) | sides,
        }
    )
    head: dict[str, object] = {}
    size = 0
    for name in draw(st.lists(st.text(max_size=4), max_size=4)):  # sound ones
        shape = draw(st.lists(st.integers(0, 3), max_size=3))
        end = size + 4 * math.prod(shape)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [size, end]}
        size = end
    body = draw(st.binary(min_size=size, max_size=size))
    if draw(st.booleans()):
        head |= draw(st.dictionaries(st.text(max_size=4), entry | sides, max_size=2))
    return safetensors(json.dumps(head).encode(), body)


@st.composite
def random_archives(draw: st.DrawFn) -> bytes:
    """Archives of arrays with damaged headers and of members that belong nowhere."""
    content = draw(st.binary(max_size=40))
    shape = draw(st.sampled_from(["(2,)", "(-1,)", "()", "(2**9,)", "(1e9,)", "'x'", "(9999999,)"]))
    kind = draw(st.sampled_from(["'<f4'", "'|O'", "'<M8[s]'", "[('a','<f4')]", "'V9'", "0"]))
    head = f"{{'descr': {kind}, 'fortran_order': True, 'shape': {shape}}}".encode()
    member = b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + content
    compression = draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    name = draw(st.sampled_from(["a.npy", "a/data.pkl", "a/../b", "data/0"]))
    other = draw(st.sampled_from(["b.npy", "a/version", "a.npy"]))
    return zipped([(name, member), (other, content)], compression)


ALL = {
    "damaged files": damaged,
    "random pickles": random_pickles,
    "random instructions": random_instructions,
    "random headers": random_headers,
    "random archives": random_archives,
}
