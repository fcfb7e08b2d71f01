"""Names that would do harm if they were printed as they are."""

from __future__ import annotations

import unicodedata

# colours the terminal, forges a row, turns the writing round, is markup, a formula, two columns
HOSTILE = (
    "\x1b[31mred\x07\n| forged |\r\t\u202egpj\u200b<b>x</b><img src=x>$x^2$_{}^\\frac \u2066"
    "[bold]m[/bold]  done   99"
).replace("/", "∕")
NOT_UNICODE = "\x1b[2Jbad\udcff"  # of the byte 0xff in the name of a file
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def hidden_characters(text: str) -> set[str]:
    """The letters of a text that nobody sees, or that steer a terminal."""
    return {letter for letter in text if unicodedata.category(letter) in _HIDDEN}
