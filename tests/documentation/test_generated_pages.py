"""What the documentation site is made of besides the documents themselves."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dgn_engine.cli import _offered_commands, _own_commands, _parser
from dgn_engine.config import SETTINGS
from dgn_engine.experiments._published import claim_ids
from dgn_engine.protocol.frames import Frame
from documentation import (
    command_pages,
    experiment_pages,
    library_pages,
    refusal_pages,
    typical_values,
)
from documentation.built_site import troubles
from documentation.shell_blocks import commands


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


def test_every_option_of_every_command_is_on_its_page() -> None:
    pages = {page.path: page.text for page in command_pages.generate()}
    train = pages["reference/commands/train.md"]
    for option, name in (("--lr LR", "learning_rate"), ("--batch BATCH", "batch")):
        assert f"| `{option}` | `{SETTINGS['training'][name].default:g}` |" in train
    assert "key `training.learning_rate`" in train
    assert "### Options" in pages["reference/commands/runs.md"]
    assert "`--screenshot F.png`" in pages["reference/commands/dgn-viewer.md"]


def test_every_option_that_a_command_has_is_on_its_page_with_its_default() -> None:
    pages = {page.path: page.text for page in command_pages.generate()}
    commands = {name: load() for name, load in {**_own_commands(), **_offered_commands()}.items()}
    unsaid, counted = [], 0
    for name, parser in command_pages._verbs(_parser(commands)):
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


def test_a_row_of_typical_values_is_written_and_compared() -> None:
    page = "| run | ν |\n| --- | --- |\n| digits, DL | 2,970 → 2,080 (soft) | 0 |\n| other | 1 |\n"
    changed = typical_values.with_row(page, "digits, DL", ["2,900 → 2,000", "1"])
    assert "| digits, DL | 2,900 → 2,000 (soft) | 1 |\n| other | 1 |" in changed
    assert typical_values.numbers(changed, "digits, DL") == [2900, 2000, 1]
    with pytest.raises(ValueError, match="no row on MNIST"):
        typical_values.with_row(page, "MNIST", ["1"])


def test_overlaps_are_means_over_pairs_without_the_diagonal() -> None:
    kernel = np.array([[4.0, 2.0, 1.0], [2.0, 4.0, 0.0], [1.0, 0.0, 1.0]])
    arrays = {"labels": np.array([0, 0, 1]), "active": kernel, "sensitive": kernel}
    frame = Frame(1, 0, 0.0, 0.0, None, {"overlap": SimpleNamespace(arrays=arrays)})  # type: ignore[dict-item]
    same, other = 2 / 4, (1 / 2 + 0) / 2
    cells = [f"{same:.2f} → {same:.2f}", f"{other:.2f} → {other:.2f}"]
    assert typical_values.overlap_row(frame, frame) == cells * 2


def test_the_library_has_a_subject_for_every_public_name() -> None:
    text = "".join(page.text for page in library_pages.generate())  # else it raises
    assert "::: dgn_engine.kernels.adapt\n" in text


def test_every_claim_is_said_in_words() -> None:
    assert set(experiment_pages.IN_WORDS) == set(claim_ids())


def test_refusals_are_collected_with_what_they_name_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "dgn_engine" / "data"
    folder.mkdir(parents=True)
    (folder / "sets.py").write_text(
        "raise UserError(\n    f'{path} holds no *images*; '\n    f'name {a}{b} <here>.')\n"
        "raise UserError(sentence)\n"
    )
    (page,) = refusal_pages.generate(tmp_path)
    data = page.text.partition("## Data\n")[2].partition("\n## ")[0]
    assert "    - … holds no \\*images\\*; name … &lt;here&gt;.\n" in data
    assert "sentences (1)" in data


@pytest.mark.parametrize("block", ["dgn a \\\n    --b\n\ndgn c\n"])
def test_lines_that_end_in_a_backslash_are_one_command(block: str) -> None:
    assert list(commands(block)) == ["dgn a --b", "dgn c"]
