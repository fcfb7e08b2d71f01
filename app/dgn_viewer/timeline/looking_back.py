"""How parts of the window show that they are those of a step that is looked back at."""

from __future__ import annotations

from dgn_engine.scene.theme import Theme
from dgn_viewer.style.stylesheet import mixed


def background(theme: Theme, past: int | None) -> str:
    """Return the colour behind a part of the window: tinted at a step of the past."""
    return theme.window if past is None else mixed(theme.window, theme.accent, 0.12)
