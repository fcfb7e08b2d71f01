"""docs/settings.md is true: it has a row for every setting, and each row says what is declared."""

from __future__ import annotations

import pytest

from dgn_engine.config import SETTINGS
from documentation.settings_page import (
    PAGE,
    option_rows,
    setting_row,
    settings_by_place,
    write_tables,
)

TEXT = PAGE.read_text("utf-8")
PLACES = settings_by_place()
ROWS = {
    cells[0].split("`")[1]: cells
    for line in TEXT.partition("\n## ")[0].splitlines()
    if line.startswith("| `")
    for cells in [tuple(cell.strip() for cell in line.strip("|").split("|"))]
}


@pytest.mark.parametrize("place", PLACES)
def test_every_setting_is_in_the_document_as_it_is_declared(place: str) -> None:
    assert ROWS[place] == setting_row(place, PLACES[place])


@pytest.mark.discovery
def test_the_document_names_no_setting_that_there_is_not() -> None:
    assert set(ROWS) <= set(PLACES)


@pytest.mark.discovery
def test_the_options_of_our_networks_and_data_sets_are_in_the_document() -> None:
    """Those of plug-ins that are installed beside ours may be missing."""
    shown = {line for line in TEXT.partition("\n## ")[2].splitlines() if line.startswith("| `")}
    stale = shown - {f"| {' | '.join(cells)} |" for cells in option_rows()}
    assert not stale, "run: python -m documentation.settings_page"
    assert all(f"`{name}`" in " ".join(shown) for name in ("cnn4", "davidnet", "rho", "noise"))


def test_writing_the_tables_again_changes_nothing() -> None:
    assert write_tables(write_tables(TEXT)) == write_tables(TEXT)
    assert write_tables(TEXT).partition("\n| ")[0] == TEXT.partition("\n| ")[0]


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
            "regime, gate tiling, feature layers, gates from, pre-training epochs, steepness β, ε, "
            "gate rotation, gate shift, gate probability p, value input",
        ),
        ("training", "loss, optimiser, learning rate, momentum, batch, epochs"),
    ],
)
def test_rows_that_others_depend_on_come_first(part: str, labels: str) -> None:
    shown = [setting for setting in SETTINGS[part].values() if setting.label]
    rows = [setting.label for setting in sorted(shown, key=lambda setting: setting.order)]
    assert ", ".join(rows).startswith(labels)
