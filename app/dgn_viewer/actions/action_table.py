"""The declarations: what the menus, the toolbar, the palette and the shortcut list are made of."""

from __future__ import annotations

from collections.abc import Mapping

from dgn_engine.protocol.catalogue import Catalogue, RegimeEntry
from dgn_engine.protocol.commands import (
    Advance,
    Pause,
    Reset,
    Resume,
    SwapRegime,
)
from dgn_viewer.actions.edit_actions import edit_actions
from dgn_viewer.actions.file_actions import file_actions
from dgn_viewer.actions.registry import ActionSpec, Shell
from dgn_viewer.scene.panel_spec import PanelSpec

MENUS = ("File", "Edit", "Run", "Gates", "Experiments", "View", "Help")


def _has_run(shell: Shell) -> bool:
    return shell.run_state.has_run


def _not_trained(shell: Shell) -> str:
    name = shell.run_state.inspected
    return f"Inspecting {name}: not training. Begin a new run to train." if name else ""


def _run_or_pause(shell: Shell) -> None:
    shell.send(Pause() if shell.run_state.running else Resume())


def _toggle_text(shell: Shell) -> str:
    if shell.run_state.running:
        return "Pause"
    return "Continue" if shell.run_state.recorded is not None else "Run"


def fixed_actions() -> tuple[ActionSpec, ...]:
    """The actions that do not depend on what the engine can do."""
    runs, files = _run_actions(), file_actions()
    return (*runs, *files, *edit_actions(), *_view_actions(), *_help_actions())


def _run_actions() -> tuple[ActionSpec, ...]:
    return (
        ActionSpec(
            "run.toggle",
            "Run",
            "Run",
            _run_or_pause,
            ("Space",),
            "run",
            "Train, or pause between two steps",
            enabled=_has_run,
            why_not=_not_trained,
            text_now=_toggle_text,
            icon_now=lambda shell: "pause" if shell.run_state.running else "run",
        ),
        ActionSpec(
            "run.step",
            "One step",
            "Run",
            lambda shell: shell.send(Advance(1)),
            (".",),
            "step",
            "Take one training step, then pause",
            enabled=_has_run,
        ),
        ActionSpec(
            "run.epoch",
            "One epoch",
            "Run",
            lambda shell: shell.finish_epoch(),
            ("Shift+.",),
            "epoch",
            "Train to the end of this epoch, then pause",
            enabled=_has_run,
        ),
        ActionSpec(
            "run.reset",
            "Reset",
            "Run",
            lambda shell: shell.send(Reset()),
            ("Ctrl+R",),
            "reset",
            "Begin again with the same settings and seed",
            enabled=_has_run,
        ),
        ActionSpec(
            "run.start_engine",
            "Start the engine again",
            "Run",
            lambda shell: shell.start_engine(),
            tip="After the engine has stopped: the same run, paused, where its folder has it",
            enabled=lambda shell: shell.run_state.phase == "stopped",
            section=1,
        ),
    )


def _view_actions() -> tuple[ActionSpec, ...]:
    themes = tuple(
        ActionSpec(
            f"view.theme.{name}",
            f"{title}",
            "View",
            lambda shell, name=name: shell.choose_theme(name),  # type: ignore[misc]
            checked=lambda shell, name=name: shell.theme_choice == name,  # type: ignore[misc]
            tip=f"{title} theme",
            section=2,
            submenu="Theme",
        )
        for name, title in (("light", "Light"), ("dark", "Dark"), ("system", "As the system"))
    )
    return (
        ActionSpec(
            "view.palette",
            "Command palette…",
            "View",
            lambda shell: shell.open_palette(),
            ("Ctrl+Shift+P",),
            "search",
            "Find any action by its name",
        ),
        ActionSpec(
            "view.reset_layout",
            "Reset layout",
            "View",
            lambda shell: shell.reset_layout(),
            tip="Put every panel back to where it was at first",
            section=1,
        ),
        ActionSpec(
            "view.notices",
            "Recent notices",
            "View",
            lambda shell: shell.show_notices(),
            tip="Show the last notices again",
            section=3,
        ),
        *themes,
    )


def _help_actions() -> tuple[ActionSpec, ...]:
    return (
        ActionSpec(
            "help.panel",
            "About this panel",
            "Help",
            lambda shell: shell.about_front(),
            ("F1",),
            "about",
            "What the panel in front shows, with its formulas",
        ),
        ActionSpec(
            "help.shortcuts",
            "Keyboard shortcuts",
            "Help",
            lambda shell: shell.show_shortcuts(),
            ("?",),
            tip="Every shortcut in one list",
        ),
    )


def panel_actions(panels: Mapping[str, PanelSpec]) -> tuple[ActionSpec, ...]:
    """One action per panel: open or close it."""
    return tuple(
        ActionSpec(
            f"panel.{name}",
            spec.title,
            "View",
            lambda shell, name=name: shell.toggle_panel(name),  # type: ignore[misc]
            (f"Ctrl+{place}",) if place <= 9 else (),
            tip=f"Open or close {spec.title}",
            checked=lambda shell, name=name: shell.panel_is_open(name),  # type: ignore[misc]
            section=0,
            submenu="Panels",
        )
        for place, (name, spec) in enumerate(panels.items(), start=1)
    )


def regime_actions(catalogue: Catalogue) -> tuple[ActionSpec, ...]:
    """One action per regime, and 'FL' once more with the value network kept."""
    actions: list[ActionSpec] = []
    groups = list(dict.fromkeys(entry.group for entry in catalogue.regimes))
    for place, entry in enumerate(catalogue.regimes, start=1):
        section = groups.index(entry.group)
        shortcuts = (f"Alt+{place}",) if place <= 9 else ()
        actions.append(_regime_action(entry, shortcuts, section))
        if entry.id == "FL":
            actions.append(_fl_kept(section))
    return tuple(actions)


def _fl_kept(section: int) -> ActionSpec:
    return ActionSpec(
        "regime.FL.keep",
        "FL, value network kept",
        "Gates",
        lambda shell: shell.send(SwapRegime("FL", restart_value=False)),
        tip="Freeze the feature network; the value network goes on from where it is",
        enabled=_has_run,
        section=section,
    )


def _regime_action(entry: RegimeEntry, shortcuts: tuple[str, ...], section: int) -> ActionSpec:
    return ActionSpec(
        f"regime.{entry.id}",
        entry.title if entry.title.startswith(entry.id) else f"{entry.id} · {entry.title}",
        "Gates",
        lambda shell: shell.send(SwapRegime(entry.id)),
        shortcuts,
        tip=f"{entry.about} The value network is drawn anew." if entry.id == "FL" else entry.about,
        enabled=_has_run,
        checked=lambda shell: shell.run_state.regime == entry.id,
        section=section,
    )
