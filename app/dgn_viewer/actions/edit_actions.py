"""The declarations of undo and redo; what they would do, the engine says."""

from __future__ import annotations

from dgn_engine.protocol.commands import Redo, Undo
from dgn_viewer.actions.registry import ActionSpec


def edit_actions() -> tuple[ActionSpec, ...]:
    """In the order of the menu."""
    return (
        ActionSpec(
            "edit.undo",
            "Undo",
            "Edit",
            lambda shell: shell.send(Undo()),
            ("Ctrl+Z",),
            "undo",
            "Put back what was there before the last change of regime, weights, gates or dials; "
            "the run goes on from the step that it has reached",
            enabled=lambda shell: bool(shell.run_state.has_run and shell.run_state.undo),
            text_now=lambda shell: _named("Undo", shell.run_state.undo),
        ),
        ActionSpec(
            "edit.redo",
            "Redo",
            "Edit",
            lambda shell: shell.send(Redo()),
            ("Ctrl+Shift+Z", "Ctrl+Y"),
            "redo",
            "Do again what was undone last",
            enabled=lambda shell: bool(shell.run_state.has_run and shell.run_state.redo),
            text_now=lambda shell: _named("Redo", shell.run_state.redo),
        ),
    )


def _named(word: str, what: str) -> str:
    shown = what if len(what) <= 60 else f"{what[:59]}…"
    return f"{word} {shown.replace('&', '&&')}".rstrip()
