"""The notebooks run from top to bottom, and what they show is what they give."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from documentation.notebook_runner import code_cells, notebook, outputs_of

ROOT = Path(__file__).parents[3]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]?\d+)?")
LONG = ("gates_know", "sweep_figure")  # minutes long: a test runs them in small, by DGN_SMALL
PNG = b"\x89PNG\r\n\x1a\n"


def text_of(output: dict[str, Any]) -> str:
    """What is printed or returned; '' of a figure."""
    return "".join(output["text"] if "text" in output else output["data"].get("text/plain", []))


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_those_of_a_run_to_two_digits(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    if path.stem in LONG:
        monkeypatch.setenv("DGN_SMALL", "1")
    tree = notebook(path)
    for cell, given in zip(code_cells(tree), outputs_of(tree), strict=True):
        stored = cell["outputs"]
        assert [each["output_type"] for each in stored] == [each["output_type"] for each in given]
        for old, new in zip(stored, given, strict=True):
            one, two = text_of(old), text_of(new)
            if path.stem in LONG:  # other numbers, and fewer of them
                assert bool(one) == bool(two)
                continue
            assert NUMBER.sub("#", one) == NUMBER.sub("#", two)
            assert numbers(one) == pytest.approx(numbers(two), rel=0.05, abs=0.005)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_run_in_order_shows_figures_and_its_links_lead_somewhere(path: Path) -> None:
    tree = notebook(path)
    cells = code_cells(tree)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output.get("data", {}) for cell in cells for output in cell["outputs"]]
    images = [data["image/png"] for data in outputs if "image/png" in data]
    assert images
    assert all(base64.b64decode(image).startswith(PNG) for image in images)
    words = ["".join(cell["source"]) for cell in tree["cells"] if cell["cell_type"] == "markdown"]
    links = re.findall(r"\]\(([^)#\s]+)", "".join(words))
    assert links
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_there_is_the_notebook_of_a_users_own_network() -> None:
    assert "own_network" in [path.stem for path in NOTEBOOKS]
