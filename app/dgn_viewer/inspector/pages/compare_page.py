"""The page for branches and comparisons: start a branch, watch it, and list the differences."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QFrame, QLineEdit

from dgn_engine.errors import UserError
from dgn_engine.model.choices import ValueInput
from dgn_engine.panels.training import best_test
from dgn_engine.protocol.branches import (
    BranchChanges,
    BranchStatus,
    CompareRun,
    HoldCheckpoint,
    ListCheckpoints,
    StartBranch,
    StopBranch,
)
from dgn_engine.protocol.messages import Command, Event, Refused
from dgn_engine.protocol.run_state import RunState
from dgn_engine.scene.differences import find_differences
from dgn_engine.scene.panel_spec import View
from dgn_engine.scene.run_text import describe_branch
from dgn_engine.scene.theme import LIGHT, Theme
from dgn_viewer.inspector.pages.difference_table import DifferenceTable
from dgn_viewer.inspector.pages.origin_field import OriginField, origin_in_words
from dgn_viewer.style.chosen_numbers import with_chosen_numbers
from dgn_viewer.widgets.form_fields import ListField, PickBox
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.grouped_box import BoxChoice, regime_choices
from dgn_viewer.widgets.layouts import make_column, make_row, plain_label, push_button
from dgn_viewer.widgets.message_line import MessageLine

RENEW = 500  # milliseconds between two updates of the numbers while the page is visible
LIST = 4  # updates of the numbers per update of the list of checkpoints
_INPUTS: tuple[tuple[str, str], ...] = (
    ("", "unchanged"),
    ("image", "image"),
    ("ones", "ones"),
    ("random", "random"),
)
_NONE = (
    "No comparison yet. Train a branch, drop a checkpoint or recorded run on 'Compare', or "
    "choose a step of this run."
)
_A_STEP = "Compare with a step of this run"
_PACES = (("", "same as run"), ("full", "full speed"))


class ComparePage(QFrame):
    """A page that sends `StartBranch`, `StopBranch` and `CompareRun`.

    Args:
        send: Sends a command to the engine.
        view: Returns the current view.
        reached: Returns the latest step of the run, independent of the displayed step.
        cursor: Returns the displayed past step, or None.
    """

    title = "Branch and compare"

    def __init__(
        self,
        send: Callable[[Command], None],
        view: Callable[[], View],
        reached: Callable[[], int],
        cursor: Callable[[], int | None] = lambda: None,
    ) -> None:
        super().__init__()
        self._send, self._view, self._reached, self._cursor = send, view, reached, cursor
        self.state = RunState()
        self.origin = OriginField()
        self.origin_words = MessageLine()
        self._held: tuple[int, int | None] | None = None  # (run, step) of the held checkpoint
        self.regime = PickBox([("", "unchanged")])
        self.order = ListField("the gate order", "unchanged, or 2 1 3 …")
        self.value_input = PickBox(_INPUTS)
        self.rate = _make_text_field("learning rate", "unchanged")
        self.seed = _make_text_field("seed", "unchanged")
        self.pace = PickBox(_PACES)
        self.start = push_button("Train a branch", self._start_branch, "primary")
        about = "Stop the branch; it stays recorded and can be continued with File ▸ Recorded runs…"
        self.stop = push_button("Stop", lambda: send(StopBranch()), about=about)
        about = "Show the branch as B, on the same examples"
        self.compare = push_button("Compare with branch", self._compare_branch, about=about)
        about = "Show the step chosen under 'from' as B, replacing the current B"
        self.compare_step = push_button(_A_STEP, self._compare_step, about=about)
        self.copy = push_button(
            "Copy command",
            self._copy_command,
            about="A command that trains this branch without the window",
        )
        self.message = MessageLine()
        self.status = plain_label()
        self.sharing = plain_label("", "muted")
        self.sides = plain_label("", "muted")
        self.table = DifferenceTable(LIGHT)
        self.nothing = plain_label(_NONE, "muted")
        self._timer = QTimer(self, interval=RENEW)
        self._timer.timeout.connect(self._on_timer)
        self._ticks = 0
        self._lay_out()
        self._update_branch()

    def on_event(self, event: Event, state: RunState) -> None:
        self.state = state
        match event:
            case Refused(what=what, reason=reason) if what == StartBranch.title:
                self.message.show_refusal(reason)
            case BranchStatus():
                self.message.end_refusal()
                if event.phase == "starting":
                    self._send(ListCheckpoints())
        self._update_branch()

    def set_theme(self, theme: Theme) -> None:
        self.table.set_theme(theme)

    def _on_timer(self) -> None:
        self._ticks += 1
        if self._ticks % LIST == 0 and self.state.has_run:
            self._send(ListCheckpoints())
        self.update_numbers()

    def update_numbers(self) -> None:
        comparison, view = self.state.comparison, self._view()
        self.origin.follow_cursor(self._cursor())
        self._show_step()
        compared = comparison is not None and view.compared is not None
        self.table.setVisible(compared)
        self.sides.setVisible(compared)
        self.nothing.setVisible(not compared)
        if comparison is not None and view.compared is not None:
            result = find_differences(view, self.state.current_config())
            self.sides.setText("\n".join(side.in_words for side in result.sides or ()))
            self.table.show_differences(result)

    def showEvent(self, event: QShowEvent) -> None:
        """Update the numbers while the page is visible."""
        super().showEvent(event)
        if self.state.has_run:
            self._send(ListCheckpoints())
        self._timer.start()
        self.update_numbers()

    def hideEvent(self, event: QHideEvent) -> None:
        self._timer.stop()
        self._hold_checkpoint(None)
        super().hideEvent(event)

    def _start_branch(self) -> None:
        try:
            changes = self._read_changes()
        except UserError as refusal:
            self.message.show_refusal(str(refusal))
            return
        self.message.end_refusal()
        self._send(StartBranch(changes, self._chosen_step(), self.pace.value() == "full"))

    def _chosen_step(self) -> int | None:
        """Return the chosen step, None for now; raise `UserError` if the run has no such step."""
        step, latest = self.origin.chosen_step(), self._latest_step
        if step is not None and step > latest:
            raise UserError(f"The run has steps 0 to {latest:,}.")
        return step

    @property
    def _latest_step(self) -> int:
        """The latest known step of the run."""
        listed = self.state.checkpoints
        steps = [] if listed is None else [step for step, _ in listed.checkpoints]
        return max([self._reached(), *steps])

    def _hold_checkpoint(self, step: int | None) -> None:
        """Ask the engine to keep the checkpoint that a branch from `step` needs."""
        run = 0 if self.state.run is None else self.state.run.run
        held_step = None if self._held is None or self._held[0] != run else self._held[1]
        if step != held_step and (self.state.has_run or step is None):
            self._send(HoldCheckpoint(step))
        self._held = run, step

    def _compare_branch(self) -> None:
        if self.state.branch is not None:
            self._send(CompareRun(self.state.branch.folder))

    def _compare_step(self) -> None:
        step, listed = self._chosen_step(), self.state.checkpoints
        if step is not None and listed is not None and listed.nearest_step(step) == step:
            self._send(CompareRun(listed.folder, step))

    def _read_changes(self) -> BranchChanges:
        rate, seed = self.rate.text().strip(), self.seed.text().strip()
        chosen = self.value_input.value()
        known: dict[str, ValueInput] = {"image": "image", "ones": "ones", "random": "random"}
        return BranchChanges(
            regime=self.regime.value(),
            wiring=tuple(layer - 1 for layer in self.order.value()),
            value_input=known.get(chosen),
            learning_rate=_parse_number(rate, "learning rate", float) if rate else None,
            seed=int(_parse_number(seed, "seed", int)) if seed else None,
        )

    def _copy_command(self) -> None:
        if self.state.branch is not None:
            QApplication.clipboard().setText(self.state.branch.command)

    def _update_branch(self) -> None:
        branch = self.state.branch
        self._offer_choices()
        trains = branch is not None and branch.is_training
        self.stop.setEnabled(trains)
        self.copy.setEnabled(branch is not None)
        self.compare.setEnabled(branch is not None and branch.phase != "starting")
        self._show_step()
        self.status.setText("" if branch is None else describe_branch(branch))
        self.status.setVisible(branch is not None)
        self.sharing.setText(branch.sharing.capitalize() + "." if branch and trains else "")
        self.sharing.setVisible(trains)

    def _offer_choices(self) -> None:
        best = best_test(self._view())
        self.origin.offer_checkpoints(self.state.checkpoints, None if best is None else best[0])
        catalogue = self.state.catalogue
        if catalogue is not None and self.regime.count() == 1:
            choices = regime_choices(catalogue.regimes)
            self.regime.offer_choices((BoxChoice("", "unchanged"), *choices))

    def _lay_out(self) -> None:
        form = Section("New branch")
        form.add_field("from", self.origin, "Now, or any earlier step of the run")
        form.add_field("", self.origin_words)
        form.add_field("regime", self.regime)
        form.add_field("gate layers", self.order, "Gate layer of each value layer, counted from 1")
        form.add_field("value input", self.value_input)
        form.add_field("learning rate", self.rate)
        form.add_field(
            "seed",
            self.seed,
            "Seed of the batch order and all other random draws from then on; "
            "the probe examples stay the same",
        )
        form.add_field(
            "pace",
            self.pace,
            "Steps per second of the branch: at most the run's setting, or as many as possible",
        )
        self.origin.moved.connect(self._show_step)
        buttons = make_row(self.start, self.stop, 1, spacing=8)
        # One per row, to fit the narrowest column.
        copy, compare, step = (
            make_row(button, 1) for button in (self.copy, self.compare, self.compare_step)
        )
        table = Section("Differences")
        make_column(
            form, self.message, buttons, self.status, self.sharing, copy, compare, step, table,
            self.nothing, self.sides, self.table, 1, into=self, margins=(16, 8, 16, 12), spacing=8,
        )  # fmt: skip
        self.message.end_with_edits_in(self)

    def _show_step(self) -> None:
        """Describe the step chosen under 'from', and enable what is possible with it."""
        state, listed = self.state, self.state.checkpoints
        branch = state.branch
        step: int | None = None
        try:
            step = self._chosen_step()
            marks = self._view().marks
            text = origin_in_words(step, self._latest_step, listed, marks) if state.has_run else ""
            refused = False
        except UserError as refusal:
            text, refused = str(refusal), state.has_run
        self.origin_words.show_message(text, "refused" if refused else "muted")
        trains = branch is not None and branch.is_training
        self.start.setEnabled(state.has_run and not trains and not refused)
        if self.isVisible():
            self._hold_checkpoint(step)
        exact = step is not None and listed is not None and listed.nearest_step(step) == step
        text = f"Compare with step {step:,}" if exact else _A_STEP
        self.compare_step.setText(with_chosen_numbers(text))
        self.compare_step.setEnabled(state.has_run and exact)


def _make_text_field(name: str, hint: str) -> QLineEdit:
    field = QLineEdit()
    field.setPlaceholderText(hint)
    field.setAccessibleName(name)
    field.setAcceptDrops(False)  # a file dropped on the window is a checkpoint
    return field


def _parse_number(text: str, name: str, kind: type[int] | type[float]) -> float:
    try:
        return kind(text.replace(",", "."))
    except ValueError:
        sentence = f"The {name} '{text}' is not a number."
        raise UserError(sentence, kind="not-a-number", value=text) from None
