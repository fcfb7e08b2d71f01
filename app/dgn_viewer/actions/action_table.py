"""Every action of the window in one table, and the menus and the toolbar as lists of their ids.

Open it to add an action: one row here, its id in `MENUS`, and what it does in the part that it
acts on. Regimes, panels and experiments bring their rows with them ('regime.*').
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from dgn_engine.protocol import commands as do
from dgn_engine.protocol.catalogue import Catalogue, ExperimentEntry, RegimeEntry
from dgn_engine.protocol.run_state import RunState
from dgn_viewer.actions.registry import ActionSpec
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.notices import Notices
from dgn_viewer.scene.panel_spec import PanelSpec
from dgn_viewer.shell.experiment_runner import ExperimentRunner
from dgn_viewer.shell.export import PanelExport
from dgn_viewer.shell.file_dialogs import FileDialogs
from dgn_viewer.shell.recorded_runs import RecordedRuns
from dgn_viewer.shell.run_control import RunControl

SEPARATOR = ""


@dataclass(frozen=True)
class Submenu:
    """A menu within a menu."""

    title: str
    entries: tuple[str, ...]


MENUS: Mapping[str, tuple[str | Submenu, ...]] = {
    "File": (
        "file.new_run", "file.open_checkpoint", "file.compare_run", "file.close_comparison",
        "file.save_configuration", "file.save_weights", "file.open_run", "file.open_session",
        "file.save_session", "file.go_back", "file.open_result", SEPARATOR,
        "file.export_panel", "file.export_all", SEPARATOR, "file.quit",
    ),
    "Edit": ("edit.undo", "edit.redo"),
    "Run": ("run.toggle", "run.step", "run.epoch", "run.reset", SEPARATOR, "run.start_engine"),
    "Gates": ("regime.*",),
    "Experiments": (
        "experiment.*", SEPARATOR, "experiments.gate_information", SEPARATOR,
        "experiments.show", "experiments.stop",
    ),
    "View": (
        "view.palette", Submenu("Panels", ("panel.*",)), SEPARATOR, "view.reset_layout", SEPARATOR,
        Submenu("Theme", ("view.theme.*",)), SEPARATOR, "view.notices",
    ),
    "Help": ("help.panel", "help.shortcuts"),
}  # fmt: skip
TOOLBAR_FIRST = ("run.toggle", "run.step", "run.epoch", "run.reset")
TOOLBAR_LAST = ("file.new_run", "file.open_checkpoint", "view.palette")
RECORDED_BANNER = ("run.toggle", "file.go_back")
INSPECTED_BANNER = ("file.new_run", "file.close_comparison")

_THEMES = (("light", "Light"), ("dark", "Dark"), ("system", "As the system"))


@dataclass(frozen=True)
class Parts:
    """What the actions act on: the parts of the window, and what only the window itself can do."""

    send: Callable[[do.Command], None]
    run: RunControl
    files: FileDialogs
    recorded: RecordedRuns
    exports: PanelExport
    experiments: ExperimentRunner
    docks: PanelDocks
    inspector: Inspector
    notices: Notices
    theme_choice: Callable[[], str]
    choose_theme: Callable[[str], None]
    open_palette: Callable[[], None]
    show_shortcuts: Callable[[], None]
    start_engine: Callable[[], None]
    quit: Callable[[], object]


def menu_of(name: str) -> str:
    """The title of the menu, or of the submenu, that holds an action."""
    for title, entries in MENUS.items():
        for entry in entries:
            inner = entry.entries if isinstance(entry, Submenu) else (entry,)
            if any(fnmatchcase(name, one) for one in inner):
                return entry.title if isinstance(entry, Submenu) else title
    raise KeyError(name)


def _is_theme(parts: Parts, name: str, _now: RunState) -> bool:
    return parts.theme_choice() == name


def _ready(now: RunState) -> bool:
    return now.ready


def _has_run(now: RunState) -> bool:
    return now.has_run


def _shows_run(now: RunState) -> bool:
    return now.run is not None


def _shows_run_and_ready(now: RunState) -> bool:
    return now.run is not None and now.ready


def fixed_actions(parts: Parts) -> tuple[ActionSpec, ...]:
    """The rows that do not depend on panels, regimes and experiments."""
    send, run, files, recorded = parts.send, parts.run, parts.files, parts.recorded
    exports, experiments, docks = parts.exports, parts.experiments, parts.docks
    row = ActionSpec

    def about_panel() -> None:
        if name := docks.front():
            parts.inspector.show_about(docks.hosts[name].spec)

    # id, text, what it does, shortcuts, icon, tip, when it is enabled
    return (
        row("run.toggle", "Run", run.toggle, ("Space",), "run",
            "Train, or pause between two steps",
            _has_run, why_not=_not_trained, text_now=_toggle_text,
            icon_now=lambda now: "pause" if now.running else "run"),
        row("run.step", "One step", lambda: send(do.Advance(1)), (".",), "step",
            "Take one training step, then pause", _has_run),
        row("run.epoch", "One epoch", run.finish_epoch, ("Shift+.",), "epoch",
            "Train to the end of this epoch, then pause", _has_run),
        row("run.reset", "Reset", lambda: send(do.Reset()), ("Ctrl+R",), "reset",
            "Begin again with the same settings and seed", _has_run),
        row("run.start_engine", "Start the engine again", parts.start_engine, (), "",
            "After the engine has stopped: the same run, paused, where its folder has it",
            lambda now: now.phase == "stopped"),
        row("file.new_run", "New run…", parts.inspector.show_run_settings, ("Ctrl+N",), "new",
            "Choose data, network and gating, and begin a new run", _ready),
        row("file.open_checkpoint", "Open checkpoint…", files.open_checkpoint, ("Ctrl+O",), "open",
            "Gates or weights of a file into this run, or its network beside it or alone", _ready),
        row("file.compare_run", "Compare with a recorded run…", files.compare_run,
            ("Ctrl+Shift+O",), "panels",
            "Show the scores and the network of a recorded run beside this one",
            _shows_run_and_ready),
        row("file.close_comparison", "Close comparison", lambda: send(do.CloseComparison()), (),
            "close", "Show the current run alone again", lambda now: now.comparison is not None),
        row("file.save_configuration", "Save configuration…", files.save_configuration,
            ("Ctrl+S",), "file",
            "Write the settings of this run as TOML, for --config and dgn train", _shows_run),
        row("file.save_weights", "Save weights…", files.save_weights, ("Ctrl+Shift+S",), "file",
            "Write both networks as they are now; the file can be dropped on the window again",
            _has_run),
        row("file.open_run", "Open run…", recorded.open_run, ("Ctrl+Shift+R",), "layers",
            "Your recorded runs: look at one as it was, or go on with it", _ready),
        row("file.open_session", "Open session…", recorded.open_session, ("Ctrl+Alt+O",), "open",
            "Show the run and the window that somebody saved as one file (.dgn)", _ready),
        row("file.save_session", "Save session…", recorded.save_session, ("Ctrl+Alt+S",), "save",
            "Write run, log, checkpoint and window into one file (.dgn) for another machine",
            _shows_run_and_ready),
        row("file.go_back", "Back to the run before", recorded.go_back, (), "undo",
            "Go on with the run that ended when this recorded one was opened",
            lambda now: bool(now.recorded and now.recorded.replaced)),
        row("file.open_result", "Open result…", experiments.open_result, (), "open",
            "The folder of a reproduced experiment, of today or of earlier"),
        row("file.export_panel", "Export panel…", lambda: exports.panel(docks.front()),
            ("Ctrl+E",), "export", "Save the panel in front as a figure or as data"),
        row("file.export_all", "Export all panels…", exports.visible_panels, ("Ctrl+Shift+E",),
            "export", "Save every visible panel as a figure or as data"),
        row("file.quit", "Quit", parts.quit, ("Ctrl+Q",)),
        row("edit.undo", "Undo", lambda: send(do.Undo()), ("Ctrl+Z",), "undo",
            "Put back what was there before the last change of regime, weights, gates or dials; "
            "the run goes on from the step that it has reached",
            lambda now: bool(now.has_run and now.undo), text_now=lambda n: _named("Undo", n.undo)),
        row("edit.redo", "Redo", lambda: send(do.Redo()), ("Ctrl+Shift+Z", "Ctrl+Y"), "redo",
            "Do again what was undone last",
            lambda now: bool(now.has_run and now.redo), text_now=lambda n: _named("Redo", n.redo)),
        row("experiments.gate_information", "Gate information of a checkpoint…",
            experiments.gate_information, (), "",
            "Train value networks with its gates and with random ones, on this run's data",
            lambda now: _shows_run(now) and not experiments.running),
        row("experiments.show", "Show results", experiments.results.open, ("Ctrl+Shift+X",), "",
            "The panel of the experiment that runs, or was opened last"),
        row("experiments.stop", "Stop the experiment", experiments.stop, (), "stop",
            "Put away what it is at; it can be continued", lambda _: experiments.running),
        row("view.palette", "Command palette…", parts.open_palette, ("Ctrl+Shift+P",), "search",
            "Find any action by its name"),
        row("view.reset_layout", "Reset layout", docks.arrange, (), "",
            "Put every panel back to where it was at first"),
        row("view.notices", "Recent notices", parts.notices.show_recent, (), "",
            "Show the last notices again"),
        *(row(f"view.theme.{name}", title, partial(parts.choose_theme, name), (), "",
              f"{title} theme", checked=partial(_is_theme, parts, name))
          for name, title in _THEMES),
        row("help.panel", "About this panel", about_panel, ("F1",), "about",
            "What the panel in front shows, with its formulas"),
        row("help.shortcuts", "Keyboard shortcuts", parts.show_shortcuts, ("?",), "",
            "Every shortcut in one list"),
    )  # fmt: skip


def panel_actions(docks: PanelDocks, panels: Mapping[str, PanelSpec]) -> tuple[ActionSpec, ...]:
    """One row per panel: open or close it."""
    return tuple(
        ActionSpec(
            f"panel.{name}",
            spec.title,
            partial(docks.toggle, name),
            (f"Ctrl+{place}",) if place <= 9 else (),
            tip=f"Open or close {spec.title}",
            checked=lambda _, name=name: docks.is_open(name),  # type: ignore[misc]
        )
        for place, (name, spec) in enumerate(panels.items(), start=1)
    )


def regime_actions(
    catalogue: Catalogue, send: Callable[[do.Command], None]
) -> tuple[ActionSpec, ...]:
    """One row per regime; the one for copied gates once more with the value network kept."""
    rows: list[ActionSpec] = []
    for place, entry in enumerate(catalogue.regimes, start=1):
        rows.append(_regime_action(entry, (f"Alt+{place}",) if place <= 9 else (), send))
        if entry.for_copied_gates:
            rows.append(
                ActionSpec(
                    f"regime.{entry.id}.keep",
                    f"{entry.id}, value network kept",
                    partial(send, do.SwapRegime(entry.id, restart_value=False)),
                    tip="Freeze the feature network; the value network goes on from where it is",
                    enabled=_has_run,
                    group=entry.group,
                )
            )
    return tuple(rows)


def _regime_action(
    entry: RegimeEntry, shortcuts: tuple[str, ...], send: Callable[[do.Command], None]
) -> ActionSpec:
    redrawn = " The value network is drawn anew." if entry.for_copied_gates else ""
    return ActionSpec(
        f"regime.{entry.id}",
        entry.title if entry.title.startswith(entry.id) else f"{entry.id} · {entry.title}",
        lambda: send(do.SwapRegime(entry.id)),
        shortcuts,
        tip=f"{entry.about}{redrawn}",
        enabled=_has_run,
        checked=lambda now: now.regime == entry.id,
        group=entry.group,
    )


def experiment_actions(
    entries: tuple[ExperimentEntry, ...], open_page: Callable[[ExperimentEntry], None]
) -> tuple[ActionSpec, ...]:
    """One row per experiment of the papers; it opens the page that begins it."""
    return tuple(
        ActionSpec(
            f"experiment.{entry.id}",
            f"{entry.paper}: {entry.title}…",
            partial(open_page, entry),
            tip=entry.about,
        )
        for entry in entries
    )


def _toggle_text(now: RunState) -> str:
    if now.running:
        return "Pause"
    return "Continue" if now.recorded is not None else "Run"


def _not_trained(now: RunState) -> str:
    name = now.inspected
    return f"Inspecting {name}: not training. Begin a new run to train." if name else ""


def _named(word: str, what: str) -> str:
    shown = what if len(what) <= 60 else f"{what[:59]}…"
    return f"{word} {shown.replace('&', '&&')}".rstrip()
