"""How numbers are written, by example: '1,234.5', '1 234,5' or '1234.5'."""

from __future__ import annotations

import re

NUMBERS = ("1,234.5", "1 234,5", "1234.5")
_NARROW = "\N{NARROW NO-BREAK SPACE}"
# A number that is no part of a name, of a version or of a list without spaces, and not what stands
# in a path, in quotation marks or after '=': that is what somebody has typed.
_NUMBER = re.compile(r"(?<![\w.,/\\'=])(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\d,.]*\d|\.\w|[/\\'=])")


def written(text: str, example: str) -> str:
    """A text of ours with its numbers written as in the example; names and versions stay."""
    if example not in NUMBERS[1:]:
        return text
    gap, point = (_NARROW, ",") if example == NUMBERS[1] else ("", ".")

    def rewritten(found: re.Match[str]) -> str:
        decimals = found[2].replace(".", point) if found[2] else ""
        return found[1].replace(",", gap) + decimals

    return _NUMBER.sub(rewritten, text)
