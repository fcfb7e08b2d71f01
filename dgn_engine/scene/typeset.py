"""Mathematics in labels: 'trace $K^V$' as runs of letters for a painter or HTML."""

from __future__ import annotations

import re
import unicodedata
from html import escape
from itertools import chain, zip_longest

from dgn_engine.frozen_data import dataclass
from dgn_engine.text.printable import printable

_GROUP = r"\{((?:[^{}\\]|\\[^{}]|\\[{}])*)\}"  # without groups inside
_SIGNS = {
    "cdot": "·", "cdots": "⋯", "circ": "∘", "langle": "⟨", "left": "", "leq": "≤", "neq": "≠",
    "odot": "⊙", "partial": "∂", "prod": "∏", "quad": " ", "rangle": "⟩", "right": "",
    "Rightarrow": "⇒", "sum": "∑", "top": "T", "Lambda": "Λ", "lambda": "λ",
}  # fmt: skip  # Unicode says lamda


@dataclass(frozen=True)
class TextRun:
    """Letters of one style: `level` 0 on the line, +1 raised, -1 lowered."""

    text: str
    level: int = 0
    italic: bool = False


def split_runs(label: str) -> tuple[TextRun, ...]:
    r"""Split a label into runs; between dollars letters are italic, ^ raises and _ lowers.

    '\$' is the letter itself.
    """
    result: list[TextRun] = []
    for index, part in enumerate(re.split(r"(?<!\\)\$", printable(label, lines=True))):
        if part and index % 2 == 0:
            result.append(TextRun(part.replace(r"\$", "$")))
        elif part:
            result.extend(_parse_formula(part))
    return tuple(result)


def strip_markup(label: str) -> str:
    """Return the label without markup, for files and screen readers: 'trace K^V'."""
    parts = re.split(r"(?<!\\)\$", printable(label, lines=True))
    inside = (re.sub("[{}]", "", part) for part in parts[1::2])
    outside = (part.replace(r"\$", "$") for part in parts[::2])
    return "".join(chain.from_iterable(zip_longest(outside, inside, fillvalue="")))


def formula_to_text(tex: str) -> str:
    """Return a TeX formula as one readable line: 'K^V = Ψ_V^T Ψ_V', '(1)/(C)'."""
    text = tex.replace("$", "")
    for _ in range(text.count("{")):  # from the innermost group outwards
        text = re.sub(r"\\frac\s*" + 2 * _GROUP, r"(\1)/(\2)", text)
        text = re.sub(r"\\hat\s*" + _GROUP, "\\1\u0302", text)
        text = re.sub(r"\\(?:math[a-z]+|left|right)\b\s*" + _GROUP, r"\1", text)
        text = re.sub(r"([\^_])\{(\w|[^\x00-\x7f])\}", r"\1\2", text)
        text = re.sub(r"([\^_])" + _GROUP, r"\1(\2)", text)
    text = re.sub(r"\\([A-Za-z]+)", _tex_letter, text)
    text = re.sub(r"\\(\W)", lambda match: {",": " ", "|": "‖"}.get(match[1], match[1]), text)
    return " ".join(text.split())


def _tex_letter(command: re.Match[str]) -> str:
    """Return the Greek letter or sign of a TeX command, or the command's own name."""
    name = command[1]
    if name in _SIGNS:
        return _SIGNS[name]
    name, case = name.removeprefix("var"), "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {case} LETTER {name.upper()}")
    except KeyError:
        return name


def escape_label(name: str) -> str:
    """Escape the dollars of a name, so that a label shows them as letters."""
    return name.replace("$", r"\$")


def label_html(label: str) -> str:
    """Return the label as rich text for Qt labels."""
    parts = []
    for run in split_runs(label):
        text = escape(run.text)
        text = f"<i>{text}</i>" if run.italic else text
        tag = {1: "sup", -1: "sub"}.get(run.level)
        parts.append(f"<{tag}>{text}</{tag}>" if tag else text)
    return "".join(parts)


def _parse_formula(text: str) -> list[TextRun]:
    result: list[TextRun] = []
    level = 0
    index = 0
    while index < len(text):
        letter = text[index]
        if letter in "^_":
            level = 1 if letter == "^" else -1
            index += 1
            if text[index : index + 1] == "{":
                end = text.find("}", index)
                end = end if end > 0 else len(text)
                body, index = text[index + 1 : end], end + 1
            else:
                body, index = text[index : index + 1], index + 1
            result.append(TextRun(body, level, body.isalpha()))
            continue
        result.append(TextRun(letter, 0, letter.isalpha()))
        index += 1
    return _join_runs(result)


def _join_runs(found: list[TextRun]) -> list[TextRun]:
    merged: list[TextRun] = []
    for run in found:
        last = merged[-1] if merged else None
        if last and (last.level, last.italic) == (run.level, run.italic):
            merged[-1] = TextRun(last.text + run.text, run.level, run.italic)
        else:
            merged.append(run)
    return merged
