"""The process that draws an animation.

It reads a pickled `FilmOrder` from standard input and writes a line of JSON per event, then the
bytes of the animation, to standard output. It ends with the thread that started it.
"""

from __future__ import annotations

import json
import pickle
import sys
import traceback
from typing import IO, Any

from dgn_engine.confinement.child_entry import begin_child
from dgn_engine.errors import UserError
from dgn_engine.figures.animation import render_animation
from dgn_engine.figures.film_order import Film, FilmOrder, Told
from dgn_engine.figures.recorded_pages import PagePanel, recorded_pages
from dgn_engine.scene.panel_spec import all_panels


def make_film(order: FilmOrder, on_progress: Told) -> Film:
    """Draw the animation in this process, as `dgn figure --animate` does.

    Raises:
        UserError: It cannot be drawn.
    """
    specs = all_panels()
    panels = {
        name: PagePanel(specs[name], panel.choices, panel.charts)
        for name, panel in order.panels.items()
    }

    def report_reading(done: int, of: int) -> None:
        on_progress(f"Reading step {done + 1:,} of {of:,} …", 0, of)

    def report_drawing(done: int, of: int) -> None:
        words = (
            "Encoding the animation …"
            if done == of
            else f"Rendering frame {done + 1:,} of {of:,} …"
        )
        on_progress(words, done, of)

    frames = order.source.open_frames()
    pages = recorded_pages(
        order.run, order.views, frames, panels, order.reach, order.pages, report_reading
    )
    content = render_animation(
        pages.pages, order.kind, order.style, order.per_second, report_drawing
    )
    return Film(content, pages.page_summary)


def serve_order(orders: IO[bytes], answers: IO[bytes]) -> None:
    """Carry out one order; any failure is reported in the last line."""

    def send_answer(**answer: Any) -> None:
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()

    try:
        order = pickle.load(orders)
        assert isinstance(order, FilmOrder)
        drawn = make_film(order, lambda words, done, of: send_answer(words=words, done=done, of=of))
    except UserError as refusal:
        send_answer(refused=str(refusal))
    except MemoryError:
        send_answer(refused="Not enough memory for this animation; choose fewer frames.")
    except Exception as error:  # a bug, to be reported in the window
        send_answer(fault=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
    else:
        send_answer(film=len(drawn.content), words=drawn.words)
        answers.write(drawn.content)
        answers.flush()


def main() -> None:
    with begin_child() as answers:
        serve_order(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
