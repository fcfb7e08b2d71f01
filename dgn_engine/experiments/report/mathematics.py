"""Typeset the mathematics in plain labels: 'K^V_0' becomes '$K^{V}_{0}$'.

Experiments write labels in plain text. The formulas between dollars are understood by matplotlib's
mathtext, the viewer and LaTeX. Only the papers' notation is typeset; users' names are unchanged,
except that their dollars become `\\$`.
"""

from __future__ import annotations

import re
from html import escape

_LETTERS = (
    "KHΛSeEfxyzβγδεηθκλμνρστφψΓΘΣΦΨ"  # letters with sub- or superscripts, or that denote a quantity
)
_MARK = r"(?:\^(?:\([a-z]\)|[VFXJvfdbT]|-?\d)|_(?:max|min|[a-zA-Z]|\d))"
_NOT_IN_A_WORD = r"(?<![\w$\\/.:-])"
_END = r"(?![\w$]|\.\w)"
_FORMULAS = (
    rf"{_NOT_IN_A_WORD}(?P<ratio>ρ_min/ρ_max)(?!\w)",
    rf"{_NOT_IN_A_WORD}(?P<input>x\^v = [x1])(?!\w)",
    rf"‖(?P<norm>[{_LETTERS}](?:_\w)?)‖(?P<square>²?)",
    rf"{_NOT_IN_A_WORD}(?P<marked>Σ?[{_LETTERS}2]{_MARK}{{1,2}}){_END}",
    rf"(?<=½)(?P<squared>[{_LETTERS}])²",
    rf"{_NOT_IN_A_WORD}(?P<path>v_[0t]){_END}",
    rf"{_NOT_IN_A_WORD}(?P<power>10\^-?\d+|log10){_END}",
    r"(?P<greek>βH|τ/w|α/α_0|[βγδεηθκλμνπρστφψ](?![\w^]))(?!\w)",
    rf"{_NOT_IN_A_WORD}(?P<variable>[dwnbp])(?= = )",
    r"(?<=depth )(?P<depth>d)(?!\w)",
)
_FORMULA = re.compile("|".join(_FORMULAS))


def typeset(label: str) -> str:
    """Put the mathematics of a label between dollars, and escape other dollars as '\\$'."""
    return _FORMULA.sub(_mark_formula, label.replace("$", r"\$"))


def split_formulas(label: str) -> list[str]:
    """Split a label into alternating parts of text and formulas, without the dollars."""
    parts = re.split(r"(?<!\\)\$", typeset(label))
    return [part.replace(r"\$", "$") for part in parts]


def label_as_html(label: str) -> str:
    """Return a label as HTML with italics, sub- and superscripts in formulas."""
    return "".join(
        _formula_as_html(part) if index % 2 else escape(part)
        for index, part in enumerate(split_formulas(label))
    )


def _formula_as_html(formula: str) -> str:
    text = re.sub(r"[^\W\d_]", r"<i>\g<0></i>", escape(formula))
    text = re.sub(r"\^\{(.*?)\}", r"<sup>\1</sup>", text)
    return re.sub(r"_\{(.*?)\}", r"<sub>\1</sub>", text)


def _mark_formula(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if found["norm"]:
        square = "^{2}" if found["square"] else ""
        return f"$‖{_brace_scripts(found['norm'])}‖{square}$"
    text = found[0]
    if kind == "squared":
        return f"${found['squared']}^{{2}}$"
    if text == "log10":
        return "log$_{10}$"
    return f"${_brace_scripts(text)}$"


def _brace_scripts(text: str) -> str:
    return re.sub(r"([\^_])(\([a-z]\)|max|min|-?\d+|\w)", r"\1{\2}", text)
