"""The notice of a run that has diverged, and its way back."""

from __future__ import annotations

from PySide6.QtCore import QObject

from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.training import Diverged, GoBack, RegimeSwapped
from dgn_viewer.notices import Notices
from tests.engine.views.begun_run import started

BACK = RegimeSwapped(7, "DL", "DL", (), (), (), (), undone="Back from divergence", of_step=5)


def test_a_diverged_run_offers_its_way_back_until_it_is_taken(qapp: object) -> None:
    owner, states, taken = QObject(), [RunState().after(started())], []
    notices = Notices(owner, lambda: states[-1], taken.append)

    def tell(event: Event) -> None:
        states.append(states[-1].after(event))
        notices.on_event(event)

    tell(Diverged(7, "loss", 6, back_to=5))
    entry = notices.shown()
    assert entry is not None
    assert entry.stays
    (button,) = notices.buttons(entry)
    assert button.text == "Go back to step 5"
    for number in ("step 7", "step 6", "step 5"):
        assert number in entry.notice.text
    button.do()
    assert taken == [GoBack()]
    tell(BACK)
    assert notices.buttons(entry) == ()
    tell(Diverged(9, "weights", 9))
    entry = notices.shown()
    assert entry is not None
    assert notices.buttons(entry) == ()  # no state is kept
