r"""LaTeX tables of results, which only need `\usepackage{booktabs}`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from dgn_engine.experiments.report.document import Document
from dgn_engine.experiments.report.formatting import (
    ROW_HEADS,
    drop_empty_columns,
    made_at,
    row_cells,
    rows_note,
)
from dgn_engine.experiments.report.mathematics import split_formulas
from dgn_engine.experiments.report.paper_table import PaperTable
from dgn_engine.text.printable import printable

_HEAD, _LABEL = 14, 36  # characters per line in heads and row labels
_MANY, _SHORT = 6, 18  # with this many columns, row labels are broken sooner
_FITS, _COLUMN = 75, 2  # characters in a line of 345 points, and in the gap between columns
_WORDS = frozenset(("", "n", "time"))  # columns of text
_LEFT_OUT = frozenset(("scale", "protocol", "remark"))  # columns left out of the long table
_NUMBER = re.compile(r"[−+]?\d[\d,.]*(?:×10[⁻⁰¹²³⁴-⁹]+)?")
_ESCAPED = {letter: f"\\{letter}" for letter in "%_&#{}$"} | {
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "<": "$<$", ">": "$>$", "|": "$|$", '"': "''", "’": "'", "‘": "`", "“": "``", "”": "''",
    "–": "--", "—": "---", "…": r"\ldots{}", "−": "$-$", "±": r"$\pm$", "×": r"$\times$",
    "·": r"$\cdot$", "²": "$^2$", "½": r"$\frac12$", "‖": r"$\|$", "√": r"$\surd$",
    "≥": r"$\ge$", "≤": r"$\le$", "≈": r"$\approx$", "→": r"$\to$", "∞": r"$\infty$",
    "§": r"\S{}", "\u00a0": "~",
}  # fmt: skip
_NAMES = (
    "alpha", "beta", "gamma", "delta", "varepsilon", "zeta", "eta", "theta", "iota", "kappa",
    "lambda", "mu", "nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "varphi", "chi", "psi",
    "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega",
)  # fmt: skip
_GREEK = dict(zip("αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ", _NAMES, strict=True))
_LOWERED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_BREAK = r"\\"
_LAST_PLAIN = 0x17F  # accented Latin letters, which LaTeX reads as UTF-8


def latex_grid(document: Document, grid: PaperTable) -> str:
    """Return the table in the paper's layout, with the printed numbers below the measured ones."""
    lines: list[str] = []
    most = _LABEL if len(grid.columns) < _MANY else _SHORT
    for line in grid.lines():
        label = (
            rf"\quad {escape_latex(line.label)}"
            if line.of_paper
            else _stack_label(line.label, most)
        )
        if lines and not line.of_paper:
            lines.append(r"    \addlinespace")
        lines.append(_format_row([label, *map(_format_cell, line.cells)]))
    heads = ["", *(_stack_label(column, _HEAD, "c") for column in grid.columns)]
    caption = f"{grid.title}. {' '.join(grid.notes())}"
    texts = [("x" * min(most, len(line.label)), *line.cells) for line in grid.lines()]
    columns = "l" + "c" * len(grid.columns)
    return _format_table(document, caption, columns, heads, lines, size=_type_size(texts))


def latex_rows(document: Document) -> str:
    """Return a table with one line per row; scale and protocol are in the caption."""
    wanted = [index for index, head in enumerate(ROW_HEADS) if head not in _LEFT_OUT]
    cells = [row_cells(document, row) for row in document.rows]
    heads, rows = drop_empty_columns(
        [ROW_HEADS[p] for p in wanted], [tuple(line[p] for p in wanted) for line in cells]
    )
    lines = [
        _format_row([_stack_label(line[0], _LABEL), *map(_format_cell, line[1:])]) for line in rows
    ]
    columns = "".join("l" if head in _WORDS else "r" for head in heads)
    caption = (
        f"{document.paper}: {document.title}. {rows_note(document)} {made_at(document)}".strip()
    )
    texts = [("x" * min(_LABEL, len(line[0])), *line[1:]) for line in rows]
    named = [escape_latex(head) for head in heads]
    return _format_table(document, caption, columns, named, lines, "-rows", _type_size(texts))


def escape_latex(text: str) -> str:
    """Escape text for LaTeX and typeset the mathematics of the papers.

    A character that LaTeX does not support without packages is replaced by its code, 'U+4E2D'.
    """
    return "".join(
        f"${_translate_formula(part)}$" if index % 2 else "".join(map(_escape_letter, part))
        for index, part in enumerate(split_formulas(text))
    )


def _escape_letter(letter: str) -> str:
    if letter in _ESCAPED:
        return _ESCAPED[letter]
    if letter in _GREEK:
        return rf"$\{_GREEK[letter]}$"
    if letter.isspace() or not letter.isprintable():
        return " "
    return letter if ord(letter) <= _LAST_PLAIN else f"U+{ord(letter):04X}"


def _translate_formula(text: str) -> str:
    named = "".join(rf"\{_GREEK[c]} " if c in _GREEK else c for c in text)
    return named.replace("‖", r"\|").replace("−", "-")


def _format_cell(text: str) -> str:
    """Format a cell; a leading number becomes mathematics, such as '$97.5 \\pm 0.1$'.

    A following unit or count remains text.
    """
    match = re.match(rf"{_NUMBER.pattern}(?: ± {_NUMBER.pattern})?", text)
    if match is None:
        return escape_latex(text)
    rest = text[match.end() :]
    if rest and not rest.startswith(" "):  # '30days': text after all
        return escape_latex(text)
    number = re.sub("×10([⁻⁰¹²³⁴-⁹]+)", _format_exponent, match[0])
    number = number.replace(",", "{,}").replace("−", "-").replace("±", r"\pm")
    return f"${number}$" + escape_latex(rest).replace(" ", r"\,", 1) if rest else f"${number}$"


def _format_exponent(found: re.Match[str]) -> str:
    return rf"\times 10^{{{found[1].translate(_LOWERED)}}}"


def _stack_label(label: str, most: int, side: str = "l") -> str:
    r"""Break a long label at its spaces, as a `\shortstack`."""
    lines: list[str] = []
    for word in label.split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    if len(lines) < 2:
        return escape_latex(label)
    return rf"\shortstack[{side}]{{{_BREAK.join(map(escape_latex, lines))}}}"


def _type_size(texts: Sequence[Sequence[str]]) -> str:
    """Return the font size command that a wide table needs to fit the page; '' if it fits."""
    letters = sum(max(map(len, column)) + _COLUMN for column in zip(*texts, strict=True))
    if letters <= _FITS:
        return ""
    return r"\small" if letters <= 1.15 * _FITS else r"\footnotesize\setlength{\tabcolsep}{3pt}"


def _format_row(cells: Sequence[str]) -> str:
    return f"    {' & '.join(cells)} {_BREAK}"


def _format_table(
    document: Document,
    caption: str,
    columns: str,
    heads: Sequence[str],
    lines: Sequence[str],
    suffix: str = "",
    size: str = "",
) -> str:
    command = shlex.join(("dgn", *document.command)) if document.command else document.name
    label = re.sub(r"[^a-zA-Z0-9-]", "-", document.name) + suffix
    parts = (
        f"% {' '.join(printable(command).split())}, {document.made}",
        r"% Needs \usepackage{booktabs}; use table* instead of table to span two columns.",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(caption)}}}",
        rf"  \label{{tab:{label}}}",
        *((f"  {size}",) if size else ()),
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        _format_row(heads),
        r"    \midrule",
        *lines,
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    )
    return "\n".join(parts) + "\n"
