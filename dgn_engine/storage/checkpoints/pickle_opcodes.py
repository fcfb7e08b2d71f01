"""What each instruction of a pickle does: with lists, tables, numbers, text and nothing else."""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

from dgn_engine.storage.checkpoints import limits
from dgn_engine.storage.checkpoints.contents import UnreadableFile
from dgn_engine.storage.checkpoints.inert_objects import GlobalName, InertDict, InertObject
from dgn_engine.storage.checkpoints.pickle_machine import PickleMachine


def stop(_: PickleMachine) -> None:
    """The end; `read_pickle` looks for it."""


def _push(make: Callable[[PickleMachine], Any]) -> Callable[[PickleMachine], None]:
    def step(m: PickleMachine) -> None:
        made = make(m)  # first: it may bring another stack back
        m.stack.append(made)

    return step


def _tuple_of(count: int) -> Callable[[PickleMachine], None]:
    def step(m: PickleMachine) -> None:
        items = tuple(m.stack[-count:])
        if len(items) != count:
            raise IndexError
        m.stack[-count:] = [items]

    return step


def _remember(place: Callable[[PickleMachine], int]) -> Callable[[PickleMachine], None]:
    def step(m: PickleMachine) -> None:
        m.memo[place(m)] = m.stack[-1]

    return step


def _mark(m: PickleMachine) -> None:
    m.marks.append(m.stack)
    m.stack = []


def _pop(m: PickleMachine) -> None:
    m.stack.pop() if m.stack else m.to_mark()


def _append(m: PickleMachine) -> None:
    _extend(m, [m.stack.pop()])


def _appends(m: PickleMachine) -> None:
    _extend(m, m.to_mark())


def _extend(m: PickleMachine, items: list[Any]) -> None:
    target = m.stack[-1]
    if isinstance(target, list):
        target.extend(items)
    elif isinstance(target, InertObject):
        target.items.extend(items)


def _set_item(m: PickleMachine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    _update(m, [(key, value)])


def _set_items(m: PickleMachine) -> None:
    _update(m, _paired(m.to_mark()))


def _update(m: PickleMachine, pairs: list[tuple[Any, Any]]) -> None:
    target = m.stack[-1]
    if isinstance(target, (InertDict, InertObject)):
        target.pairs.extend(pairs)


def _paired(items: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(items[::2], items[1::2], strict=True))


def _global(m: PickleMachine) -> GlobalName:
    module = m.line()
    return GlobalName(module, m.line())


def _stack_global(m: PickleMachine) -> GlobalName:
    name, module = m.stack.pop(), m.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise TypeError
    return GlobalName(module, name)


def _reduce(m: PickleMachine) -> Any:
    arguments = m.stack.pop()
    return m.call(m.stack.pop(), arguments)


def _new_with_names(m: PickleMachine) -> Any:
    named, arguments = m.stack.pop(), m.stack.pop()
    made = m.call(m.stack.pop(), arguments)
    if isinstance(made, InertObject) and isinstance(named, InertDict):
        made.pairs.extend(named.pairs)
    return made


def _instance(m: PickleMachine) -> Any:
    maker = _global(m)
    return m.call(maker, tuple(m.to_mark()))


def _object(m: PickleMachine) -> Any:
    maker, *arguments = m.to_mark()
    return m.call(maker, tuple(arguments))


def _build(m: PickleMachine) -> None:
    state = m.stack.pop()
    if isinstance(target := m.stack[-1], InertObject):
        target.state = state


def _whole(m: PickleMachine, length: int) -> int:
    if length > limits.INTEGER:
        raise UnreadableFile("has a pickle with a number of unreasonable length")
    return int.from_bytes(m.take(length), "little", signed=True)


def _decimal(m: PickleMachine) -> int | bool:
    text = m.line().removesuffix("L")
    if len(text) > limits.INTEGER:
        raise UnreadableFile("has a pickle with a number of unreasonable length")
    return text == "01" if text in ("00", "01") else int(text)


def _quoted(m: PickleMachine) -> str:
    text = m.line()
    if len(text) < 2 or text[0] not in "'\"" or text[-1] != text[0]:
        raise ValueError
    return text[1:-1]


def _escaped(m: PickleMachine) -> str:
    return m.line().encode("latin-1", "replace").decode("raw_unicode_escape", "replace")


_INSTRUCTIONS: dict[str, Callable[[PickleMachine], None]] = {
    "STOP": stop,
    "PROTO": lambda m: _nothing(m.take(1)),
    "FRAME": lambda m: _nothing(m.take(8)),
    "MARK": _mark,
    "POP": _pop,
    "POP_MARK": lambda m: _nothing(m.to_mark()),
    "DUP": lambda m: m.stack.append(m.stack[-1]),
    "NONE": _push(lambda _: None),
    "NEWTRUE": _push(lambda _: True),
    "NEWFALSE": _push(lambda _: False),
    "INT": _push(_decimal),
    "LONG": _push(_decimal),
    "BININT": _push(lambda m: m.number("<i")),
    "BININT1": _push(lambda m: m.number("<B")),
    "BININT2": _push(lambda m: m.number("<H")),
    "LONG1": _push(lambda m: _whole(m, m.number("<B"))),
    "LONG4": _push(lambda m: _whole(m, m.number("<i"))),
    "FLOAT": _push(lambda m: float(m.line())),
    "BINFLOAT": _push(lambda m: m.number(">d")),
    "UNICODE": _push(_escaped),
    "BINUNICODE": _push(lambda m: m.words(m.number("<I"))),
    "SHORT_BINUNICODE": _push(lambda m: m.words(m.number("<B"))),
    "BINUNICODE8": _push(lambda m: m.words(m.number("<Q"))),
    # Text of Python 2: names, or bytes of an array; latin-1 keeps both.
    "STRING": _push(_quoted),
    "BINSTRING": _push(lambda m: m.words(m.number("<i"), "latin-1")),
    "SHORT_BINSTRING": _push(lambda m: m.words(m.number("<B"), "latin-1")),
    "BINBYTES": _push(lambda m: m.take(m.number("<I"))),
    "SHORT_BINBYTES": _push(lambda m: m.take(m.number("<B"))),
    "BINBYTES8": _push(lambda m: m.take(m.number("<Q"))),
    "BYTEARRAY8": _push(lambda m: m.take(m.number("<Q"))),
    "EMPTY_TUPLE": _push(lambda _: ()),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "TUPLE": _push(lambda m: tuple(m.to_mark())),
    "EMPTY_LIST": _push(lambda _: []),
    "LIST": _push(lambda m: m.to_mark()),
    "APPEND": _append,
    "APPENDS": _appends,
    "EMPTY_DICT": _push(lambda _: InertDict()),
    "DICT": _push(lambda m: InertDict(_paired(m.to_mark()))),
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "EMPTY_SET": _push(lambda _: InertObject("set", ())),
    "ADDITEMS": _appends,
    "FROZENSET": _push(lambda m: InertObject("frozenset", (), items=m.to_mark())),
    "GET": _push(lambda m: m.memo[int(m.line())]),
    "BINGET": _push(lambda m: m.memo[m.number("<B")]),
    "LONG_BINGET": _push(lambda m: m.memo[m.number("<I")]),
    "PUT": _remember(lambda m: int(m.line())),
    "BINPUT": _remember(lambda m: int(m.number("<B"))),
    "LONG_BINPUT": _remember(lambda m: int(m.number("<I"))),
    "MEMOIZE": _remember(lambda m: len(m.memo)),
    "GLOBAL": _push(_global),
    "STACK_GLOBAL": _push(_stack_global),
    "REDUCE": _push(_reduce),
    "NEWOBJ": _push(_reduce),
    "NEWOBJ_EX": _push(_new_with_names),
    "INST": _push(_instance),
    "OBJ": _push(_object),
    "BUILD": _build,
    "BINPERSID": _push(lambda m: m.persistent(m.stack.pop())),
}


def _nothing(_: object) -> None:
    """What a pickle says of itself is not needed."""


# Left out: the registry of extensions, persistent names as text, buffers outside the pickle.
STEPS = {
    ord(known.code): _INSTRUCTIONS[known.name]
    for known in pickletools.opcodes
    if known.name in _INSTRUCTIONS
}
