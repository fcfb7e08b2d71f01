"""Shows the whole window, view by view: layouts, panels, pages, dialogs, tours, states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from PySide6.QtWidgets import QApplication, QDialog, QWidget

from dgn_engine.views.layout_presets import PRESETS
from dgn_viewer.shell.tour import TourStep
from dgn_viewer.window import Window

# Its name; shows it, and returns what is new in the window where that is not all of it.
View = tuple[str, Callable[[], object]]


def layouts(window: Window) -> Iterator[View]:
    """Every arrangement of the panels."""
    for preset in PRESETS:
        yield f"layout {preset}", partial(window.docks.arrangement.arrange_preset, preset)


def panels(window: Window) -> Iterator[View]:
    """Every panel, alone in the window."""
    for name in window.docks.hosts:
        yield f"panel {name}", partial(_maximise, window, name)


def pages(window: Window) -> Iterator[View]:
    """Every page of the inspector that an action opens."""
    inspector = window.inspector
    yield "page run", inspector.show_run_settings  # with the panels beside it
    first = next(one for one in window.registry if one.startswith("experiment."))
    shown: dict[str, Callable[[], object]] = {
        "examples": window.pages.open_examples,
        "compare": window.pages.open_differences,
        "changes": window.pages.open_changes,
        "settings": window.pages.open_settings,
        "program": window.pages.open_program_page,
        "experiment": window.registry[first].trigger,
    }
    shown["about"] = partial(window.pages.open_about_panel, "spectrum")
    for name, show in shown.items():
        yield f"page {name}", partial(_opened, show, window.columns.page)


def explanations(window: Window) -> Iterator[View]:
    """'About this panel' of every panel."""
    for name in window.docks.hosts:
        show = partial(window.pages.open_about_panel, name)
        yield f"page about {name}", partial(_opened, show, window.columns.page)


def windows(window: Window) -> Iterator[View]:
    """Dialogs, lists and windows of their own."""
    experiments = window.experiments
    yield "runs", partial(_opened, window.runs.open, window.runs)
    yield "runs, folded", window.runs.fold
    yield "start card", partial(_opened, window.start_card.open, window.start_card)
    yield "start card, lines", partial(window.start_card.choose, "loop")
    yield "experiments", partial(_opened, experiments.show_list, experiments.results)
    yield "playground", partial(_opened, window.playground_bar.show, window.playground_bar)
    yield "palette", partial(_opened, window.action_views.palette.open, window.action_views.palette)
    yield "shortcuts", partial(_opened, window.action_views.sheet.open, window.action_views.sheet)
    yield (
        "notices",
        lambda: _opened(lambda: window.notice_views.list.open_at(None), window.notice_views.list),
    )
    yield "guide", partial(_opened, window.guides.help.open, window.guides.help)
    yield "log", partial(_opened, window.guides.log.open, window.guides.log)
    yield "export", lambda: _dialog(window, lambda: window.exports.save_panel("ntk"))
    yield "film", lambda: _dialog(window, lambda: window.exports.animations.open("training"))


def tours(window: Window) -> Iterator[View]:
    """Every card of both tours."""
    for name, steps in (
        ("tour", window.guides.acts.build_steps()),
        ("papers", window.guides.claims.build_steps()),
    ):
        for place in range(len(steps)):
            yield (
                f"{name} {place + 1}",
                lambda steps=steps, place=place: _card(  # type: ignore[misc]
                    window, steps, place
                ),
            )


def leave(window: Window) -> None:
    """Close whatever a view has opened."""
    window.inspector.close_page()
    window.start_card.close_card()
    window.guides.tour.skip_tour()
    window.action_views.palette.hide_and_refocus()
    window.notice_views.list.hide_and_refocus()
    window.action_views.sheet.hide()
    window.experiments.results.hide()
    window.playground_bar.hide()
    window.guides.help.close()
    window.guides.log.close()
    for dialog in window.findChildren(QDialog):
        dialog.close()
    if window.docks.arrangement.maximised_name:
        window.docks.arrangement.restore_panels()


def _maximise(window: Window, name: str) -> None:
    if window.docks.arrangement.maximised_name:
        window.docks.arrangement.restore_panels()
    window.docks.show_panel(name)
    window.docks.toggle_maximised(name)


def _card(window: Window, steps: tuple[TourStep, ...], place: int) -> QWidget:
    window.guides.tour.start(steps)
    for _ in range(place):
        window.guides.tour.go_to_next_step()
    return window.guides.tour.callout


def _opened(open_: Callable[[], object], widget: QWidget) -> QWidget:
    open_()
    return widget


def _dialog(window: Window, open_: Callable[[], object]) -> QWidget | None:
    open_()
    QApplication.processEvents()
    shown = [one for one in window.findChildren(QDialog) if one.isVisible()]
    return shown[-1] if shown else None
