"""Visual cue for parts of the window that show a past step."""

from __future__ import annotations

from dgn_engine.scene.theme import Theme
from dgn_viewer.style.stylesheet import mix_colours


def background_colour(theme: Theme, past: int | None) -> str:
    """Return the background colour: tinted if a past step is shown."""
    return theme.window if past is None else mix_colours(theme.window, theme.accent, 0.12)
