"""What the settings of a run declare fits together, and values are checked by it."""

from __future__ import annotations

from collections import Counter

import pytest

from dgn_engine.cli._options import PLACES
from dgn_engine.config import SETTINGS
from dgn_engine.config.setting import Setting, filled
from dgn_engine.errors import UserError
from dgn_engine.protocol.catalogue import DataEntry, RegimeEntry

ALL = {
    f"{part}.{name}".lstrip("."): setting
    for part, settings in SETTINGS.items()
    for name, setting in settings.items()
}
SUBJECTS = {
    "regime": RegimeEntry("", "", "", own_gates=False, soft=False, trains_feature=False),
    "dataset": DataEntry("", "", available=True, hint=""),
}


@pytest.mark.parametrize("place", ALL)
def test_a_default_keeps_to_what_its_setting_declares(place: str) -> None:
    ALL[place].check(place, ALL[place].default)


@pytest.mark.parametrize("place", ALL)
def test_conditions_name_settings_or_properties_that_exist(place: str) -> None:
    for condition in (*ALL[place].when, *ALL[place].shown):
        subject, _, name = condition.partition(".")
        assert condition in ALL or hasattr(SUBJECTS[subject], name)


def test_no_two_settings_share_an_option() -> None:
    options = [s.name if s.option is None else s.option for s in ALL.values()]
    assert {name: n for name, n in Counter(options).items() if name and n > 1} == {}
    assert PLACES["lr"] == ("training", "learning_rate")
    assert "pace" not in PLACES


@pytest.mark.parametrize(
    ("declared", "value", "complaint"),
    [
        (Setting("n", "n", 2, least=1), 0, "n is 0; it must be at least 1."),
        (Setting("n", "n", 2, most=3), 4, "n is 4; it must be at most 3."),
        (Setting("x", "x", 1.0, above=0), float("inf"), "x is inf; it must be greater than 0."),
        (Setting("p", "p", 0.5, share=True), float("nan"), "p is nan; it must be between 0 and 1."),
        (Setting("l", "l", (), least=0), (1, -1), "l is -1; it must be at least 0."),
        (Setting("c", "c", "a", choices=("a", "b")), "d", "c is 'd'; it must be one of a, b."),
    ],
)
def test_a_value_out_of_bounds_is_refused_in_a_sentence(
    declared: Setting, value: object, complaint: str
) -> None:
    with pytest.raises(UserError) as refusal:
        declared.check(declared.name, value)
    assert str(refusal.value) == complaint


def test_a_whole_number_is_accepted_where_any_number_is_meant() -> None:
    values = filled("It", "it", [Setting("x", "x", 0.5)], [("x", 2)])
    assert values == {"x": 2.0}
    assert type(values["x"]) is float
