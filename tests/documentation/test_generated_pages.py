"""What the documentation site is made of besides the documents themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from dgn_engine.config import SETTINGS
from dgn_engine.experiments._published import claim_ids
from documentation import command_pages, experiment_pages, library_pages, refusal_pages
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
