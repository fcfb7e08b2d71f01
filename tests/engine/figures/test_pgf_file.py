"""PGF files: written without LaTeX, with words that every LaTeX can set."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dgn_engine.figures.figure_style import COLUMN, FigureStyle
from dgn_engine.figures.pgf_file import encode_tex
from dgn_engine.figures.save_figure import save_page
from dgn_engine.scene.panel_spec import View
from tests.engine.figures.figure_panels import panel

MakeView = Callable[..., View]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("Loss", "Loss"),
        ("10⁻³", "10$^{-3}$"),
        ("1×10⁻¹²", r"1$\times$10$^{-12}$"),
        ("Eigenvalues $ρ_i$", r"Eigenvalues $\rho _i$"),
        ("β = 8 · step", r"$\beta$ = 8 $\cdot$ step"),
        ("DL → FL", r"DL $\rightarrow$ FL"),
        ("hummingbi…", r"hummingbi\ldots{}"),
        ("5 $ a piece", "5 $ a piece"),
    ],
)
def test_signs_are_written_as_every_latex_knows_them(words: str, wanted: str) -> None:
    assert encode_tex(words) == wanted


def test_a_pgf_is_written_with_its_images_beside_it(make_view: MakeView, tmp_path: Path) -> None:
    shown = panel("overlap", make_view("hard"))
    files = save_page([shown], tmp_path / "fig.pgf", FigureStyle(COLUMN))
    assert [file.name for file in files] == [
        "fig.pgf",
        *(f"fig-img{place}.png" for place in range(4)),  # two matrices and a bar each
    ]
    text = files[0].read_text(encoding="utf-8")
    assert text.count(r"\begin{pgfpicture}") == text.count(r"\end{pgfpicture}") == 1
    assert text.count("{pgfscope}") % 2 == 0
    assert sorted(set(re.findall(r"fig-img\d\.png", text))) == [file.name for file in files[1:]]
    assert r"\pgfqpoint{3.250000in}" in text
    assert str(tmp_path) not in text
    assert not re.search("[⁰-⁹Α-ω…·×]", text)


def test_the_same_scene_makes_the_same_pgf(make_view: MakeView, tmp_path: Path) -> None:
    shown = panel("ntk", make_view("soft"))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save_page([shown], tmp_path / name / "fig.pgf", FigureStyle(COLUMN))
    names = {file.name for file in (tmp_path / "one").iterdir()}
    assert names == {file.name for file in (tmp_path / "two").iterdir()}
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
