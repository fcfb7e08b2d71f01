"""Honest files changed so that two readers may find different things in them.

Each change is of the structure of a file, not of any of its bytes: names of members, the list of an
archive against the headers in it, records at its end, headers of arrays, references to storages,
and instructions of its pickle (`ambiguous_pickles`).
"""

from __future__ import annotations

import io
import json
import random
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import safetensors.torch as safetensors_of_torch
import torch

from tests.faults import ambiguous_pickles
from tests.faults.pickle_assembly import (
    Call,
    Name,
    Reference,
    legacy,
    make_pickle,
    storage,
    tensor,
)

_NUMBERS = (0, 1, 8, 0x10, 0x20, 0x800, 0xFFFF, 0xFFFFFFFF)
EVIL = make_pickle(
    Call("os", "system", ("true",))
)  # never loaded: readers are told to refuse pickles
_LOCAL, _LISTED = "<4s5H3I2H", "<4s6H3I5H2I"
_FIELDS = ("needs", "flags", "method", "time", "date", "crc", "packed", "size")


@dataclass(frozen=True)
class Member:
    """A member of an archive; `local`, `listed`: fields in which one of its headers lies."""

    name: bytes
    data: bytes
    local: dict[str, Any] = field(default_factory=dict)
    listed: dict[str, Any] = field(default_factory=dict)
    deflated: bool = False


@dataclass(frozen=True)
class Archive:
    """An archive to be written. `end`, `end_64`, `locator`: fields of the records behind the list
    that differ from the truth, by their places."""

    members: tuple[Member, ...]
    as_torch: bool = True
    end: dict[int, int] = field(default_factory=dict)
    end_64: dict[int, int] | None = None
    locator: dict[int, int] = field(default_factory=dict)
    before: bytes = b""
    comment: bytes = b""
    behind: bytes = b""
    decoys: tuple[Member, ...] = ()  # of a second list
    decoys_first: bool = False
    second_end_64: bool = False  # of the second list, where the locator names that of the first

    def member(self, rng: random.Random) -> int:
        """The index of any member."""
        return rng.randrange(len(self.members))

    def changed(self, index: int, **fields: Any) -> Archive:
        """With these fields of a member replaced."""
        members = list(self.members)
        members[index] = replace(members[index], **fields)
        return replace(self, members=tuple(members))

    def put(self, rng: random.Random, member: Member) -> Archive:
        """With one more member, somewhere."""
        at = rng.choice((0, 1, len(self.members)))
        return replace(self, members=(*self.members[:at], member, *self.members[at:]))


def written(archive: Archive) -> bytes:
    """The bytes of an archive."""
    out = bytearray(archive.before)
    places: dict[int, int] = {}
    for member in (*archive.members, *archive.decoys):
        if id(member) not in places:
            places[id(member)] = len(out)
            out += _header(archive, member)
    lists = [
        b"".join(_entry(archive, member, places[id(member)]) for member in members)
        for members in (archive.members, archive.decoys)
        if members
    ]
    if archive.decoys_first:
        lists.reverse()
    begin, listed, count = len(out), lists[0], len(archive.members)
    out += listed
    if archive.end_64 is not None:
        at = len(out) if archive.second_end_64 else begin + len(b"".join(lists))
        first = _end_64(count, len(listed), begin, archive.end_64)
        if archive.second_end_64:  # the locator names the first, and the second is before it
            out += first + lists[-1] + _end_64(count, len(lists[-1]), at + len(first), {})
        else:
            out += b"".join(lists[1:]) + first
        out += b"PK\6\7" + struct.pack("<IQI", *_with([0, at, 1], archive.locator))
    else:
        out += b"".join(lists[1:])
    fields = [0, 0, count, count, len(listed), begin, len(archive.comment)]
    out += b"PK\5\6" + struct.pack("<4H2IH", *_with(fields, archive.end))
    return bytes(out) + archive.comment + archive.behind


def _end_64(count: int, size: int, begin: int, others: dict[int, int]) -> bytes:
    fields = _with([44, 45, 45, 0, 0, count, count, size, begin], others)
    return b"PK\6\6" + struct.pack("<Q2H2I4Q", *fields)


def _with(fields: list[int], others: dict[int, int]) -> list[int]:
    return [others.get(i, n) for i, n in enumerate(fields)]


def _facts(archive: Archive, member: Member, packed: bytes) -> dict[str, Any]:
    flags = 0x808 if archive.as_torch and member.data else 0x800 if archive.as_torch else 0
    return {
        "needs": 20,
        "flags": flags,
        "method": 8 if member.deflated else 0,
        "time": 0,
        "date": 0x21,
        "crc": zlib.crc32(member.data),
        "packed": len(packed),
        "size": len(member.data),
        "name": member.name,
        "extra": b"",
    }


def _packed(member: Member) -> bytes:
    if not member.deflated:
        return member.data
    work = zlib.compressobj(wbits=-15)
    return work.compress(member.data) + work.flush()


def _header(archive: Archive, member: Member) -> bytes:
    packed = _packed(member)
    facts = _facts(archive, member, packed)
    described = facts["flags"] & 8
    if described:
        facts |= dict.fromkeys(("crc", "packed", "size"), 0)
    facts |= member.local
    head = [facts[key] for key in _FIELDS]
    name, extra = facts["name"], facts["extra"]
    out = struct.pack(_LOCAL, b"PK\3\4", *head, len(name), len(extra)) + name + extra + packed
    if described:
        out += b"PK\7\10" + struct.pack("<3I", zlib.crc32(member.data), len(packed), len(packed))
    return out


def _entry(archive: Archive, member: Member, at: int) -> bytes:
    facts = _facts(archive, member, _packed(member))
    facts |= {"disk": 0, "inner": 0, "outer": 0, "offset": at} | member.listed
    head = [facts[key] for key in _FIELDS]
    name, extra = facts["name"], facts["extra"]
    more = [len(name), len(extra), 0, facts["disk"], facts["inner"], facts["outer"]]
    return struct.pack(_LISTED, b"PK\1\2", 20, *head, *more, facts["offset"]) + name + extra


# honest ones


def _numbers(rng: random.Random, count: int = 4) -> bytes:
    return np.array([rng.random() for _ in range(count)], "<f4").tobytes()


def torch_archive(rng: random.Random) -> Archive:
    """A state dict as torch writes it, in its order or that of before."""
    tree: Any = {"w": tensor(), "b": tensor((4,), (1,), 0, storage("1"))}
    if rng.random() < 0.5:
        tree = dict(reversed(tree.items()))
    members = [
        ("data.pkl", make_pickle(_odd_tree(rng, tree) if rng.random() < 0.4 else tree)),
        (".format_version", b"1"),
        (".storage_alignment", b"64"),
        ("byteorder", b"little"),
        ("data/0", _numbers(rng)),
        ("data/1", _numbers(rng)),
        ("version", b"3\n"),
    ]
    if rng.random() < 0.2:
        members = [(name, b"big" if name == "byteorder" else data) for name, data in members]
    made = tuple(Member(f"archive/{name}".encode(), data) for name, data in members)
    return Archive(made, end_64={} if rng.random() < 0.5 else None, as_torch=rng.random() < 0.7)


def _odd_tree(rng: random.Random, tree: dict[str, Any]) -> dict[str, Any]:
    """With a tensor that describes a storage in some other way."""
    kind = rng.choice(("FloatStorage", "IntStorage", "DoubleStorage", "UntypedStorage"))
    count = rng.choice((4, 4, 2, 16, 0, 5))
    store = storage(rng.choice("012"), count, kind, rng.choice(("cpu", "cpu", "meta")))
    if kind == "UntypedStorage":
        store = Reference(("storage", Name("torch.storage", kind), *store.what[2:]))
    if rng.random() < 0.2:
        store = Reference((*store.what, rng.choice((None, ("7", 1, 2), ("1", 0, 2)))))
    if rng.random() < 0.3:
        dtype = Name("torch", rng.choice(("uint16", "float32", "int64")))
        arguments = (store, 0, (2,), (1,), False, Call("collections", "OrderedDict"), dtype)
        odd = Call("torch._utils", "_rebuild_tensor_v3", arguments)
    else:
        offset, stride = rng.choice((0, 0, 1, 3)), rng.choice((1, 2, 0))
        odd = tensor((rng.choice((2, 1, 0)),), (stride,), offset, store)
    pairs = [*tree.items()]
    pairs.insert(rng.randrange(3), ("odd", odd))
    return dict(pairs)


def _mostly(rng: random.Random, usual: Any, *others: Any) -> Any:
    """The usual, or one of the others in one of eight files."""
    return rng.choice(others) if rng.random() < 0.125 else usual


def npy(rng: random.Random) -> bytes:
    """An array of a header that NumPy writes, or does not."""
    code = _mostly(
        rng, rng.choice(("'<f4'", "'>f4'", "'<i4'", "'|i1'", "'<f8'")),
        "'f4'", "'<i2'", "'|b1'", "'=f8'", "'<c8'", "'|O'", "'object'", "'<f2'", "'float32'",
        "'|V4'", "[('a', '<f4')]", "[('a', 'object')]", "'<U1'", "('<f4', (2,))", "'>u2'", '"<f4"',
        "'<f4' ''", "u'<f4'", "'|f4'", "'object_'", "'i4,O'",
    )  # fmt: skip
    code = repr(fields(rng)) if rng.random() < 0.1 else code
    width = int(code[-2]) if code[-2:-1].isdigit() else 4
    order = _mostly(rng, rng.choice(("False", "True")), "0", "true", "not True")
    shape = _mostly(
        rng, rng.choice(("(2, 2)", "(4,)", "(1, 2, 2)")),
        "()", "(2, 2, )", "(2L, 2L)", "4", "(-1,)", "(0, 3)", "[2, 2]", "(2,2)", "(True, 4)",
        "(0x2, 2)", "(2_2,)", "(02, 2)", "(3, 2)", "(4, )", "( 4,)", "(4)", "(+4,)", "(4.0,)",
    )  # fmt: skip
    entries = [f"'descr': {code}", f"'fortran_order': {order}", f"'shape': {shape}"]
    if rng.random() < 0.3:
        rng.shuffle(entries)
    if rng.random() < 0.1:
        entries.append(rng.choice(("'shape': (4,)", "'more': 1", "'descr': '<i4'", "'shape': ()")))
    text = "{" + ", ".join(entries) + rng.choice((", }", "}")) + rng.choice(("", " ", "\n"))
    text += _mostly(rng, "", "\0", "# x", "\n\n", "\t", "\r", "\x1c", "\f", ";", " or 1")
    version = _mostly(rng, rng.choice(((1, 0), (2, 0), (3, 0))), (1, 1), (0, 0), (4, 0))
    head = text.encode()
    head += b" " * rng.choice((0, 0, 5, 64 - len(head) % 64))
    body = (
        EVIL
        if "O" in code or "object" in code
        else bytes(rng.randrange(2) for _ in range(width * 4))
    )
    body += _mostly(rng, b"", b"\0", b"\x93NUMPY", b"\0" * 16)
    body = _mostly(rng, body, body[:-1], body[: len(body) // 2])
    size = struct.pack("<H" if version[0] < 2 else "<I", len(head))
    return b"\x93NUMPY" + bytes(version) + size + head + body


def fields(rng: random.Random, deepest: int = 2) -> list[Any]:
    """A type of fields whose names are pieces of such a type, with objects among them or not."""
    whole = rng.choice(("[('a', '<f4'), ('b', 'f4')]", '[("a", "O")]', "('', 'O')", "#", "\\", ""))
    found: list[Any] = []
    for index in range(rng.choice((1, 2, 2, 3))):
        at = rng.randrange(len(whole) + 1)
        name: Any = _mostly(rng, whole[at:] if index else whole[:at], f"'{index}", f'"{index}')
        kind = fields(rng, deepest - 1) if deepest and rng.random() < 0.2 else "<f4"
        shape = _mostly(rng, (), ((2,),), ((),), ("O",), (2,))
        kind = rng.choice((kind, kind, "O", _mostly(rng, "O", "|O", "U2", "O8", "i4,O")))
        found.append((_mostly(rng, name, ("t", name)), kind, *shape))
    return found


def npz_of_fields(rng: random.Random) -> bytes:
    """Numbers, and beside them an array of fields that may hold objects."""
    head = f"{{'descr': {fields(rng)!r}, 'fortran_order': False, 'shape': (1,), }}\n".encode()
    beside = b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + EVIL
    members = (Member(b"w.npy", honest_npy(rng)), Member(b"meta.npy", beside))
    return written(Archive(members, as_torch=False))


def honest_npy(rng: random.Random, shape: str = "(2, 2)") -> bytes:
    """An array of four numbers as NumPy writes it."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + _numbers(rng)


def npz_archive(rng: random.Random) -> Archive:
    """A few arrays as `np.savez` writes them, or nearly."""
    names = rng.sample(("w", "b", "W", "net.0.weight", "x.npy", "archive/data/0"), 2)
    members = []
    for name in names:
        data = npy(rng) if rng.random() < 0.2 else honest_npy(rng)
        members.append(Member(f"{name}.npy".encode(), data, deflated=rng.random() < 0.3))
    return Archive(tuple(members), as_torch=False, end_64={} if rng.random() < 0.2 else None)


# changes of an archive


def _renamed(rng: random.Random, archive: Archive) -> Archive:
    index = archive.member(rng)
    return archive.changed(index, name=_other_name(rng, archive.members[index].name))


def _other_name(rng: random.Random, name: bytes) -> bytes:
    folder, _, last = name.rpartition(b"/")
    return rng.choice(
        (
            name.upper(), name.swapcase(), name.title(), name + b"/", name + b" ", name + b".",
            name.replace(b"/", b"\\"), name.replace(b"/", b"//"), b"./" + name, b"/" + name,
            name + b"\0x", name + b"\0", b"x/" + name, b"../" + name, b"other/" + last, last,
            folder + b"/x/" + last, name + b".npy", name.removesuffix(b".npy"), name + b"\xc3\xa9",
            name + b"\xff", name.replace(b"i", "\u0131".encode()), b"archive/data.pkl",
        )
    )  # fmt: skip


def _doubled(rng: random.Random, archive: Archive) -> Archive:
    one = rng.choice(archive.members)
    name = one.name if rng.random() < 0.3 else _other_name(rng, one.name)
    pickle = b"data.pkl" in one.name
    array = one.data.startswith(b"\x93NUMPY")
    other = EVIL if pickle else honest_npy(rng, "(4,)") if array else _numbers(rng)
    return archive.put(rng, replace(one, name=name, data=other))


def _moved(rng: random.Random, archive: Archive) -> Archive:
    if rng.random() < 0.5:
        members = list(archive.members)
        rng.shuffle(members)
        return replace(archive, members=tuple(members))
    start = rng.choice((b"other/", b"archive/x/", b"", b"ARCHIVE/", b"\xc3\xa9/"))
    which = range(len(archive.members)) if rng.random() < 0.5 else [archive.member(rng)]
    for index in which:
        name = archive.members[index].name
        archive = archive.changed(index, name=start + name.partition(b"/")[2])
    return archive


def _lying_header(rng: random.Random, archive: Archive) -> Archive:
    index = archive.member(rng)
    one = archive.members[index]
    where = rng.choice(("local", "listed"))
    key = rng.choice(("flags", "method", "crc", "packed", "size", "name", "flags", "needs"))
    if where == "listed" and rng.random() < 0.4:
        key = rng.choice(("disk", "inner", "outer", "offset"))
    value: Any = rng.choice((*_NUMBERS, len(one.data) - 1, len(one.data) + 1))
    if key == "name":
        value = _other_name(rng, one.name)
    elif key == "outer":
        value = rng.choice((0x10, 0x20, 0x41ED0010, 0xA1FF0000, 0x81A40000, 0x81A40010))
    elif key in ("flags", "method", "needs", "disk", "inner"):
        value &= 0xFFFF
    fields = {key: max(value, 0) if isinstance(value, int) else value}
    if key in ("packed", "size") and rng.random() < 0.5:
        fields = dict.fromkeys(("packed", "size"), fields[key])
    return archive.changed(index, **{where: {**getattr(one, where), **fields}})


def _extra(rng: random.Random, archive: Archive) -> Archive:
    index = archive.member(rng)
    one = archive.members[index]
    size = struct.pack("<Q", len(one.data))
    other = struct.pack("<Q", rng.choice((0, 1, len(one.data) - 1, len(one.data) // 2)) % 2**64)
    place = struct.pack("<Q", rng.choice((0, 1, 100)))
    bodies = rng.sample(
        (size * 2, size * 2 + place, size, place, other * 2, size + other, other, b""),
        rng.choice((1, 1, 2)),
    )
    extra = b"".join(b"\1\0" + struct.pack("<H", len(body)) + body for body in bodies)
    if rng.random() < 0.3:
        path = b"\1" + struct.pack("<I", zlib.crc32(one.name)) + _other_name(rng, one.name)
        extra = b"\x75\x70" + struct.pack("<H", len(path)) + path
    extra = _mostly(rng, extra, extra[:-1], extra + b"\0", b"UT\5\0\1\0\0\0\0")
    fields: dict[str, Any] = {"extra": extra}
    if rng.random() < 0.7:
        fields |= dict.fromkeys(
            rng.choice((("size", "packed"), ("size",), ("offset",))), _NUMBERS[-1]
        )
    where = rng.choice(("listed", "listed", "local"))
    if where == "local":
        fields.pop("offset", None)
    return archive.changed(index, **{where: {**getattr(one, where), **fields}})


def _lying_end(rng: random.Random, archive: Archive) -> Archive:
    wrong = rng.choice((0, 1, len(archive.members) - 1, 7, 100, 0xFFFF))
    match rng.randrange(6):
        case 0:
            return replace(archive, end={rng.randrange(7): wrong})
        case 1:
            return replace(archive, end={2: wrong, 3: wrong})
        case 2:
            return replace(archive, end_64={rng.randrange(3, 9): wrong})
        case 3:
            return replace(archive, end_64={}, locator={rng.randrange(3): wrong})
        case 4:
            return replace(archive, end_64={}, end=dict.fromkeys((2, 3), 0xFFFF) | {5: 0xFFFFFFFF})
    return replace(archive, comment=rng.choice((b"x", b"PK\5\6" + bytes(18))))


def _second_list(rng: random.Random, archive: Archive) -> Archive:
    """Another list of members, and records at the end that lead to one or the other."""
    decoys = list(archive.members)
    for index in rng.sample(range(len(decoys)), rng.choice((1, 2))):
        one = decoys[index]
        array = one.data.startswith(b"\x93NUMPY")
        data = honest_npy(rng, "(4,)") if array else _numbers(rng, len(one.data) // 4 or 1)
        decoys[index] = replace(one, data=data)
    count = len(decoys)
    archive = replace(archive, decoys=tuple(decoys), decoys_first=rng.random() < 0.5)
    with_64 = rng.random() < 0.7
    return replace(
        archive,
        end_64={} if with_64 else None,
        second_end_64=with_64 and rng.random() < 0.7,
        end={} if rng.random() < 0.7 else {2: 2 * count, 3: 2 * count},
    )


def _around(rng: random.Random, archive: Archive) -> Archive:
    start = rng.choice((b"x", b"PK\3\4" + bytes(26), b"\x80\2N.", bytes(512), b"\x93NUMPY\1\0"))
    whole = written(archive)
    return rng.choice(
        (
            replace(archive, before=start),
            replace(archive, behind=rng.choice((b"x", b"\0", b"PK\5\6" + bytes(18), whole[-22:]))),
            replace(archive, before=whole),
            replace(archive, behind=whole),
        )
    )


def _other_data(rng: random.Random, archive: Archive) -> Archive:
    index = archive.member(rng)
    one = archive.members[index]
    if b"byteorder" in one.name:
        data = rng.choice((b"big", b"little", b"BIG", b"", b"big\n", b"little\0"))
    elif b"data.pkl" in one.name:
        data = one.data + rng.choice((b"x", EVIL, b"\0"))
    else:
        data = rng.choice((one.data[:-1], one.data + b"\0" * 4, one.data[:8], b"", npy(rng)))
    return archive.changed(index, data=data, deflated=rng.random() < 0.2)


def _one_more(rng: random.Random, archive: Archive) -> Archive:
    name = rng.choice(
        (b"archive/constants.pkl", b"archive/code/x.py", b"archive/x.npy", b"archive/.data/version",
         b"archive/byteorder", b"BYTEORDER", b"archive/BYTEORDER", b"archive/Byteorder", b"x",
         b"archive/data/2", b"archive/data/00", b"archive/data.pkl.npy", b"w", b"w.npy.npy",
         b"w.NPY", b"archive/", b"archive/data/", b"archive/.data/serialization_id")
    )  # fmt: skip
    data = rng.choice((b"big", b"little", honest_npy(rng), npy(rng), _numbers(rng), b"", EVIL))
    return archive.put(rng, Member(name, data, deflated=rng.random() < 0.1))


def _two_codings(rng: random.Random, archive: Archive) -> Archive:
    """Names in UTF-8, but for some in the old coding: the same letters, or the same bytes."""
    archive = replace(archive, as_torch=False)
    others = rng.sample(range(len(archive.members)), rng.choice((0, 1, 1, 2)))
    folder = b"\xc3\xa9" if rng.random() < 0.7 else b"e" * rng.choice((505, 509, 510, 511, 600))
    for index, member in enumerate(archive.members):
        flags = {"flags": 0 if index in others else 0x800}
        start = rng.choice((b"\x82", folder)) if index in others else folder
        name = start + b"/" + member.name.partition(b"/")[2]
        archive = archive.changed(index, name=name, local=flags, listed=flags)
    if rng.random() < 0.3:
        index = archive.member(rng)
        data = rng.choice((b"big", _numbers(rng)))
        archive = archive.changed(index, data=data)
    return archive


CHANGES: dict[str, Callable[[random.Random, Archive], Archive]] = {
    "a name changed": _renamed,
    "a member doubled": _doubled,
    "order or folder changed": _moved,
    "a header that lies": _lying_header,
    "an extra field": _extra,
    "an end that lies": _lying_end,
    "a second list": _second_list,
    "bytes before or behind": _around,
    "other data": _other_data,
    "one more member": _one_more,
    "two codings": _two_codings,
}


def _changed(archive: Archive, rng: random.Random, first: str) -> bytes:
    archive = CHANGES[first](rng, archive)
    while rng.random() < 0.25:
        archive = rng.choice([*CHANGES.values()])(rng, archive)
    try:
        return written(archive)
    except struct.error:  # a number that its field does not hold
        return written(replace(archive, end={}, end_64=None))


# the other formats


def safetensors(rng: random.Random) -> bytes:
    """A header of safetensors that is sound, or odd in one or two ways."""
    dtype = _mostly(rng, rng.choice(("F32", "I32", "F16", "BF16")), "f32", "BOOL", "F8_E8M0", "U32")
    width = {"F16": 2, "BF16": 2, "BOOL": 1, "F8_E8M0": 1}.get(dtype, 4)
    middle = _mostly(rng, 16, 12, 20, 0)
    parts = []
    for name, (begin, end) in {"a": (0, middle), "b": (_mostly(rng, middle, 16), 32)}.items():
        count = max(0, end - begin) // width
        shape = f"[{count}]", f"[1, {count}]", f"[{count}.0]", f"[{count}e0]", "[-1]", "[true]"
        offsets = "[{}, {}]", "[{}.0, {}]", "[0{}, {}]", "[-{}, {}]", "[{}, {}, 0]", "[{}e0, {}]"
        places = _mostly(rng, *offsets).format(begin, end)
        entry = f'"dtype": "{dtype}", "shape": {_mostly(rng, *shape)}, "data_offsets": {places}'
        entry += _mostly(
            rng, "", ', "dtype": "I32"', ', "more": NaN', ', "shape": [2, 2]', ",", _more(rng)
        )
        odd = (
            f"\\u00{ord(name):02x}",
            "a",
            "\\ud800",
            "\u00e9",
            name + " ",
            "__metadata__",
            "\\u0000",
        )
        parts.append(f'"{_mostly(rng, name, *odd)}": {{{entry}}}')
    if rng.random() < 0.3:
        notes = _mostly(rng, '{"k": "v"}', "{}", "3", "null", '{"k": 1}', '{"k": "v", "k": "w"}')
        parts.insert(rng.randrange(3), f'"__metadata__": {notes}')
    if rng.random() < 0.2:
        parts.reverse()
    text = _mostly(rng, "", " ", "\ufeff") + "{" + rng.choice((", ", ",", " ,\n")).join(parts) + "}"
    text += rng.choice(("", "   ")) + _mostly(rng, "", "\n", "\0", ",", "}", "\t\r\n", "\f")
    head = text.encode()
    size = len(head) + _mostly(rng, 0, 1, -1)
    return struct.pack("<Q", size) + head + _numbers(rng, 8) + _mostly(rng, b"", b"\0", bytes(4))


def _more(rng: random.Random) -> str:
    """One more entry of a tensor, which the parser of safetensors takes or not."""
    values = ("1", "1e999", "1" + "0" * 400, '"\\ud800"', "[" * 300 + "]" * 300, "{}", "null")
    return f', "{rng.choice(("x", "x", chr(92) + "ud800"))}": {rng.choice(values)}'


def old_file(rng: random.Random) -> bytes:
    """A file of torch before 1.6 whose storages or keys are not as they should be."""
    views = ("7", 0, 4), ("7", 1, 2), ("1", 0, 4), ("0", 2, 2), ("8", 2, 2)
    tree: dict[str, Any] = {}
    for name in "abc":
        key = "01"[len(tree)] if len(tree) < 2 else rng.choice("01")
        store = storage(key, _mostly(rng, 4, 3), _kind(rng), _mostly(rng, "cpu", "meta"))
        view = _mostly(rng, None, *views, *views)
        offset = _mostly(rng, 0, 1, 2)
        tree[name] = tensor((2,), (1,), offset, Reference((*store.what, view)))
    counts = _mostly(rng, (4, 4), (4, 3), (2, 4), (5, 4))
    records = {key: (count, _numbers(rng)) for key, count in zip("01", counts, strict=True)}
    keys = _mostly(
        rng, None, ["0", "1"], ["1", "0"], ["0"], ["0", "1", "1"], ("0", "1"), ["7", "1"]
    )
    little, version = rng.random() < 0.8, _mostly(rng, 1001, 1000)
    return legacy(tree, records, keys, little, version) + _mostly(rng, b"", b"\0", EVIL)


def _kind(rng: random.Random) -> str:
    return str(_mostly(rng, "FloatStorage", "IntStorage", "HalfStorage"))


def two_formats(rng: random.Random) -> bytes:
    """A file that begins as one format and is another, too."""
    match rng.randrange(4):
        case 0:
            return _tar_header(rng) + legacy({"w": tensor()})[512:]
        case 1:
            body = rng.choice(
                (legacy({"w": tensor()}), EVIL, make_pickle({"w": 1}), make_pickle(None))
            )
            return pickle_in_safetensors(body)
        case 2:
            return _as_tar(rng.choice((safetensors, npy, old_file))(rng))
    return written(_one_more(rng, rng.choice((torch_archive, npz_archive))(rng)))


def _tar_header(rng: random.Random) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(rng.choice(("storages", "\x80\2", "pickle"))))
    return out.getvalue()[:512]


def _as_tar(content: bytes) -> bytes:
    """With a checksum where a tar archive has it."""
    head = content[:148] + b" " * 8 + content[156:512].ljust(356, b"\0")
    return head[:148] + b"%06o\0 " % sum(head) + head[156:] + content[512:]


def pickle_in_safetensors(body: bytes) -> bytes:
    """The length of the header is the step that begins a short text in a pickle; in the notes such
    texts follow each other, and the last ends where the numbers begin: there a pickle goes on."""
    size = ord("U") + 256 * 32
    start = b'{"__metadata__": {"k": "'
    entry = {"dtype": "U8", "shape": [len(body)], "data_offsets": [0, len(body)]}
    end = f'"}}, "w": {json.dumps(entry)}}}'.encode()
    text = b"x" * (2 + 32 - 8 - len(start))
    while (rest := size - len(start) - len(text)) > 2 + 126:
        length = min(126, rest - 2 - 126) if rest < 2 * 128 else 126
        text += b"U" + bytes([length]) + b"x" * length
    text += b"U" + bytes([rest - 2]) + b"x" * (rest - 2)
    text = text[: size - len(start) - len(end)]
    return struct.pack("<Q", size) + start + text + end + body


_ODD_STEPS = (  # numbers, texts and places that readers of pickles take differently, and others
    b"I010\n", b"I5\0x\n", b"I0x1\n", b"I1_0\n", b"I\t7 \n", b"L010L\n", b"L5\n", b"F1.5\0\n",
    b"Finf\n", b"F1_0\n", b"S'a'\0\n", b"S'\\x'\n", b"V\\u1\n", b"V\xff\n", b"\x8a\0", b"U\1\xff",
    b"K\1p03\n", b"K\1p 3 \n", b"K\1p3\0x\n", b"C\1a\x98", b"\x96" + bytes(8) + b"\x98", b"(tb",
    b"N", b"]", b"}", b"(", b"0", b"2", b"q\1", b"\x94", b"h\1", b"\x8f(\x90", b"(e", b"\x85", b"l",
    b"\x80\4", b"\x80\xff", b"\x95" + bytes(8), b"X\1\0\0\0a", b"J\0\0\0\0", b"\x8b\1\0\0\0\7",
    b"G12345678",
)  # fmt: skip
_MAGIC = b"l\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"  # with which a file of torch before 1.6 begins
_LAST_STEPS = (
    b"cos\ngetpid\n)R.",
    b"(ios\ngetpid\n.",
    b"\x8c\2os\x8c\6getpid\x93)R.",
    b"cos\ngetpid\n0N.",
    b'cthis.x"\ny\n',
    b"ios\ngetpid\n",
    b"cos\ngetpid",
    b"N.",
    b".",
    b"]N\x85a.",
    b"",
    b"\x8a\x0a" + _MAGIC + b".cos\ngetpid\n.",
    b"\x8b" + struct.pack("<I", 5000) + _MAGIC.ljust(5000, b"\0") + b".cos\ngetpid\n.",
    b"L119547037146038801333356L\n.cos\ngetpid\n.",
    b"I0x1950a86a20f9469cfc6c\n.cos\ngetpid\n.",
)


def odd_pickle(rng: random.Random) -> bytes:
    """Instructions of which some are read differently, with a name behind them or not."""
    steps = rng.choices(_ODD_STEPS, k=rng.choice((0, 1, 1, 2, 3)))
    return b"".join(steps) + rng.choice(_LAST_STEPS)


def odd_pickle_in_safetensors(rng: random.Random) -> bytes:
    """Safetensors whose numbers are a pickle; its length is the first instruction."""
    if rng.random() < 0.3:
        return pickle_in_safetensors(odd_pickle(rng))
    body = odd_pickle(rng)
    entry = {"dtype": "U8", "shape": [len(body)], "data_offsets": [0, len(body)]}
    first, stated = rng.choice(((b"B", 16), (b"X", 16), (b"T", 16), (b"U", 16), (b"C", 16)))
    start = b'{"' + b"a" * (stated - 5 if first in b"BXT" else stated - 8)
    # a line of text up to the end of the header, where white space may stand
    text = start + b'V":' + json.dumps(entry).encode()
    size = first[0] + 256 * stated
    return struct.pack("<Q", size) + text.ljust(size - 2) + b"\n}" + body


def as_saved(rng: random.Random) -> bytes:
    """What torch, NumPy and safetensors write themselves."""
    tensors = {
        "w": torch.rand(2, 3),
        "b": torch.arange(rng.randrange(4)),
        "h": torch.rand(2).half(),
    }
    out = io.BytesIO()
    match rng.randrange(4):
        case 0:
            torch.save(tensors, out, _use_new_zipfile_serialization=rng.random() < 0.5)
        case 1:
            return bytes(safetensors_of_torch.save(tensors))
        case 2:
            np.savez(out, **{name: value.numpy() for name, value in tensors.items()})
        case 3:
            np.save(out, tensors["w"].numpy().T)
    return out.getvalue()


KINDS: dict[str, Callable[[random.Random], bytes]] = {
    "as saved": as_saved,
    **{
        f"torch, {name}": lambda rng, name=name: _changed(torch_archive(rng), rng, name)
        for name in CHANGES
    },
    "torch, storages": lambda rng: written(torch_archive(rng)),
    **{
        f"npz, {name}": lambda rng, name=name: _changed(npz_archive(rng), rng, name)
        for name in CHANGES
    },
    "npy": npy,
    "npz of fields": npz_of_fields,
    "safetensors": safetensors,
    "torch, before 1.6": old_file,
    "two formats": two_formats,
    "safetensors that are a pickle": odd_pickle_in_safetensors,
    "pickled tensors": ambiguous_pickles.of_tensors,
    "pickled arrays": ambiguous_pickles.of_arrays,
}


def files(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """So many files of each kind, with its name."""
    for kind, made in KINDS.items():
        rng = random.Random(f"{seed} {kind}")
        for _ in range(count):
            yield kind, made(rng)
