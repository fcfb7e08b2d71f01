"""Pickles that would run code, take everything, never end, or describe tensors that are not."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from tests.faults.pickle_assembly import (
    ONES,
    Call,
    Name,
    Raw,
    Reference,
    encode_thing,
    legacy,
    make_pickle,
    numpy_type,
    storage,
    tensor,
    torch_zip,
)

W = ("w",)


def laughing(innermost: Any, times: int = 40) -> Raw:
    """(x, x) of (x, x) of …: a tuple that stands for 2^times."""
    return Raw(encode_thing((innermost,)) + b"q\1" + b"h\1\x86q\1" * times)


def odd(canary: Path) -> dict[str, tuple[bytes, tuple[str, ...], str]]:
    """Name → content, the tensors that are shown all the same, and what is ignored."""
    return {
        name: (torch_zip({"w": tensor(), "odd": thing}), W, ignored)
        for name, (thing, ignored) in {**code(canary), **_big(), **_tensors()}.items()
    } | {
        "code in a legacy file": (
            legacy({"w": tensor(), "odd": Call("os", "mkdir", (str(canary),))}),
            W,
            r"^odd \(os\.mkdir\)$",
        ),
        "averaged weights that are one large table": (
            torch_zip(
                b"\x80\2}("
                + b"".join(encode_thing(i) + b"N" for i in range(20_000))
                + b"uq\1"
                + b"0}("
                + b"".join(encode_thing(f"ema_{i}") + b"h\1" for i in range(20_000))
                + encode_thing("model")
                + encode_thing({"w": tensor()})
                + b"u."
            ),
            W,
            "",
        ),
        "names of HTML": (
            torch_zip({"<img src=x onerror=1>": tensor()}),
            ("<img src=x onerror=1>",),
            "",
        ),
        "names that turn the writing": (
            torch_zip({"a\u202eb\u2066": tensor()}),
            (r"a\u202eb\u2066",),
            "",
        ),
        "names with line breaks": (torch_zip({"a\nb\r\x1b[2J": tensor()}), (r"a\nb\r\x1b[2J",), ""),
        "names that are half a character": (torch_zip({"a\ud800": tensor()}), (r"a\ud800",), ""),
        "names of bytes and numbers": (
            torch_zip({b"b": tensor(), 3: tensor(), None: tensor(), 0.5: tensor()}),
            ("b", "3", "None", "0.5"),
            "",
        ),
        "a tensor for a name": (torch_zip({tensor(): tensor()}), ("<tensor>",), ""),
        "a path for a name": (torch_zip({"../../etc": tensor()}), ("../../etc",), ""),
    }


def code(canary: Path) -> dict[str, tuple[Any, str]]:
    """What would run somewhere; here it is a name."""
    place = str(canary)
    mkdir = f"__import__('os').mkdir({place!r})"
    folder = encode_thing(place)
    return {
        "a call of os.mkdir": (Call("os", "mkdir", (place,)), r"^odd \(os\.mkdir\)$"),
        "a call of posix.system": (Call("posix", "system", ("reboot",)), r"posix\.system"),
        "a call of eval": (Call("builtins", "eval", (mkdir,)), r"builtins\.eval"),
        "a call of exec in Python 2": (Call("__builtin__", "exec", (mkdir,)), r"builtins\.exec"),
        "a call of open": (Call("io", "open", (place, "w")), r"io\.open"),
        "a call of breakpoint": (Call("builtins", "breakpoint"), "breakpoint"),
        "a call of getattr": (
            Call("builtins", "getattr", (Name("os", "path"), "os")),
            r"builtins\.getattr",
        ),
        "a call of what a call gave": (
            Raw(
                encode_thing(Call("builtins", "getattr", (Name("os", "x"), "mkdir")))
                + folder
                + b"\x85R"
            ),
            r"builtins\.getattr",
        ),
        "a call of functools.partial": (
            Raw(
                encode_thing(Call("functools", "partial", (Name("os", "mkdir"),)))
                + folder
                + b"\x85R"
            ),
            r"functools\.partial",
        ),
        "a call of torch.load": (Call("torch.serialization", "load", (place,)), "torch.ser"),
        "a call of torch.hub": (Call("torch.hub", "load", ("a/b", "c")), r"torch\.hub\.load"),
        "a call of numpy.load": (Call("numpy", "load", (place, None, True)), r"numpy\.load"),
        "a call of runpy": (Call("runpy", "_run_code", (mkdir, {})), "runpy"),
        "a call of ctypes": (Call("ctypes", "CDLL", ("libc.so.6",)), r"ctypes\.CDLL"),
        "a call of a module of its own": (Call("never_seen", "boom"), r"never_seen\.boom"),
        "a class by INST": (Raw(b"(" + folder + b"ios\nmkdir\n"), r"os\.mkdir"),
        "a class by OBJ": (
            Raw(b"(" + encode_thing(Name("os", "mkdir")) + folder + b"o"),
            r"os\.mkdir",
        ),
        "a name from the stack": (
            Raw(encode_thing("os") + encode_thing("mkdir") + b"\x93" + folder + b"\x85R"),
            r"os\.mkdir",
        ),
        "a new object": (
            Raw(encode_thing(Name("os", "mkdir")) + folder + b"\x85\x81"),
            r"os\.mkdir",
        ),
        "a new object with names": (
            Raw(encode_thing(Name("os", "mkdir")) + b")" + encode_thing({"path": place}) + b"\x92"),
            r"os\.mkdir",
        ),
        "a state that is set": (
            Call("argparse", "Namespace", (), {"__class__": Name("os", "mkdir")}),
            r"argparse\.Namespace",
        ),
        "a dotted name": (
            Raw(encode_thing("os") + encode_thing("path.os.mkdir") + b"\x93"),
            "path.os.mkdir",
        ),
        "a state for a name": (
            Raw(encode_thing(Name("os", "mkdir")) + encode_thing(("json", "loads")) + b"b"),
            r"^odd \(os\.mkdir\)$",
        ),
        "a method for a name": (
            Raw(
                encode_thing(Name("os", "mkdir"))
                + encode_thing({"__setstate__": Name("os", "x")})
                + b"b"
            ),
            r"^odd \(os\.mkdir\)$",
        ),
        "code as a state": (
            Call("types", "CodeType", (0,), (None, {"__setstate__": Name("os", "mkdir")})),
            "types",
        ),
        "a builder that is os.mkdir": (
            Call(
                "torch._tensor",
                "_rebuild_from_type_v2",
                (Name("os", "mkdir"), Name("torch", "Tensor"), (place,), {}),
            ),
            r"torch\.Tensor",
        ),
        "a reduction by copyreg": (
            Call("copyreg", "_reconstructor", (Name("os", "mkdir"), Name("builtins", "object"), 1)),
            r"os\.mkdir",
        ),
    }


def _big() -> dict[str, tuple[Any, str]]:
    """What would take all memory or never end; here it is a name, or looked at once."""
    return {
        "a call of bytearray for 2 GiB": (
            Call("builtins", "bytearray", (2**31 - 1,)),
            r"builtins\.bytearray",
        ),
        "a call of range": (Call("builtins", "range", (2**60,)), "range"),
        "a place 2^32 in the memo": (Raw(b"Nr\xff\xff\xff\xff"), r"^odd \(None\)$"),
        "a billion laughs": (laughing("ha"), r"^odd \(tuple\)$"),
        "a billion laughs of dictionaries": (
            Raw(
                encode_thing({})
                + b"q\1"
                + (b"0}(" + encode_thing("a") + b"h\1" + encode_thing("b") + b"h\1uq\1") * 40
            ),
            r"^odd \(dict\)$",
        ),
        "a billion laughs for a key": (
            Raw(b"}" + laughing("ha").code + b"Ns"),
            r"^odd \(dict\)$",
        ),
        "keys with one hash": (
            Raw(
                b"}(" + b"".join(encode_thing(n * (2**61 - 1)) + b"N" for n in range(20_000)) + b"u"
            ),
            r"^odd \(dict\)$",
        ),
        "a set of lists": (Raw(b"\x8f(]]\x90"), r"^odd \(set\)$"),
        "a large tuple in many calls": (
            Raw(b"(" + b"N" * 10**5 + b"tq\1" + b"0cos\nx\nh\1R" * 10**5),
            r"^odd \(os\.x\)$",
        ),
        "a list of 10^5": (Raw(b"](" + b"N" * 100_000 + b"e"), r"^odd \(list\)$"),
    }


def _tensors() -> dict[str, tuple[Any, str]]:
    """Tensors that are no dense numbers."""

    def utils(name: str, *arguments: Any) -> Call:
        return Call("torch._utils", name, arguments)

    return {
        "a giant of stride 0": (tensor((2**40,), (0,)), "repeats more numbers"),
        "a giant of two strides 0": (tensor((2**20, 2**20), (0, 0)), "repeats more numbers"),
        "a hundred dimensions": (tensor((1,) * 100, (1,) * 100), "100 dimensions"),
        "a shape that overflows": (tensor((2**40, 2**40), (0, 0)), "impossible shape"),
        "a negative side": (tensor((-1, 2), (2, 1)), "impossible shape"),
        "a negative stride": (tensor((2, 2), (-2, 1)), "impossible shape"),
        "a negative offset": (tensor(offset=-1), "impossible shape"),
        "a side that is a float": (tensor((2.0, 2), (2, 1)), "impossible shape"),
        "a side that is a name": (tensor((Name("os", "x"),), (1,)), "impossible shape"),
        "a shape that is a list": (tensor([2, 2], (2, 1)), "without a shape"),
        "a shape that is a call": (tensor(Call("os", "x"), (1,)), "without a shape"),
        "strides that are missing": (tensor((2, 2), (2,)), "impossible shape"),
        "a tensor of no storage": (tensor(store=Call("os", "x")), "without data"),
        "a tensor on the device meta": (
            tensor(store=storage("1", 4, "FloatStorage", "meta")),
            "without data",
        ),
        "a tensor without a storage": (
            utils("_rebuild_meta_tensor_no_storage", Name("torch", "float32"), (2,), (1,), False),
            "without data",
        ),
        "a sparse tensor": (
            utils("_rebuild_sparse_tensor", Name("torch", "sparse_coo"), (tensor(), tensor())),
            "sparse",
        ),
        "a quantised tensor": (
            utils("_rebuild_qtensor", storage("1", 4, "QUInt8Storage"), 0, (4,), (1,)),
            "quantised",
        ),
        "a nested tensor": (utils("_rebuild_nested_tensor", tensor(), tensor()), "nested"),
        "complex numbers": (
            tensor((2,), (1,), 0, storage("1", 2, "ComplexFloatStorage")),
            "complex64",
        ),
        "numbers of the future": (
            tensor((2,), (1,), 0, storage("1", 2, "Posit16Storage")),
            "Posit16Storage",
        ),
        "a float8 that is not known": (
            utils(
                "_rebuild_tensor_v3",
                storage("1", 16, "UntypedStorage"),
                0,
                (4,),
                (1,),
                False,
                {},
                Name("torch", "float8_e8m0fnu"),
            ),
            "float8_e8m0fnu",
        ),
        "a type that is os.mkdir": (
            utils(
                "_rebuild_tensor_v3",
                storage("1", 16, "UntypedStorage"),
                0,
                (4,),
                (1,),
                False,
                {},
                Name("os", "mkdir"),
            ),
            "unknown type",
        ),
        "a view that negates": (
            utils("_rebuild_tensor_v2", storage(), 0, (4,), (1,), False, {}, {"neg": True}),
            "conjugated or negated",
        ),
        "an array of objects": (
            Call(
                "numpy._core.multiarray",
                "_reconstruct",
                (Name("numpy", "ndarray"), (0,), b"b"),
                (1, (1,), numpy_type("O8"), False, [Name("os", "x")]),
            ),
            "an array of O8",
        ),
    }


def _copied() -> dict[str, tuple[bytes, str]]:
    """A text or table that is there once, and copied by call after call; nothing is kept."""

    def again(module: str, name: str, arguments: bytes, times: int = 100_000) -> bytes:
        kept = encode_thing(Name(module, name)) + b"q\1" + b"0" + arguments + b"q\2"
        return torch_zip(b"\x80\3" + kept + b"0" + b"h\1h\2R0" * times + b"N.")

    text = encode_thing("x" * 1_000_000)
    table = b"}(" + b"".join(encode_thing(i) + b"N" for i in range(20_000)) + b"u"
    items = b"](" + b"K\1" * 100_000 + b"e"
    inner = encode_thing(
        legacy(Raw(encode_thing(storage("0", 250_000))), {"0": (250_000, bytes(1_000_000))})
    )
    load = (
        encode_thing(Name("torch.storage", "_load_from_bytes")) + b"q\1" + b"0" + inner + b"\x85q\2"
    )
    reason = "copies its text or tables over and over"
    return {
        "a text copied by many calls": (
            again("_codecs", "encode", text + encode_thing("latin1") + b"\x86"),
            reason,
        ),
        "a table copied by many calls": (
            again("collections", "OrderedDict", table + b"\x85"),
            reason,
        ),
        "a table copied for many counters": (
            again("collections", "Counter", table + b"\x85"),
            reason,
        ),
        "a list copied by many calls": (again("torch", "Size", items + b"\x85"), reason),
        "a storage that is parsed by many calls": (
            b"\x80\3" + load + b"0" + b"h\1h\2R0" * 100_000 + b"N.",
            reason,
        ),
    }


def _shared() -> dict[str, tuple[bytes, str]]:
    """What is there once, and looked at again for everything that refers to it."""
    large = b"(" + b"N" * 100_000 + b"tq\1" + b"0" + encode_thing(Name("a", "B")) + b"q\2" + b"0"
    objects = b"](" + b"h\2h\1R" * 5000 + b"e"
    name = encode_thing("m" * 5_000_000) + b"q\1" + b"0"
    return {
        "objects of one large tuple": (
            torch_zip(
                b"\x80\2"
                + large
                + b"}"
                + encode_thing("model")
                + b"}"
                + encode_thing("a")
                + objects
                + b"ss."
            ),
            "no tensors",
        ),
        "names of megabytes, imported": (
            torch_zip(b"\x80\4" + name + b"h\1h\1\x930" * 100_000 + b"N."),
            "a name of unreasonable length",
        ),
        "names of megabytes, called": (
            torch_zip(b"\x80\4" + name + b"h\1h\1\x93)R0" * 100_000 + b"N."),
            "a name of unreasonable length",
        ),
    }


def refused(canary: Path) -> dict[str, tuple[bytes, str]]:
    """Name → content and the reason of its refusal."""
    array = Call("numpy.core.multiarray", "_reconstruct", (Name("numpy", "ndarray"), (0,), b"b"))
    state = (1, (2**40,), numpy_type("f4"), False, ONES)
    lying = Call(array.module, array.name, array.arguments, state)
    loop = Raw(b"]q\1h\1a")
    one = Raw(encode_thing(tensor()))
    large = Raw(encode_thing(tensor((1000, 1000), (1000, 1), 0, storage("0", 10**6))))
    many = {f"t{i}": one for i in range(20_001)}
    wide = {f"t{i}": large for i in range(999)}
    return {
        **_copied(),
        **_shared(),
        "code alone": (
            torch_zip(Call("os", "mkdir", (str(canary),))),
            r"it would call os\.mkdir; nothing",
        ),
        "code alone, deep inside": (
            torch_zip({"a": [{"b": Call("builtins", "eval", ("1",))}]}),
            r"it would call builtins\.eval; nothing was run",
        ),
        "code whose result is thrown away": (
            torch_zip({"a": Raw(encode_thing(Call("os", "mkdir", (str(canary),))) + b"0N")}),
            r"it would call os\.mkdir; nothing was run",
        ),
        "code alone in a plain pickle": (
            make_pickle(Call("posix", "system", ("reboot",)), 4),
            r"it would call posix\.system; nothing was run",
        ),
        "code alone in a legacy file": (
            legacy(Call("subprocess", "Popen", ("reboot",)), {}),
            r"it would call subprocess\.Popen; nothing was run",
        ),
        "code of protocol 0": (
            b"cos\nmkdir\n(S'x'\ntR.",
            r"protocol 0 or 1.* loading it would call os\.mkdir; nothing was run",
        ),
        "text of protocol 0": (b"(dp0\nS'x'\ns.", "protocol 0 or 1"),
        "a pickle of no tensors": (make_pickle({"a": 1}), "has no tensors .* it has dict"),
        "a registered extension": (torch_zip(b"\x80\2\x82\1."), "no checkpoint needs"),
        "a reference as text": (torch_zip(b"\x80\2Px\n."), "no checkpoint needs"),
        "buffers outside": (torch_zip(b"\x80\5\x97."), "no checkpoint needs"),
        "a reference to a file": (torch_zip({"a": Reference("/etc/passwd")}), "not to a storage"),
        "a reference with a lie": (
            torch_zip({"a": storage("0", -1)}),
            "invalid persistent reference",
        ),
        "a reference that is a call": (
            torch_zip({"a": Reference(Call("os", "x"))}),
            "not to a storage",
        ),
        "a storage up the path": (
            torch_zip({"a": tensor(store=storage("../../x"))}),
            "incomplete",
        ),
        "a number of a megabyte": (
            torch_zip(b"\x80\2\x8b" + struct.pack("<i", 1 << 20) + b"\1" * (1 << 20) + b"."),
            "number of unreasonable length",
        ),
        "digits without end": (
            torch_zip(b"\x80\2I" + b"9" * 4000 + b"\n."),
            "number of unreasonable length",
        ),
        "text of 2^63": (torch_zip(b"\x80\4\x8d" + b"\xff" * 7 + b"\x7f."), "cut off|more text"),
        "text of 40 MB": (
            legacy(b"\x80\2X" + struct.pack("<I", 40 << 20) + b"x" * (40 << 20) + b"."),
            "more text",
        ),
        "bytes of 2^31": (torch_zip(b"\x80\3B\xff\xff\xff\x7f."), "cut off"),
        "a bytearray of 2^62": (torch_zip(b"\x80\5\x96" + b"\0" * 7 + b"\x40."), "cut off"),
        "a frame of 2^63": (torch_zip(b"\x80\4\x95" + b"\xff" * 7 + b"\x7fN."), "damaged"),
        "a number of minus 2^31 bytes": (torch_zip(b"\x80\2\x8b\0\0\0\x80."), "damaged pickle"),
        "a call of a call of a call": (
            torch_zip(b"\x80\2" + encode_thing("x") * 5000 + b"N" + b"R" * 5000 + b"."),
            "no tensors",
        ),
        "a state of a state of a state": (
            torch_zip(b"\x80\2" + encode_thing(Call("os", "x")) * 5000 + b"b" * 4999 + b"."),
            "nests",
        ),
        "instructions without end": (torch_zip(b"\x80\2" + b"N0" * 3_000_000 + b"N."), "2,000,000"),
        "marks without end": (torch_zip(b"\x80\2" + b"(" * 1_000_000 + b"."), "damaged pickle"),
        "lists in lists in lists": (
            torch_zip(b"\x80\2" + b"]" * 100_000 + b"a" * 99_999 + b"."),
            "no tensors|nests",
        ),
        "dictionaries in dictionaries with a tensor": (
            torch_zip(
                b"\x80\2"
                + (b"}" + encode_thing("a")) * 9999
                + encode_thing(tensor())
                + b"s" * 9999
                + b"."
            ),
            "nests",
        ),
        "a list that holds itself": (torch_zip({"a": loop, "w": tensor()}), "contains itself"),
        "a tensor under a billion names": (torch_zip({"a": laughing(tensor())}), "nests"),
        "two tensors of one name": (
            torch_zip({"a.b": tensor(), "a": {"b": tensor()}}),
            "indistinguishable",
        ),
        "names that look alike": (
            torch_zip({"a\n": tensor(), "a\\n": tensor()}),
            "indistinguishable",
        ),
        "names alike once cut": (
            torch_zip({"x" * 400 + "a": tensor(), "x" * 400 + "b": tensor()}),
            "indistinguishable",
        ),
        "a list for a key": (torch_zip({"w": tensor(), "x": Raw(b"}]Ns")}), "list as a key"),
        "a protocol of the future": (make_pickle({"w": 1}, 6), "damaged pickle"),
        "a number and a text of one name": (
            torch_zip({1: tensor(), "1": tensor()}),
            "indistinguishable",
        ),
        "20,001 tensors": (torch_zip(many), "more than 20,000 tensors"),
        "a thousand views of one storage": (
            torch_zip(wide, {"0": bytes(4_000_000)}),
            "more numbers than its size allows",
        ),
        "a tensor beyond its storage": (torch_zip({"w": tensor((3, 2))}), "than its storage has"),
        "a tensor that begins beyond": (torch_zip({"w": tensor(offset=1)}), "storage has"),
        "a stride that leads out": (torch_zip({"w": tensor((2, 2), (4, 1))}), "storage has"),
        "a storage that lies": (
            torch_zip({"w": tensor(store=storage("0", 8))}),
            "does not match its size|wrong size",
        ),
        "a storage of another width": (
            torch_zip({"w": tensor(store=storage("0", 4, "DoubleStorage"))}),
            "does not match its size|wrong size",
        ),
        "a storage that is missing": (torch_zip({"w": tensor()}, {}), "incomplete"),
        "an array that lies": (torch_zip({"w": lying}), "does not match its size|wrong size"),
        "a builder without arguments": (
            torch_zip(Call("torch._utils", "_rebuild_tensor_v2")),
            "torch never writes",
        ),
        "a stack that is empty": (torch_zip(b"\x80\2R."), "damaged pickle"),
        "a memo that is empty": (torch_zip(b"\x80\2h\7."), "damaged pickle"),
        "no end": (torch_zip(b"\x80\2N"), "cut off within its pickle"),
        "text that is no UTF-8": (torch_zip(b"\x80\2X\2\0\0\0\xff\xff."), "damaged pickle"),
        "a legacy file cut off": (legacy({"w": tensor()})[:-1], "cut off within its tensor data"),
        "a legacy file with more behind": (legacy({"w": tensor()}) + b"PK", "after its end"),
        "a legacy file without keys": (legacy({"w": tensor()}, {}), "incomplete"),
        "a legacy file with foreign keys": (
            legacy({"w": tensor()}, keys=["0", "1"]),
            "does not have",
        ),
        "a legacy file with a key twice": (legacy({"w": tensor()}, keys=["0", "0"]), "not have"),
        "a legacy count that lies": (
            legacy({"w": tensor()}, {"0": (2**60, ONES)}),
            "does not match its size|wrong size",
        ),
        "a legacy storage in two ways": (
            legacy({"w": tensor(), "v": tensor(store=storage("0", 2, "DoubleStorage"))}),
            "in two ways",
        ),
        "a legacy file of the future": (legacy({"w": tensor()}, version=2001), "unknown version"),
        "a plain pickle of references": (make_pickle({"w": tensor()}), "does not contain"),
        "a pickle with more behind": (make_pickle({"w": 1}) + b"more", "after its end"),
        "a storage that is a pickle": (
            make_pickle(
                {"w": tensor(store=Call("torch.storage", "_load_from_bytes", (b"\x80\2N.",)))}
            ),
            "torch did not write",
        ),
        "a storage in a storage": (
            make_pickle(Call("torch.storage", "_load_from_bytes", (legacy({"a": 1}, {}),))),
            "torch did not write",
        ),
    }
