"""Number styles by example: '1,234.5', '1 234,5' or '1234.5'."""

from __future__ import annotations

import re

NUMBERS = ("1,234.5", "1 234,5", "1234.5")
_NARROW = "\N{NARROW NO-BREAK SPACE}"
# A number outside names, versions and lists without spaces, and not in a path, in quotation marks
# or after '=': those are quoted from the user.
_NUMBER = re.compile(r"(?<![\w.,/\\'=])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\d,.]*\d|\.\w|[/\\'=])")


def rewrite_numbers(text: str, example: str) -> str:
    """Rewrite the numbers of a text in the style of the example; names and versions stay."""
    if example not in NUMBERS[1:]:
        return text
    gap, point = (_NARROW, ",") if example == NUMBERS[1] else ("", ".")

    def rewrite_match(found: re.Match[str]) -> str:
        decimals = found[2].replace(".", point) if found[2] else ""
        return found[1].replace(",", gap) + decimals

    return _NUMBER.sub(rewrite_match, text)
