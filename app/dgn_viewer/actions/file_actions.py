"""The declarations of the File menu: runs, checkpoints and figures, in and out."""

from __future__ import annotations

from dgn_engine.protocol.commands import CloseComparison
from dgn_viewer.actions.registry import ActionSpec, Shell


def _has_run(shell: Shell) -> bool:
    return shell.run_state.has_run


def _ready(shell: Shell) -> bool:
    return shell.run_state.ready


def file_actions() -> tuple[ActionSpec, ...]:
    """In the order of the menu."""
    return (
        ActionSpec(
            "file.new_run",
            "New run…",
            "File",
            lambda shell: shell.new_run(),
            ("Ctrl+N",),
            "new",
            "Choose data, network and gating, and begin a new run",
            enabled=_ready,
        ),
        ActionSpec(
            "file.open_checkpoint",
            "Open checkpoint…",
            "File",
            lambda shell: shell.files.open_checkpoint(),
            ("Ctrl+O",),
            "open",
            "Gates or weights of a file into this run, or its network beside it or alone",
            enabled=_ready,
        ),
        ActionSpec(
            "file.compare_run",
            "Compare with a recorded run…",
            "File",
            lambda shell: shell.files.compare_run(),
            ("Ctrl+Shift+O",),
            "panels",
            "Show the scores and the network of a recorded run beside this one",
            enabled=lambda shell: shell.run_state.run is not None and shell.run_state.ready,
        ),
        ActionSpec(
            "file.close_comparison",
            "Close comparison",
            "File",
            lambda shell: shell.send(CloseComparison()),
            icon="close",
            tip="Show the current run alone again",
            enabled=lambda shell: shell.run_state.comparison is not None,
        ),
        ActionSpec(
            "file.save_configuration",
            "Save configuration…",
            "File",
            lambda shell: shell.save_configuration(),
            ("Ctrl+S",),
            "file",
            "Write the settings of this run as TOML, for --config and dgn train",
            enabled=lambda shell: shell.run_state.run is not None,
        ),
        ActionSpec(
            "file.save_weights",
            "Save weights…",
            "File",
            lambda shell: shell.files.save_weights(),
            ("Ctrl+Shift+S",),
            "file",
            "Write both networks as they are now; the file can be dropped on the window again",
            enabled=_has_run,
        ),
        ActionSpec(
            "file.export_panel",
            "Export panel…",
            "File",
            lambda shell: shell.export_front(),
            ("Ctrl+E",),
            "export",
            "Save the panel in front as a figure or as data",
            section=1,
        ),
        ActionSpec(
            "file.export_all",
            "Export all panels…",
            "File",
            lambda shell: shell.export_all(),
            ("Ctrl+Shift+E",),
            "export",
            "Save every visible panel as a figure or as data",
            section=1,
        ),
        ActionSpec(
            "file.quit",
            "Quit",
            "File",
            lambda shell: shell.close(),
            ("Ctrl+Q",),
            section=2,
        ),
    )
