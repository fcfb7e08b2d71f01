"""The process that draws an animation: a pickled `FilmOrder` on its standard input, on its output
a line of JSON for each thing done, and at last the bytes of the film.

It ends with the thread that started it.
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


def made(order: FilmOrder, told: Told) -> Film:
    """Draw it here, as `dgn figure --animate` does. Raises `UserError`."""
    specs = all_panels()
    panels = {
        name: PagePanel(specs[name], panel.choices, panel.charts)
        for name, panel in order.panels.items()
    }

    def reading(done: int, of: int) -> None:
        told(f"Reading step {done + 1:,} of {of:,} …", 0, of)

    def drawing(done: int, of: int) -> None:
        words = "Writing the film …" if done == of else f"Drawing page {done + 1:,} of {of:,} …"
        told(words, done, of)

    frames = order.source.frames()
    found = recorded_pages(
        order.run, order.views, frames, panels, order.reach, order.pages, reading
    )
    content = film(found.pages, order.kind, order.style, order.per_second, drawing)
    return Film(content, found.words)


def serve(orders: IO[bytes], answers: IO[bytes]) -> None:
    """Carry out one order; whatever goes wrong is said in the last line."""

    def say(**told: Any) -> None:
        answers.write(json.dumps(told).encode() + b"\n")
        answers.flush()

    try:
        order = pickle.load(orders)
        assert isinstance(order, FilmOrder)
        drawn = made(order, lambda words, done, of: say(words=words, done=done, of=of))
    except UserError as refusal:
        say(refused=str(refusal))
    except MemoryError:
        say(refused="There is not enough memory for this animation; choose fewer pages.")
    except Exception as error:  # a bug, which belongs to the window
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
