"""Read a pickle into inert objects: nothing is imported, called or given attributes.

The machine is that of the standard library, in pure Python. Only those steps are replaced that
would look up a name, call something, hash a key, or reserve memory for what the file merely
announces.

What a hostile pickle tries, and what stops it:

- code (GLOBAL, REDUCE, NEWOBJ, INST, OBJ, BUILD): `find_class` returns a `GlobalName`, a call
  results in an `InertObject`, and only that takes a state; `NoCalls` is notified of each, and of
  each name that becomes part of something
- a length that the file does not have (BYTEARRAY8, BINBYTES8, LONG4, BINUNICODE8): `read` compares
  it with the remaining bytes before anything is allocated
- keys that hash very slowly, or collide: `InertDict` keeps pairs and compares only what is quick to
  hash; sets are inert as well
- what Python would read differently from what is shown here: a key set twice (also as 1 and True),
  a second state, an item of an object that is not a list or dictionary, a state for a tensor, byte
  strings of Python 2 as keys: refused
- memo index 2^32: the memo is a dictionary
- arguments that the library would not write, and the results of such calls: `Opaque`, which holds
  nothing whatever it was called with
- endless steps, long numbers, much text: `limits.OPERATIONS`, `INTEGER`, `PICKLE`, each before
  anything is allocated
- one large text or table copied by many calls: `limits.copy_limit`
- shared nested tuples, lists that contain themselves: nothing here walks them; see `tensor_tree`
- extensions (named by number), text references, buffers outside the pickle, protocols after 5:
  refused
- one long key under very many names: `key_text` cuts it; see `tensor_tree` for long paths
- anything else that takes memory or time: the limits of the process (`confinement`)
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
from dgn_engine.text.printable import plain_text

_LATEST = 5  # protocol
_ARGUMENTS = 100  # counted arguments of a call; no call that copies takes as many
_LINE = 4096  # bytes of an argument that ends with its line
_OF_MODULE = ("_parameters", "_buffers", "_modules")
_OF_KEY = 16  # compared parts of a key
_MODULES = ("torch.nn.modules.", "torch.nn.parallel.")
# Classes whose objects are never a list or dictionary that pickle would fill, and which pickle
# never calls with arguments by NEWOBJ: torch and numpy write theirs with the other instructions.
_NOT_FILLED = (
    *("torch.", "numpy.", "builtins.", "types.", "argparse.", "datetime.", "frozenset"),
    *("decimal.", "fractions.", "pathlib.", "uuid."),
)
_WITHOUT_ARGUMENTS = ("builtins.", "collections.", "types.", "argparse.", *_MODULES)
_WITH_ARGUMENTS = "builtins.complex"  # the only Python class that has some there
_SETS = ("set", "frozenset")


@dataclass(frozen=True, slots=True)
class GlobalName:
    """The name of a class or function; it is not imported and cannot be called."""

    module: str
    name: str

    def __str__(self) -> str:
        module = "builtins" if self.module == "__builtin__" else self.module  # of Python 2
        return f"{module}.{self.name}"


class ByteString(bytes):
    """A non-ASCII string of Python 2: its text depends on who reads it."""


Mark = str | bytes | int | tuple[Any, ...] | None


def key_mark(key: Any) -> Mark:
    """Return a mark that is quick to hash and equal for keys that are equal in Python.

    1, True and 1.0 share one; keys that only their classes can compare give `()`.
    """
    if isinstance(key, ByteString):
        raise UnreadableFile("has a key that is not plain text and can be read in several ways")
    if isinstance(key, (list, InertDict)) or (isinstance(key, InertObject) and key.callee == "set"):
        raise UnreadableFile(f"has a {type_name(key)} as a key, which no program can write")
    if key is None or isinstance(key, (str, bytes)):
        return key
    if isinstance(key, float):
        if not key.is_integer():
            return ("float", key.hex())
        key = int(key)
    if isinstance(key, int):
        return int(key) if abs(key) < 1 << 60 else ("int", hex(key))  # hashes of others repeat
    if isinstance(key, tuple) and len(key) <= _OF_KEY:
        marks = [key_mark(part) for part in key if not isinstance(part, tuple)]
        return ("tuple", *marks) if len(marks) == len(key) and () not in marks else ()
    return ()


@dataclass(eq=False, slots=True)
class InertDict:
    """A dictionary as pairs, because hashing a hostile key can take very long.

    `marks`: the marks of its keys, once one was set.
    """

    pairs: list[tuple[Any, Any]] = field(default_factory=list)
    name: str = "dict"
    marks: set[Mark] | None = None

    def __setitem__(self, key: Any, value: Any) -> None:
        _add_pair(self, key, value)

    def set_pairs(self, pairs: Iterable[tuple[Any, Any]]) -> InertDict:
        for key, value in pairs:
            self[key] = value
        return self

    def get(self, wanted: str) -> Any:
        for key, value in reversed(self.pairs):
            if type(key) is str and key == wanted:
                return value
        return None

    def set_state(self, state: Any) -> None:
        """Ignore the attributes of an `OrderedDict`, such as the `_metadata` of a state dict."""
        sound = self.name == "collections.OrderedDict" and isinstance(state, InertDict)
        pairs = state.pairs[:_ARGUMENTS] if sound else []
        named = all(type(key) is str and not hasattr(OrderedDict, key) for key, _ in pairs)
        if not sound or not named or len(pairs) < len(state.pairs):
            raise UnreadableFile("gives a dictionary a state that pickle never writes")


@dataclass(eq=False, slots=True)
class InertObject:
    """The result of a call that did not happen: its function, arguments and contents.

    The machine fills lists, sets and dictionaries through these methods, in pickle's order: items
    first, then one state.
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
        """Raise `UnreadableFile` if nothing more may be put into it."""
        if self.state is not None or self.callee.startswith(_NOT_FILLED):
            raise UnreadableFile(
                f"changes an object after creating it ({plain_text(self.callee, 80)}), "
                "which no program does when saving"
            )

    def set_state(self, state: Any) -> None:
        """Set the state that pickle writes after the items; raises `UnreadableFile`."""
        odd = self.callee.startswith(("torch.", "uuid.")) and not isinstance(state, InertDict)
        if odd or self.state is not None:
            raise UnreadableFile(
                f"gives an object ({plain_text(self.callee, 80)}) a state that no program saves"
            )
        self.state = state

    @staticmethod
    def from_call(name: GlobalName, arguments: tuple[Any, ...]) -> InertObject:
        """Return an object that takes a state.

        Raises:
            UnreadableFile: It is a torch module with arguments, which torch never saves like this.
        """
        if arguments and str(name).startswith(_MODULES):
            raise UnreadableFile(
                f"creates {plain_text(str(name), 80)} in a way that torch never does"
            )
        return InertObject(str(name), arguments)


def _add_pair(thing: InertDict | InertObject, key: Any, value: Any) -> None:
    """Add a pair; raise `UnreadableFile` if the key exists, as its first value would be lost."""
    if thing.marks is None:
        thing.marks = {key_mark(known) for known, _ in thing.pairs}
    mark = key_mark(key)
    if mark in thing.marks and mark != ():
        raise UnreadableFile("has a dictionary that sets one key twice, which no program does")
    thing.marks.add(mark)
    thing.pairs.append((key, value))


class Opaque(InertObject):
    """The result of a call that is not read: a value, or something unknown.

    It takes no state. `odd`: the library itself never writes these arguments.
    """

    __slots__ = ("odd",)

    def __init__(self, callee: str, arguments: Any, *, odd: bool = False) -> None:
        super().__init__(callee, arguments)
        self.odd = odd

    def check_filling(self) -> None:
        raise UnreadableFile(
            f"changes a value after creating it ({plain_text(self.callee, 80)}), which no "
            "program does when saving"
        )


class NoCalls:
    """Notified of what loading a pickle would name, call and change; `CallRecorder` records it.

    `room`: instructions that may still be read, over all pickles that report to it.
    """

    def __init__(self) -> None:
        self.room = limits.OPERATIONS

    def note_global(self, name: GlobalName) -> None:
        """Called when a global is named, so that its module would be imported."""

    def note_stored(self, value: GlobalName) -> None:
        """Called when a global becomes a value: an argument, an item, part of a state."""

    def note_call(self, callee: Any, arguments: Any) -> None:
        """Called when something would be called with these arguments."""

    def note_odd_call(self, callee: GlobalName) -> None:
        """Called for a call with arguments that its library never writes."""

    def note_passed(self, arguments: Any) -> None:
        """Called with what is passed to the lookup of a persistent reference."""

    def note_state_set(self, target: GlobalName) -> None:
        """Called when a global itself would be given a state."""

    def note_state_refused(self, target: Any) -> None:
        """Called when an object would be given a state that its library never writes."""


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
    """Return the tree of the pickle at `start`, and the position after the pickle.

    Args:
        build: Returns a stand-in for the result of a call, from its name and arguments.
        persistent: Returns a stand-in for a persistent reference, from its id.
        calls: Notified of every call and name, including those before a refusal.
        most_text: Bytes of text allowed; `limits.PICKLE` by default. Python 2 pickles arrays as
            text.

    Raises:
        UnreadableFile: It is damaged or refused.
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
    ):  # the stack, the memo or a text lacks what an instruction needs
        raise UnreadableFile("has a damaged pickle") from None


def inert_reference(reference: Any) -> Any:
    """Return a stand-in for a persistent reference in a pickle that is only scanned."""
    return InertObject("a reference", reference if isinstance(reference, tuple) else ())


def _refuse_opcode(_: InertUnpickler) -> None:
    raise UnreadableFile("has a pickle with instructions that no checkpoint needs")


def _refuse_extension(length: int, machine: InertUnpickler) -> None:
    """Refuse an extension: its number stands for a name only in the program that wrote it."""
    code = int.from_bytes(machine.read(length), "little", signed=length == 4)
    raise UnreadableFile(
        f"has a pickle with the registered extension {code}, which no checkpoint needs and which "
        "is unknown here"
    )


_NUMBERS = pickle.INT + pickle.LONG + pickle.LONG1 + pickle.LONG4
_TEXTS = b"".join(
    (
        *(pickle.STRING, pickle.BINSTRING, pickle.SHORT_BINSTRING, pickle.UNICODE),
        *(pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINUNICODE8),
    )
)
_REFUSED = ("EXT1", "EXT2", "EXT4", "PERSID", "NEXT_BUFFER", "READONLY_BUFFER")
_STANDARD: dict[int, Callable[[Any], None]] = {  # a later protocol may add steps that do more
    ord(known.code): pickle._Unpickler.dispatch[ord(known.code)]
    for known in pickletools.opcodes
    if known.proto <= 5 and known.name not in _REFUSED
}


def _step_within(code: int, machine: InertUnpickler) -> None:
    """Run a standard step whose number or text is limited before it is read."""
    machine.within = code
    _STANDARD[code](machine)
    machine.within = 0


# Steps that put values from the stack into something else → how many; None: all above the mark.
_KEEPING: dict[bytes, int | None] = {
    **dict.fromkeys((pickle.TUPLE1, pickle.APPEND, pickle.BUILD, pickle.BINPERSID), 1),
    **dict.fromkeys((pickle.TUPLE2, pickle.SETITEM), 2),
    pickle.TUPLE3: 3,
    **dict.fromkeys((pickle.TUPLE, pickle.LIST, pickle.DICT, pickle.FROZENSET)),
    **dict.fromkeys((pickle.APPENDS, pickle.SETITEMS, pickle.ADDITEMS)),
}


def _keep_and_step(step: Callable[[Any], None], count: int | None, machine: InertUnpickler) -> None:
    """Report the globals that a step takes from the stack, then run it."""
    machine.note_values(machine.stack if count is None else machine.stack[-count:])
    step(machine)


class InertUnpickler(pickle._Unpickler):
    """The standard machine, with inert objects instead of imported names and calls.

    Attributes:
        build, persistent, calls: As for `read_pickle`.
        at: Position of the next byte.
        within: Opcode of the number or text being read, or 0.
        text: Bytes of text so far.
        copied: Bytes copied by calls.
        protocol: The pickle's latest statement of its protocol.
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
        """Read up to the end of the pickle, in a limited number of steps."""
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
                    "has more text in its pickle than any checkpoint needs", kind="too-long"
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
        if self.protocol < 3:  # a Python 2 name, such as commands.Popen for subprocess.Popen
            renamed = _compat_pickle.NAME_MAPPING.get((module, name))
            module = _compat_pickle.IMPORT_MAPPING.get(module, module)
            module, name = renamed or (module, name)
        global_name = GlobalName(module, name)
        self.calls.note_global(global_name)
        return global_name

    def _stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if type(name) is str and type(module) is str:
            self.append(self.find_class(module, name))
            return
        words = (word if type(word) is str else "(computed)" for word in (module, name))
        self.find_class(*words)
        raise UnreadableFile("has a pickle that computes a name, which no checkpoint needs")

    def persistent_load(self, pid: Any) -> Any:
        self.calls.note_passed(pid)
        return self.persistent(pid)

    def note_values(self, values: list[Any]) -> None:
        """Report the globals among values that become part of something."""
        for value in values:
            if type(value) is GlobalName:
                self.calls.note_stored(value)

    def record_call(self, callee: Any, arguments: Any) -> Any:
        """Return a stand-in for the result of a call; nothing is called."""
        self.calls.note_call(callee, arguments)
        if isinstance(callee, GlobalName) and not isinstance(arguments, tuple):
            self.calls.note_odd_call(callee)
        elif isinstance(callee, GlobalName):
            self._count_copies(arguments)
            result = self.build(callee, arguments)
            if isinstance(result, Opaque) and result.odd:
                self.calls.note_odd_call(callee)
            return result
        return Opaque(type_name(callee), arguments, odd=True)

    def _count_copies(self, arguments: tuple[Any, ...]) -> None:
        """Refuse a pickle that has the same text or table copied over and over."""
        for argument in arguments[:_ARGUMENTS]:
            if isinstance(argument, (str, bytes)):
                self.copied += len(argument)
            elif isinstance(argument, (tuple, list)):
                self.copied += limits.COPIED_ITEM * len(argument)
            elif isinstance(argument, InertDict):
                self.copied += limits.COPIED_ITEM * len(argument.pairs)
        if self.copied > limits.copy_limit(len(self.content)):
            raise UnreadableFile("copies its text or tables over and over, and was refused")

    def _protocol(self) -> None:
        self.protocol = self.read(1)[0]  # otherwise the instructions are clear enough
        if self.protocol > _LATEST:
            raise pickle.UnpicklingError

    def _frame(self) -> None:
        """Only check the frame's length: its content is read as it comes."""
        if int.from_bytes(self.read(8), "little") > len(self.content) - self.at:
            raise pickle.UnpicklingError

    def _instantiate(self, callee: Any, arguments: list[Any]) -> None:  # INST and OBJ use it
        self.note_values(arguments)
        self.append(self.record_call(callee, tuple(arguments)))

    def _reduce(self) -> None:
        arguments = self.stack.pop()
        self.append(self.record_call(self.stack.pop(), arguments))

    def _new(self) -> None:
        """Handle NEWOBJ, which calls only a class's `__new__`; containers ignore its arguments."""
        arguments, callee = self.stack[-1], self.stack[-2]
        self._reduce()
        result = self.stack[-1]
        inert = type(result) in (InertObject, Opaque) and result.arguments is arguments
        name = type_name(callee)
        without = name.startswith(_WITHOUT_ARGUMENTS) and name != _WITH_ARGUMENTS
        if arguments and (not inert or without):
            raise UnreadableFile(f"creates {plain_text(name, 80)} in a way that no program would")

    def _new_with_names(self) -> None:
        """Handle NEWOBJ_EX: keywords allow more than positions: torch.Tensor takes an address."""
        named = self.stack.pop()
        callee = self.stack[-2]
        if isinstance(callee, GlobalName) and (not isinstance(named, InertDict) or named.pairs):
            self.calls.note_odd_call(callee)
        self._new()

    def _build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if isinstance(target, GlobalName):
            self.calls.note_state_set(target)
            return
        if isinstance(target, Opaque):
            self.calls.note_state_refused(target)
            return
        if not hasattr(target, "set_state"):
            raise UnreadableFile(f"gives a {type_name(target)} a state, which no program does")
        try:
            target.set_state(state)
        except UnreadableFile:
            self.calls.note_state_refused(target)
            raise

    def _dict(self) -> None:
        items = self.pop_mark()
        self.append(InertDict().set_pairs(zip(items[::2], items[1::2], strict=True)))

    def _frozenset(self) -> None:
        items = self.pop_mark()  # this changes where values are appended
        self.append(InertObject("frozenset", (), items=items))

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **dict.fromkeys(range(256), _refuse_opcode),
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
    """Return the name of a node's type; for a call, the name of what would have been called."""
    match node:
        case InertObject():
            return node.callee
        case InertDict():  # a state dict looks like a dict to its reader
            return "dict" if node.name == "collections.OrderedDict" else node.name
        case GlobalName():
            return str(node)
        case None:
            return "None"
    return str(getattr(node, "type_name", type(node).__name__))


def is_container(node: Any) -> bool:
    """Return whether a node can contain tensors of the model.

    Optimisers only repeat them, except for the averaging module stored among them. A set has no
    order, so its tensors have no names.
    """
    if isinstance(node, InertObject):
        if isinstance(node, Opaque) or node.callee in _SETS:
            return False
        averages = node.callee == "torch.optim.swa_utils.AveragedModel"
        return averages or not node.callee.startswith("torch.optim.")
    return isinstance(node, (InertDict, list, tuple))


def members_of(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the contents of a container by name; a saved module names them as its state dict."""
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
    for name, value in members_of(state):
        if module and name in _OF_MODULE and isinstance(value, InertDict):
            yield from members_of(value)
        else:
            yield name, value


def key_text(key: Any) -> str:
    if isinstance(key, str):
        return key[: limits.NAME + 1]  # many names may be made from one long key
    if key is None or isinstance(key, (bool, int, float)):
        return str(key)
    if isinstance(key, bytes):
        return key[: limits.NAME + 1].decode("latin-1")
    return f"<{type_name(key)}>"
