"""How long ago something was, in words."""

from __future__ import annotations

_UNITS = ((86_400.0, "day"), (3600.0, "h"), (60.0, "min"))


def ago(seconds: float) -> str:
    """'just now', '3 min ago', '2 h ago', '5 days ago'."""
    for length, name in _UNITS:
        count = int(seconds // length)
        if count >= 1:
            plural = "s" if name == "day" and count > 1 else ""
            return f"{count:,} {name}{plural} ago"
    return "just now"
