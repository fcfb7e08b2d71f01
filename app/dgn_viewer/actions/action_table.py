"""Every action of the window in one table, and the menus and the toolbar as lists of their ids.

Open it to add an action: one row here, its id in `MENUS`, and what it does in the part that it
acts on. Regimes, panels and experiments bring their rows with them ('regime.*').
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.experiments.report.papers import paper_title, place_in_paper
from dgn_engine.protocol.branches import CloseComparison, StopBranch
from dgn_engine.protocol.catalogue import Catalogue, ExperimentEntry, RegimeEntry
from dgn_engine.protocol.messages import Command
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import (
    Advance,
    GoBack,
    Redo,
    Reset,
    StartRun,
    SwapRegime,
    Undo,
    UndoSetting,
)
from dgn_engine.scene.panel_spec import PanelSpec
from dgn_engine.views.layout_presets import PRESETS
from dgn_viewer.actions.registry import ActionSpec
from dgn_viewer.docks.layout_history import LayoutHistory
from dgn_viewer.docks.linked_steps import LinkedSteps
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.inspector.inspector_column import Inspector
from dgn_viewer.notices import Notices
from dgn_viewer.shell.animation_export import AnimationExport
from dgn_viewer.shell.event_walk import EventWalk
from dgn_viewer.shell.experiment_runner import ExperimentRunner
from dgn_viewer.shell.export import PanelExport
from dgn_viewer.shell.file_dialogs import FileDialogs
from dgn_viewer.shell.recent_files import MOST, RecentFiles
from dgn_viewer.shell.recorded_runs import RecordedRuns
from dgn_viewer.shell.run_control import RunControl
from dgn_viewer.timeline.step_cursor import StepCursor

LAYOUT = "teach"
_PACE = 40.0  # steps a second, slow enough to be followed
SEPARATOR = ""
TOOLBAR_FIRST = ("run.toggle", "run.step", "run.epoch", "run.reset")
TOOLBAR_LAST = ("file.new_run", "file.open_checkpoint", "view.palette")
RECORDED_BANNER = ("run.toggle", "file.go_back")
INSPECTED_BANNER = (
    "run.train_on",
    "run.train_on_gates",
    "file.new_run",
    "run.stop_branch",
    "view.compare",
    "file.close_comparison",
)
_THEMES = (("light", "Light"), ("dark", "Dark"), ("system", "As the system"))


def link_actions(
    compare: Callable[[], object], cursor: StepCursor, steps: LinkedSteps
) -> tuple[ActionSpec, ...]:
    """Rows of the table of actions. `compare`: the step that is looked back at becomes B."""

    def mark() -> None:
        steps.mark(cursor.last_step if cursor.step is None else cursor.step)

    def why_not(_now: RunState) -> str:
        if why := cursor.why_not:
            return why
        return "" if cursor.step is not None else "Look back at a step first: it becomes B."

    return (
        ActionSpec("time.compare", "Compare with this step", compare, ("Ctrl+Alt+B",), "panels",
            "Keep the step that is looked back at as B, beside what is there now or at another "
            "step", lambda now: not why_not(now), why_not=why_not),
        ActionSpec("view.delta", "Mark this step", mark, ("Ctrl+Alt+D",), "",
            "Of two marked steps every chart over steps says what has changed between them; "
            "a click with Shift marks, too", lambda now: now.run is not None),
        ActionSpec("view.no_delta", "No marked steps", steps.clear, ("Ctrl+Alt+Shift+D",), "",
            "Take the marked steps away", lambda _: bool(steps.marks)),
        ActionSpec("view.link_steps", "Zoom steps together", steps.toggle, (), "",
            "All time axes show the same steps; a double click shows all of them again",
            checked=lambda _: steps.linked),
    )  # fmt: skip


def playground_run(data: str) -> RunConfig:
    """Three gate layers of eight units: few enough paths to see each, enough to learn every set."""
    return RunConfig(
        data=DataConfig(name=data),
        net=NetConfig(name="fc", options=(("depth", 4), ("width", 8))),
        training=TrainingConfig(learning_rate=1e-2, batch=32, epochs=0, pace=_PACE),
    )


def playground_actions(
    catalogue: Catalogue, docks: PanelDocks, send: Callable[[Command], None]
) -> tuple[ActionSpec, ...]:
    """One row for each data set of the plane."""

    def begin(data: str) -> None:
        docks.arrangement.arrange(LAYOUT)
        send(StartRun(playground_run(data)))

    return tuple(
        ActionSpec(
            f"playground.{entry.id}",
            f"Playground: {entry.title}",
            partial(begin, entry.id),
            tip="Train a small network on these points of the plane, with the layout Teach: "
            "regions, paths, gates and the path kernel",
            enabled=_ready,
        )
        for entry in catalogue.data
        if entry.plane
    )


@dataclass(frozen=True)
class Submenu:
    """A menu within a menu."""

    title: str
    entries: tuple[str, ...]


@dataclass(frozen=True)
class Grouped:
    """A family of actions in submenus, one for each of their groups."""

    family: str


MENUS: Mapping[str, tuple[str | Submenu | Grouped, ...]] = {
    "File": (
        "file.new_run", "file.open_configuration", Submenu("Open recent", ("recent.*",)), SEPARATOR,
        "file.open_checkpoint", "file.compare_run", "file.close_comparison",
        "file.save_configuration", "file.save_weights", "file.open_run", "file.follow_run",
        "file.open_session", "file.save_session", "file.go_back", "file.open_result", SEPARATOR,
        "file.export_panel", "file.export_all", "file.save_animation", SEPARATOR, "file.quit",
    ),
    "Edit": ("edit.undo", "edit.redo", "edit.undo_setting", SEPARATOR,
             "edit.undo_layout", "edit.redo_layout", SEPARATOR, "edit.examples", "edit.settings"),
    "Run": ("run.toggle", "run.step", "run.epoch", "run.reset", "run.go_back", SEPARATOR,
            "run.branch", "run.stop_branch", SEPARATOR,
            "run.train_on", "run.train_on_gates", SEPARATOR, "run.start_engine"),
    "Gates": ("regime.*",),
    "Experiments": (
        Grouped("experiment.*"), SEPARATOR, "experiments.gate_information", SEPARATOR,
        "experiments.show", "experiments.stop",
    ),
    "View": (
        "view.palette", Submenu("Panels", ("panel.*",)), SEPARATOR, "view.maximise",
        Submenu("Layout", ("view.layout.*", SEPARATOR, "view.reset_layout")), SEPARATOR,
        Submenu("Theme", ("view.theme.*",)), SEPARATOR,
        Submenu("Look back", (
            "time.previous", "time.next", "time.first", "time.live", SEPARATOR, "time.play",
            "time.compare")), "view.previous_event", "view.next_event",
        "view.follow", "view.delta", "view.no_delta", "view.link_steps", SEPARATOR,
        "view.next_part", "view.previous_part", SEPARATOR, "view.compare", "view.changes",
        "view.notices", "view.chart_menu"),
    "Help": (
        "help.guide", "help.tour", "help.claims", Submenu("Playground", ("playground.*",)),
        "help.panel", "help.shortcuts", SEPARATOR, "help.log", "help.about",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Parts:
    """What the actions act on: the parts of the window, and what only the window itself can do."""

    send: Callable[[Command], None]
    run: RunControl
    files: FileDialogs
    recorded: RecordedRuns
    exports: PanelExport
    animations: AnimationExport
    experiments: ExperimentRunner
    docks: PanelDocks
    inspector: Inspector
    notices: Notices
    theme_choice: Callable[[], str]
    choose_theme: Callable[[str], None]
    open_palette: Callable[[], None]
    show_shortcuts: Callable[[], None]
    open_settings: Callable[[], None]
    open_examples: Callable[[], None]
    open_guide: Callable[[], None]
    start_tour: Callable[[], None]
    start_claims: Callable[[], None]
    walk: Callable[[int], None]
    events: EventWalk
    cursor: StepCursor
    show_program: Callable[[], None]
    show_log: Callable[[], None]
    start_engine: Callable[[], None]
    open_compare: Callable[[], None]
    compare_step: Callable[[], None]
    open_changes: Callable[[], None]
    layouts: LayoutHistory
    quit: Callable[[], object]


def menu_of(name: str) -> str:
    """The title of the menu, or of the submenu, that holds an action."""
    for title, entries in MENUS.items():
        for entry in entries:
            match entry:
                case Submenu(entries=inner):
                    pass
                case Grouped(family=family):
                    inner = (family,)
                case _:
                    inner = (entry,)
            if any(fnmatchcase(name, one) for one in inner):
                return entry.title if isinstance(entry, Submenu) else title
    raise KeyError(name)


def _is_theme(parts: Parts, name: str, _now: RunState) -> bool:
    return parts.theme_choice() == name


def _is_layout(docks: PanelDocks, name: str, _now: RunState) -> bool:
    return docks.arrangement.stands_as(name)


def _ready(now: RunState) -> bool:
    return now.ready


def _has_run(now: RunState) -> bool:
    return now.has_run


def _back_text(now: RunState) -> str:
    step = "the last finite state" if now.back_to is None else f"step {now.back_to:,}"
    return f"Go back to {step}"


def _shows_run(now: RunState) -> bool:
    return now.run is not None


def _shows_run_and_ready(now: RunState) -> bool:
    return now.run is not None and now.ready


def fixed_actions(parts: Parts) -> tuple[ActionSpec, ...]:
    """The rows that do not depend on panels, regimes and experiments."""
    send, run, files, recorded = parts.send, parts.run, parts.files, parts.recorded
    exports, experiments, docks = parts.exports, parts.experiments, parts.docks
    arranged = docks.arrangement
    row = ActionSpec

    cursor, player = parts.cursor, parts.cursor.player

    def looks_back(_now: RunState) -> bool:
        return not cursor.why_not

    def why_live(_now: RunState) -> str:
        return cursor.why_not

    def about_panel() -> None:
        if name := docks.front():
            parts.inspector.show_about(docks.hosts[name].spec)

    def chart_menu() -> None:
        if name := docks.front():
            docks.hosts[name].charts.open_menu()

    # id, text, what it does, shortcuts, icon, tip, when it is enabled
    return (
        row("run.toggle", "Run", run.toggle, ("Space",), "run",
            "Train, or pause between two steps",
            _has_run, why_not=_not_trained, text_now=_toggle_text,
            icon_now=lambda now: "pause" if now.running else "run"),
        row("run.step", "One step", lambda: send(Advance(1)), (".",), "step",
            "Take one training step, then pause", _has_run),
        row("run.epoch", "One epoch", run.finish_epoch, ("Shift+.",), "epoch",
            "Train to the end of this epoch, then pause", _has_run),
        row("run.reset", "Reset", lambda: send(Reset()), ("Ctrl+R",), "reset",
            "Begin again with the same settings and seed", _has_run),
        row("run.go_back", "Go back to the last finite state", lambda: send(GoBack()),
            ("Ctrl+Alt+R",), "undo",
            "Put a run that has diverged back to its newest finite state: weights, optimiser and "
            "dials. It stays paused, and its count of steps goes on",
            lambda now: now.has_run and now.back_to is not None, text_now=_back_text),
        row("run.train_on", "Train on from here", partial(run.train_on, 0), (), "",
            "Begin a run with the weights of the network that is inspected, and its own gates",
            _trains_on(0), why_not=_why_not_on(0)),
        row("run.train_on_gates", "Train on, gates fixed", partial(run.train_on, 1), (), "",
            "Begin a run with its weights whose gates stand still as they are (FL)",
            _trains_on(1), why_not=_why_not_on(1)),
        row("run.branch", "Branch from here…", parts.open_compare, ("Ctrl+B",), "",
            "Train the same run with another regime, order, rate or seed beside it, from now or "
            "from any step that it has taken", _has_run),
        row("run.stop_branch", "Stop the branch", lambda: send(StopBranch()), (), "stop",
            "Stop training the branch; it stays recorded among your runs",
            lambda now: now.branch is not None and now.branch.trains),
        row("run.start_engine", "Start the engine again", parts.start_engine, (), "",
            "After the engine has stopped: the same run, paused, where its folder has it",
            lambda now: now.phase == "stopped"),
        row("file.new_run", "New run…", parts.inspector.show_run_settings, ("Ctrl+N",), "new",
            "Choose data, network and gating, and begin a new run", _ready),
        row("file.open_configuration", "Open configuration…", files.open_configuration,
            ("Ctrl+Shift+N",), "open", "Begin a new run with the settings of a TOML file", _ready),
        row("file.open_checkpoint", "Open checkpoint…", files.open_checkpoint, ("Ctrl+O",), "open",
            "Gates or weights of a file into this run, or its network beside it or alone", _ready),
        row("file.compare_run", "Compare with a recorded run…", files.compare_run,
            ("Ctrl+Shift+O",), "panels",
            "Show the scores and the network of a recorded run beside this one",
            _shows_run_and_ready),
        row("file.close_comparison", "Close comparison", lambda: send(CloseComparison()), (),
            "close", "Show the current run alone again", lambda now: now.comparison is not None),
        row("file.save_configuration", "Save configuration…", files.save_configuration,
            ("Ctrl+S",), "file",
            "Write the settings of this run as TOML, for --config and dgn train", _shows_run),
        row("file.save_weights", "Save weights…", files.save_weights, ("Ctrl+Shift+S",), "file",
            "Write both networks as they are now; the file can be dropped on the window again",
            _has_run),
        row("file.open_run", "Open run…", recorded.open_run, ("Ctrl+Shift+R",), "layers",
            "Your recorded runs: look at one as it was, or go on with it", _ready),
        row("file.follow_run", "Follow a run over ssh…", recorded.remote.open, (), "",
            "A run of another machine, live, as 'dgn serve' serves it there", _ready),
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
        row("file.save_animation", "Save animation…", parts.animations.open, ("Ctrl+Alt+E",), "",
            "Save panels at a range of recorded steps as a GIF, or as an MP4 where ffmpeg is",
            looks_back, why_not=why_live),
        row("file.quit", "Quit", parts.quit, ("Ctrl+Q",)),
        row("edit.undo", "Undo", lambda: send(Undo()), ("Ctrl+Z",), "undo",
            "Put the run back to before its last change: weights, optimiser, settings and order of "
            "the data. Its count of steps goes on",
            lambda now: bool(now.has_run and now.undo), text_now=lambda n: _named("Undo", n.undo)),
        row("edit.redo", "Redo", lambda: send(Redo()), ("Ctrl+Shift+Z", "Ctrl+Y"), "redo",
            "Do again what was undone last",
            lambda now: bool(now.has_run and now.redo), text_now=lambda n: _named("Redo", n.redo)),
        row("edit.undo_setting", "Put only the setting back", lambda: send(UndoSetting()), (),
            "", "Put the setting back that was changed last, and keep the weights as they are now",
            lambda now: now.has_run and now.diverged is None and bool(_setting(now)),
            text_now=lambda n: f"Put only {_setting(n) or 'the setting'} back"),
        row("edit.examples", "Probe examples…", parts.open_examples, ("Ctrl+Shift+D",), "",
            "Choose what every kernel panel is measured on: by class, by hand, the misclassified, "
            "or a digit that you draw", _shows_run),
        row("edit.undo_layout", "Undo layout", parts.layouts.undo, ("Ctrl+Alt+Z",), "",
            "Put the panels, and the zoom that time axes share, back to what they were before the "
            "last change",
            lambda _: parts.layouts.can_undo),
        row("edit.redo_layout", "Redo layout", parts.layouts.redo, ("Ctrl+Alt+Shift+Z",), "",
            "Do again the change of the layout that was undone last",
            lambda _: parts.layouts.can_redo),
        row("edit.settings", "Settings…", parts.open_settings, ("Ctrl+,",), "settings",
            "The run at start, theme, viewer overhead, shortcuts"),
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
        row("view.maximise", "Maximise panel", docks.toggle_maximised, ("Ctrl+Shift+M",),
            "maximise", "Let the panel in front fill the window; again, or Esc: as it was before",
            text_now=lambda _: "Restore panels" if arranged.maximised else "Maximise panel",
            icon_now=lambda _: "restore" if arranged.maximised else "maximise"),
        *(row(f"view.layout.{name}", f"{preset.title} layout", partial(arranged.arrange, name), (),
              "", preset.about, checked=partial(_is_layout, docks, name))
          for name, preset in PRESETS.items()),
        row("view.reset_layout", "Reset layout", arranged.arrange, (), "",
            "Put every panel back to where it was at first"),
        row("view.chart_menu", "Menu of the chart", chart_menu, ("Shift+F10", "Menu"), "",
            "Range, smoothing, colours and values of a chart of the panel in front"),
        row("view.previous_event", "Previous event", partial(parts.events.go, -1), ("Alt+PgUp",),
            "", "Show the steps around the event before on every time axis", _shows_run),
        row("view.next_event", "Next event", partial(parts.events.go, 1), ("Alt+PgDown",), "",
            "Show the steps around the next swap, permutation, drop or dial", _shows_run),
        row("time.previous", "Step before", partial(cursor.move, -1), ("Alt+Left",), "",
            "All panels show the recorded step before; on the bar of time ← does the same",
            looks_back, why_not=why_live),
        row("time.next", "Step after", partial(cursor.move, 1), ("Alt+Right",), "",
            "All panels show the next recorded step, and beyond the last what is there now",
            looks_back, why_not=why_live),
        row("time.first", "First step", cursor.first, ("Alt+Home",), "",
            "All panels show the first recorded step", looks_back, why_not=why_live),
        row("time.live", "Back to live", cursor.live, ("Ctrl+End",), "live",
            "All panels show what is there now again (Esc)", lambda _: cursor.step is not None),
        row("time.play", "Play", player.play, ("Shift+Space",), "play",
            "Let all panels run through what was recorded; training goes on",
            looks_back, why_not=why_live,
            text_now=lambda _: "Stop playing" if player.playing else "Play the recorded steps",
            icon_now=lambda _: "stop" if player.playing else "play"),
        *link_actions(parts.compare_step, cursor, docks.steps),
        row("view.follow", "Follow again", parts.events.follow, ("Alt+End",), "",
            "Show all steps on every time axis, up to the newest", _shows_run),
        row("view.next_part", "Next panel", partial(parts.walk, 1), ("F6", "Ctrl+Tab"), "",
            "Give the keyboard to the next part: the strip, each panel, the inspector"),
        row("view.previous_part", "Previous panel", partial(parts.walk, -1),
            ("Shift+F6", "Ctrl+Shift+Tab"), "", "Give the keyboard to the part before"),
        row("view.compare", "Differences of A and B", parts.open_compare, ("Ctrl+D",), "panels",
            "What is set differently, and scores, ν and traces of both in a table",
            _shows_run),
        row("view.changes", "Changes of the run", parts.open_changes, ("Ctrl+H",), "",
            "Each in words, with its values; the run can be taken back to before any",
            _shows_run),
        row("view.notices", "Recent notices", parts.notices.show_recent, (), "",
            "What happened lately, and what can still be done about it"),
        *(row(f"view.theme.{name}", title, partial(parts.choose_theme, name), (), "",
              f"{title} theme", checked=partial(_is_theme, parts, name))
          for name, title in _THEMES),
        row("help.panel", "About this panel", about_panel, ("F1",), "about",
            "What the panel in front shows, with its formulas"),
        row("help.guide", "User guide", parts.open_guide, ("Shift+F1",), "",
            "The guide, with its contents and a search, in a window of its own"),
        row("help.tour", "Tour", parts.start_tour, (), "",
            "Six callouts that point at the live run, and can act on it", _shows_run_and_ready),
        row("help.claims", "Tour of the papers", parts.start_claims, (), "",
            "Eight callouts: what the papers claim, on live runs of this window",
            _shows_run_and_ready),
        row("help.log", "Show the log", parts.show_log, (), "", "Starts, notices and faults"),
        row("help.about", "About dgn-viewer", parts.show_program, (), "",
            "Versions, papers and licences"),
        row("help.shortcuts", "Keyboard shortcuts", parts.show_shortcuts, ("?",), "",
            "Every shortcut in one list"),
    )  # fmt: skip


def recent_actions(recent: RecentFiles) -> tuple[ActionSpec, ...]:
    """One row for each of the files and runs that were opened last."""
    return tuple(
        ActionSpec(
            f"recent.{place + 1}",
            "Open recent",
            partial(recent.open, place),
            tip="Open it again",
            enabled=partial(_can_open, recent, place),
            visible=partial(_is_recent, recent, place),
            text_now=partial(_recent_text, recent, place),
            fixed=False,
        )
        for place in range(MOST)
    )


def _can_open(recent: RecentFiles, place: int, now: RunState) -> bool:
    return now.ready and recent.is_there(place)


def _is_recent(recent: RecentFiles, place: int, _now: RunState) -> bool:
    return place < len(recent.items)


def _recent_text(recent: RecentFiles, place: int, _now: RunState) -> str:
    return recent.text(place) or "Open recent"


def panel_actions(docks: PanelDocks, panels: Mapping[str, PanelSpec]) -> tuple[ActionSpec, ...]:
    """One row per panel: open or close it."""
    return tuple(
        ActionSpec(
            f"panel.{name}",
            spec.title,
            partial(docks.toggle, name),
            (f"Ctrl+{place}",) if place <= 9 else (),
            tip=f"Open or close {spec.title}",
            checked=lambda _, name=name: docks.arrangement.is_open(name),  # type: ignore[misc]
            group="" if spec.opened else "more",
        )
        for place, (name, spec) in enumerate(panels.items(), start=1)
    )


def regime_actions(catalogue: Catalogue, send: Callable[[Command], None]) -> tuple[ActionSpec, ...]:
    """One row per regime; the one for copied gates once more with the value network kept."""
    rows: list[ActionSpec] = []
    for place, entry in enumerate(catalogue.regimes, start=1):
        rows.append(_regime_action(entry, (f"Alt+{place}",) if place <= 9 else (), send))
        if entry.for_copied_gates:
            rows.append(
                ActionSpec(
                    f"regime.{entry.id}.keep",
                    f"{entry.id}, value network kept",
                    partial(send, SwapRegime(entry.id, restart_value=False)),
                    tip="Freeze the feature network; the value network goes on from where it is",
                    enabled=_has_run,
                    group=entry.group,
                )
            )
    return tuple(rows)


def _regime_action(
    entry: RegimeEntry, shortcuts: tuple[str, ...], send: Callable[[Command], None]
) -> ActionSpec:
    redrawn = " The value network is drawn anew." if entry.for_copied_gates else ""
    return ActionSpec(
        f"regime.{entry.id}",
        entry.title if entry.title.startswith(entry.id) else f"{entry.id} · {entry.title}",
        lambda: send(SwapRegime(entry.id)),
        shortcuts,
        tip=f"{entry.about}{redrawn}",
        enabled=_has_run,
        checked=lambda now: now.regime == entry.id,
        group=entry.group,
    )


def experiment_actions(
    entries: tuple[ExperimentEntry, ...],
    open_page: Callable[[ExperimentEntry], None],
    made: Callable[[str], str],
) -> tuple[ActionSpec, ...]:
    """One row per experiment of the papers; it opens the page that begins it. `made(id)`: the day
    of its newest result, or ''.
    """
    return tuple(
        ActionSpec(
            f"experiment.{entry.id}",
            f"{entry.title}…",
            partial(open_page, entry),
            tip=f"{entry.paper}. {entry.about}",
            text_now=partial(_experiment_text, entry, made),
            group=paper_title(entry.paper),
        )
        for entry in entries
    )


def _experiment_text(entry: ExperimentEntry, made: Callable[[str], str], _now: RunState) -> str:
    """'Table 2: FLNPF beside FRNPF… · about 4 min ✓ result of 2026-11-02'."""
    place, day = place_in_paper(entry.paper), made(entry.id)
    title = f"{place}: {entry.title}" if place else entry.title
    cost = "" if entry.quick_cost in ("", "not measured") else f" · about {entry.quick_cost}"
    return f"{title}…{cost}{f' · ✓ result of {day}' if day else ''}".replace("&", "&&")


def _toggle_text(now: RunState) -> str:
    if now.running:
        return "Pause"
    return "Continue" if now.recorded is not None else "Run"


def _trains_on(place: int) -> Callable[[RunState], bool]:
    """Whether the network that is inspected can be trained in the regime at this place."""
    return lambda now: now.training is not None and place < len(now.training.regimes)


def _why_not_on(place: int) -> Callable[[RunState], str]:
    def why(now: RunState) -> str:
        if now.training is None:
            return "" if not now.inspected else "It is still being read."
        if place < len(now.training.regimes):
            return ""
        return now.training.remark or "Its own gates are those that it can be trained with."

    return why


def _not_trained(now: RunState) -> str:
    name = now.inspected
    if now.run is not None and now.run.watched:
        return f"Trained by another program ({now.run.watched}): it goes on there, not here."
    return f"Inspecting {name}: not training. Train on from here, or begin a run." if name else ""


def _setting(now: RunState) -> str:
    return now.changes.setting if now.changes is not None else ""


def _named(word: str, what: str) -> str:
    shown = what if len(what) <= 60 else f"{what[:59]}…"
    return f"{word} {shown.replace('&', '&&')}".rstrip()
