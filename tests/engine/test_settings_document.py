"""docs/settings.md is true: it has a row for every setting, and each row says what is declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dgn_engine.config import SETTINGS
from dgn_engine.config.setting import Setting
from dgn_engine.data import data_sets
from dgn_engine.importing.from_config import settings_of_net
from dgn_engine.model.nets import all_nets

TEXT = (Path(__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")
ROWS = {
    cells[0].strip("`"): tuple(cells[1:])
    for line in TEXT.splitlines()
    if line.startswith("| `")
    for cells in [[cell.strip() for cell in line.strip("|").split("|")]]
}


def number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def value(setting: Setting) -> str:
    match setting.default:
        case bool():
            return "yes" if setting.default else "no"
        case None | "" | ():
            return "–"
        case int() | float():
            return number(setting.default)
    return f"`{setting.default}`"


def accepted(setting: Setting) -> Iterator[str]:
    yield from (f"`{choice}`" for choice in setting.choices)
    if setting.share:
        yield "0 to 1"
    if setting.above is not None:
        yield f"> {number(setting.above)}"
    if setting.least is not None:
        yield f"≥ {number(setting.least)}"
    if setting.most is not None:
        yield f"≤ {number(setting.most)}"


def conditions(wanted: Mapping[str, object]) -> Iterator[str]:
    for place, one in wanted.items():
        values = one if isinstance(one, tuple) else (one,)
        words = {True: "yes", False: "no", "": "empty"}
        yield f"{place} {' or '.join(words.get(each, f'`{each}`') for each in values)}"


def in_the_form(setting: Setting) -> Iterator[str]:
    """Nothing where it has no row."""
    if not setting.label:
        return
    yield f"“{setting.label}”"
    if setting.span:
        yield f"{number(setting.span[0])} to {number(setting.span[1])}"
    if setting.rungs:
        yield f"arrows {', '.join(map(number, setting.rungs))}"
    if setting.unit:
        yield setting.unit
    if setting.zero:
        yield f"0: {setting.zero}"
    if setting.hint:
        yield f"empty: {setting.hint}"
    if setting.path:
        yield f"a {setting.path}"
    yield from (f"{choice}: {words}" for choice, words in setting.words.items())
    if setting.advanced:
        yield f"Advanced ({setting.changed or setting.label})"


def only_with(setting: Setting) -> Iterator[str]:
    """When it has a row, and when it counts where that is not the same."""
    yield from conditions(setting.when)
    yield from (f"shown: {each}" for each in conditions(setting.shown))
    if setting.effect is not None:
        yield f"counts: {', '.join(conditions(setting.effect)) or 'always'}"


def row(setting: Setting) -> tuple[str, ...]:
    option = setting.name.replace("_", "-") if setting.option is None else setting.option
    return (
        f"`--{option}{f' {setting.metavar}' if setting.metavar else ''}`" if option else "–",
        value(setting),
        ", ".join(accepted(setting)) or "–",
        "; ".join(in_the_form(setting)) or "–",
        "; ".join(only_with(setting)) or "–",
        setting.tip or setting.help or "",
    )


PLACES = {
    f"{part}.{name}".lstrip("."): setting
    for part, settings in SETTINGS.items()
    for name, setting in settings.items()
}
OPTIONS = {
    f"{name} {setting.name}": setting
    for name, settings in (
        *((name, settings_of_net(net)) for name, net in all_nets().items()),
        *((name, data_set.options) for name, data_set in data_sets().items()),
    )
    for setting in settings
}


@pytest.mark.parametrize("place", PLACES)
def test_every_setting_is_in_the_document_as_it_is_declared(place: str) -> None:
    assert ROWS[place] == row(PLACES[place])


@pytest.mark.discovery
def test_the_document_names_no_setting_that_there_is_not() -> None:
    assert set(ROWS) <= set(PLACES) | set(OPTIONS)


@pytest.mark.parametrize("option", [name for name in ROWS if " " in name])
def test_an_option_in_the_document_is_what_its_plug_in_declares(option: str) -> None:
    setting = OPTIONS[option]
    assert ROWS[option] == (value(setting), ", ".join(accepted(setting)), setting.label)


def test_a_field_that_may_be_empty_says_what_holds_then() -> None:
    """The words in it, or those of 0."""
    silent = {
        place
        for place, setting in PLACES.items()
        if setting.label and setting.default in ("", ()) and not setting.hint
    }
    assert silent == set()


def test_the_ends_of_a_field_lie_within_what_is_accepted() -> None:
    for place, setting in PLACES.items():
        for end in setting.span or ():
            setting.check_allowed(place, type(setting.default)(end))
        assert setting.span is None or setting.span[0] < setting.span[1]
        assert list(setting.rungs or ()) == sorted(set(setting.rungs or ()))
        assert all(1 <= rung < 10 for rung in setting.rungs or ()), place


@pytest.mark.parametrize(
    ("part", "labels"),
    [
        ("data", "data set, download if missing, data folder, two classes ±1"),
        ("net", "network, initial weights, σ, with biases"),
        (
            "gating",
            "regime, gate tiling, gates from, pre-training epochs, steepness β, ε, gate rotation, "
            "gate shift, gate probability p, value input",
        ),
        ("training", "loss, optimiser, learning rate, momentum, batch, epochs"),
    ],
)
def test_rows_that_others_depend_on_come_first(part: str, labels: str) -> None:
    shown = [setting for setting in SETTINGS[part].values() if setting.label]
    rows = [setting.label for setting in sorted(shown, key=lambda setting: setting.order)]
    assert ", ".join(rows).startswith(labels)
