r"""A figure as PGF for \input in a LaTeX document, written without LaTeX and set in its fonts.

matplotlib asks LaTeX for the width of text; here it is measured as for the other formats, so
that a `.pgf` can be written without LaTeX installed. Matrices become PNG files beside it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_pgf import RendererPgf
from matplotlib.textpath import TextToPath
from PIL import Image

from dgn_engine.figures.figure_page import draw_page
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.paper import print_style
from dgn_engine.figures.provenance import FigurePanel

_HEADER = r"""%% Created by dgn-viewer. In the preamble: \usepackage{pgf}
%% In the text: \input{NAME.pgf}; from another folder, with \usepackage{import}:
%% \import{FOLDER/}{NAME.pgf}
\begingroup%
\makeatletter%
\begin{pgfpicture}%
"""
_FOOTER = "\\end{pgfpicture}%\n\\makeatother%\n\\endgroup%\n"
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_NAMES = (
    "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega"
)
_GREEK = dict(zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", _NAMES.split(" "), strict=True))
_SIGNS = {
    "×": "times", "·": "cdot", "∞": "infty", "→": "rightarrow", "←": "leftarrow", "≤": "leq",
    "≥": "geq", "±": "pm", "−": "", "∈": "in", "∂": "partial", "√": "surd", "⊙": "odot",
    "↻": "circlearrowright", "≈": "approx", "⟨": "langle", "⟩": "rangle",
}  # fmt: skip
_WORDS = {"…": r"\ldots{}", "–": "--", "’": "'"}


class _Renderer(RendererPgf):
    """Measures text without LaTeX, and writes what every LaTeX can set."""

    def __init__(self, figure: Any, file: Any) -> None:
        super().__init__(figure, file)  # type: ignore[no-untyped-call]  # matplotlib's
        self._paths = TextToPath()

    def get_text_width_height_descent(
        self, s: str, prop: Any, ismath: Any
    ) -> tuple[float, float, float]:
        sizes = self._paths.get_text_width_height_descent(s, prop, ismath)
        wide, high, deep = (value * self.dpi / 72.0 for value in sizes)
        return wide, high, deep

    def draw_image(self, gc: Any, x: float, y: float, im: Any, transform: Any = None) -> None:
        """Write a PNG beside the file, one pixel per value, for viewers not to blur."""
        high, wide = im.shape[:2]
        if not (wide and high):
            return
        path = Path(self.fh.name)
        name = f"{path.stem}-img{self.image_counter}.png"
        self.image_counter += 1
        Image.fromarray(im[::-1]).save(path.parent / name)
        inch = 1.0 / self.dpi
        if transform is None:
            size = wide * inch, high * inch
            place = rf"\pgfsys@transformshift{{{x * inch:f}in}}{{{y * inch:f}in}}"
        else:  # the transform includes the size
            size = 1.0, 1.0
            a, b, c, d, e, f = (inch * value for value in transform.frozen().to_values())
            e, f = e + x * inch, f + y * inch
            turn = f"{{{a:f}}}{{{b:f}}}{{{c:f}}}{{{d:f}}}"
            place = rf"\pgfsys@transformcm{turn}{{{e:f}in}}{{{f:f}in}}"
        self.fh.write("\\begin{pgfscope}%\n")
        self._print_pgf_clip(gc)  # type: ignore[no-untyped-call]  # matplotlib's
        self.fh.write(
            f"{place}%\n"
            rf"\pgftext[left,bottom]{{\pgfimage[interpolate=false,width={size[0]:f}in,"
            rf"height={size[1]:f}in]{{{name}}}}}%"
            "\n\\end{pgfscope}%\n"
        )

    def draw_text(
        self,
        gc: Any,
        x: float,
        y: float,
        s: str,
        prop: Any,
        angle: float,
        ismath: Any = False,
        mtext: Any = None,
    ) -> None:
        super().draw_text(gc, x, y, encode_tex(s), prop, angle, ismath, mtext)  # type: ignore[no-untyped-call]  # matplotlib's


def pgf_files(
    panels: Sequence[FigurePanel], style: FigureStyle, stem: str
) -> list[tuple[str, bytes]]:
    """Return (name, content) of the PGF file and of its images."""
    with tempfile.TemporaryDirectory() as folder, print_style():
        figure = draw_page(panels, style)
        wide, high = figure.get_size_inches()
        path = Path(folder) / f"{stem}.pgf"
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.write(_HEADER)
            file.write(
                rf"\pgfpathrectangle{{\pgfpointorigin}}{{\pgfqpoint{{{wide:f}in}}{{{high:f}in}}}}%"
                "\n\\pgfusepath{use as bounding box, clip}%\n"
            )
            figure.draw(_Renderer(figure, file))
            file.write(_FOOTER)
        names = [path, *sorted(Path(folder).glob("*.png"))]
        return [(file_path.name, file_path.read_bytes()) for file_path in names]


def encode_tex(words: str) -> str:
    """Encode Greek letters and signs in a form that every LaTeX knows."""
    parts = re.split(r"(?<!\\)\$", words)
    if len(parts) % 2 == 0:  # an odd number of dollars: no formula
        parts = [words]
    return "$".join(
        _encode_formula(part) if index % 2 else _encode_plain(part)
        for index, part in enumerate(parts)
    )


def _encode_plain(words: str) -> str:
    words = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda match: f"$^{{{match[0].translate(_RAISED)}}}$", words)
    return "".join(_WORDS.get(letter) or _encode_letter(letter) for letter in words)


def _encode_letter(letter: str) -> str:
    command = _GREEK.get(letter) or _SIGNS.get(letter)
    return rf"$\{command}$" if command else letter


def _encode_formula(words: str) -> str:
    commands = (_GREEK.get(letter) or _SIGNS.get(letter) or "" for letter in words)
    return "".join(
        rf"\{command} " if command else letter
        for command, letter in zip(commands, words, strict=True)
    )
