"""State outside a module that its code can reach: compared after a pass, and restored.

A copy of a module still shares globals, closures, default arguments and class attributes with the
original. For example, a global list of auxiliary losses that a copy appends to would reach the loss
of the user's next step.
"""

from __future__ import annotations

import dis
import functools
import random
import sys
import threading
from argparse import Namespace
from collections import ChainMap, OrderedDict, UserDict, UserList, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from importlib.util import resolve_name
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    GeneratorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.quasirandom import SobolEngine

from dgn_engine.attachment.isolation import defer_signals
from dgn_engine.model.adapt.module_draws import is_same_state
from dgn_engine.model.adapt.plain_access import (
    class_attributes,
    class_module,
    class_name,
    copies_itself,
    instance_attributes,
    is_installed,
    is_kind,
    is_library,
    lookup_attribute,
    mro,
    slot_descriptors,
)

MOST = 50_000  # objects compared
MOST_BYTES = 1 << 26  # of tensors and arrays copied; beyond that, versions are compared
OWNERS = ("_trainer", "_fabric")  # attributes of Lightning modules that are not copied
_CONTAINERS = (list, OrderedDict, dict, set, deque, bytearray)
_CALLED = (FunctionType, staticmethod, classmethod, property, functools.cached_property)
_CODE = (*_CALLED, type, ModuleType, functools.partialmethod, functools._lru_cache_wrapper)
_HOLDERS = (SimpleNamespace, Namespace, UserDict, UserList, ChainMap, SobolEngine, threading.local)
_RUN = ("forward", "backward", "setup_context")  # methods that torch calls
_OF_MODULES = frozenset(dir(nn.Module))  # torch calls overrides of these
_CACHES = frozenset(["__slotnames__", "__annotations__", "__annotations_cache__"])  # of Python's
_OF_ENUMS = frozenset(["_value2member_map_", "_member_map_"])  # these grow when flags are combined
# Modules whose objects belong to several threads or processes, or represent work handed to others:
# the effect of a pass on them can be neither compared nor undone.
_SHARED = frozenset(
    [
        *("_thread", "threading", "queue", "_queue", "concurrent", "multiprocessing"),
        *("_multiprocessing", "asyncio", "_asyncio", "socket", "_socket", "subprocess"),
        *("select", "selectors"),
    ]
)
_ASKING = frozenset(
    [
        *("get_ident", "get_native_id", "current_thread", "main_thread", "active_count"),
        *("current_process", "parent_process", "cpu_count", "get_start_method"),
    ]
)
_ABSENT = object()
_PYTHON, _NUMPY = random._inst, np.random.mtrand._rand
_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)


class StateChangedError(Exception):
    """Raised when a pass of a copied module changes state outside it, or could not avoid it."""


@dataclass(frozen=True)
class _StatePart:
    """One piece of state: its name, whether it is unchanged, and how to restore it."""

    name: str
    is_same: Callable[[], bool]
    put_back: Callable[[], object]
    installed: bool  # it belongs to an installed package, such as a cache that is filled once


class _Visit(NamedTuple):
    """An object to visit.

    `names`: the names used by the code that reaches it. `installed`: whether that code belongs to
    an installed package. `copied`: whether the copy of the module has its own object instead.
    """

    name: str
    value: object
    names: frozenset[str]
    installed: bool
    copied: bool


class KeptState:
    """A record of state; `restore` puts back what has changed since.

    Attributes:
        installed: Whether the parts tracked from now on belong to an installed package.
    """

    def __init__(self) -> None:
        self.installed = False
        self._parts: list[_StatePart] = []
        self._bytes = 0
        self._flags = {name: read() for name, (read, _) in _FLAGS.items()}

    def restore(self) -> list[str]:
        """Restore all parts that changed.

        Returns:
            The names of the parts that changed, without those of installed packages.

        Raises:
            StateChangedError: A part cannot be restored; all others are.
        """
        changed: list[str] = []
        failed: list[str] = []
        with defer_signals(), torch._C.DisableTorchFunctionSubclass():
            for part in self._parts:
                try:
                    if part.is_same():
                        continue
                    part.put_back()
                except Exception:
                    failed.append(part.name)
                else:
                    changed += () if part.installed else (part.name,)
            for name, (read, write) in _FLAGS.items():
                if read() != self._flags[name]:
                    write(self._flags[name])
                    changed.append(name)
        if failed:
            raise StateChangedError(f"the module changes {failed[0]}, which cannot be restored")
        return list(dict.fromkeys(changed))

    def track_part(
        self, name: str, is_same: Callable[[], bool], put_back: Callable[[], object]
    ) -> None:
        """Track a part of the state.

        Args:
            name: Its name in messages.
            is_same: Whether it is unchanged.
            put_back: Restores it.
        """
        self._parts.append(_StatePart(name, is_same, put_back, self.installed))

    def track_value(
        self, name: str, read: Callable[[], object], put_back: Callable[[], object]
    ) -> None:
        """Track which object a name refers to; equal plain values count as the same object.

        Args:
            name: Its name in messages.
            read: Returns the current object.
            put_back: Restores the present one.
        """
        before = read()
        self.track_part(name, lambda: _is_value(read(), before), put_back)

    def track_container(self, name: str, value: Any) -> list[Any]:
        """Track which objects a container holds.

        Args:
            name: Its name in messages.
            value: A list, dictionary, set, deque or bytearray.

        Returns:
            Its current items.
        """
        before = _container_items(value)
        self.track_part(
            name,
            lambda: _same_items(_container_items(value), before, is_kind(value, set)),
            lambda: _refill_container(value, before),
        )
        return before

    def track_tensor(self, name: str, tensor: Tensor) -> None:
        """Track the values, the memory and the gradient of a tensor.

        Large tensors are compared by their version counter only and cannot be restored.

        Args:
            name: Its name in messages.
            tensor: A strided tensor; others are ignored.
        """
        if tensor.is_inference() or tensor.layout != torch.strided:
            return
        version, size = tensor._version, tensor.numel() * tensor.element_size()
        self.track_value(
            f"the gradient of {name}",
            lambda: tensor.grad if tensor.is_leaf else None,
            functools.partial(setattr, tensor, "grad", tensor.grad if tensor.is_leaf else None),
        )
        if not self._has_room(size):  # only detected, and only if torch counts it as in-place
            self.track_part(name, lambda: tensor._version == version, lambda: None)
            return
        alias = tensor.detach()  # the same memory, which `tensor.data = …` may replace
        copy = alias.clone()

        def restore_tensor() -> None:
            with torch.no_grad():
                if not _is_alias(tensor, alias):
                    tensor.data = alias
                alias.copy_(copy)
            restore_version()

        def restore_version() -> None:  # autograd checks it: the user's graph may be alive
            if tensor._version != version:
                torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))

        def is_same() -> bool:
            same = _is_alias(tensor, alias) and torch.equal(
                _as_byte_view(tensor.detach()), _as_byte_view(copy)
            )
            if same:
                restore_version()
            return same

        self.track_part(name, is_same, restore_tensor)

    def track_array(self, name: str, array: np.ndarray[Any, Any]) -> None:
        """Track the values of an array, unless it holds objects or is too large.

        Args:
            name: Its name in messages.
            array: The array.
        """
        if array.dtype.hasobject or not self._has_room(array.nbytes):
            return
        before = array.copy()

        def restore_array() -> None:
            if array.shape != before.shape:
                array.resize(before.shape, refcheck=False)
            np.copyto(array, before)

        self.track_part(
            name,
            lambda: array.shape == before.shape and array.tobytes() == before.tobytes(),
            restore_array,
        )

    def _has_room(self, size: int) -> bool:
        self._bytes += size
        return self._bytes <= MOST_BYTES


class ReachedState:
    """The state that a module's code can reach by name, as it is now.

    The user's functions and those of installed packages are followed, not those of torch, numpy and
    Python; so are containers, attributes, modules, tensors, arrays and random generators. Of what
    the module itself holds, which a copy has on its own, only classes and functions are followed.

    Args:
        module: The module.
        whole: Also track what the module itself holds, as is needed while it is copied.

    Attributes:
        kept: The tracked state.
        draws_of_numpy: Whether the code names numpy's global random generator.
        copies_itself: Whether an object of the module defines how it is copied.

    Raises:
        StateChangedError: The code reaches something that can be neither compared nor restored: an
            iterator, a lock, a thread, a queue and the like; or the module holds an object that
            defines `__del__`, which would also run for a copy.
    """

    def __init__(self, module: nn.Module, whole: bool = False) -> None:
        self.kept = KeptState()
        # Keeps the objects alive, so that their ids stay unique.
        self._seen: dict[tuple[int, bool], object] = {}
        self.draws_of_numpy = self.copies_itself = False
        self._whole = whole
        self._named: set[str] = set()  # names that functions use, globals or attributes
        self._unnamed: dict[str, list[_Visit]] = {}
        self._copied = not whole  # applies to the object being visited, as `kept.installed` does
        self._waiting: list[_Visit] = []
        self._enqueue_object(class_name(type(module)), module)
        self._visit_waiting()

    def add_shared(self, module: nn.Module, copy: nn.Module) -> None:
        """Also track objects that the copy shares with its module: those that return themselves as
        their own copy.

        Args:
            module: The module.
            copy: Its copy.
        """
        theirs = {key for key, copied in self._seen if copied}
        for name, value in _walk_copied_parts(copy, class_name(type(module))):
            if id(value) in theirs and not is_kind(value, _CODE):
                self.kept.installed = self._copied = False
                self._enqueue_object(name, value)
        self._visit_waiting()

    def raise_if_changed(self, when: str = "run") -> None:
        """Restore the state, and raise if any of the user's own state had changed.

        Args:
            when: What the module did, for the message: 'run' or 'copied'.

        Raises:
            StateChangedError: Something changed; it has been restored.
        """
        if changed := self.kept.restore():
            listed = ", ".join(changed[:3]) + (", …" if len(changed) > 3 else "")
            raise StateChangedError(
                f"when it is {when}, the module changes state outside itself ({listed}); "
                "this was undone"
            )

    # The walk

    def _visit_waiting(self) -> None:
        with torch._C.DisableTorchFunctionSubclass():
            while self._waiting and len(self._seen) < MOST:
                reached = self._waiting.pop()
                self.kept.installed, self._copied = reached.installed, reached.copied
                if self._copied:
                    self._visit_copied(reached.name, reached.value)
                else:
                    self._visit_value(reached.name, reached.value, reached.names)
        self._waiting.clear()

    def _enqueue_object(
        self, name: str, value: object, names: frozenset[str] = frozenset()
    ) -> None:
        if value is _NUMPY:
            self.draws_of_numpy = True
        if is_kind(value, _PLAIN) or value is _PYTHON or value is _NUMPY:
            return  # draws from the global generators are refused during the pass
        is_module = is_kind(value, ModuleType)
        copied = self._copied and not is_kind(value, _CODE)
        if is_module or (id(value), copied) not in self._seen:
            if not is_module:
                self._seen[id(value), copied] = value
            self._waiting.append(_Visit(name, value, names, self.kept.installed, copied))

    def _enqueue_class(self, kind: type) -> None:
        for base in mro(kind):
            if not is_library(class_module(base)):
                self._enqueue_object(class_name(base), base)

    def _visit_copied(self, name: str, value: Any) -> None:
        """Follow the code of an object that the copy has its own version of."""
        kind = type(value)
        if type(lookup_attribute(kind, "__del__")) not in (type(None), WrapperDescriptorType):
            raise StateChangedError(
                f"{class_name(kind)} defines __del__, which would also run for a copy"
            )
        self.copies_itself |= copies_itself(kind)
        self._enqueue_class(kind)
        if is_kind(value, MethodType):  # a copy has its own object, but the same function
            self._enqueue_object(name, value.__func__)
        elif is_kind(value, (BuiltinMethodType, MethodWrapperType)):
            self._copied = False
            self._enqueue_object(name, value.__self__)
        for attribute, part in _copied_parts(value):
            self._enqueue_object(f"{class_name(kind)}.{attribute}" if attribute else name, part)

    def _visit_value(self, name: str, value: Any, names: frozenset[str]) -> None:
        if not (self.kept.installed or self._whole) and _is_shared(value):
            raise StateChangedError(
                f"the module refers to {name} ({_kind_of(value)}), which is shared with other "
                "threads or processes: changes made there cannot be undone"
            )
        if is_kind(value, FunctionType):
            self._visit_function(name, value)
        elif is_kind(value, type):
            self._visit_class(name, value)
        elif is_kind(value, ModuleType):
            self._visit_module(value, names)
        elif is_kind(value, MethodType):
            self._enqueue_object(name, value.__func__)
            self._enqueue_object(name, value.__self__)
        elif is_kind(value, (BuiltinMethodType, MethodWrapperType)):
            self._enqueue_object(name, value.__self__)
        elif is_kind(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._enqueue_object(name, part)
        elif is_kind(value, (staticmethod, classmethod)):
            self._enqueue_object(name, value.__func__)
        elif is_kind(value, (functools.cached_property, functools.partialmethod)):
            self._enqueue_object(name, value.func)
        elif is_kind(value, property):
            for part in (value.fget, value.fset):
                self._enqueue_object(name, part)
        elif is_kind(value, functools._lru_cache_wrapper):
            self._enqueue_object(name, value.__wrapped__)
        elif is_kind(value, (tuple, frozenset)):
            for _, part in _copied_parts(value):
                self._enqueue_object(name, part)
        elif is_kind(value, GeneratorType) or (
            class_module(type(value)) in ("itertools", "builtins")
            and lookup_attribute(type(value), "__next__") is not None
        ):
            if not (self.kept.installed or self._whole):
                raise StateChangedError(
                    f"the module uses {name}, an iterator, which a reading would advance"
                )
        elif is_kind(value, Tensor):
            self.kept.track_tensor(name, value)
        elif is_kind(value, np.ndarray):
            self.kept.track_array(name, value)
        elif (stream := _generator_state(value)) is not None:
            self.kept.track_part(name, *stream)
        else:
            self._visit_object(name, value)

    def _visit_function(self, name: str, function: FunctionType) -> None:
        if is_library(str(function.__module__ or "")):
            return
        self.kept.installed = is_installed(function.__code__.co_filename)
        names = _code_names(function.__code__)
        read = names if self.kept.installed else _global_names(function.__code__)
        self._visit_names(function.__globals__, read, names)
        for imported in _imported_modules(
            function.__code__, function.__globals__.get("__package__")
        ):
            self._visit_import(imported, names)
        self._release_methods(names)
        for defaults in (function.__defaults__ or (), function.__kwdefaults__ or {}):
            self._enqueue_object(f"a default of {name}", defaults)
        self._visit_container(f"attributes of {name}", function.__dict__)
        for free_name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                contents = cell.cell_contents
            except ValueError:  # still empty
                continue
            self.kept.track_value(
                free_name,
                functools.partial(getattr, cell, "cell_contents", None),
                functools.partial(setattr, cell, "cell_contents", contents),
            )
            self._enqueue_object(free_name, contents)

    def _visit_import(self, name: str, names: frozenset[str]) -> None:
        module = sys.modules.get(name)
        if is_kind(module, ModuleType):
            self._enqueue_object(name, module, names)
        elif not is_library(name):  # imported during the pass: there is no state to compare with
            self.kept.track_part(
                f"the module {name}, which it imports for the first time,",
                lambda: is_installed(_module_file(sys.modules.get(name))),
                lambda: sys.modules.pop(name, None),
            )

    def _release_methods(self, names: frozenset[str]) -> None:
        """Visit the methods with these names: until now, no visited code called them."""
        for name in names - self._named:
            self._named.add(name)
            self._waiting += self._unnamed.pop(name, ())

    def _visit_names(
        self, namespace: dict[str, Any], accessed: frozenset[str], names: frozenset[str]
    ) -> None:
        for name in sorted(accessed):
            value = namespace.get(name, _ABSENT)
            self.kept.track_value(
                name,
                functools.partial(namespace.get, name, _ABSENT),
                functools.partial(namespace.pop, name, None)
                if value is _ABSENT
                else functools.partial(namespace.__setitem__, name, value),
            )
            if value is not _ABSENT:
                self._enqueue_object(name, value, names)

    def _visit_module(self, module: ModuleType, names: frozenset[str]) -> None:
        namespace, name = (
            instance_attributes(module),
            str(instance_attributes(module).get("__name__")),
        )
        if name.startswith("numpy.random") or (name == "numpy" and "random" in names):
            self.draws_of_numpy = True
        if not is_library(name):
            self.kept.installed = is_installed(_module_file(module))
            self._visit_names(namespace, names, names)
        elif name.partition(".")[0] in _SHARED or name == "torch.multiprocessing":
            for attribute in sorted(names & namespace.keys()):
                if _is_shared(namespace[attribute]) or is_kind(namespace[attribute], ModuleType):
                    self._enqueue_object(
                        f"{name}.{attribute}", namespace[attribute], names - {attribute}
                    )

    def _visit_class(self, name: str, kind: type) -> None:
        if is_library(class_module(kind)):
            return
        self.kept.installed = is_installed(_module_file(sys.modules.get(class_module(kind))))
        before = dict(class_attributes(kind))

        def new_attributes() -> set[str]:
            return class_attributes(kind).keys() - before.keys() - _CACHES

        def remove_new() -> None:
            for attribute in new_attributes():
                type.__delattr__(kind, attribute)

        self.kept.track_part(f"attributes of {name}", lambda: not new_attributes(), remove_new)
        skipped = {"__dict__", "__weakref__", "__doc__", "__module__"} | _CACHES
        for attribute, value in before.items():
            if attribute in (skipped | _OF_ENUMS if Enum in mro(kind) else skipped):
                continue
            label = f"{name}.{attribute}"
            self.kept.track_value(
                label,
                functools.partial(_class_attribute, kind, attribute),
                functools.partial(type.__setattr__, kind, attribute, value),
            )
            runs = attribute in _RUN or attribute.startswith("__") or attribute in self._named
            runs |= attribute in _OF_MODULES and nn.Module in mro(kind)
            if runs or not is_kind(value, _CALLED):
                self._enqueue_object(label, value)
            else:
                reached = _Visit(label, value, frozenset(), self.kept.installed, False)
                self._unnamed.setdefault(attribute, []).append(reached)
        for base in mro(kind)[1:]:
            if not is_library(class_module(base)):
                self._enqueue_object(class_name(base), base)

    def _visit_container(self, name: str, value: Any) -> None:
        for item in self.kept.track_container(name, value):
            self._enqueue_object(name, item)

    def _visit_object(self, name: str, value: Any) -> None:
        kind = type(value)
        if is_kind(value, _CONTAINERS):
            self._visit_container(name, value)
        if is_library(class_module(kind)) and not is_kind(value, (nn.Module, *_HOLDERS)):
            return
        self._enqueue_class(kind)
        namespace = instance_attributes(value)
        self._visit_container(name, namespace)
        for attribute, part in list(namespace.items()):
            self._enqueue_object(f"{name}.{attribute}", part)
        for attribute, slot in slot_descriptors(value):
            label, now = f"{name}.{attribute}", _slot_value(slot, value)
            self.kept.track_value(
                label,
                functools.partial(_slot_value, slot, value),
                functools.partial(slot.__delete__, value)
                if now is _ABSENT
                else functools.partial(slot.__set__, value, now),
            )
            if now is not _ABSENT:
                self._enqueue_object(label, now)


@contextmanager
def preserve_reached_state(
    module: nn.Module, whole: bool = False, when: str = "run"
) -> Iterator[ReachedState]:
    """Restore the state that the code of `module` can reach, at the end of the block.

    Args:
        module: The module whose copies are run or made in the block.
        whole: As in `ReachedState`.
        when: What happens in the block, for the message: 'run' or 'copied'.

    Returns:
        A context manager that yields the `ReachedState`.

    Raises:
        StateChangedError: Any of the user's own state changed; it has been restored.
    """
    state = ReachedState(module, whole)
    try:
        yield state
    except BaseException:
        state.kept.restore()
        raise
    state.raise_if_changed(when)


def _copied_parts(value: Any) -> Iterator[tuple[str, object]]:
    """Yield the parts that a copy has its own versions of, with attribute names; '' for items."""
    if is_kind(value, _CONTAINERS):
        yield from (("", part) for part in _container_items(value))
    elif is_kind(value, (tuple, frozenset)):
        kind: Any = tuple if is_kind(value, tuple) else frozenset
        yield from (("", part) for part in list(kind.__iter__(value)))
    elif is_kind(value, functools.partial):
        yield from (("", part) for part in (value.func, *value.args, *value.keywords.values()))
    elif is_kind(value, MethodType):
        yield "", value.__self__
    elif is_kind(value, Tensor) or (is_library(class_module(type(value))) and _is_named(value)):
        return
    is_module = is_kind(value, nn.Module)
    for attribute, part in list(instance_attributes(value).items()):
        if not (is_module and (attribute in OWNERS or attribute.endswith("_hooks"))):
            yield attribute, part
    for attribute, slot in slot_descriptors(value):
        if (part := _slot_value(slot, value)) is not _ABSENT:
            yield attribute, part


def _is_named(value: object) -> bool:
    """Return whether an object of Python or torch is copied by name or by code, as a logger is."""
    kind = type(value)
    if is_kind(value, (nn.Module, *_HOLDERS)):
        return False
    own = [lookup_attribute(kind, name) for name in ("__deepcopy__", "__reduce__", "__reduce_ex__")]
    return own != [None, vars(object)["__reduce__"], vars(object)["__reduce_ex__"]]


def _walk_copied_parts(value: object, name: str) -> Iterator[tuple[str, object]]:
    """Yield all objects below `value` that a copy has its own versions of, each once."""
    seen: dict[int, object] = {}
    waiting = [(name, value)]
    while waiting and len(seen) < MOST:
        name, value = waiting.pop()
        if id(value) in seen or is_kind(value, (*_PLAIN, *_CODE)):
            continue
        seen[id(value)] = value
        yield name, value
        kind = class_name(type(value))
        waiting += [
            (f"{kind}.{attribute}" if attribute else name, part)
            for attribute, part in _copied_parts(value)
        ]


def _is_shared(value: Any) -> bool:
    """Return whether a value belongs to several threads or processes, or gives work to them."""
    if is_kind(value, MethodType):
        return _is_shared(value.__self__) or _is_shared(value.__func__)
    if is_kind(value, (FunctionType, BuiltinMethodType)):
        module = str(value.__module__ or "")
        return module.partition(".")[0] in _SHARED and value.__name__ not in _ASKING
    kind = value if is_kind(value, type) else type(value)
    if is_kind(value, ModuleType) or BaseException in mro(kind) or threading.local in mro(kind):
        return False
    return any(class_module(base).partition(".")[0] in _SHARED for base in mro(kind))


def _kind_of(value: Any) -> str:
    if is_kind(value, (FunctionType, BuiltinMethodType)):
        return "a function"
    kind = value if is_kind(value, type) else type(value)
    return f"{class_module(kind)}.{class_name(kind)}"


def _module_file(module: object) -> str:
    return str(instance_attributes(module).get("__file__") or "")


def _slot_value(slot: Any, value: object) -> object:
    try:
        return slot.__get__(value)
    except AttributeError:  # empty
        return _ABSENT


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested_codes(constant)


def _code_names(code: CodeType) -> frozenset[str]:
    return frozenset(name for part in _nested_codes(code) for name in part.co_names)


def _global_names(code: CodeType) -> frozenset[str]:
    """Return the names of its module that a function reads or writes."""
    steps = (step for part in _nested_codes(code) for step in dis.get_instructions(part))
    return frozenset(step.argval for step in steps if step.opname in _GLOBAL)


def _imported_modules(code: CodeType, package: object) -> set[str]:
    """Return the absolute names of the modules that a function imports in its body."""
    names: set[str] = set()
    for part in _nested_codes(code):
        steps = [
            instruction
            for instruction in dis.get_instructions(part)
            if instruction.opname != "EXTENDED_ARG"
        ]
        for index, instruction in enumerate(steps):
            if instruction.opname != "IMPORT_NAME":
                continue
            level, name = steps[index - 2].argval, instruction.argval
            if not isinstance(level, int) or not level:
                names.add(name)
            elif isinstance(package, str) and package.count(".") + 1 >= level:
                names.add(resolve_name("." * level + name, package))
    return names


def _class_attribute(kind: type, name: str) -> object:
    return class_attributes(kind).get(name)


def _is_value(now: object, before: object) -> bool:
    """Return whether two values are the same object, or plain values that are equal bit by bit."""
    if now is before:
        return True
    kind = type(before)
    if type(now) is not kind:
        return False
    if kind in (float, complex):
        return repr(now) == repr(before)
    if kind is tuple:
        now_items: list[object] = list(tuple.__iter__(now))  # type: ignore[arg-type]
        before_items: list[object] = list(tuple.__iter__(before))  # type: ignore[arg-type]
        return len(now_items) == len(before_items) and all(map(_is_value, now_items, before_items))
    if np.generic in mro(kind):
        return bool(now.tobytes() == before.tobytes())  # type: ignore[attr-defined]
    return kind in _PLAIN and now == before


def _is_alias(tensor: Tensor, alias: Tensor) -> bool:
    first, second = ((x.data_ptr(), x.shape, x.stride(), x.dtype) for x in (tensor, alias))
    return first == second


def _as_byte_view(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor, so that NaN compares equal to itself."""
    plain = tensor.resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8) if plain.numel() else plain.reshape(-1)


def _container_items(container: Any) -> list[Any]:
    """Return the items of a container; keys and values of a dictionary alternate."""
    if is_kind(container, dict):
        pairs = list(dict.items(container))
        if is_kind(container, OrderedDict):
            values = {id(key): value for key, value in pairs}
            pairs = [(key, values[id(key)]) for key in list(OrderedDict.__iter__(container))]
        return [item for pair in pairs for item in pair]
    if is_kind(container, bytearray):
        return [bytes(bytearray.__getitem__(container, slice(None)))]
    kind: Any = next(item for item in _CONTAINERS if is_kind(container, item))
    return list(kind.__iter__(container))


def _same_items(now: list[Any], before: list[Any], unordered: bool) -> bool:
    if len(now) != len(before):
        return False
    same = all(map(_is_value, now, before))
    return same or (unordered and set(map(_identity_key, now)) == set(map(_identity_key, before)))


def _identity_key(value: object) -> object:
    return (type(value), repr(value)) if type(value) in _PLAIN else id(value)


def _refill_container(container: Any, before: list[Any]) -> None:
    """Restore the items of a container in place, because others refer to it too."""
    kind: Any = next(
        container_type for container_type in _CONTAINERS if is_kind(container, container_type)
    )
    if kind is bytearray:
        bytearray.__setitem__(container, slice(None), before[0])
    elif kind is list:
        list.__setitem__(container, slice(None), before)
    else:
        kind.clear(container)
        if kind in (dict, OrderedDict):
            for key, value in zip(before[::2], before[1::2], strict=True):
                kind.__setitem__(container, key, value)
        else:
            (deque.extend if kind is deque else set.update)(container, before)


def _generator_state(value: Any) -> tuple[Callable[[], bool], Callable[[], object]] | None:
    """Return how to compare and restore a user's random generator; None for other objects."""
    read: Callable[[], Any]
    write: Callable[[Any], object]
    if is_kind(value, torch.Generator):
        read, write = value.get_state, value.set_state
    elif is_kind(value, random.Random):
        read = functools.partial(random.Random.getstate, value)
        write = functools.partial(random.Random.setstate, value)
    elif is_kind(value, np.random.SeedSequence):  # counts its children
        read, write = lambda: value.__reduce__()[2], value.__setstate__
    elif is_kind(value, (np.random.Generator, np.random.RandomState, np.random.BitGenerator)):
        is_bits = is_kind(value, np.random.BitGenerator)
        bits = value if is_bits else getattr(value, "bit_generator", None) or value._bit_generator
        seeds = bits.seed_seq
        spawns = is_kind(seeds, np.random.SeedSequence)

        def read() -> Any:
            return bits.state, seeds.__reduce__()[2] if spawns else ()

        def write(state: Any) -> None:
            bits.state = state[0]
            if spawns:
                seeds.__setstate__(state[1])
    else:
        return None
    before = read()
    return lambda: is_same_state(read(), before), lambda: write(before)


_FLAGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's deterministic algorithms": (
        torch.get_deterministic_debug_mode,
        torch.set_deterministic_debug_mode,
    ),
}
