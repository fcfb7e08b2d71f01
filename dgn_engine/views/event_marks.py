"""The marks of events on a time axis, each with the event's full sentence."""

from __future__ import annotations

from dgn_engine.protocol.branches import BranchBegan, BranchStatus
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.training import Diverged, RegimeSwapped, Rewired, SettingChanged
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.typeset import escape_label
from dgn_engine.text.written_numbers import format_number


def make_marks(event: Event, before: RunState) -> tuple[Mark, ...]:
    """Return the marks of an event, given the run's state before it.

    A change of pace gets none: it changes no curve.
    """
    match event:
        case RegimeSwapped():
            return (_mark_swap(event),)
        case Rewired():
            return (_mark_rewiring(event, before),)
        case WeightsTaken(step=step):
            return (Mark(float(step), "weights", "drop", event.sentence),)
        case SettingChanged():
            return _mark_settings(before.settings, event)
        case Diverged(step=step):
            return (Mark(float(step), "diverged", "diverged", event.what_happened),)
        case BranchBegan(step=step):
            return (Mark(float(step), "branch", "run", escape_label(event.sentence)),)
        case BranchStatus(from_step=step) if (
            before.branch is None or before.branch.folder != event.folder
        ):
            sentence = (
                f"A branch starts here: {', '.join(event.changes.in_words()) or 'no changes'}."
            )
            return (Mark(float(step), "branch", "run", escape_label(sentence)),)
        case RunContinued(step=step):
            sentence = f"The recorded run continues from step {step:,}."
            return (Mark(float(step), "resumed", "run", sentence),)
        case _:
            return ()


def changes_network(mark: Mark) -> bool:
    """Return whether the network measured before the mark differs from the one after it."""
    if mark.kind == "dial":
        return not mark.label.startswith("lr ")
    return mark.kind not in ("run", "diverged")


def _mark_swap(event: RegimeSwapped) -> Mark:
    step, sentence = float(event.step), event.sentence
    match event.undone.partition(" ")[0]:
        case "Undo":
            return Mark(step, "undo", "undo", sentence)
        case "Redo":
            return Mark(step, "redo", "redo", sentence)
        case "Back":
            return Mark(step, "going back", "undo", sentence)
    return Mark(step, escape_label(event.after), "drop" if event.source else "swap", sentence)


def _mark_rewiring(event: Rewired, before: RunState) -> Mark:
    if event.order != before.wiring:
        order = " ".join(f"G{source + 1}" for source in event.order)
        sentence = f"The value layers use the gate layers in this order: {order}."
        return Mark(float(event.step), "π", "permutation", sentence)
    turns = ", ".join(f"{units}" for units in event.rotation)
    shifts = ", ".join(f"{places}" for places in event.shift)
    sentence = f"The value layers' gates are rotated by {turns or 'no'} units"
    sentence += f" and shifted by {shifts} positions." if shifts else "."
    return Mark(float(event.step), "↻", "rotation", sentence)


def _mark_settings(before: SettingChanged | None, now: SettingChanged) -> tuple[Mark, ...]:
    step, old = float(now.step), before
    marks: list[Mark] = []

    def add_setting_mark(label: str, name: str, was: str, becomes: str) -> None:
        sentence = f"{name} {was} → {becomes}." if was else f"{name} {becomes}."
        marks.append(Mark(step, label, "dial", sentence))

    if old is None or now.beta != old.beta:
        add_setting_mark(
            f"β {format_number(now.beta)}",
            "β",
            format_number(old.beta) if old else "",
            format_number(now.beta),
        )
    if old is None or now.learning_rate != old.learning_rate:
        rate, was = (
            format_number(now.learning_rate),
            format_number(old.learning_rate) if old else "",
        )
        add_setting_mark(f"lr {format_number(now.learning_rate, 3)}", "Learning rate", was, rate)
    if old is None or now.value_input != old.value_input:
        was = old.value_input if old else ""
        add_setting_mark(f"input {now.value_input}", "Value input", was, now.value_input)
    return tuple(marks)
