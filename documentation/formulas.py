"""Formulas as MathML, which browsers set themselves: no script, no font, nothing from the net."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

_MARKED = re.compile(
    r"<(?P<tag>span|div) class=\"arithmatex\">\s*"
    r"(?:\\\(|\\\[)(?P<tex>.*?)(?:\\\)|\\\])\s*</(?P=tag)>",
    re.DOTALL,
)


def rendered(page: str) -> str:
    """The HTML of a page with each formula that arithmatex marked as MathML.

    Raises `ValueError` with the formula where TeX has a command that is not known.
    """
    return _MARKED.sub(_mathml, page)


def mathml(tex: str, block: bool) -> str:
    """One formula; raises `ValueError` where a command is not known."""
    try:
        found = convert(tex, display="block" if block else "inline")
    except Exception as error:  # the converter has no family of its own errors
        raise ValueError(f"{tex!r} is no formula: {error}") from error
    left = re.search(r"<m[io]>\\[a-zA-Z]+", found)
    if left:
        raise ValueError(f"{tex!r}: {left[0]} is not known")
    return found


def _mathml(marked: re.Match[str]) -> str:
    block = marked["tag"] == "div"
    found = mathml(html.unescape(marked["tex"]).strip(), block)
    return f'<div class="formula">{found}</div>' if block else found
