"""The declarations of what is done with recorded runs and session files."""

from __future__ import annotations

from typing import Protocol

from dgn_viewer.actions.registry import ActionSpec, Shell


class SessionActions(Protocol):
    """Who does it."""

    def open_run(self) -> None: ...
    def open_session(self) -> None: ...
    def save_session(self) -> None: ...
    def go_back(self) -> None: ...
    @property
    def aside(self) -> str: ...


def session_actions(sessions: SessionActions) -> tuple[ActionSpec, ...]:
    """In the order of the menu."""
    return (
        ActionSpec(
            "file.open_run",
            "Open run…",
            "File",
            lambda _: sessions.open_run(),
            ("Ctrl+Shift+R",),
            "layers",
            "Your recorded runs: look at one as it was, or go on with it",
            enabled=_ready,
        ),
        ActionSpec(
            "file.open_session",
            "Open session…",
            "File",
            lambda _: sessions.open_session(),
            ("Ctrl+Alt+O",),
            "open",
            "Show the run and the window that somebody saved as one file (.dgn)",
            enabled=_ready,
        ),
        ActionSpec(
            "file.save_session",
            "Save session…",
            "File",
            lambda _: sessions.save_session(),
            ("Ctrl+Alt+S",),
            "save",
            "Write run, log, checkpoint and window into one file (.dgn) for another machine",
            enabled=lambda shell: shell.run_state.run is not None and shell.run_state.ready,
        ),
        ActionSpec(
            "file.go_back",
            "Back to the run before",
            "File",
            lambda _: sessions.go_back(),
            (),
            "undo",
            "Go on with the run that ended when this recorded one was opened",
            enabled=lambda shell: bool(shell.run_state.recorded and sessions.aside),
        ),
    )


def _ready(shell: Shell) -> bool:
    return shell.run_state.ready
