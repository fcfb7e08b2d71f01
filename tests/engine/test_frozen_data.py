"""`frozen_data` against its slow twin in the standard library, with the same class bodies."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pytest

from dgn_engine.config import RunConfig
from dgn_engine.frozen_data import frozen_dataclass
from dgn_engine.protocol.training import StartRun


def define_classes(dataclass: Any) -> dict[str, Any]:
    """Define the same classes with this decorator, by name."""

    @dataclass(frozen=True)
    class Empty:
        """No field."""

    @dataclass(frozen=True)
    class Single(Empty):
        """One field."""

        title: ClassVar[str] = "not a field"
        value: object

    @dataclass(frozen=True)
    class Many(Single):
        """Inherits a field; defaults of every kind."""

        count: int = 3
        names: tuple[str, ...] = field(default=("a",), repr=False)
        table: dict[str, int] = field(default_factory=dict, hash=False)
        note: str = field(default="", compare=False)
        size: int = field(default=0, init=False)
        list_: list[int] = field(default_factory=list, init=False, hash=False)

    @dataclass(frozen=True, kw_only=True)
    class ByName(Many):
        """Fields by name only; checks its values."""

        depth: int
        self_: int = 1

        def __post_init__(self) -> None:
            if self.depth < 0:
                raise ValueError("negative depth")

    @dataclass(frozen=True)
    class Own:
        """Has methods of its own."""

        first: int
        second: int = 2

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.first == other.first

    return {one.__name__: one for one in (Empty, Single, Many, ByName, Own)}


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Empty", (), {}),
    ("Single", (1,), {}),
    ("Single", (2.5,), {}),
    ("Many", (1,), {}),
    ("Many", (1, 2, ("b",), {"c": 1}, "note"), {}),
    ("Many", (1,), {"note": "another"}),
    ("Many", (1,), {"names": ("c",)}),
    ("ByName", (1,), {"depth": 2}),
    ("ByName", (1, 5), {"depth": 2, "self_": 0}),
    ("Own", (1,), {}),
    ("Own", (1, 7), {}),
    ("Own", (2,), {}),
]
OURS, TWIN = define_classes(frozen_dataclass), define_classes(dataclasses.dataclass)


def make_all(classes: dict[str, Any]) -> list[Any]:
    return [classes[name](*values, **named) for name, values, named in CALLS]


def hash_or_error(data: object) -> object:
    try:
        return hash(data)
    except TypeError as error:
        return str(error)


def test_instances_look_and_compare_as_those_of_the_twin() -> None:
    ours, twins = make_all(OURS), make_all(TWIN)
    assert list(map(repr, ours)) == list(map(repr, twins))
    assert list(map(vars, ours)) == list(map(vars, twins))
    assert list(map(hash_or_error, ours)) == list(map(hash_or_error, twins))
    others = make_all(OURS), make_all(TWIN)
    assert [[a == b for b in others[0]] for a in ours] == [
        [a == b for b in others[1]] for a in twins
    ]
    assert ours[1] != twins[1]


@pytest.mark.parametrize("name", OURS)
def test_a_class_is_described_as_its_twin(name: str) -> None:
    ours, twin = OURS[name], TWIN[name]
    assert str(inspect.signature(ours)) == str(inspect.signature(twin))
    assert ours.__init__.__annotations__ == twin.__init__.__annotations__
    assert ours.__init__.__qualname__ == twin.__init__.__qualname__
    assert typing.get_type_hints(ours.__init__) == typing.get_type_hints(twin.__init__)
    assert ours.__match_args__ == twin.__match_args__
    assert ours.__doc__ == twin.__doc__
    assert list(map(str, dataclasses.fields(ours))) == list(map(str, dataclasses.fields(twin)))


@pytest.mark.parametrize(
    ("name", "values", "named"),
    [
        ("Single", (), {}),
        ("Single", (1, 2), {}),
        ("Many", (1,), {"size": 3}),
        ("ByName", (1,), {}),
        ("ByName", (1,), {"depth": -1}),
    ],
)
def test_a_wrong_call_fails_as_that_of_the_twin(
    name: str, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    errors = []
    for classes in (OURS, TWIN):
        with pytest.raises((TypeError, ValueError)) as raised:
            classes[name](*values, **named)
        errors.append((raised.type, str(raised.value)))
    assert errors[0] == errors[1]


def test_no_attribute_is_set_or_deleted() -> None:
    for classes in (OURS, TWIN):
        data = classes["Many"](1)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'count'"):
            data.count = 4
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'count'"):
            del data.count
        assert data.count == 3


def test_a_default_is_made_anew_and_a_copy_is_equal() -> None:
    first, second = OURS["Many"](1), OURS["Many"](1)
    assert first.table is not second.table
    assert copy.deepcopy(first) == first
    replaced = dataclasses.replace(first, count=9)
    assert (replaced.count, replaced.value, first.count) == (9, 1, 3)
    assert dataclasses.asdict(first) == dataclasses.asdict(TWIN["Many"](1))
    command = StartRun(RunConfig(seed=3))
    assert pickle.loads(pickle.dumps(command)) == command


def test_arrays_are_compared_by_identity_first() -> None:
    array = np.arange(3)
    assert OURS["Single"](array) == OURS["Single"](array)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(OURS["Single"](array) == OURS["Single"](array.copy()))


def test_a_class_of_dataclasses_may_be_the_base_but_data_that_may_change_are_refused() -> None:
    @frozen_dataclass(frozen=True)
    class Derived(TWIN["Single"]):  # type: ignore[misc]  # a class that exists only at run time
        extra: int = 0

    assert repr(Derived(1, 2)).endswith("Derived(value=1, extra=2)")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Derived(1).extra = 5
    with pytest.raises(ValueError, match="frozen=False"):
        frozen_dataclass(frozen=False)


def test_a_class_of_ours_may_be_the_base_of_a_dataclass() -> None:
    @dataclasses.dataclass(frozen=True)
    class Derived(OURS["Many"]):  # type: ignore[misc]  # a class that exists only at run time
        extra: int = 0

    assert repr(Derived(1, extra=2)).endswith("note='', size=0, list_=[], extra=2)")
    assert Derived(1) == Derived(1) != Derived(1, extra=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Derived(1).count = 5
    with pytest.raises(TypeError, match="non-frozen dataclass from a frozen one"):
        dataclasses.dataclass(type("Mutable", (OURS["Single"],), {}))
