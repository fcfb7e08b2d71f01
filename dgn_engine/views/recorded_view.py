"""The view of a recorded run without a window, folded by the same history as in the window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dgn_engine.protocol.branches import ComparedFrames
from dgn_engine.protocol.runs import HistoryReplayed
from dgn_engine.protocol.training import Change
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.scene.panel_spec import ComparedRun, View
from dgn_engine.storage.session_file.loaded_run import LoadedRun
from dgn_engine.views.compared_step import ComparedStep, Pairing
from dgn_engine.views.history import History
from dgn_engine.views.past_view import Past

_NUMBER = 1  # of the only run


def recorded_history(loaded: LoadedRun, probes: Iterable[str]) -> History:
    """Return the history of the window when it shows this run and watches these probes."""
    history = History()
    for event in loaded.events_as(_NUMBER, ""):
        for replayed in event.events if isinstance(event, HistoryReplayed) else (event,):
            history.on_event(replayed)
        if isinstance(event, HistoryReplayed):
            history.record_left_out(event)
    history.on_frame(loaded.frame_for(_NUMBER, [ProbeRequest(probe) for probe in probes]))
    return history


def views_of_two(first: LoadedRun, second: LoadedRun, probes: Sequence[str]) -> tuple[View, View]:
    """Return the views of a panel for two steps of one run.

    Args:
        first: The run as it was at one step.
        second: The run as it was at the other step.
        probes: Probes of the panel.

    Returns:
        The view of the first step with the second as B, as in the window, and that of the second
        alone. Curves reach to the later step.
    """
    later = max(first, second, key=lambda loaded: loaded.step)
    history = recorded_history(later, probes)
    changes = tuple(loaded for loaded in later.events.events if isinstance(loaded, Change))
    frames = ComparedFrames(later.name, str(later.folder), later.started, changes)
    a, b = (_make_past(loaded, tuple(probes)) for loaded in (first, second))
    history.look_back(b)
    theirs = history.view({})
    history.look_back(a)
    ours = replace(history.view({}), compared=ComparedRun(later.name))
    digest = ComparedStep(frames, a, own=True).examples_digest
    return Pairing().add_comparison(ours, ComparedStep(frames, b, own=True), (digest, "")), theirs


def _make_past(loaded: LoadedRun, probes: tuple[str, ...]) -> Past:
    frame = loaded.frame
    return Past(loaded.step, frame if frame and frame.step == loaded.step else None, probes)
