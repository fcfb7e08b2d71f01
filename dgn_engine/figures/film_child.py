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
from dgn_engine.figures.animation import film
from dgn_engine.figures.film_order import Film, FilmOrder, Told
from dgn_engine.figures.recorded_pages import PagePanel, recorded_pages
from dgn_engine.scene.panel_spec import all_panels


def made(order: FilmOrder, on_progress: Told) -> Film:
    """Draw the animation in this process, as `dgn figure --animate` does.

    Raises:
        UserError: It cannot be drawn.
    """
    specs = all_panels()
    panels = {
        name: PagePanel(specs[name], panel.choices, panel.charts)
        for name, panel in order.panels.items()
    }

    def reading(done: int, of: int) -> None:
        on_progress(f"Reading step {done + 1:,} of {of:,} …", 0, of)

    def drawing(done: int, of: int) -> None:
        words = (
            "Encoding the animation …"
            if done == of
            else f"Rendering frame {done + 1:,} of {of:,} …"
        )
        on_progress(words, done, of)

    frames = order.source.frames()
    pages = recorded_pages(
        order.run, order.views, frames, panels, order.reach, order.pages, reading
    )
    content = film(pages.pages, order.kind, order.style, order.per_second, drawing)
    return Film(content, pages.words)


def serve(orders: IO[bytes], answers: IO[bytes]) -> None:
    """Carry out one order; any failure is reported in the last line."""

    def say(**answer: Any) -> None:
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()

    try:
        order = pickle.load(orders)
        assert isinstance(order, FilmOrder)
        drawn = made(order, lambda words, done, of: say(words=words, done=done, of=of))
    except UserError as refusal:
        say(refused=str(refusal))
    except MemoryError:
        say(refused="Not enough memory for this animation; choose fewer frames.")
    except Exception as error:  # a bug, to be reported in the window
        say(fault=f"{type(error).__name__}: {error}", trace=traceback.format_exc())
    else:
        say(film=len(drawn.content), words=drawn.words)
        answers.write(drawn.content)
        answers.flush()


def main() -> None:
    with begin_child() as answers:
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
