"""Docks as a tree of rows and columns: described, arranged, refused; opened for a comparison."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QCursor
from PySide6.QtWidgets import QApplication, QLabel, QTabBar, QWidget
from pytestqt.qtbot import QtBot

from dgn_engine.scene.theme import LIGHT
from dgn_engine.views.reading_age import Age
from dgn_viewer.docks.layout_history import LayoutHistory, is_same
from dgn_viewer.docks.linked_steps import StepZoom
from dgn_viewer.docks.panel_docks import PanelDocks
from dgn_viewer.style.stylesheet import application_stylesheet, theme_palette
from tests.viewer.docks.laid_out import dock_of, docks_in, shape, spec, title_of

SPECS = {
    "a": spec("a", "left", order=0),
    "b": spec("b", "left", order=1),
    "both": spec("both", "left", compares=True, order=2),
    "c": spec("c", "right", order=0),
    "d": spec("d", "right", order=1),
}


@pytest.fixture
def docks(qtbot: QtBot) -> Iterator[PanelDocks]:
    yield from docks_in(qtbot, SPECS, 800)


def test_at_first_two_columns_each_in_the_order_of_its_panels(docks: PanelDocks) -> None:
    layout = docks.arrangement.current_layout()
    assert shape(layout["tree"]) == (["a", "b"], ["c", "d"])
    assert layout["floating"] == {}
    assert layout["tree"]["shares"] == pytest.approx([0.56, 0.44], abs=0.02)
    for column in layout["tree"]["parts"]:
        assert column["shares"] == pytest.approx([0.5, 0.5], abs=0.02)
    assert docks.visible_panels() == ("a", "b", "c", "d")
    assert [name for name in SPECS if docks.arrangement.is_open(name)] == ["a", "b", "c", "d"]


def test_a_panel_is_closed_and_opened_again(docks: PanelDocks, qtbot: QtBot) -> None:
    with qtbot.waitSignal(docks.changed):
        docks.toggle_panel("b")
    assert docks.visible_panels() == ("a", "c", "d")
    assert not docks.arrangement.is_open("b")
    assert shape(docks.arrangement.current_layout()["tree"]) == ("a", ["c", "d"])
    with qtbot.waitSignal(docks.changed):
        docks.toggle_panel("b")
    assert docks.visible_panels() == ("a", "b", "c", "d")
    docks.toggle_panel("b")
    docks.arrangement.arrange_preset()
    assert docks.arrangement.is_open("b")


LAYOUTS: tuple[tuple[dict[str, Any], Any], ...] = (
    ({"tabs": ["c"]}, "c"),
    (
        {"across": False, "shares": [0.25, 0.75], "parts": [{"tabs": ["d"]}, {"tabs": ["a"]}]},
        ["d", "a"],
    ),
    (
        {
            "across": True,
            "shares": [0.3, 0.7],
            "parts": [
                {"tabs": ["b"]},
                {
                    "across": False,
                    "shares": [0.6, 0.4],
                    "parts": [{"tabs": ["c"]}, {"tabs": ["a", "d"]}],
                },
            ],
        },
        ("b", ["c", {"a", "d"}]),
    ),
    (  # tabs at first, and two panels closed
        {"across": True, "shares": [0.6, 0.4], "parts": [{"tabs": ["a", "b"]}, {"tabs": ["c"]}]},
        ({"a", "b"}, "c"),
    ),
    ({"tabs": ["b", "a"]}, {"a", "b"}),
)


@pytest.mark.parametrize(("tree", "expected"), LAYOUTS)
def test_a_layout_is_taken_and_described_alike(
    docks: PanelDocks, qtbot: QtBot, tree: dict[str, Any], expected: Any
) -> None:
    assert docks.arrangement.restore_layout({"tree": copy.deepcopy(tree), "floating": {}})
    qtbot.waitUntil(
        lambda: alike(docks.arrangement.current_layout()["tree"], tree)
    )  # docks glide to their sizes
    assert shape(docks.arrangement.current_layout()["tree"]) == expected
    tabs = re.findall(r"\[('[^\[{]*?')\]", str(tree))  # of each place
    fronts = {place.split("'")[1] for place in tabs}
    assert set(docks.visible_panels()) == fronts
    closed = [name for name in SPECS if not docks.arrangement.is_open(name)]
    assert set(closed) == {name for name in SPECS if f"'{name}'" not in str(tree)}
    for name in closed:
        docks.toggle_panel(name)
    qtbot.waitUntil(lambda: {*fronts, *closed} <= set(docks.visible_panels()))


def alike(found: Any, wanted: Any) -> bool:
    """The same tree, with shares that differ by five hundredths at most."""
    if "tabs" in wanted:
        return bool(found.get("tabs") == wanted["tabs"])  # the one in front first
    return (
        found.get("across") == wanted["across"]
        and found["shares"] == pytest.approx(wanted["shares"], abs=0.05)
        and all(map(alike, found["parts"], wanted["parts"]))
    )


@pytest.mark.wide
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("shares", [(0.25, 0.25, 0.5), (0.25, 0.35, 0.4), (0.1, 0.1, 0.2)])
def test_rooms_are_as_the_shares_to_the_pixel(
    docks: PanelDocks, qtbot: QtBot, across: bool, shares: tuple[float, ...]
) -> None:
    docks.window.resize(1600, 1200)
    parts = [{"tabs": [name]} for name in "abc"]
    tree = {"across": across, "shares": list(shares), "parts": parts}
    assert docks.arrangement.restore_layout({"tree": tree})

    def exact() -> bool:
        sizes = [dock_of(docks, name).size() for name in "abc"]
        found = [size.width() if across else size.height() for size in sizes]
        wanted = [sum(found) * share / sum(shares) for share in shares]
        return found == pytest.approx(wanted, abs=1.5)

    qtbot.waitUntil(exact)


def test_a_floating_panel_keeps_its_place_until_the_first_layout_docks_it(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    tree = {"tabs": ["a"]}
    floating = {"b": [40, 60, 320, 240], "c": "nowhere"}
    assert docks.arrangement.restore_layout({"tree": tree, "floating": floating})
    qtbot.waitUntil(lambda: "b" in docks.arrangement.current_layout()["floating"])
    layout = docks.arrangement.current_layout()
    assert layout["floating"]["b"] == [40, 60, 320, 240]
    assert set(layout["floating"]) == {"b"}
    assert not docks.arrangement.is_open("c")
    docks.arrangement.arrange_preset()
    assert docks.arrangement.current_layout()["floating"] == {}
    assert shape(docks.arrangement.current_layout()["tree"]) == (["a", "b"], ["c", "d"])


def test_a_panel_that_floated_on_another_screen_comes_onto_this_one(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    screen = docks.window.screen().availableGeometry()
    right, bottom = screen.right() - 320, screen.bottom() - 240
    whole = [screen.left(), screen.top(), screen.width(), screen.height()]

    def floats(rect: list[int]) -> Any:
        assert docks.arrangement.restore_layout({"tree": {"tabs": ["a"]}, "floating": {"b": rect}})
        qtbot.waitUntil(lambda: "b" in docks.arrangement.current_layout()["floating"])
        return docks.arrangement.current_layout()["floating"]["b"]

    assert floats([20_000, 20_000, 320, 240]) == [right, bottom, 320, 240]
    assert floats([-20_000, -20_000, 320, 240]) == [*whole[:2], 320, 240]
    assert floats([0, 0, 20_000, 20_000]) == whole
    width, height = floats([0, 0, 1, 1])[2:]
    least = dock_of(docks, "b").minimumSizeHint()
    assert (width, height) == (least.width(), least.height())


@pytest.mark.parametrize(
    "layout",
    [
        None,
        [],
        {},
        {"tree": None},
        {"tree": {"tabs": []}},
        {"tree": {"tabs": ["nobody"]}},
        {"tree": {"tabs": "a"}},
        {"tree": {"across": True, "parts": [{"tabs": ["a"]}]}},
        {"tree": {"across": True, "shares": [0.5, 0.5], "parts": [{"tabs": ["a"]}]}},
        {"tree": {"across": True, "shares": [0.0], "parts": [{"tabs": ["a"]}]}},
        {"tree": {"across": True, "shares": ["1"], "parts": [{"tabs": ["a"]}]}},
        {"tree": {"across": True, "shares": [], "parts": []}},
    ],
)
def test_a_layout_that_makes_no_sense_changes_nothing(docks: PanelDocks, layout: Any) -> None:
    before = docks.arrangement.current_layout()
    assert not docks.arrangement.restore_layout(layout)
    assert docks.arrangement.current_layout() == before


def nested(deep: int) -> dict[str, Any]:
    node: dict[str, Any] = {"tabs": ["a"]}
    for _ in range(deep):
        node = {"across": True, "shares": [1.0], "parts": [node]}
    return node


def test_of_a_layout_what_makes_sense_is_kept(docks: PanelDocks) -> None:
    def kept(tree: Any) -> Any:
        assert docks.arrangement.restore_layout({"tree": tree})
        return shape(docks.arrangement.current_layout()["tree"])

    assert kept({"tabs": ["a", "nobody", "a", 3, "b"]}) == {"a", "b"}
    places = ["a", "b", "c", "c", "c", "nobody"]
    row = {
        "across": 1,
        "shares": [1, 0.25, 1.01, 0, -0.5, 0.5],
        "parts": [{"tabs": ["a", name]} for name in places],  # 'a' has a place already
    }
    assert kept(row) == ("a", "b")
    assert kept(nested(20)) == "a"
    assert not docks.arrangement.restore_layout({"tree": nested(21)})


def test_a_place_of_a_floating_panel_is_four_small_integers(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    wrong = ([32768, 2, 3, 4], [1, -32768, 3, 4], [1, 2, 3], [1, 2, 3, 4.0], [True, 2, 3, 4])
    for rect in (*wrong, (1, 2, 3, 4), None):
        assert docks.arrangement.restore_layout({"tree": {"tabs": ["a"]}, "floating": {"b": rect}})
        assert not docks.arrangement.is_open("b")
    edge = {"b": [-32767, 0, 32767, 4]}
    assert docks.arrangement.restore_layout({"tree": {"tabs": ["a"]}, "floating": edge})
    assert docks.arrangement.is_open("b")


def test_a_comparison_opens_its_panels_and_closed_leaves_the_layout_as_it_was(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    arrangement = docks.arrangement
    docks.toggle_panel("d")
    before = arrangement.current_layout()
    arrangement.set_compared("B")
    qtbot.waitUntil(lambda: arrangement.is_open("both"))
    assert arrangement.is_showing_comparison
    (closed, *_) = docks.visible_panels()
    docks.toggle_panel(closed)  # what is moved or closed meanwhile changes nothing outside
    arrangement.set_compared("another B")
    assert not arrangement.is_open(closed)
    arrangement.set_compared(None)
    qtbot.waitUntil(lambda: docks.visible_panels() == ("a", "b", "c"))
    qtbot.waitUntil(lambda: is_same(arrangement.current_layout(), before))
    assert not arrangement.is_showing_comparison
    arrangement.set_compared("B")
    assert not arrangement.is_open(closed)  # as it was left
    arrangement.arrange_preset()
    arrangement.set_compared(None)
    assert arrangement.preset == "overview"  # another layout was chosen meanwhile


def test_of_the_layout_of_a_comparison_one_goes_back_and_forth(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    arrangement = docks.arrangement
    before = arrangement.current_layout()
    arrangement.set_compared("B")
    arrangement.toggle_compare_layout()
    qtbot.waitUntil(lambda: is_same(arrangement.current_layout(), before))
    assert arrangement.preset == "overview"
    arrangement.toggle_compare_layout()
    assert arrangement.is_open("both")
    arrangement.toggle_compare_layout()
    arrangement.set_compared("another B")  # a new comparison is shown at once
    assert arrangement.is_showing_comparison


def marked(docks: PanelDocks) -> list[str]:
    return [name for name in docks.hosts if title_of(docks, name).property("front")]


def test_the_panel_whose_title_was_clicked_last_is_in_front_and_marked(
    docks: PanelDocks, qtbot: QtBot
) -> None:
    assert (docks.front_panel(), marked(docks)) == ("a", ["a"])
    for name in ("c", "b", "c"):
        title = title_of(docks, name)
        qtbot.mouseClick(title.findChild(QLabel), Qt.MouseButton.LeftButton)
        assert (docks.front_panel(), marked(docks)) == (name, [name])
        QCursor.setPos(docks.hosts["a"].mapToGlobal(QPoint(20, 60)))  # which means nothing
        assert docks.front_panel() == name
    qtbot.mouseClick(docks.hosts["b"], Qt.MouseButton.LeftButton, pos=QPoint(3, 3))
    qtbot.waitUntil(lambda: docks.front_panel() == "b")
    docks.show_panel("a")
    assert marked(docks) == ["a"]
    docks.toggle_panel("a")
    qtbot.waitUntil(lambda: marked(docks) == ["b"])


def test_the_title_says_of_which_step_a_stale_picture_is(docks: PanelDocks) -> None:
    host, title = docks.hosts["a"], title_of(docks, "a")

    def said() -> list[str]:
        labels = title.findChildren(QLabel)
        return [label.text() for label in labels if not label.isHidden()][1:]

    assert said() == []
    host.age.changed.emit(Age(0, 3782))
    assert said() == ["step 0 · 3,782 behind"]
    host.age.changed.emit(None)
    assert said() == []


def test_the_accent_marks_the_title_in_front(docks: PanelDocks, qapp: QApplication) -> None:
    """The sheet is that of the whole window; the colour is seen in the picture itself."""
    before = qapp.palette()
    qapp.setPalette(theme_palette(LIGHT))
    docks.window.setStyleSheet(application_stylesheet())
    title = title_of(docks, "b")

    def top() -> str:
        return title.grab().toImage().pixelColor(title.width() // 2, 0).name().upper()

    assert top() == LIGHT.line
    docks.set_front_panel("b")
    assert top() == LIGHT.accent
    docks.set_front_panel("a")
    assert top() == LIGHT.line
    qapp.setPalette(before)


def test_the_panel_in_front_is_that_with_the_keyboard_else_the_first(
    docks: PanelDocks, qapp: QApplication
) -> None:
    assert docks.front_panel() == "a"
    qapp.focusChanged.emit(None, docks.hosts["c"].charts.view)
    assert docks.front_panel() == "c"
    qapp.focusChanged.emit(docks.hosts["c"], QWidget(docks.window))
    assert docks.front_panel() == "c"  # the last one that had it
    for name in ("c", "a", "b"):
        docks.toggle_panel(name)
    assert docks.front_panel() == "d"
    docks.toggle_panel("d")
    assert docks.front_panel() == ""


def test_tabs_within_a_panel_are_not_those_of_the_docks(docks: PanelDocks, qtbot: QtBot) -> None:
    tree = {"across": True, "shares": [0.5, 0.5], "parts": [{"tabs": ["a", "b"]}, {"tabs": ["c"]}]}
    assert docks.arrangement.restore_layout({"tree": tree})
    qtbot.waitUntil(lambda: alike(docks.arrangement.current_layout()["tree"], tree))
    before = docks.arrangement.current_layout()
    for host in docks.hosts.values():
        bar = QTabBar(host)
        bar.setGeometry(0, 0, 1000, 40)
        bar.setVisible(True)
    assert docks.arrangement.current_layout() == before


def test_a_panel_behind_a_tab_is_open_and_not_visible(docks: PanelDocks, qtbot: QtBot) -> None:
    assert docks.arrangement.restore_layout({"tree": {"tabs": ["b", "a"]}})
    qtbot.waitUntil(lambda: docks.visible_panels() == ("b",))
    assert docks.arrangement.is_open("a")
    assert docks.arrangement.current_layout()["tree"] == {"tabs": ["b", "a"]}
    docks.toggle_panel("a")  # raised, not closed
    qtbot.waitUntil(lambda: docks.visible_panels() == ("a",))
    assert docks.arrangement.is_open("b")


@pytest.fixture
def history(docks: PanelDocks) -> Iterator[LayoutHistory]:
    found = LayoutHistory(docks, docks.window)
    found.record_layout()
    yield found
    found.stop()


def test_a_layout_is_undone_and_done_again(
    docks: PanelDocks, history: LayoutHistory, qtbot: QtBot
) -> None:
    def is_back(layout: Any) -> bool:
        return is_same(docks.arrangement.current_layout(), layout)

    first = docks.arrangement.current_layout()
    assert not history.can_undo
    docks.toggle_panel("b")
    history.record_layout()
    second = docks.arrangement.current_layout()
    docks.toggle_panel("c")
    history.record_layout()
    history.undo()
    qtbot.waitUntil(lambda: is_back(second))
    history.undo()
    qtbot.waitUntil(lambda: is_back(first))
    assert not history.can_undo
    history.redo()
    qtbot.waitUntil(lambda: is_back(second))
    docks.toggle_panel("d")
    history.record_layout()
    assert not history.can_redo  # another change: what was undone cannot come again


def tabs_of(docks: PanelDocks) -> list[list[str]]:
    """The tabs of the docks as they stand."""
    direct = Qt.FindChildOption.FindDirectChildrenOnly
    bars = docks.window.findChildren(QTabBar, options=direct)
    return [
        [bar.tabText(n) for n in range(bar.count())] + [bar.tabText(bar.currentIndex())]
        for bar in bars
        if bar.isVisible()
    ]


def test_an_undone_layout_has_its_tabs_in_the_order_in_which_they_stood(
    docks: PanelDocks, history: LayoutHistory, qtbot: QtBot
) -> None:
    parts = [{"tabs": ["a", "b"]}, {"tabs": ["c", "d"]}]
    assert docks.arrangement.restore_layout(
        {"tree": {"across": True, "shares": [0.5, 0.5], "parts": parts}}
    )
    for name in ("b", "d"):
        docks.show_panel(name)
    before = [["a", "b", "b"], ["c", "d", "d"]]
    qtbot.waitUntil(lambda: sorted(tabs_of(docks)) == before)
    history.record_layout()
    layout = docks.arrangement.current_layout()
    docks.toggle_panel("b")
    docks.toggle_panel("d")
    history.record_layout()
    history.undo()
    qtbot.waitUntil(lambda: sorted(tabs_of(docks)) == before)
    assert is_same(docks.arrangement.current_layout(), layout)


def test_an_undone_layout_is_the_preset_that_it_was(
    docks: PanelDocks, history: LayoutHistory
) -> None:
    docks.toggle_panel("b")
    history.record_layout()
    assert docks.arrangement.preset == ""
    history.undo()
    assert docks.arrangement.preset == "overview"


def test_changes_in_quick_succession_are_one(docks: PanelDocks, history: LayoutHistory) -> None:
    docks.toggle_panel("b")
    docks.toggle_panel("c")  # no `take` in between: the timer has not run
    history.record_layout()
    history.undo()
    assert not history.can_undo
    assert docks.arrangement.is_open("b")
    assert docks.arrangement.is_open("c")


def test_the_layout_of_a_comparison_has_a_history_of_its_own(
    docks: PanelDocks, history: LayoutHistory, qtbot: QtBot
) -> None:
    docks.toggle_panel("b")
    history.record_layout()
    before = docks.arrangement.current_layout()
    docks.arrangement.set_compared("B")
    history.record_layout()
    assert not history.can_undo
    docks.toggle_panel("a")
    history.record_layout()
    history.undo()
    assert docks.arrangement.is_open("a")
    docks.toggle_panel("c")
    history.record_layout()
    docks.arrangement.set_compared(None)
    qtbot.waitUntil(lambda: is_same(docks.arrangement.current_layout(), before))
    history.record_layout()
    history.undo()
    assert not history.can_undo
    assert docks.arrangement.is_open("b")


def test_a_zoom_that_time_axes_share_is_undone_and_leaves_the_panels_where_they_lie(
    docks: PanelDocks, history: LayoutHistory
) -> None:
    steps, view = docks.steps, docks.hosts["a"].charts.view
    put: list[None] = []
    docks.arrangement.arranged.connect(lambda: put.append(None))
    view.steps_zoomed.emit(3.0, 9.0)  # of that chart alone: no change of the layout
    history.record_layout()
    assert not history.can_undo
    steps.toggle_link()
    history.record_layout()
    for zoom in ((10.0, 40.0), (20.0, 30.0)):
        view.steps_zoomed.emit(*zoom)
        history.record_layout()
    history.undo()
    assert steps.zoom == StepZoom(True, (10.0, 40.0), ())
    history.undo()
    assert steps.is_linked
    assert steps.zoom.steps is None
    history.undo()
    assert not steps.is_linked
    for _ in range(3):
        history.redo()
    assert steps.zoom == StepZoom(True, (20.0, 30.0), ())
    assert not put


def test_at_most_so_many_layouts_are_kept(docks: PanelDocks, qtbot: QtBot) -> None:
    history, layouts = LayoutHistory(docks, docks.window, most=3), []
    history.record_layout()
    for name in ("a", "b", "c", "a", "b"):
        layouts.append(docks.arrangement.current_layout())
        docks.toggle_panel(name)
        history.record_layout()
    for before in reversed(layouts[2:]):
        assert history.can_undo
        history.undo()
        qtbot.waitUntil(lambda before=before: is_same(docks.arrangement.current_layout(), before))
    assert not history.can_undo
    history.stop()
