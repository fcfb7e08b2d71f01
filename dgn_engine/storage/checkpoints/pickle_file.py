"""Reads a pickle into inert objects: nothing is imported, called or given attributes.

The machine is the one of the standard library, in pure Python. Only the steps that would look up a
name, call something, hash a key or reserve memory for what the file merely announces are replaced.

What a hostile pickle tries, and what stops it:

- code (GLOBAL, REDUCE, NEWOBJ, INST, OBJ, BUILD): `find_class` returns a `GlobalName`, a call
  results in an `InertObject`, and only that takes a state; `NoCalls` is told of each, and of each
  name that becomes a part of something
- a length that the file does not have (BYTEARRAY8, BINBYTES8, LONG4, BINUNICODE8): `read` compares
  it with the bytes that are there before anything is allocated
- keys that take for ever to hash, or collide: `InertDict` keeps pairs and compares only what is
  quick to hash; sets are inert as well
- what Python would read otherwise than it is shown here: a key that is set twice (also as 1 and
  True), a second state, an entry of an object that is no list or dictionary, a state for a tensor,
  byte strings of Python 2 as keys: refused
- a place of 2^32 in the memo: the memo is a dictionary
- arguments that the library would not write, and what a call makes of them: `Opaque`, which holds
  nothing, whatever it was called with
- steps without end, long numbers, much text: `limits.OPERATIONS`, `INTEGER`, `PICKLE`, each before
  anything is allocated
- one large text or table that is copied by many calls: `limits.copied`
- shared nested tuples, lists that hold themselves: nothing here walks them; see `tensor_tree`
- extensions (named by their numbers), text references, buffers outside the pickle, protocols after
  5: refused
- one long key under very many names: `key_text` cuts it; see `tensor_tree` for long paths
- whatever else takes memory or time: the limits of the process (`confinement`)
"""

from __future__ import annotations

import _compat_pickle
import pickle
import pickletools
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.file_content import Content
from dgn_engine.text.printable import plain

_LATEST = 5  # protocol
_ARGUMENTS = 100  # of a call that are counted; none that copies takes as many
_LINE = 4096  # bytes of an argument that ends with its line
_OF_MODULE = ("_parameters", "_buffers", "_modules")
_OF_KEY = 16  # parts of a key that are compared
_MODULES = ("torch.nn.modules.", "torch.nn.parallel.")
# Classes of which no object is a list or a dictionary that pickle would fill, and of which pickle
# calls none with arguments by NEWOBJ: torch and numpy write their own by the other instructions.
_NOT_FILLED = (
    *("torch.", "numpy.", "builtins.", "types.", "argparse.", "datetime.", "frozenset"),
    *("decimal.", "fractions.", "pathlib.", "uuid."),
)
_WITHOUT_ARGUMENTS = ("builtins.", "collections.", "types.", "argparse.", *_MODULES)
_WITH_ARGUMENTS = "builtins.complex"  # the only class of Python that has some there
_SETS = ("set", "frozenset")


@dataclass(frozen=True, slots=True)
class GlobalName:
    """A class or function by its name; it is not imported and cannot be called."""

    module: str
    name: str

    def __str__(self) -> str:
        module = "builtins" if self.module == "__builtin__" else self.module  # of Python 2
        return f"{module}.{self.name}"


class ByteString(bytes):
    """A string of Python 2 that is no plain ASCII: what text it is depends on who reads it."""


Mark = str | bytes | int | tuple[Any, ...] | None


def key_mark(key: Any) -> Mark:
    """Return what is equal for keys that are equal in Python and quick to hash: 1, True and 1.0
    have one; `()` for keys that only their classes can compare."""
    if isinstance(key, ByteString):
        raise UnreadableFile("has a key that is no plain text and is read in several ways")
    if isinstance(key, (list, InertDict)) or (isinstance(key, InertObject) and key.callee == "set"):
        raise UnreadableFile(f"has a {type_name(key)} for a key, which no program can save")
    if key is None or isinstance(key, (str, bytes)):
        return key
    if isinstance(key, float):
        if not key.is_integer():
            return ("float", key.hex())
        key = int(key)
    if isinstance(key, int):
        return int(key) if abs(key) < 1 << 60 else ("int", hex(key))  # the hash of others repeats
    if isinstance(key, tuple) and len(key) <= _OF_KEY:
        marks = [key_mark(part) for part in key if not isinstance(part, tuple)]
        return ("tuple", *marks) if len(marks) == len(key) and () not in marks else ()
    return ()


@dataclass(eq=False, slots=True)
class InertDict:
    """A dictionary as pairs, because hashing a hostile key can take for ever. `marks`: those of its
    keys, once one was set."""

    pairs: list[tuple[Any, Any]] = field(default_factory=list)
    name: str = "dict"
    marks: set[Mark] | None = None

    def __setitem__(self, key: Any, value: Any) -> None:
        _add_pair(self, key, value)

    def fill(self, pairs: Iterable[tuple[Any, Any]]) -> InertDict:
        for key, value in pairs:
            self[key] = value
        return self

    def get(self, wanted: str) -> Any:
        for key, value in reversed(self.pairs):
            if type(key) is str and key == wanted:
                return value
        return None

    def set_state(self, state: Any) -> None:
        """Pass over the attributes of an `OrderedDict`, such as the `_metadata` of a state dict."""
        sound = self.name == "collections.OrderedDict" and isinstance(state, InertDict)
        pairs = state.pairs[:_ARGUMENTS] if sound else []
        named = all(type(key) is str and not hasattr(OrderedDict, key) for key, _ in pairs)
        if not sound or not named or len(pairs) < len(state.pairs):
            raise UnreadableFile("gives a dictionary a state that pickle does not write")


@dataclass(eq=False, slots=True)
class InertObject:
    """The result of a call that did not happen: of what, with what, and what was put into it.

    The methods are those by which the machine fills lists, sets and dictionaries, in the order in
    which pickle does so: its entries, then one state.
    """

    callee: str
    arguments: Any
    state: Any = None
    items: list[Any] = field(default_factory=list)
    pairs: list[tuple[Any, Any]] = field(default_factory=list)
    marks: set[Mark] | None = None

    def append(self, item: Any) -> None:
        self.check_filling()
        self.items.append(item)

    add = append

    def extend(self, items: list[Any]) -> None:
        self.check_filling()
        self.items.extend(items)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.check_filling()
        _add_pair(self, key, value)

    def check_filling(self) -> None:
        """Raise `UnreadableFile` where nothing can be put into it any more."""
        if self.state is not None or self.callee.startswith(_NOT_FILLED):
            raise UnreadableFile(
                f"changes an object after it was made ({plain(self.callee, 80)}), which no program "
                "saves"
            )

    def set_state(self, state: Any) -> None:
        """Give it the state that pickle writes behind its entries; raises `UnreadableFile`."""
        odd = self.callee.startswith(("torch.", "uuid.")) and not isinstance(state, InertDict)
        if odd or self.state is not None:
            raise UnreadableFile(
                f"gives an object ({plain(self.callee, 80)}) a state that no program saves"
            )
        self.state = state

    @staticmethod
    def of(name: GlobalName, arguments: tuple[Any, ...]) -> InertObject:
        """What stands for an object that takes a state; raises `UnreadableFile` for a module of
        torch that is given arguments, which torch never saves so."""
        if arguments and str(name).startswith(_MODULES):
            raise UnreadableFile(f"makes {plain(str(name), 80)} in a way that torch never saves")
        return InertObject(str(name), arguments)


def _add_pair(thing: InertDict | InertObject, key: Any, value: Any) -> None:
    """Raise `UnreadableFile` for a key that is there: its first value would be no more."""
    if thing.marks is None:
        thing.marks = {key_mark(known) for known, _ in thing.pairs}
    mark = key_mark(key)
    if mark in thing.marks and mark != ():
        raise UnreadableFile("has a dictionary that sets one key twice, which no program saves")
    thing.marks.add(mark)
    thing.pairs.append((key, value))


class Opaque(InertObject):
    """The result of a call of which nothing is read: a value, or what nobody knows.

    It takes no state. `odd`: the arguments are none that the library itself writes.
    """

    __slots__ = ("odd",)

    def __init__(self, callee: str, arguments: Any, *, odd: bool = False) -> None:
        super().__init__(callee, arguments)
        self.odd = odd

    def check_filling(self) -> None:
        raise UnreadableFile(
            f"changes a value after it was made ({plain(self.callee, 80)}), which no program saves"
        )


class NoCalls:
    """Is told what loading a pickle would name, call and change; `CallRecorder` records it.

    `room`: instructions that may still be read, in all pickles of which it is told together.
    """

    def __init__(self) -> None:
        self.room = limits.OPERATIONS

    def named(self, name: GlobalName) -> None:
        """A global is named, and its module would be imported."""

    def kept(self, value: GlobalName) -> None:
        """A global becomes a value: an argument, an entry, a part of a state."""

    def called(self, callee: Any, arguments: Any) -> None:
        """Something would be called, with these arguments."""

    def called_oddly(self, callee: GlobalName) -> None:
        """It would be called with arguments that its library does not write."""

    def handed(self, arguments: Any) -> None:
        """This is given to what looks up a reference out of the pickle."""

    def state_set(self, target: GlobalName) -> None:
        """A global itself would be given a state."""

    def state_refused(self, target: Any) -> None:
        """An object would be given a state that its library does not write."""


Build = Callable[[GlobalName, tuple[Any, ...]], Any]
Persistent = Callable[[Any], Any]


def read_pickle(
    content: Content,
    start: int,
    build: Build,
    persistent: Persistent,
    calls: NoCalls | None = None,
    most_text: int | None = None,
) -> tuple[Any, int]:
    """Return the tree of the pickle that begins at `start`, and the position behind the pickle.

    `build` gives what stands for the result of a call, from its name and arguments; `persistent`
    what stands for a reference out of the pickle, from its id. `calls` is told of every call and
    name, also of those before a refusal. `most_text`: bytes of text that it may hold, else
    `limits.PICKLE`; Python 2 pickles arrays as text. Raises `UnreadableFile`.
    """
    machine = InertUnpickler(content, start, build, persistent, calls or NoCalls())
    machine.most_text = limits.PICKLE if most_text is None else most_text
    try:
        return machine.load(), machine.at
    except (
        pickle.UnpicklingError,
        struct.error,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
    ):  # the stack, the memo or a text does not hold what an instruction needs
        raise UnreadableFile("has a damaged pickle") from None


def inert_reference(reference: Any) -> Any:
    """What stands for a reference out of a pickle that is only looked through."""
    return InertObject("a reference", reference if isinstance(reference, tuple) else ())


def _refuse(_: InertUnpickler) -> None:
    raise UnreadableFile("has a pickle with instructions that no checkpoint needs")


def _refuse_extension(length: int, machine: InertUnpickler) -> None:
    """Its number stands for a name in the program that wrote it, and for none here."""
    code = int.from_bytes(machine.read(length), "little", signed=length == 4)
    raise UnreadableFile(
        f"has a pickle with the registered extension {code}, which no checkpoint needs and which "
        "has no name here"
    )


_NUMBERS = pickle.INT + pickle.LONG + pickle.LONG1 + pickle.LONG4
_TEXTS = b"".join(
    (
        *(pickle.STRING, pickle.BINSTRING, pickle.SHORT_BINSTRING, pickle.UNICODE),
        *(pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINUNICODE8),
    )
)
_REFUSED = ("EXT1", "EXT2", "EXT4", "PERSID", "NEXT_BUFFER", "READONLY_BUFFER")
_STANDARD: dict[int, Callable[[Any], None]] = {  # a later protocol may bring steps that do more
    ord(known.code): pickle._Unpickler.dispatch[ord(known.code)]
    for known in pickletools.opcodes
    if known.proto <= 5 and known.name not in _REFUSED
}


def _step_within(code: int, machine: InertUnpickler) -> None:
    """A standard step whose number or text is limited before it is read."""
    machine.within = code
    _STANDARD[code](machine)
    machine.within = 0


# Steps that put things from the stack into something else → how many; None: all above the mark.
_KEEPING: dict[bytes, int | None] = {
    **dict.fromkeys((pickle.TUPLE1, pickle.APPEND, pickle.BUILD, pickle.BINPERSID), 1),
    **dict.fromkeys((pickle.TUPLE2, pickle.SETITEM), 2),
    pickle.TUPLE3: 3,
    **dict.fromkeys((pickle.TUPLE, pickle.LIST, pickle.DICT, pickle.FROZENSET)),
    **dict.fromkeys((pickle.APPENDS, pickle.SETITEMS, pickle.ADDITEMS)),
}


def _keep_and_step(step: Callable[[Any], None], count: int | None, machine: InertUnpickler) -> None:
    """A step that tells of the globals among what it takes from the stack."""
    machine.keep(machine.stack if count is None else machine.stack[-count:])
    step(machine)


class InertUnpickler(pickle._Unpickler):
    """The standard machine, with inert objects in the place of imported names and calls.

    `build`, `persistent` and `calls` as for `read_pickle`. `at`: the place of the next byte;
    `within`: the code of the number or text that is being read, or 0; `text`: bytes of text up to
    now; `copied`: bytes that calls have copied; `protocol`: what the pickle says of itself, last.
    """

    stack: list[Any]
    metastack: list[list[Any]]
    most_text: int
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]

    def __init__(
        self,
        content: Content,
        start: int,
        build: Build,
        persistent: Persistent,
        calls: NoCalls,
    ) -> None:
        super().__init__(self)
        self.content, self.at = content, start
        self.within, self.text, self.copied = 0, 0, 0
        self.protocol = 0
        self.build, self.persistent, self.calls = build, persistent, calls

    def load(self) -> Any:
        """Everything up to the end of the pickle, in a limited number of steps."""
        self.stack, self.metastack = [], []
        self.append = self.stack.append
        while self.calls.room > 0:
            self.calls.room -= 1
            code = self.read(1)
            if code == pickle.STOP:
                return self.stack.pop()
            self.dispatch[code[0]](self)
        raise UnreadableFile(
            f"has a pickle of more than {limits.OPERATIONS:,} instructions", kind="too-long"
        )

    def read(self, length: int) -> bytes:
        if self.within in _NUMBERS and length > limits.INTEGER:
            raise UnreadableFile(
                "has a pickle with a number of unreasonable length", kind="too-long"
            )
        if self.within in _TEXTS:
            self.text += length
            if self.text > self.most_text:
                raise UnreadableFile(
                    "has more text in its pickle than any checkpoint", kind="too-long"
                )
        begin, self.at = self.at, self.at + length
        if self.at > len(self.content):
            raise UnreadableFile("is cut off within its pickle", kind="cut-off")
        return self.content[begin : self.at]

    def readline(self) -> bytes:
        end = self.content.find(b"\n", self.at, self.at + _LINE) + 1
        if not end:
            raise UnreadableFile("has a damaged pickle")
        return self.read(end - self.at)

    def _decode_string(self, value: bytes) -> str | bytes:  # STRING, BINSTRING, SHORT_BINSTRING
        return value.decode("ascii") if value.isascii() else ByteString(value)

    def find_class(self, module: str, name: str) -> GlobalName:
        if len(module) + len(name) > _LINE:  # from the stack, where a text may have megabytes
            raise UnreadableFile("has a pickle with a name of unreasonable length")
        if self.protocol < 3:  # a name of Python 2, as subprocess.Popen for commands.Popen
            renamed = _compat_pickle.NAME_MAPPING.get((module, name))
            module = _compat_pickle.IMPORT_MAPPING.get(module, module)
            module, name = renamed or (module, name)
        found = GlobalName(module, name)
        self.calls.named(found)
        return found

    def _stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is str and type(module) is str:
            self.append(self.find_class(module, name))
            return
        words = (word if type(word) is str else "(computed)" for word in (module, name))
        self.find_class(*words)
        raise UnreadableFile("has a pickle that computes a name, which no checkpoint needs")

    def persistent_load(self, pid: Any) -> Any:
        self.calls.handed(pid)
        return self.persistent(pid)

    def keep(self, values: list[Any]) -> None:
        """Tell of the globals among values that become a part of something."""
        for value in values:
            if type(value) is GlobalName:
                self.calls.kept(value)

    def call(self, callee: Any, arguments: Any) -> Any:
        """What stands for the result of a call; nothing is called."""
        self.calls.called(callee, arguments)
        if isinstance(callee, GlobalName) and not isinstance(arguments, tuple):
            self.calls.called_oddly(callee)
        elif isinstance(callee, GlobalName):
            self._count(arguments)
            result = self.build(callee, arguments)
            if isinstance(result, Opaque) and result.odd:
                self.calls.called_oddly(callee)
            return result
        return Opaque(type_name(callee), arguments, odd=True)

    def _count(self, arguments: tuple[Any, ...]) -> None:
        """Refuse a pickle that has the same text or table copied again and again."""
        for argument in arguments[:_ARGUMENTS]:
            if isinstance(argument, (str, bytes)):
                self.copied += len(argument)
            elif isinstance(argument, (tuple, list)):
                self.copied += limits.COPIED_ITEM * len(argument)
            elif isinstance(argument, InertDict):
                self.copied += limits.COPIED_ITEM * len(argument.pairs)
        if self.copied > limits.copied(len(self.content)):
            raise UnreadableFile("copies its text or tables again and again, and was refused")

    def _protocol(self) -> None:
        self.protocol = self.read(1)[0]  # otherwise the instructions say enough
        if self.protocol > _LATEST:
            raise pickle.UnpicklingError

    def _frame(self) -> None:
        """Its content is read as it comes; pickle wants all of it to be there."""
        if int.from_bytes(self.read(8), "little") > len(self.content) - self.at:
            raise pickle.UnpicklingError

    def _instantiate(self, callee: Any, arguments: list[Any]) -> None:  # INST and OBJ use it
        self.keep(arguments)
        self.append(self.call(callee, tuple(arguments)))

    def _reduce(self) -> None:
        arguments = self.stack.pop()
        self.append(self.call(self.stack.pop(), arguments))

    def _new(self) -> None:
        """NEWOBJ calls `__new__` of a class alone; that of a container ignores its arguments."""
        arguments, callee = self.stack[-1], self.stack[-2]
        self._reduce()
        result = self.stack[-1]
        inert = type(result) in (InertObject, Opaque) and result.arguments is arguments
        name = type_name(callee)
        without = name.startswith(_WITHOUT_ARGUMENTS) and name != _WITH_ARGUMENTS
        if arguments and (not inert or without):
            raise UnreadableFile(f"makes {plain(name, 80)} in a way that no program saves")

    def _new_with_names(self) -> None:
        """By their names classes take more than by their places: torch.Tensor an address."""
        named = self.stack.pop()
        callee = self.stack[-2]
        if isinstance(callee, GlobalName) and (not isinstance(named, InertDict) or named.pairs):
            self.calls.called_oddly(callee)
        self._new()

    def _build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, GlobalName):
            self.calls.state_set(target)
            return
        if isinstance(target, Opaque):
            self.calls.state_refused(target)
            return
        if not hasattr(target, "set_state"):
            raise UnreadableFile(f"gives a {type_name(target)} a state, which no program saves")
        try:
            target.set_state(state)
        except UnreadableFile:
            self.calls.state_refused(target)
            raise

    def _dict(self) -> None:
        items = self.pop_mark()
        self.append(InertDict().fill(zip(items[::2], items[1::2], strict=True)))

    def _frozenset(self) -> None:
        items = self.pop_mark()  # it changes where things are appended
        self.append(InertObject("frozenset", (), items=items))

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **dict.fromkeys(range(256), _refuse),
        **_STANDARD,
        **{code: partial(_step_within, code) for code in _NUMBERS + _TEXTS},
        pickle.EXT1[0]: partial(_refuse_extension, 1),
        pickle.EXT2[0]: partial(_refuse_extension, 2),
        pickle.EXT4[0]: partial(_refuse_extension, 4),
        pickle.PROTO[0]: _protocol,
        pickle.FRAME[0]: _frame,
        pickle.BYTEARRAY8[0]: _STANDARD[pickle.BINBYTES8[0]],
        pickle.EMPTY_DICT[0]: lambda machine: machine.append(InertDict()),
        pickle.DICT[0]: _dict,
        pickle.EMPTY_SET[0]: lambda machine: machine.append(InertObject("set", ())),
        pickle.FROZENSET[0]: _frozenset,
        pickle.REDUCE[0]: _reduce,
        pickle.NEWOBJ[0]: _new,
        pickle.NEWOBJ_EX[0]: _new_with_names,
        pickle.BUILD[0]: _build,
        pickle.STACK_GLOBAL[0]: _stack_global,
    }


InertUnpickler.dispatch |= {
    code[0]: partial(_keep_and_step, InertUnpickler.dispatch[code[0]], count)
    for code, count in _KEEPING.items()
}


def type_name(node: Any) -> str:
    """The name of a thing's type; for a call, the name of what would have been called."""
    match node:
        case InertObject():
            return node.callee
        case InertDict():  # a state dict is one to its reader
            return "dict" if node.name == "collections.OrderedDict" else node.name
        case GlobalName():
            return str(node)
        case None:
            return "None"
    return str(getattr(node, "type_name", type(node).__name__))


def is_container(node: Any) -> bool:
    """Whether there can be tensors of the model inside; an optimiser only repeats them. A module
    that averages is kept with the optimisers. A set has no order, so its tensors have no names."""
    if isinstance(node, InertObject):
        if isinstance(node, Opaque) or node.callee in _SETS:
            return False
        averages = node.callee == "torch.optim.swa_utils.AveragedModel"
        return averages or not node.callee.startswith("torch.optim.")
    return isinstance(node, (InertDict, list, tuple))


def members(node: Any) -> Iterator[tuple[str, Any]]:
    """The things in a container with their names; a saved module names them as its state dict."""
    if isinstance(node, InertDict):
        yield from ((key_text(k), v) for k, v in node.pairs)
    elif isinstance(node, Opaque):
        return
    elif isinstance(node, InertObject):
        yield from ((str(i), v) for i, v in enumerate(node.items))
        yield from ((key_text(k), v) for k, v in node.pairs)
        for state in node.state if isinstance(node.state, tuple) else (node.state,):
            yield from _members_of_state(state)
    elif isinstance(node, (list, tuple)):
        yield from ((str(i), v) for i, v in enumerate(node))


def _members_of_state(state: Any) -> Iterator[tuple[str, Any]]:
    if not is_container(state):
        return
    module = isinstance(state, InertDict) and isinstance(state.get("_parameters"), InertDict)
    for name, value in members(state):
        if module and name in _OF_MODULE and isinstance(value, InertDict):
            yield from members(value)
        else:
            yield name, value


def key_text(key: Any) -> str:
    if isinstance(key, str):
        return key[: limits.NAME + 1]  # many names may be made of one long key
    if key is None or isinstance(key, (bool, int, float)):
        return str(key)
    if isinstance(key, bytes):
        return key[: limits.NAME + 1].decode("latin-1")
    return f"<{type_name(key)}>"
