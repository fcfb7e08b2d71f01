"""The actions that put two steps side by side, and that link what several panels show."""

from __future__ import annotations

from collections.abc import Callable

from dgn_engine.protocol.run_state import RunState
from dgn_viewer.actions.registry import ActionSpec
from dgn_viewer.docks.linked_steps import LinkedSteps
from dgn_viewer.timeline.step_cursor import StepCursor


def link_actions(
    compare: Callable[[], object], cursor: StepCursor, steps: LinkedSteps
) -> tuple[ActionSpec, ...]:
    """Rows of the table of actions. `compare`: the step that is looked back at becomes B."""

    def mark() -> None:
        steps.mark(cursor.last_step if cursor.step is None else cursor.step)

    def why_not(_now: RunState) -> str:
        if why := cursor.why_not:
            return why
        return "" if cursor.step is not None else "Look back at a step first: it becomes B."

    return (
        ActionSpec("time.compare", "Compare with this step", compare, ("Ctrl+Alt+B",), "panels",
            "Keep the step that is looked back at as B, beside what is there now or at another "
            "step", lambda now: not why_not(now), why_not=why_not),
        ActionSpec("view.delta", "Mark this step", mark, ("Ctrl+Alt+D",), "",
            "Of two marked steps every chart over steps says what has changed between them; "
            "a click with Shift marks, too", lambda now: now.run is not None),
        ActionSpec("view.no_delta", "No marked steps", steps.clear, ("Ctrl+Alt+Shift+D",), "",
            "Take the marked steps away", lambda _: bool(steps.marks)),
        ActionSpec("view.link_steps", "Zoom steps together", steps.toggle, (), "",
            "All time axes show the same steps; a double click shows all of them again",
            checked=lambda _: steps.linked),
    )  # fmt: skip
