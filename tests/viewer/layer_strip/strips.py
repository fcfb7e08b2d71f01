"""A layer strip by itself: what it is told of a run, and the strip on the screen."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from dgn_engine.protocol.catalogue import Catalogue, RegimeEntry
from dgn_engine.protocol.messages import Command, EngineReady, Event
from dgn_engine.protocol.training import RunStarted
from dgn_viewer.layer_strip.strip_widget import LayersStrip

REGIMES = (
    RegimeEntry("DL", "DL", "", own_gates=False, soft=True, trains_feature=True),
    RegimeEntry("FL", "FL", "", False, soft=False, trains_feature=False, takes_gates=True),
    RegimeEntry("ReLU", "ReLU", "", own_gates=True, soft=False, trains_feature=False),
)


def send_event(strip: LayersStrip, event: Event) -> None:
    """What the window does with an event."""
    strip.on_event(event, strip.state.after(event))


def show_strip(qtbot: QtBot, sent: list[Command], run: RunStarted) -> LayersStrip:
    """The strip of that run; what it asks for is put into `sent`."""
    widget = LayersStrip(sent.append)
    qtbot.addWidget(widget)
    widget.resize(1100, widget.height())
    send_event(widget, EngineReady(Catalogue(REGIMES, (), (), (), ("cpu",)), "2.13"))
    send_event(widget, run)
    with qtbot.waitExposed(widget):
        widget.show()
    return widget
