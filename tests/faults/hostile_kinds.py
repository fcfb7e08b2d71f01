"""More hostile files by family: each way to call, archives, headers, other formats, two at once."""

from __future__ import annotations

import json
import struct
import zipfile
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.faults.honest_files import npz, saved
from tests.faults.hostile_archives import SOUND, in_list, zipped
from tests.faults.hostile_headers import entry, npy_header, safetensors
from tests.faults.pickle_assembly import (
    Call,
    Name,
    Raw,
    encode_thing,
    legacy,
    make_pickle,
    numpy_type,
    storage,
    tensor,
    torch_zip,
)

# What is taken although it lies: nothing of the lie is used. What is shown, and ignored.
TAKEN: dict[str, tuple[tuple[str, ...], str]] = {
    "10^5 notes": (("a",), ""),
    "a tensor without a name": (("",), ""),
    "names that are one letter in two ways": (("\u00e9", "e\u0301"), ""),
    "empty tensors that overlap": (("0", "1", "2"), ""),
}


def odd() -> dict[str, tuple[bytes, tuple[str, ...], str]]:
    """As `hostile_pickles.odd`: what is shown beside, and what is ignored."""
    found = {
        name: (torch_zip({"w": tensor(), "odd": thing}), ("w",), ignored)
        for name, (thing, ignored) in _steps().items()
    }
    made = _made()
    taken = {name: (made[name][0], *verdict) for name, verdict in TAKEN.items()}
    return found | taken | _odd_modules()


def _steps() -> dict[str, tuple[Any, str]]:
    """Every instruction that calls, with what it calls taken from odd places."""
    mkdir = encode_thing(Name("os", "mkdir"))
    module = "torch.nn.modules.container"
    hooks = {"_modules": {}, "_parameters": {}, "_forward_hooks": {1: Name("os", "system")}}
    array = Call("numpy.core.multiarray", "_reconstruct", (Name("numpy", "ndarray"), (0,), b"b"))
    objects = (1, (1,), numpy_type("O8"), False, [Call("os", "x")])
    return {
        "a call of protocol 4, by a frame": (
            Raw(b"\x95" + b"\0" * 8 + b"\x8c\x02os\x8c\x05mkdir\x93\x8c\x01x\x85R"),
            r"os\.mkdir",
        ),
        "a class by OBJ from the memo": (Raw(mkdir + b"r\0\1\0\0" + b"0(j\0\1\0\0No"), "os.mkdir"),
        "a class by OBJ without a class": (Raw(b"(" + encode_thing("x") + b"o"), "str"),
        "a new object of what a call gave": (
            Raw(encode_thing(Call("os", "x")) + b")\x81"),
            r"os\.x",
        ),
        "a new object of a text": (Raw(encode_thing("x") + b")\x81"), "str"),
        "a new object whose names are a list": (Raw(mkdir + b")]\x92"), r"os\.mkdir"),
        "a call whose arguments are a list": (
            Raw(mkdir + encode_thing(["x"]) + b"R"),
            r"os\.mkdir",
        ),
        "a call whose arguments are a call": (
            Raw(mkdir + encode_thing(Call("os", "listdir")) + b"R"),
            r"os\.mkdir",
        ),
        "a state with slots": (
            Call("argparse", "Namespace", (), (None, {"__class__": Name("os", "mkdir")})),
            "Namespace",
        ),
        "pairs for what a call gave": (
            Raw(
                encode_thing(Call("os", "environ"))
                + b"("
                + encode_thing("PATH")
                + encode_thing("/x")
                + b"u"
            ),
            r"os\.environ",
        ),
        "items for what a call gave": (
            Raw(encode_thing(Call("sys", "path")) + b"(" + encode_thing("/x") + b"e"),
            r"sys\.path",
        ),
        "members for what a call gave": (
            Raw(encode_thing(Call("a", "B")) + b"(" + encode_thing("/x") + b"\x90"),
            r"a\.B",
        ),
        "a default that is a function": (
            Call("collections", "defaultdict", (Name("os", "system"),)),
            "defaultdict",
        ),
        "pairs of functions": (
            Call("collections", "OrderedDict", ([("a", Name("os", "system"))],)),
            "dict|OrderedDict",
        ),
        "a function for a reduction": (
            Call("functools", "reduce", (Name("os", "system"), ["a", "b"])),
            "reduce",
        ),
        "a key of 10 MB for 50,000 names": (
            Raw(b"]" + encode_thing("k" * 10_000_000) + b"q\1" + b"0(" + b"}h\1Ns" * 50_000 + b"e"),
            r"^odd \(list\)$",
        ),
        "a module with a hook": (Call(module, "Sequential", (), hooks), "Sequential"),
        "a random state by a function": (
            Call("numpy.random._pickle", "__randomstate_ctor", (Name("os", "system"),)),
            "randomstate",
        ),
        "a number of numpy that is a pickle": (
            Call(
                "numpy.core.multiarray",
                "scalar",
                (Call("numpy", "dtype", ("O8", 0, 1)), make_pickle(Call("os", "x"))),
            ),
            "numpy",
        ),
        "an array of calls": (Call(array.module, array.name, array.arguments, objects), "O8"),
        "letters that look like os": (Call("\u043es", "system", ("x",)), r"\u043es\.system"),
        "a module of no name": (
            Raw(encode_thing("") + encode_thing("") + b"\x93)R"),
            r"^odd \(\.\)$",
        ),
        "a name with a line break": (
            Raw(encode_thing("a\nb") + encode_thing("c\r") + b"\x93)R"),
            "a.nb",
        ),
        "a name that colours": (
            Raw(encode_thing("\x1b[31m") + encode_thing("x") + b"\x93)R"),
            "x1b",
        ),
        "a pickle in a pickle in a pickle": (
            Call(
                "pickle",
                "loads",
                (make_pickle(Call("pickle", "loads", (make_pickle(Call("os", "x")),))),),
            ),
            r"pickle\.loads",
        ),
    }


def refused() -> dict[str, tuple[bytes, str]]:
    """Name → content and the reason of its refusal."""
    found = {name: made for name, made in _made().items() if name not in TAKEN}
    return found | _refused_modules()


def _made() -> dict[str, tuple[bytes, str]]:
    return {**_extensions(), **_archives(), **_safetensors(), **_npy(), **_formats()}


def _extensions() -> dict[str, tuple[bytes, str]]:
    named = r"registered extension {}\b"
    inner = b"\x80\2\x82\7."
    return {
        "a registered extension of two bytes": (
            torch_zip(b"\x80\2\x83\x34\x12."),
            named.format(4660),
        ),
        "a registered extension of four bytes": (
            torch_zip(b"\x80\2\x84\xff\xff\xff\x7f."),
            named.format(2**31 - 1),
        ),
        "a registered extension below zero": (
            torch_zip(b"\x80\2\x84\xff\xff\xff\xff."),
            named.format(-1),
        ),
        "a long path for 100,000 names": (
            torch_zip(
                b"\x80\2"
                + b"".join(b"}" + encode_thing(letter * 300) for letter in "wxyz")
                + b"}("
                + b"".join(b"J" + i.to_bytes(4, "little") + b"N" for i in range(100_000))
                + b"u"
                + b"s" * 4
                + b"."
            ),
            "more text in its names",
        ),
        "a registered extension of no number": (torch_zip(b"\x80\2\x82"), "cut off"),
        "a registered extension behind code": (
            torch_zip(b"\x80\2" + encode_thing(Call("os", "x")) + b"\x82\7."),
            r"extension 7\b.*would call os\.x",
        ),
        "a registered extension in a legacy file": (legacy(inner), named.format(7)),
    }


def _replaced(content: bytes, at: int, value: bytes) -> bytes:
    return content[:at] + value + content[at + len(value) :]


def _end(at: int, value: bytes) -> bytes:
    """A field of the record that ends an archive replaced."""
    return _replaced(SOUND, SOUND.rfind(b"PK\5\6") + at, value)


def _attributed(mode: int) -> bytes:
    info = zipfile.ZipInfo("archive/data/0")
    info.create_system, info.external_attr = 3, mode << 16
    return zipped([("archive/data.pkl", make_pickle({"w": tensor()})), (info, b"\0" * 16)])


def _extra(extra: bytes, size: bytes = b"\xff" * 8) -> bytes:
    """An archive of one member whose sizes are said to stand in this extra field."""
    info = zipfile.ZipInfo("a/data.pkl")
    info.extra = b"\xfe\xca" + len(extra).to_bytes(2, "little") + extra
    content = zipped([(info, make_pickle({"w": tensor()}))])
    content = content.replace(b"\xfe\xca", b"\1\0")
    return in_list(content, b"a/data.pkl", 20, size)


def _archives() -> dict[str, tuple[bytes, str]]:
    member = b"archive/data/0"
    return {
        "an archive with strong encryption": (in_list(SOUND, member, 8, b"\x41\0"), "encrypted"),
        "an archive whose list says no number": (_end(8, b"\0\0\0\0"), "two directories"),
        "an archive on many disks": (_end(4, b"\7\0\7\0"), "two directories"),
        "a list that begins behind the file": (_end(16, b"\xff\xff\xff\x7f"), "two directories"),
        "a list that begins too early": (_end(16, b"\1\0\0\0"), "two directories"),
        "a list shorter than it is": (_end(12, b"\x10\0\0\0"), "two directories"),
        "a comment longer than the file": (_end(20, b"\xff\xff"), "after the end"),
        "two ends of an archive": (SOUND + b"PK\5\6" + b"\0" * 18, "two directories"),
        "an end alone": (b"PK\5\6" + b"\0" * 18, "does not have"),
        "64 bits of size that lie": (_extra(struct.pack("<QQ", 2**62, 2**62)), "far more"),
        "64 bits of size below zero": (_extra(struct.pack("<qq", -1, -1)), "far more"),
        "64 bits of size that are missing": (_extra(b""), "damaged zip"),
        "a member that is a device": (_attributed(0x2000 | 0o666), "a device or pipe"),
        "a member that is a FIFO": (_attributed(0x1000 | 0o666), "a device or pipe"),
        "a member without a name": (
            zipped({"a/.": b"x", "a/data.pkl": make_pickle({})}),
            "never writes",
        ),
        "a member of a name of 60,000 letters": (
            zipped({"a/" + "x" * 60_000: b"", "a/data.pkl": make_pickle({})}),
            "never writes",
        ),
        "an npz with a pickle of torch": (
            zipped(
                {
                    "b/data.pkl": make_pickle(Call("os", "x")),
                    "b/x.npy": npy_header("(1,)") + b"0000",
                }
            ),
            "a torch and a NumPy file.*os.x",
        ),
        "an npz of arrays of one name": (
            zipped([("a.npy", npy_header("(1,)") + b"0000"), ("a", npy_header("(1,)") + b"1111")]),
            "one name in NumPy",
        ),
        "an npz of an npz": (zipped({"a.npy": npz(False, a=np.ones(2))}), "damaged header"),
        "a Keras archive": (
            zipped({"config.json": b"{}", "model.weights.h5": b"\x89HDF\r\n\x1a\n"}),
            "does not have",
        ),
    }


def _raw(head: str, body: bytes = b"0000") -> bytes:
    return safetensors(head.encode("utf-8", "surrogatepass"), body)


def _safetensors() -> dict[str, tuple[bytes, str]]:
    one = '"dtype":"F32","shape":[1],"data_offsets":'
    full = '{"a":{' + one + "[0,4]}}"
    return {
        "places that are floats": (_raw('{"a":{' + one + "[0.0,4.0]}}"), "impossible"),
        "places that are bools": (_raw('{"a":{' + one + "[false,4]}}"), "impossible"),
        "places that are text": (_raw('{"a":{' + one + '["0","4"]}}'), "impossible"),
        "three places": (_raw('{"a":{' + one + "[0,4,8]}}"), "without the type"),
        "no places": (_raw('{"a":{' + one + "null}}"), "without the type"),
        "a place that is infinite": (_raw('{"a":{' + one + "[0,1e400]}}"), "impossible"),
        "a place that is no number": (_raw('{"a":{' + one + "[0,NaN]}}"), "not a JSON number"),
        "a place of 400 digits": (
            _raw('{"a":{' + one + "[0," + "9" * 400 + "]}}"),
            "outside the file",
        ),
        "a place of 5,000 digits": (
            _raw('{"a":{' + one + "[0," + "9" * 5000 + "]}}"),
            "number of unreasonable length",
        ),
        "a shape that is text": (_raw(full.replace("[1]", '"1"')), "without the type, shape"),
        "a shape in a shape": (_raw(full.replace("[1]", "[[1]]")), "impossible"),
        "a shape of nothing": (_raw(full.replace("[1]", "null")), "without the type"),
        "a type that is a number": (_raw(full.replace('"F32"', "4")), "impossible"),
        "a type in small letters": (_raw(full.replace("F32", "f32")), r"unknown type \(f32\)"),
        "a field twice in an entry": (
            _raw(full.replace('"shape"', '"dtype":"F64","shape"')),
            "a repeated name",
        ),
        "a field that nobody knows": (
            _raw(full.replace('"shape"', '"x":[[[]]],"shape"')),
            "more than the type, shape and position",
        ),
        "notes that are a list": (_raw('{"__metadata__":[1],' + full[1:]), "not text"),
        "notes in notes": (_raw('{"__metadata__":{"a":{"b":[]}},' + full[1:]), "not text"),
        "notes twice": (
            _raw('{"__metadata__":{},"__metadata__":{},' + full[1:]),
            "a repeated name",
        ),
        "notes alone": (_raw('{"__metadata__":{"a":"b"}}', b""), "no tensors"),
        "a header that is a list": (_raw("[" + full + "]"), "is not a checkpoint"),
        "a header with a mark of its order": (_raw("\ufeff" + full), "is not a checkpoint"),
        "a header with a comment": (_raw(full + " // x"), "invalid safetensors header"),
        "a header with a zero behind": (_raw(full + "\0"), "invalid safetensors header"),
        "a header of no length": (b"\0" * 8 + b"{}", "invalid safetensors header"),
        "a header of 2^64 - 1": (b"\xff" * 8 + b"{}", "longer than the file"),
        "a tensor without a name": (_raw('{"":' + full[5:]), "."),
        "names that are one letter in two ways": (
            safetensors({"\u00e9": entry([1], 0, 4), "e\u0301": entry([1], 4, 8)}, b"0" * 8),
            ".",
        ),
        "half a letter for a name": (_raw('{"\\ud800":' + full[5:]), "not text"),
        "10^5 notes": (
            _raw(
                json.dumps({"__metadata__": {str(i): "x" for i in range(10**5)}})[:-1]
                + ","
                + full[1:]
            ),
            ".",
        ),
        "empty tensors that overlap": (
            safetensors({str(i): entry([0], 0, 0) for i in range(3)}, b""),
            ".",
        ),
        "half a number": (
            safetensors({"a": entry([1], 0, 3)}, b"000"),
            "does not match its size|wrong size",
        ),
    }


def _npy() -> dict[str, tuple[bytes, str]]:
    long = npy_header("(1,)")
    wide = b"\x93NUMPY\2\0" + (2**32 - 1).to_bytes(4, "little") + b"{}"
    return {
        "npy with a header of 4 GiB": (wide, "damaged header"),
        "npy of version 3 with other letters": (
            b"\x93NUMPY\3\0" + struct.pack("<I", 4) + "{é}".encode(),
            "damaged header",
        ),
        "npy without a header": (long[:8], "damaged header"),
        "npy cut off in its header": (long[:30], "damaged header"),
        "npy of long doubles": (
            npy_header("(1,)", "'<f16'") + b"0" * 16,
            "not supported|unsupported",
        ),
        "npy of raw bytes": (npy_header("(1,)", "'|V8'") + b"0" * 8, "not supported|unsupported"),
        "npy of an array of arrays": (
            npy_header("(1,)", "('<f4', (2,))") + b"0" * 8,
            "not supported|unsupported",
        ),
        "npy of a type with a comma": (
            npy_header("(1,)", "'f4,f4'") + b"0" * 8,
            "not supported|unsupported",
        ),
        "npy of a type of 10^9": (
            npy_header("(1,)", "'<U1000000000'") + b"0",
            "not supported|unsupported",
        ),
        "npy of 65 sides": (npy_header("(" + "1," * 65 + ")") + b"0000", "impossible"),
        "npy of nothing with bytes": (
            npy_header("(0,)") + b"0000",
            "does not match its size|wrong size",
        ),
        "npy of one number with more": (
            npy_header("()") + b"0000PK\3\4",
            "does not match its size|wrong size",
        ),
        "npy with a pickle behind": (
            npy_header("(1,)") + b"0000" + make_pickle(Call("os", "x")),
            "does not match its size|wrong size",
        ),
    }


def _formats() -> dict[str, tuple[bytes, str]]:
    evil = make_pickle(Call("os", "x"))
    return {
        "HDF5 behind 512 bytes": (
            b"\0" * 512 + b"\x89HDF\r\n\x1a\n" + b"\0" * 99,
            "is not a checkpoint",
        ),
        "ONNX": (b"\x08\x07\x12\x07pytorch\x1a\x032.0:" + b"\0" * 99, "is not a checkpoint"),
        "Parquet": (b"PAR1" + b"\0" * 99 + b"PAR1", "is not a checkpoint"),
        "zstd": (b"\x28\xb5\x2f\xfd" + b"\0" * 99, "compressed with zstd"),
        "xz": (b"\xfd7zXZ\0" + b"\0" * 99, "compressed with xz"),
        "bzip2": (b"BZh91AY&SY" + b"\0" * 99, "compressed with bzip2"),
        "a program of Windows": (b"MZ" + b"\0" * 99, "is not a checkpoint"),
        "compiled Python": (b"\xcb\r\r\n" + b"\0" * 99, "is not a checkpoint"),
        "a PDF that is an archive": (b"%PDF-1.7\n" + SOUND, "is not a checkpoint"),
        "a picture that is a pickle": (b"GIF89a" + evil, "is not a checkpoint"),
        "a pickle that is an archive": (make_pickle({"a": 1}) + SOUND, "after its end"),
        "an archive that is a pickle": (SOUND + evil, "after the end|before"),
        "a pickle before a legacy file": (evil + legacy({"w": tensor()}), r"os\.x|behind"),
        "an archive for a storage": (
            torch_zip({"w": tensor(store=storage("0", 4))}, {"0": SOUND}),
            "does not match its size|wrong size",
        ),
        "text of two bytes a letter": ("hello".encode("utf-16"), "is not a checkpoint"),
    }


# modules and settings

W = torch.ones(2, 2)


def _odd_modules() -> dict[str, tuple[bytes, tuple[str, ...], str]]:
    """Saved modules and settings that are read beside the tensors of a file."""
    things: dict[str, Any] = {
        "modules that are shared in 2^40 ways": _shared(40),
        "5,001 modules in one": nn.ModuleList(nn.Identity() for _ in range(5001)),
        "modules in each other 80 deep": _nested(80),
        "a module under a name of 10,000 letters": nn.ModuleDict({"n" * 10_000: nn.Identity()}),
        "100,000 settings": {f"setting{number}": number for number in range(100_000)},
        "a setting of four megabytes": {"activation": "x" * (4 << 20)},
        "a setting that steers a terminal": {"arch\x1b[2J\u202e": "net\x1b]0;x\x07\r\n"},
        "a setting of 600 digits": {"layers": 10**600, "more": [10**600] * 16},
        "an optimiser of 50,000 groups": {"param_groups": [{"lr": 0.1, "params": [1]}] * 50_000},
        "groups of an optimiser that are none": {"param_groups": [1, None, {"params": 3}, []]},
    }
    return {name: (saved({"w": W, "odd": thing}), ("w",), "") for name, thing in things.items()}


def _refused_modules() -> dict[str, tuple[bytes, str]]:
    outer, inner = nn.ModuleDict(), nn.ModuleDict()
    outer["inner"], inner["outer"] = inner, outer
    settings: dict[str, Any] = {"activation": "tanh"}
    settings["again"] = settings
    return {
        "modules that hold each other": (saved({"w": W, "odd": outer}), "contains itself"),
        "settings that hold themselves": (saved({"w": W, "args": settings}), "contains itself"),
    }


def _shared(depth: int) -> nn.Module:
    found: nn.Module = nn.Tanh()
    for _ in range(depth):
        found = nn.ModuleDict({"a": found, "b": found})
    return found


def _nested(depth: int) -> nn.Module:
    found: nn.Module = nn.Tanh()
    for _ in range(depth):
        found = nn.ModuleDict({"a": found})
    return found
