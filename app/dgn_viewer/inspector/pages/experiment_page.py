"""The page of an experiment: description, scale, cost, settings, and the Start button."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QButtonGroup, QRadioButton, QWidget

from dgn_engine.errors import UserError
from dgn_engine.experiments.report.reproduce_request import ReproduceRequest
from dgn_engine.protocol.catalogue import Catalogue, ExperimentEntry
from dgn_engine.scene.theme import Theme
from dgn_viewer.inspector.pages.experiment_advanced import ExperimentAdvanced
from dgn_viewer.widgets.form_fields import PickBox, problem_in
from dgn_viewer.widgets.form_section import Section
from dgn_viewer.widgets.integer_field import IntegerField
from dgn_viewer.widgets.layouts import (
    make_column,
    make_row,
    make_scroll_area,
    plain_label,
    push_button,
)
from dgn_viewer.widgets.message_line import MessageLine
from dgn_viewer.widgets.number_entry import NumberEntry

Start = Callable[[ExperimentEntry, ReproduceRequest], str]


class ExperimentPage(QWidget):
    """A form that starts an experiment.

    Args:
        entry: The experiment.
        catalogue: The available data sets and devices.
        start: Starts it with a request; returns why that is impossible, or ''.
        busy: The reason why no experiment can start now, or ''.
    """

    def __init__(
        self, entry: ExperimentEntry, catalogue: Catalogue, start: Start, busy: str
    ) -> None:
        super().__init__()
        self.entry = entry
        self.title = entry.title
        self._start = start
        self.quick = QRadioButton(f"quick: {_describe_cost(entry.quick_cost)}")
        self.full = QRadioButton(f"paper scale: {_describe_cost(entry.full_cost)}")
        self.quick.setToolTip("Scaled down as described in the report; time on two CPU cores")
        self.full.setToolTip("Time on two CPU cores; a GPU is much faster")
        self.quick.setChecked(True)
        self._scales = QButtonGroup(self)
        for button in (self.quick, self.full):
            self._scales.addButton(button)
        self.seeds = IntegerField(0, 1000, zero="default")
        self.epochs = IntegerField(0, 10**6, zero="default")
        self.protocol = PickBox([(name, name.replace("-", " ")) for name in entry.protocols])
        available = [
            (data_set.id, data_set.title) for data_set in catalogue.data if data_set.available
        ]
        self.rows = PickBox([("", "all"), *((row, row) for row in entry.rows)])
        self.data = PickBox([("", "default"), *available])
        self.workers = IntegerField(0, 64, zero="as many as fit")
        self.advanced = ExperimentAdvanced(entry, catalogue)
        self.begin = push_button("Start", self._start_experiment, "primary")
        self.message = MessageLine()
        self._busy = ""
        self._lay_out()
        self.message.end_with_edits_in(self)
        for field in self.findChildren(NumberEntry):
            field.refused.connect(self._update_start_button)
        self.show_busy(busy)

    def make_request(self) -> ReproduceRequest:
        request = ReproduceRequest(
            self.entry.id,
            scale="full" if self.full.isChecked() else "quick",
            protocol=self.protocol.value(),
            seeds=self.seeds.value(),
            epochs=self.epochs.value(),
            data=self.data.value(),
            workers=self.workers.value(),
            only=self.rows.value(),
        )
        return self.advanced.add_to_request(request)

    def show_busy(self, busy: str) -> None:
        """Show why no experiment can start now; '' if one can."""
        self._busy = busy
        self.message.show_message(busy, "refused")
        self._update_start_button()

    def set_theme(self, theme: Theme) -> None:
        self.advanced.set_theme(theme)

    def _update_start_button(self) -> None:
        self.begin.setEnabled(not (self._busy or problem_in(self)))

    def _start_experiment(self) -> None:
        try:
            problem = self._start(self.entry, self.make_request())
        except UserError as refusal:
            problem = str(refusal)
        self.message.show_refusal(problem)

    def _lay_out(self) -> None:
        rows = Section("Settings")
        rows.add_field(
            "protocol", self.protocol, "As printed in the paper, or as in its authors' code"
        )
        rows.add_field("rows", self.rows, "All rows of the table, or a single one")
        rows.show_row(self.rows, bool(self.entry.rows))
        rows.add_field("seeds", self.seeds, "Number of networks of each kind")
        rows.add_field("epochs", self.epochs)
        rows.add_field("data set", self.data)
        rows.add_field("in parallel", self.workers, "Number of processes")
        form = QWidget()
        make_column(
            plain_label(" ".join(filter(None, (self.entry.question, self.entry.about)))),
            plain_label(self.entry.paper, "small"),
            make_column(self.quick, self.full, spacing=6),
            rows,
            self.advanced,
            plain_label(
                "It runs in its own process: this window and its run are not affected. It can be "
                "stopped and resumed; the result is the report of "
                f"'dgn reproduce {self.entry.id}'.",
                "small",
            ),
            1,
            into=form,
            margins=(16, 4, 16, 12),
            spacing=12,
        )
        # Keep message and button outside of the scrolling form.
        foot = make_column(
            self.message, make_row(self.begin, 1), margins=(16, 8, 16, 12), spacing=8
        )
        make_column((make_scroll_area(form), 1), foot, into=self, spacing=0)


def _describe_cost(words: str) -> str:
    return words if words == "not measured" else f"about {words}"
