"""The forms in which libraries write the calls of `harmless_names.MADE` into a pickle.

A name on that list is harmless with the arguments that its library writes; with others it may give
anything, such as numbers of another type, or a type of numbers with which bytes of the file become
addresses. Such a call is named, and nothing is read of its result. What makes tensors, arrays and
containers is judged where these are rebuilt (`pickled_tensors`, `pickled_arrays`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any

from dgn_engine.storage.checkpoints.harmless_names import LOADS_BYTES, may_be_kept
from dgn_engine.storage.checkpoints.pickle_file import GlobalName, InertObject, Opaque

_MOST = 16  # parts of an argument
_RANDOM = "numpy.random._pickle."
_GENERATOR = f"{_RANDOM}__bit_generator_ctor"
_SEED = "numpy.random.bit_generator.__pyx_unpickle_SeedSequence"
# Objects that are made without arguments and then take a dictionary of attributes.
_WITH_ATTRIBUTES = (
    *("torch.nn.modules.", "torch.nn.parallel.", "torch.nn.utils.", "torch.optim."),
    "uuid.UUID",
)
_WITH_STATE = (_RANDOM, _SEED, *_WITH_ATTRIBUTES)  # or one of another form, as generators have


def result_of(name: GlobalName, arguments: tuple[Any, ...]) -> InertObject:
    """Return what stands for the result of a name that may be called: an object that takes a state,
    or a value. Raises `UnreadableFile` for a module of torch with arguments."""
    text = str(name)
    if text.startswith("torch.nn.modules.") or (text.startswith(_WITH_STATE) and not arguments):
        return InertObject.of(name, arguments)
    written = _FORMS.get(text, _are_plain)(arguments)
    if written and text.startswith(_WITH_STATE):
        return InertObject.of(name, arguments)
    return Opaque(text, arguments, odd=not written)


def takes_attributes(kind: GlobalName) -> bool:
    """Whether an object of a class is one without arguments and with attributes."""
    return str(kind).startswith(_WITH_ATTRIBUTES)


def _are_plain(arguments: tuple[Any, ...]) -> bool:
    """Whether all are values as pickle writes them, or what makes such values out of others."""
    return len(arguments) <= _MOST and all(map(_is_plain, arguments))


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= _MOST and all(isinstance(part, _SCALARS) for part in value)
    return isinstance(value, _SCALARS) or (isinstance(value, Opaque) and not value.odd)


_SCALARS = (NoneType, bool, int, float, str, bytes)


def _is_of_items(arguments: tuple[Any, ...]) -> bool:
    return arguments == () or (len(arguments) == 1 and type(arguments[0]) in (list, tuple))


def _is_of_bytes(arguments: tuple[Any, ...]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], (bytes, str))


def _is_of_generator(arguments: tuple[Any, ...]) -> bool:
    """Whether it is the name or the class of a generator of bits, which is called without
    arguments: one of NumPy's, or one that is named."""
    match arguments:
        case (str(),):
            return True
        case (GlobalName() as kind,):
            return kind.module.startswith("numpy.random.") or not may_be_kept(kind)
    return arguments == ()


def _is_of_bits(arguments: tuple[Any, ...]) -> bool:
    """Whether it is (generator of bits, perhaps what makes it out of a name)."""
    if not arguments or len(arguments) > 2:
        return False
    bits, *maker = arguments
    made = isinstance(bits, InertObject) and bits.callee == _GENERATOR
    return (made or isinstance(bits, str)) and all(
        isinstance(one, GlobalName) and (str(one) == _GENERATOR or not may_be_kept(one))
        for one in maker
    )


def _is_of_seed(arguments: tuple[Any, ...]) -> bool:
    match arguments:
        case (GlobalName() as kind, int(), None | tuple()):
            return kind.module == "numpy.random.bit_generator" or not may_be_kept(kind)
    return False


_FORMS: dict[str, Callable[[tuple[Any, ...]], bool]] = {
    "builtins.frozenset": _is_of_items,
    "builtins.object": lambda arguments: not arguments,
    "builtins.set": _is_of_items,
    LOADS_BYTES: _is_of_bytes,
    _GENERATOR: _is_of_generator,
    f"{_RANDOM}__generator_ctor": _is_of_bits,
    f"{_RANDOM}__randomstate_ctor": _is_of_bits,
    _SEED: _is_of_seed,
}
