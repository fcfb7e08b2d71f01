"""What an event of a run becomes on a time axis: its marks, each with its whole sentence."""

from __future__ import annotations

from dgn_engine.protocol.branches import BranchBegan, BranchStatus
from dgn_engine.protocol.files import WeightsTaken
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.run_state import RunState
from dgn_engine.protocol.runs import RunContinued
from dgn_engine.protocol.training import Diverged, RegimeSwapped, Rewired, SettingChanged
from dgn_engine.scene.elements import Mark
from dgn_engine.scene.typeset import literal
from dgn_engine.text.written_numbers import number


def marks_of(event: Event, before: RunState) -> tuple[Mark, ...]:
    """The marks of an event that happened to a run in this state; the pace changes no curve."""
    match event:
        case RegimeSwapped():
            return (_swap(event),)
        case Rewired():
            return (_rewiring(event, before),)
        case WeightsTaken(step=step):
            return (Mark(float(step), "weights", "drop", event.sentence),)
        case SettingChanged():
            return _dials(before.settings, event)
        case Diverged(step=step):
            return (Mark(float(step), "diverged", "diverged", event.what_happened),)
        case BranchBegan(step=step):
            return (Mark(float(step), "branch", "run", literal(event.sentence)),)
        case BranchStatus(from_step=step) if (
            before.branch is None or before.branch.folder != event.folder
        ):
            words = f"A branch begins here: {', '.join(event.changes.in_words()) or 'the same'}."
            return (Mark(float(step), "branch", "run", literal(words)),)
        case RunContinued(step=step):
            words = f"The recorded run goes on from step {step:,}."
            return (Mark(float(step), "resumed", "run", words),)
        case _:
            return ()


def changes_network(mark: Mark) -> bool:
    """Whether what was measured before is of another network than what is measured afterwards."""
    if mark.kind == "dial":
        return not mark.label.startswith("lr ")
    return mark.kind not in ("run", "diverged")


def _swap(event: RegimeSwapped) -> Mark:
    step, sentence = float(event.step), event.sentence
    match event.undone.partition(" ")[0]:
        case "Undo":
            return Mark(step, "undo", "undo", sentence)
        case "Redo":
            return Mark(step, "redo", "redo", sentence)
        case "Back":
            return Mark(step, "going back", "undo", sentence)
    return Mark(step, literal(event.after), "drop" if event.source else "swap", sentence)


def _rewiring(event: Rewired, before: RunState) -> Mark:
    if event.order != before.wiring:
        order = " ".join(f"G{source + 1}" for source in event.order)
        words = f"The value layers use the gate layers in the order {order}."
        return Mark(float(event.step), "π", "permutation", words)
    turns = ", ".join(f"{units}" for units in event.rotation)
    shifts = ", ".join(f"{places}" for places in event.shift)
    words = f"The gates of the value layers are rotated by {turns or 'no'} units"
    words += f" and shifted by {shifts} positions." if shifts else "."
    return Mark(float(event.step), "↻", "rotation", words)


def _dials(before: SettingChanged | None, now: SettingChanged) -> tuple[Mark, ...]:
    step, old = float(now.step), before
    marks: list[Mark] = []

    def change(label: str, name: str, was: str, becomes: str) -> None:
        words = f"{name} {was} → {becomes}." if was else f"{name} {becomes}."
        marks.append(Mark(step, label, "dial", words))

    if old is None or now.beta != old.beta:
        change(f"β {number(now.beta)}", "β", number(old.beta) if old else "", number(now.beta))
    if old is None or now.learning_rate != old.learning_rate:
        rate, was = number(now.learning_rate), number(old.learning_rate) if old else ""
        change(f"lr {number(now.learning_rate, 3)}", "Learning rate", was, rate)
    if old is None or now.value_input != old.value_input:
        was = old.value_input if old else ""
        change(f"input {now.value_input}", "Value input", was, now.value_input)
    return tuple(marks)
