"""Dataclasses become plain values and come back; what is nothing of the kind is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.storage.plain_data import from_plain, parse_json, to_plain


class Place(NamedTuple):
    row: int
    name: str


@dataclass(frozen=True)
class Leaf:
    size: float
    colour: Literal["green", "brown"] = "green"


@dataclass(frozen=True)
class Stone:
    weight: int


@dataclass(frozen=True)
class Garden:
    path: Path
    things: tuple[Leaf | Stone, ...]
    places: Mapping[str, Place]
    pair: tuple[int, str]
    owner: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    open: bool = True


GARDEN = Garden(Path("a/b"), (Leaf(1.5), Stone(3)), {"x": Place(1, "gate")}, (2, "two"))


def test_a_tree_of_dataclasses_comes_back_through_json() -> None:
    plain = json.loads(json.dumps(to_plain(GARDEN)))
    assert plain["places"] == {"x": [1, "gate"]}
    assert plain["owner"] is None
    assert from_plain(Garden, plain) == GARDEN


def test_fields_that_are_none_can_be_left_out() -> None:
    plain = to_plain(GARDEN, omit_none=True)
    assert "owner" not in plain
    assert from_plain(Garden, plain) == GARDEN


@pytest.mark.parametrize(
    ("nonfinite", "words"), [("keep", "[NaN, Infinity]"), ("null", "[null, null]")]
)
def test_numbers_beyond_the_finite_are_written_as_asked(nonfinite: Any, words: str) -> None:
    assert json.dumps(to_plain((math.nan, math.inf), nonfinite)) == words


@pytest.mark.parametrize("size", [math.nan, math.inf, -math.inf, 0.25])
def test_a_float_comes_back_from_its_word(size: float) -> None:
    plain = to_plain(Leaf(size), "word")
    json.dumps(plain, allow_nan=False)
    assert repr(from_plain(Leaf, plain)) == repr(Leaf(size))


def test_null_is_no_number_where_a_float_is_meant() -> None:
    assert math.isnan(from_plain(Leaf, {"size": None}).size)
    assert from_plain(float | None, None) is None


def test_a_configuration_spells_itself() -> None:
    config = RunConfig()
    assert to_plain(config) == config.to_dict()
    assert from_plain(RunConfig, config.to_dict()) == config
    with pytest.raises(UserError, match="Unknown key"):
        from_plain(RunConfig, {"colour": 1})


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        *((int, True), (int, 1.0), (bool, 1), (str, 1), (float, True), (float, "many")),
        *((float, []), (float, 10**400), (Path, 1), (Stone, []), (Stone, {})),
        *((Stone, {"weight": 1, "height": 2}), (Leaf, {"size": 1, "colour": "blue"})),
        *((tuple[int, ...], {}), (tuple[int, ...], ["1"]), (tuple[int, str], [1]), (Place, [1])),
        *((Mapping[str, int], []), (Leaf | Stone, {"depth": 1}), (Leaf | Stone, 7)),
    ],
)
def test_what_is_nothing_of_the_kind_is_refused(kind: Any, plain: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        from_plain(kind, plain)


@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1, 10**4000])
def test_a_whole_number_beyond_64_bits_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="too large"):
        from_plain(Stone, {"weight": number})
    assert from_plain(Stone, {"weight": (1 << 64) - 1}).weight == (1 << 64) - 1


@pytest.mark.parametrize("size", ["1" * 41, "x", "", "0x10", "half"])
def test_a_word_is_a_number_only_where_it_is_a_short_one(size: str) -> None:
    with pytest.raises(TypeError, match="is not a number"):
        from_plain(Leaf, {"size": size})


DEEP = "[" * 31 + "]" * 31
PARSED: dict[str, tuple[str, str]] = {
    "too deep": (DEEP, "nested too deep"),
    "far too deep": ("[" * 100_000, "nested too deep"),
    "deep tables": ('{"a":' * 31 + "1" + "}" * 31, "nested too deep"),
    "too many values": ("[" + "1," * 400_000 + "1]", "too large"),
    "too many lists": ("[" + "[]," * 200_000 + "[]]", "too large"),
    "a key twice": ('{"a": 1, "b": {"c": 1, "c": 2}}', "a key is repeated"),
    "half a character": ('["\\ud800"]', "surrogates"),
    "half a character for a key": ('{"\\udfff": 1}', "surrogates"),
    "no JSON": ("{", "Expecting"),
    "a number without end": ("9" * 5000, "digits"),
}


@pytest.mark.parametrize("kind", PARSED)
def test_json_that_is_none_of_ours_is_refused(kind: str) -> None:
    text, why = PARSED[kind]
    with pytest.raises(ValueError, match=why):
        parse_json(text.encode())


def test_json_as_deep_as_ours_may_be_is_taken() -> None:
    assert parse_json(("[" * 29 + "1" + "]" * 29).encode())
    assert parse_json(b'{"a": [1, null, NaN, "\\ud83d\\ude00"]}')["a"][3] == "\U0001f600"
