r"""Mathematics in labels: 'trace $K^V$' as runs of letters that a painter or HTML can set."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from html import escape
from itertools import chain, zip_longest

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


def runs(label: str) -> tuple[TextRun, ...]:
    r"""Split a label into runs; between dollars letters lean, ^ raises and _ lowers.

    '\$' is the letter itself.
    """
    found: list[TextRun] = []
    for place, part in enumerate(re.split(r"(?<!\\)\$", printable(label, lines=True))):
        if part and place % 2 == 0:
            found.append(TextRun(part.replace(r"\$", "$")))
        elif part:
            found.extend(_formula(part))
    return tuple(found)


def plain(label: str) -> str:
    """The label without marks, for files and screen readers: 'trace K^V'."""
    parts = re.split(r"(?<!\\)\$", printable(label, lines=True))
    inside = (re.sub("[{}]", "", part) for part in parts[1::2])
    outside = (part.replace(r"\$", "$") for part in parts[::2])
    return "".join(chain.from_iterable(zip_longest(outside, inside, fillvalue="")))


def formula_in_letters(tex: str) -> str:
    r"""A formula in TeX as one line that can be read aloud: 'K^V = Ψ_V^T Ψ_V', '(1)/(C)'."""
    text = tex.replace("$", "")
    for _ in range(text.count("{")):  # from the innermost group outwards
        text = re.sub(r"\\frac\s*" + 2 * _GROUP, r"(\1)/(\2)", text)
        text = re.sub(r"\\hat\s*" + _GROUP, "\\1\u0302", text)
        text = re.sub(r"\\(?:math[a-z]+|left|right)\b\s*" + _GROUP, r"\1", text)
        text = re.sub(r"([\^_])\{(\w|[^\x00-\x7f])\}", r"\1\2", text)
        text = re.sub(r"([\^_])" + _GROUP, r"\1(\2)", text)
    text = re.sub(r"\\([A-Za-z]+)", _letter, text)
    text = re.sub(r"\\(\W)", lambda found: {",": " ", "|": "‖"}.get(found[1], found[1]), text)
    return " ".join(text.split())


def _letter(command: re.Match[str]) -> str:
    """What a command of TeX stands for: a Greek letter, a sign, or its own name."""
    name = command[1]
    if name in _SIGNS:
        return _SIGNS[name]
    name, case = name.removeprefix("var"), "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {case} LETTER {name.upper()}")
    except KeyError:
        return name


def literal(name: str) -> str:
    """A name as a label that shows these letters: its dollars begin no mathematics."""
    return name.replace("$", r"\$")


def html(label: str) -> str:
    """The label as rich text for Qt's own labels."""
    words = []
    for run in runs(label):
        text = escape(run.text)
        text = f"<i>{text}</i>" if run.italic else text
        tag = {1: "sup", -1: "sub"}.get(run.level)
        words.append(f"<{tag}>{text}</{tag}>" if tag else text)
    return "".join(words)


def _formula(text: str) -> list[TextRun]:
    found: list[TextRun] = []
    level = 0
    place = 0
    while place < len(text):
        letter = text[place]
        if letter in "^_":
            level = 1 if letter == "^" else -1
            place += 1
            if text[place : place + 1] == "{":
                end = text.find("}", place)
                end = end if end > 0 else len(text)
                body, place = text[place + 1 : end], end + 1
            else:
                body, place = text[place : place + 1], place + 1
            found.append(TextRun(body, level, body.isalpha()))
            continue
        found.append(TextRun(letter, 0, letter.isalpha()))
        place += 1
    return _joined(found)


def _joined(found: list[TextRun]) -> list[TextRun]:
    together: list[TextRun] = []
    for run in found:
        last = together[-1] if together else None
        if last and (last.level, last.italic) == (run.level, run.italic):
            together[-1] = TextRun(last.text + run.text, run.level, run.italic)
        else:
            together.append(run)
    return together
