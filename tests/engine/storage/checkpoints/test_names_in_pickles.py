"""A name in a pickle is warned of unless it is on the lists, however the pickle comes by it."""

from __future__ import annotations

import _compat_pickle
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest
import torch
from torch._weights_only_unpickler import _get_allowed_globals  # type: ignore[import-untyped]

from dgn_engine.storage.checkpoints import harmless_names
from dgn_engine.storage.checkpoints.call_recorder import CallRecorder
from dgn_engine.storage.checkpoints.harmless_names import (
    CALLS_ARGUMENTS,
    LOADS_BYTES,
    MADE,
    NAMED,
    SHOWN,
    may_be_called,
    may_be_kept,
)
from dgn_engine.storage.checkpoints.pickle_file import GlobalName
from tests.engine.storage.checkpoints import dangerous_names
from tests.faults.answered import answer_or_reason
from tests.faults.hostile_headers import npy_header
from tests.faults.pickle_assembly import (
    Call,
    Name,
    Raw,
    encode_thing,
    legacy,
    make_pickle,
    storage,
    tensor,
    torch_zip,
)

DANGEROUS = dangerous_names.names()
# Names in modules that are dangerous as a whole, which only make a value.
LINEAR = torch.nn.Linear.__module__
EXCEPTED = ("uuid.UUID", "types.SimpleNamespace", "builtins.")


def warned(content: bytes) -> str:
    """All that is said of names: the warnings of a file that is read, or its refusal."""
    found, refusal = answer_or_reason(content)
    return "\n".join((*found.would_call, *found.would_look_up)) if found else refusal


def listed() -> Iterator[tuple[str, str]]:
    tables = (MADE, SHOWN)
    yield from ((m, n) for table in tables for m, names in table.items() for n in names.split())
    for whole in (*CALLS_ARGUMENTS, LOADS_BYTES):
        module, _, name = whole.rpartition(".")
        yield module, name


def text(word: str) -> bytes:
    return encode_thing(word)


def beside(code: bytes) -> bytes:
    return torch_zip(b"\x80\4" + encode_thing({"w": tensor(), "n": Raw(code)}) + b".")


def as_state(value: bytes) -> bytes:
    """An honest module that has a value for its `forward`."""
    made = encode_thing(Name(LINEAR, "Identity")) + b")\x81"
    return made + b"}" + encode_thing("forward") + value + b"sb"


def named(module: str, name: str) -> bytes:
    return encode_thing(module) + encode_thing(name) + b"\x93"


WAYS: dict[str, Callable[[str, str], bytes]] = {
    "called": lambda m, n: beside(named(m, n) + b")R"),
    "only named": lambda m, n: beside(named(m, n)),
    "named and thrown away": lambda m, n: beside(named(m, n) + b"0N"),
    "of an older protocol": lambda m, n: beside(encode_thing(Name(m, n))),
    "INST": lambda m, n: beside(f"(i{m}\n{n}\n".encode()),
    "from texts that were kept": lambda m, n: beside(
        encode_thing(m) + b"q\x300" + encode_thing(n) + b"q\x310" + b"h\x30h\x31\x93"
    ),
    "in a list": lambda m, n: beside(b"]" + named(m, n) + b"a"),
    "as a state": lambda m, n: beside(as_state(named(m, n))),
    "as a hook": lambda m, n: beside(as_state(b"}K\1" + named(m, n) + b"s")),
    "as the state of a state": lambda m, n: beside(as_state(named(m, n)) + b"Nb"),
    "through a module that is harmless": lambda m, n: beside(named("torch", f"{m}.{n}")),
    "in a storage": lambda m, n: beside(
        encode_thing(
            Call(
                "torch.storage",
                "_load_from_bytes",
                (legacy(Raw(named(m, n) + b"0" + encode_thing(storage()))),),
            )
        )
    ),
    "in a file from before 1.6": lambda m, n: legacy({"w": tensor(), "n": Raw(named(m, n))}),
    "in a plain pickle": lambda m, n: make_pickle({"n": Raw(named(m, n))}, 4),
    "in an array of objects": lambda m, n: (
        npy_header("(1,)", "'|O'") + b"\x80\4]" + named(m, n) + b"a."
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_others_call_dangerous_is_warned_of(way: str) -> None:
    silent = []
    for module, name in DANGEROUS:
        whole = str(GlobalName(module, name))
        if whole == LOADS_BYTES and way in ("named and thrown away", "in a storage"):
            continue  # it is called with no bytes, and nothing keeps it
        said = warned(WAYS[way](module, name)).replace("__builtin__", "builtins")
        if whole not in said and ".".join(of_python_3(module, name)) not in said:
            silent.append(whole)
    assert silent == []


def test_attributes_by_their_names_are_warned_of() -> None:
    for module, name in DANGEROUS:
        call = encode_thing(Call("builtins", "getattr", (Name("torch", "Size"), name)))
        assert "builtins.getattr" in warned(beside(call))
        call = encode_thing(Call("__builtin__", "getattr", (Name(module, "x"), name)))
        assert f"{GlobalName(module, 'x')}" in warned(beside(call))


def test_nothing_that_others_call_dangerous_is_on_the_lists() -> None:
    modules = dangerous_names.modules()
    pairs = set(dangerous_names.names())
    odd = []
    for module, name in listed():
        parts = module.split(".")
        roots = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
        whole = f"{module}.{name}"
        if (roots & modules or (module, name) in pairs) and not whole.startswith(EXCEPTED):
            odd.append(whole)
    assert odd == [LOADS_BYTES]  # which is judged by its bytes


@pytest.mark.parametrize("name", [n for m, n in listed() if m == "builtins"])
def test_builtins_on_the_list_are_classes_of_values(name: str) -> None:
    import builtins

    assert inspect.isclass(getattr(builtins, name))
    assert name not in ("type", "super", "property", "map", "filter", "memoryview")


def test_what_torch_takes_for_weights_is_not_warned_of() -> None:
    odd = []
    types = {f"{module}.{name}" for module, names in NAMED.items() for name in names.split()}
    for whole in _get_allowed_globals():
        module, _, name = whole.rpartition(".")
        if not may_be_called(GlobalName(module, name)) and whole not in types:
            odd.append(whole)
    assert odd == []
    assert all(may_be_kept(GlobalName(*whole.rsplit(".", 1))) for whole in types)


def test_names_are_not_other_names_to_python_2() -> None:
    """What Python 3 makes of the names of an old pickle is on the lists as well."""
    for module, name in listed():
        assert of_python_3(module, name) in set(listed())
        assert of_python_3("__builtin__" if module == "builtins" else module, name) in set(listed())


def of_python_3(module: str, name: str) -> tuple[str, str]:
    """What pickle imports for a name in a pickle of protocol 0, 1 or 2."""
    renamed = _compat_pickle.NAME_MAPPING.get((module, name))
    return renamed or (_compat_pickle.IMPORT_MAPPING.get(module, module), name)


@pytest.mark.parametrize(
    ("protocol", "module"), [(0, "subprocess"), (2, "subprocess"), (3, "commands"), (4, "commands")]
)
def test_a_name_of_python_2_is_said_as_what_is_imported(protocol: int, module: str) -> None:
    """A module of the user may be called commands, too: later protocols mean that one."""
    code = bytes([0x80, protocol]) + b"ccommands\ngetoutput\n."
    recorder = CallRecorder()
    recorder.look_through(code)
    assert recorder.would_look_up == (f"{module}.getoutput",)
    assert recorder.would_import == (module,)


def test_names_on_the_lists_are_what_torch_has() -> None:
    """Classes of torch's modules and optimisers where they are, and no class is missing."""
    homes = {
        torch.nn.modules: (torch.nn.Module, torch.nn.modules.module._WrappedHook),
        torch.optim: (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler, torch.nn.Module),
    }
    missing, odd = [], []
    for package, bases in homes.items():
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if found.name.rpartition(".")[2][:1] == "_":
                continue
            module = import_module(found.name)
            names = MADE.get(found.name, "").split()
            for name, thing in vars(module).items():
                own = inspect.isclass(thing) and thing.__module__ == found.name
                if name in names and not (own and issubclass(thing, bases)):
                    odd.append(f"{found.name}.{name}")
                if own and issubclass(thing, bases) and name not in names and name[:1] != "_":
                    missing.append(f"{found.name}.{name}")
    assert (missing, odd) == ([], [])


def test_functions_that_may_be_kept_are_no_classes_and_may_not_be_called() -> None:
    for module, names in SHOWN.items():
        for name in names.split():
            assert inspect.isroutine(getattr(import_module(module), name))
            assert may_be_kept(GlobalName(module, name))
            assert not may_be_called(GlobalName(module, name))


@pytest.mark.parametrize("name", [LOADS_BYTES, *CALLS_ARGUMENTS])
def test_a_maker_that_calls_what_it_is_given_may_not_be_kept(name: str) -> None:
    module, _, last = name.rpartition(".")
    assert name in warned(beside(as_state(named(module, last))))


def test_a_dot_in_a_name_is_a_warning_even_where_it_leads_to_a_harmless_one() -> None:
    inner = named("torch", "nn.modules.linear.Linear")
    assert warned(beside(inner)) == f"{LINEAR}.Linear"
    honest = named(LINEAR, "Linear")
    assert warned(beside(honest)) == ""


def test_a_name_that_is_computed_is_a_warning() -> None:
    code = encode_thing(Call("builtins", "str", ("os",))) + encode_thing("system") + b"\x93"
    assert "it would look up (computed).system" in warned(beside(code))


def test_every_name_on_the_lists_may_be_something() -> None:
    for module, name in listed():
        assert may_be_called(GlobalName(module, name)) or may_be_kept(GlobalName(module, name))
    assert str(GlobalName("torch.storage", "_load_from_bytes")) == harmless_names.LOADS_BYTES
