"""The form of a run: what a data set asks, what is folded away, and what a regime leaves out."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QStyleOptionViewItem
from pytestqt.qtbot import QtBot

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.catalogue import (
    Catalogue,
    DataEntry,
    NetEntry,
    RegimeEntry,
    Setting,
)
from dgn_viewer.inspector.run_form import RunForm
from dgn_viewer.widgets.listed_item import GROUP

FIXED = "Fixed gates"
CATALOGUE = Catalogue(
    regimes=(
        RegimeEntry("ReLU", "ReLU", "", True, False, False, "One network"),
        RegimeEntry("FL", "FL", "", False, False, False, FIXED, takes_gates=True),
        RegimeEntry("FRG", "FRG", "", False, False, False, FIXED, drawn_gates=True),
        RegimeEntry("DL", "DL", "", False, True, True, "Learnt gates"),
    ),
    nets=(NetEntry("fc", "fc", (Setting("width", "width", 128, 1, 65536),)),),
    data=(
        DataEntry("digits", "digits", True, ""),
        DataEntry("correlated", "correlated", True, "", (Setting("rho", "ρ", 0.9, 0, 1),)),
    ),
    probes=("gates",),
    devices=("auto", "cpu"),
)


@pytest.fixture
def form(qtbot: QtBot) -> RunForm:
    widget = RunForm()
    qtbot.addWidget(widget)
    widget.offer(CATALOGUE)
    widget.show()
    return widget


def test_what_a_data_set_asks_is_filled_in_below_it(form: RunForm) -> None:
    form.data.name.pick("correlated")
    assert form.config().data.options == (("rho", 0.9),)
    form.fill(RunConfig(data=DataConfig("correlated", options=(("rho", 0.5),))))
    assert form.config().data.options == (("rho", 0.5),)
    form.data.name.pick("digits")
    assert form.config().data.options == ()


ADVANCED = RunConfig(
    data=DataConfig(label_noise=0.25, pixels="random", variant_seed=3, test_limit=50),
    net=NetConfig("fc", (("width", 64),)),
    gating=GatingConfig("FRG", tiling=(2, 1), rotation=(0, -3), shift=(0, 0), gate_probability=0.3),
    training=TrainingConfig(weights_from="a.pt", until=0.99, augmentation="davidnet"),
)


def test_the_advanced_fields_stay_folded_until_one_of_them_is_unusual(form: RunForm) -> None:
    fields = form.advanced
    form.fill(RunConfig(net=ADVANCED.net))
    assert not fields.content.isVisible()
    form.fill(ADVANCED)
    assert fields.content.isVisible()
    assert form.config() == ADVANCED
    QTest.mouseClick(fields.button, Qt.MouseButton.LeftButton)
    assert not fields.content.isVisible()
    assert fields.button.text() == "Advanced: label noise and 9 more"
    assert form.config() == ADVANCED  # folded is not forgotten


def test_gates_are_neither_tiled_nor_turned_where_a_network_makes_its_own(form: RunForm) -> None:
    form.fill(ADVANCED)
    assert form.fields["gating.gate_probability"].isVisibleTo(form)
    form.fields["gating.regime"].pick("ReLU")
    assert not form.fields["gating.gate_probability"].isVisibleTo(form)
    assert not form.fields["gating.tiling"].isVisibleTo(form)
    gating = form.config().gating
    assert (gating.tiling, gating.rotation, gating.gate_probability) == ((), (), 0.5)


def test_a_list_that_is_none_is_refused_in_a_sentence(form: RunForm) -> None:
    form.fields["gating.regime"].pick("DL")
    form.fields["gating.tiling"].setText("2, x")
    with pytest.raises(UserError, match="Tiling is '2, x'; it must be whole numbers"):
        form.config()


def test_regimes_stand_under_the_headings_of_their_groups(form: RunForm) -> None:
    box = form.fields["gating.regime"]
    heads = [box.itemData(place, GROUP) for place in range(box.count())]
    assert heads == ["One network", FIXED, FIXED, "Learnt gates"]
    option = QStyleOptionViewItem()
    tall = [
        box.itemDelegate().sizeHint(option, box.model().index(place, 0)).height()
        for place in range(box.count())
    ]
    assert tall[0] == tall[1] == tall[3] > tall[2]
