"""Pickles of tensors, parameters and arrays that are odd in one or two of their instructions.

Each is what torch or numpy writes, apart from an argument, a state, an entry that is set later or a
key. They name only what makes values, so that `torch.load` and `pickle.load` can read them, too.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tests.faults.pickle_assembly import (
    Call,
    Name,
    Raw,
    Reference,
    encode_thing,
    legacy,
    make_pickle,
    storage,
    torch_zip,
)

T = TypeVar("T")
NUMBERS = {
    "0": np.arange(1, 5, dtype="<f4").tobytes(),
    "1": np.arange(9, 5, -1, dtype="<f4").tobytes(),
}
_COUNTS = {"UntypedStorage": 16, "ByteStorage": 16, "ComplexFloatStorage": 2, "HalfStorage": 8}
_NO_HOOKS = Call("collections", "OrderedDict")


def _mostly(rng: random.Random, usual: T, *odd: T) -> T:
    return usual if rng.random() < 0.96 else rng.choice(odd)


def _then(thing: Any, *after: Any, code: bytes) -> Raw:
    """A thing to which an instruction does something after it was made."""
    return Raw(encode_thing(thing) + b"".join(map(encode_thing, after)) + code)


def _new(name: Name, arguments: Any) -> Raw:
    return Raw(encode_thing(name) + encode_thing(arguments) + b"\x81")


def _table(*pairs: tuple[Any, Any]) -> Raw:
    return Raw(
        b"}(" + b"".join(encode_thing(key) + encode_thing(value) for key, value in pairs) + b"u"
    )


def _store(rng: random.Random, kind: str, key: str, old: bool) -> Reference:
    kept = storage(key, _COUNTS.get(kind, 4), kind)
    if not old:
        return kept
    view = _mostly(rng, None, ("7" + key, 0, 2), ("8" + key, 1, 3), ("9" + key, 2, 9))
    return Reference((*kept.what, view))


def dense(rng: random.Random, key: str, old: bool) -> Call:
    """A tensor of torch by one of its three functions."""
    form = rng.choice(("", "_v2", "_v2", "_v2", "_v3"))
    kind = _mostly(rng, "FloatStorage", "HalfStorage", "ByteStorage", "ComplexFloatStorage")
    if form == "_v3":
        kind = _mostly(rng, "UntypedStorage", "FloatStorage", "ComplexFloatStorage", "ByteStorage")
    count = _mostly(rng, 2, 1, 3, 4)
    place = (_store(rng, kind, key, old), _mostly(rng, 0, 1), (count,), (1,))
    if form == "":
        return Call("torch._utils", "_rebuild_tensor", place)
    hooks = _mostly(rng, _NO_HOOKS, None, {})
    more = (Name("torch", rng.choice(("float32", "uint16", "int8"))),) if form == "_v3" else ()
    notes = _mostly(
        rng,
        (),
        ({},),
        ({"neg": True},),
        ({"neg": False},),
        (Call("collections", "Counter", ({"neg": True},)),),
        (_table(("neg", True), ("neg", False)),),
        (None,),
    )
    trained = _mostly(rng, False, True, 1)
    return Call("torch._utils", f"_rebuild_tensor{form}", (*place, trained, hooks, *more, *notes))


def _attributes(rng: random.Random, other: Any) -> Any:
    return rng.choice(
        (None, {}, {"tag": "x"}, {"data": other}, (None, {"real": 5}), (None, {"tag": 1}), ({}, {}))
    )


def tensor(rng: random.Random, key: str, old: bool) -> Any:
    """A tensor or parameter, and perhaps a state or an entry that is set later."""
    inner, other = dense(rng, key, old), dense(rng, "1", old)
    made: Any = inner
    match rng.randrange(8):
        case 0:
            made = Call("torch._utils", "_rebuild_parameter", (inner, True, _NO_HOOKS))
        case 1:
            more = (inner, True, _NO_HOOKS, _attributes(rng, other))
            made = Call("torch._utils", "_rebuild_parameter_with_state", more)
        case 2:
            kind = rng.choice((Name("torch", "Tensor"), Name("torch.nn.parameter", "Parameter")))
            function = Name(inner.module, inner.name)
            more = (function, kind, inner.arguments, _attributes(rng, other))
            made = Call("torch._tensor", "_rebuild_from_type_v2", more)
        case 3:
            dtype = Name("torch", rng.choice(("float32", "float16", "int8")))
            name = "_rebuild_device_tensor_from_cpu_tensor"
            made = Call("torch._utils", name, (inner, dtype, "cpu", False))
        case 4:
            parameter = Name("torch.nn.parameter", "Parameter")
            made = Call(parameter.module, parameter.name, (inner, True))
            if rng.random() < 0.3:
                made = _new(parameter, (inner, True))
    if rng.random() < 0.1:
        place = (_store(rng, "FloatStorage", "1", old), 0, (4,), (1,))
        variable = (other, 0, False, False, _NO_HOOKS)
        state = rng.choice((place, variable, (other,), (True, None, _NO_HOOKS), {"data": other}))
        return _then(made, state, code=b"b")
    return _then(made, 0, 7, code=b"s") if rng.random() < 0.05 else made


def dtype(rng: random.Random) -> Any:
    """A type of numpy that is not quite as numpy writes it."""
    order = rng.choice("<<>")
    code = _mostly(rng, "f4", "i4", f"{order}f4", "O8", "V4", "f8")
    copied = _mostly(rng, True, False, 1)
    inner = Call("numpy", "dtype", ("i4", False, True), (3, "<", None, None, None, -1, -1, 0))
    state = _mostly(
        rng,
        (3, order, None, None, None, -1, -1, 0),
        (3, order.encode(), None, None, None, -1, -1, 0),
        (order, None, None, -1, -1),
        (1, order, None, None, None, -1, -1),
        (3, "=", None, None, None, -1, -1, 0),
        (3, "|", None, None, None, -1, -1, 0),
        (3, order, None, None, None, 8, 8, 0),
        (3, order, None, ("a",), {"a": (inner, 0)}, 4, 4, 0),
        (3, order, (inner, (1,)), None, None, -1, -1, 0),
        None,
    )
    made = Call("numpy", "dtype", (code, False, copied), state)
    again = (3, rng.choice("<>"), None, None, None, -1, -1, 0)
    return made if rng.random() < 0.95 else _then(made, again, code=b"b")


def array(rng: random.Random) -> Any:
    """An array of numpy by one of its two functions, perhaps changed after it was made."""
    core = rng.choice(("core", "_core"))
    content = np.arange(4, dtype="<f4").tobytes()
    state = (1, (2, 2), dtype(rng), _mostly(rng, False, True, 1), content)
    if rng.random() < 0.5:
        order = _mostly(rng, "C", "F", "f", "K", "A")
        more = (content, dtype(rng), (2, 2), order)
        made: Any = Call(f"numpy.{core}.numeric", "_frombuffer", more)
    else:
        start = (Name("numpy", "ndarray"), _mostly(rng, (0,), (2,)), b"b")
        made = Call(f"numpy.{core}.multiarray", "_reconstruct", start, state)
    if rng.random() < 0.1:
        return _then(made, 0, 7, code=b"s")
    if rng.random() < 0.1:
        return _then(made, (1, (1,), dtype(rng), False, b"\0\0\x80?"), code=b"b")
    return made


def _key(rng: random.Random, name: str) -> Any:
    text = name.encode()
    odd = Raw(b"U" + bytes([len(text)]) + text), Raw(b"U\2\xc3\xa9"), "\u00e9", 1, True, 1.0, None
    return _mostly(rng, name, *odd, "w", "w")


def _filled(rng: random.Random, value: Callable[[str], Any]) -> Any:
    """A dictionary of some values, which may set one key again."""
    pairs: list[tuple[Any, Any]] = [(_key(rng, name), value(name)) for name in "wvu"]
    if rng.random() < 0.2:
        pairs.append((_key(rng, "w"), rng.choice((5, None, "x"))))
    counter, ordered = Name("collections", "Counter"), Name("collections", "OrderedDict")
    whole = _table(*pairs)
    match rng.randrange(20):
        case 0:
            return Call(ordered.module, ordered.name, ([[*pair] for pair in pairs],))
        case 1:
            return _new(rng.choice((counter, ordered)), (whole,))
        case 2:
            return Call(counter.module, counter.name, (whole,))
        case 3:
            first = Call(counter.module, counter.name, (_table(pairs[0]),))
            return _then(first, *pairs[1], code=b"s")
        case 4:
            return Raw(
                encode_thing(_NO_HOOKS)
                + b"("
                + encode_thing(whole)[2:]
                + encode_thing({"x": whole})
                + b"b"
            )
        case 5:
            return {"list": [value("w"), whole], "x": _then(whole, {"a": 1}, code=b"b")}
    return whole


def of_tensors(rng: random.Random) -> bytes:
    """A file of torch, before or since 1.6, of the other byte order now and then."""
    old = rng.random() < 0.4
    keys = {"w": "0", "v": "1", "u": "0"}
    tree = _filled(rng, lambda name: tensor(rng, keys[name], old))
    if not old:
        order = _mostly(rng, b"little", b"big")
        return torch_zip(tree, NUMBERS, byteorder=order)
    first = Raw(encode_thing(tree))
    listed = {key: (_declared(first.code, key), numbers) for key, numbers in NUMBERS.items()}
    return legacy(first, {key: each for key, each in listed.items() if each[0]})


def _declared(code: bytes, key: str) -> int:
    """How many numbers a pickle says that a storage has; 0 where it does not name it."""
    _, found, rest = code.partition(encode_thing(key) + encode_thing("cpu") + b"J")
    return int(struct.unpack("<i", rest[:4])[0]) if found else 0


def of_arrays(rng: random.Random) -> bytes:
    """A plain pickle of arrays."""
    return make_pickle(_filled(rng, lambda _: array(rng)), 3)
