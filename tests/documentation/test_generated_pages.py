"""What the documentation site is made of besides the documents themselves."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dgn_engine.cli import _build_parser, _offered_commands, _own_commands
from dgn_engine.config import SETTINGS
from dgn_engine.experiments._published import claim_ids
from dgn_engine.experiments.report.experiment_list import experiment_entries
from dgn_engine.experiments.report.formatting import format_verdict
from dgn_engine.protocol.frames import Frame
from dgn_engine.scene.panel_spec import all_panels
from documentation import (
    command_pages,
    experiment_pages,
    library_pages,
    panel_gallery,
    typical_values,
)
from documentation.built_site import troubles
from documentation.results_page import kept


def test_a_lost_link_a_lost_place_and_what_is_fetched_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<script src="https://cdn.example/x.js"></script><h1 id="top">'
        '<a href="b.html#here"></a><a href="b.html#gone"></a><a href="c.html"></a>'
        '<a href="#top"></a><a href="https://arxiv.org"></a>'
    )
    (tmp_path / "b.html").write_text('<p id="here">')
    assert sorted(troubles(tmp_path)) == [
        "a.html: b.html#gone: there is no such place in b.html",
        "a.html: c.html leads nowhere",
        "a.html: https://cdn.example/x.js is fetched from the net",
    ]


def test_a_warning_of_a_quiet_build_counts() -> None:
    pytest.importorskip("mkdocs")
    from documentation import hooks

    logger = logging.getLogger("mkdocs")
    before = logger.level
    try:
        logger.setLevel(logging.ERROR)  # as `mkdocs build --quiet` does
        hooks.on_startup("build", dirty=False)
        assert logger.isEnabledFor(logging.WARNING)
        assert not logger.isEnabledFor(logging.INFO)
    finally:
        logger.setLevel(before)


def test_every_option_of_every_command_is_on_its_page() -> None:
    pages = {page.path: page.text for page in command_pages.generate()}
    train = pages["reference/commands/train.md"]
    for option, name in (("--lr LR", "learning_rate"), ("--batch BATCH", "batch")):
        assert f"| `{option}` | `{SETTINGS['training'][name].default:g}` |" in train
    assert "key `training.learning_rate`" in train
    assert "### Options" in pages["reference/commands/runs.md"]
    assert "`--screenshot F.png`" in pages["reference/commands/dgn-viewer.md"]


def test_an_option_named_like_a_setting_has_the_default_of_its_own_command() -> None:
    pages = {page.path: page.text for page in command_pages.generate()}
    text = pages["reference/commands/kernels.md"]
    assert "| `--device` | `cpu` | device to compute on" in text
    assert "| `--beta BETA` | – | use soft gates with this β |" in text
    assert "key `data.name`" not in pages["reference/commands/inspect.md"]
    assert "key `data.name`" in pages["reference/commands/gate-information.md"]


def test_every_option_that_a_command_has_is_on_its_page_with_its_default() -> None:
    pages = {page.path: page.text for page in command_pages.generate()}
    commands = {name: load() for name, load in {**_offered_commands(), **_own_commands()}.items()}
    unsaid, counted = [], 0
    for name, parser in command_pages._verbs(_build_parser(commands)):
        text = pages[f"{command_pages.FOLDER}/{name}.md"]
        below = [each for _, each in command_pages._verbs(parser)] or [parser]
        options = {option for each in below for a in each._actions for option in a.option_strings}
        for option in sorted(options - {"-h", "--help"}):
            counted += 1
            row = rf"^\| [^|]*`{re.escape(option)}( [^`]*)?`[^|]*\| [^|]*\| [^|]+ \|$"
            if not re.search(row, text, re.MULTILINE):
                unsaid.append(f"{name} {option}")
    assert " · ".join(unsaid) == ""
    assert counted > 200


def test_ranges_over_seeds_are_written_and_read() -> None:
    column = typical_values.Column(lambda moment: [], lambda value: f"{value:.1f}")
    assert typical_values.write_cell(column, [([1.0], [3.0]), ([2.0], [4.5])]) == (
        "1.0 to 2.0 ↗ 3.0 to 4.5"
    )
    assert typical_values.write_cell(column, [([1.0], [3.0]), ([5.0], [4.0])]) == (
        "1.0 to 5.0 → 3.0 to 4.0"
    )
    assert typical_values.write_cell(column, [([1.0], [1.0]), ([2.0], [2.0])]) == "1.0 to 2.0"
    assert typical_values.write_cell(column, [([], [0.5]), ([], [0.5])]) == "0.5"
    assert typical_values.write_cell(column, [([], [])]) == "–"
    assert typical_values.read_cell("1,000 to 2,000 ↘ 30 (soft → hard)") == (
        [(1000, 2000), (30, 30)],
        -1,
    )
    assert typical_values.read_cell("–") == ([], 0)


@pytest.mark.parametrize(
    ("cell", "values", "fits"),
    [
        ("1 to 2 ↗ 10 to 20", ([1.5], [15.0]), True),
        ("1 to 2 ↗ 10 to 20", ([3.0], [8.0]), True),  # other digits
        ("1 to 2 ↗ 10 to 20", ([15.0], [15.0]), False),  # ten times as much
        ("1 to 2 ↗ 10 to 20", ([1.5], [1.5]), False),  # a tenth
        ("4 to 6 ↘ 3 to 5", ([5.0], [5.4]), True),  # nearly the same
        ("4 to 6 ↘ 3 to 5", ([4.0], [5.0]), False),  # the other way
        ("4 to 6 → 3 to 5", ([4.0], [5.0]), True),
        ("0 (hard gates)", ([0.0], [0.0]), True),
        ("0 (hard gates)", ([0.0], [1.0]), False),
        ("–", ([], []), True),
        ("–", ([], [2.0]), False),
    ],
)
def test_typical_values_are_compared_by_order_of_magnitude_and_direction(
    cell: str, values: typical_values.Values, fits: bool
) -> None:
    assert (typical_values.disagreement(cell, values) == "") == fits


@pytest.mark.parametrize(
    ("percent", "fits"), [(96.0, True), (90.0, True), (98.5, True), (85.0, False), (99.9, False)]
)
def test_shares_are_compared_as_odds(percent: float, fits: bool) -> None:
    """By size alone no accuracy from 32 % to 100 % would be another one than 96 %."""
    assert (typical_values.disagreement("95 to 97", ([percent / 100],), 0.01) == "") == fits


def test_a_row_of_typical_values_is_written_and_words_in_brackets_stay() -> None:
    page = "| run | ν |\n| --- | --- |\n| digits, DL (a) | 1 ↗ 2 (soft) | 0 |\n| other | 1 |\n"
    changed = typical_values.with_row(page, "digits, DL", ["3 ↗ 4", "5"])
    assert "| digits, DL (a) | 3 ↗ 4 (soft) | 5 |\n| other | 1 |" in changed
    with pytest.raises(ValueError, match="no row on MNIST"):
        typical_values.with_row(page, "MNIST", ["1"])


def test_every_page_of_typical_values_has_a_row_of_every_run_with_ranges() -> None:
    for page, columns in typical_values.PAGES.items():
        text = (typical_values.CONCEPTS / page).read_text("utf-8")
        for name in typical_values.RUNS:
            cells = typical_values.row_cells(text, name)[1:]
            assert len(cells) == len(columns)
            assert any(
                low < high for cell in cells for low, high in typical_values.read_cell(cell)[0]
            )


def test_overlaps_are_means_over_pairs_without_the_diagonal() -> None:
    kernel = np.array([[4.0, 2.0, 1.0], [2.0, 4.0, 0.0], [1.0, 0.0, 1.0]])
    arrays = {"labels": np.array([0, 0, 1]), "active": kernel, "sensitive": kernel}
    frame = Frame(1, 0, 0.0, 0.0, None, {"overlap": SimpleNamespace(arrays=arrays)})  # type: ignore[dict-item]
    moment = typical_values.Moment(frame)
    for name in ("active", "sensitive"):
        assert typical_values.mean_over_pairs(name, same=True)(moment) == [2 / 4]
        assert typical_values.mean_over_pairs(name, same=False)(moment) == [(1 / 2 + 0) / 2]


def test_the_library_has_a_subject_for_every_public_name() -> None:
    text = "".join(page.text for page in library_pages.generate())  # else it raises
    assert "::: dgn_engine.kernels.adapt\n" in text


def test_every_claim_is_said_in_words() -> None:
    assert set(experiment_pages.IN_WORDS) == set(claim_ids())


def test_a_wide_formula_scrolls_by_itself() -> None:
    spec = all_panels()["gate_statistics"]
    lines = list(panel_gallery._entry("gate_statistics", spec, True, ""))
    assert lines.count("{: .formula }") == len(spec.about.formulas) > 0


@pytest.mark.discovery
def test_every_row_and_claim_of_a_kept_result_is_on_the_page_of_its_experiment() -> None:
    for entry in experiment_entries():
        results = [result for result in kept() if result.name == entry.id]
        text = "\n".join(experiment_pages._page(entry, results))
        for result in results:
            said = [*(row.label for row in result.rows), *(c.statistic for c in result.claims)]
            assert [each for each in said if f"| {each.replace('|', '∣')} |" not in text] == []
            for c in result.claims:
                assert f"| `{c.id}` | {format_verdict(c, result.scale)} | " in text
