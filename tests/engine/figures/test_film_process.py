"""An animation is drawn by a child process: what it says, how it fails, and how it is ended."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dgn_engine.figures import film_child
from dgn_engine.figures.figure_style import FigureStyle
from dgn_engine.figures.film_order import Film, FilmOrder, FilmPanel
from dgn_engine.figures.film_process import FilmCancelledError, FilmFaultError, FilmProcess
from dgn_engine.protocol.frames import Frame, Reading
from dgn_engine.scene.panel_spec import View
from dgn_engine.storage.runs.held_frames import HeldFrames
from dgn_engine.views.frame_source import FrameSource
from dgn_engine.views.past_view import PastViews
from tests.engine.confinement.trap_folder import make_trap_folder
from tests.refusals import ANY, refused


def order(*steps: int) -> FilmOrder:
    held = HeldFrames()
    for step in steps:
        values = np.arange(4.0, dtype=np.float32) + step
        arrays = {"eigenvalues": values, "cumulative": values / (3.0 + step)}
        reading = Reading("npk", step, arrays=arrays)
        held.pack_frame(Frame(1, step, 0.0, 0.0, None, {"npk": reading}, regime="DL"))
    return FilmOrder(
        "The run",
        PastViews(View()),
        FrameSource(held=held),
        {"spectrum": FilmPanel({}, {})},
        (0, 100),
        10,
        ".gif",
        FigureStyle(width=3.25, dpi=50),
        5.0,
    )


def child(script: str, place: Path | None = None) -> FilmProcess:
    """A stand-in for the child, which does what `script` says."""
    begin = "import json, sys, time\nout = sys.stdout.buffer\n"
    command = [sys.executable, "-c", begin + script]
    return FilmProcess(lambda module: command, None if place is None else str(place))


def test_frames_that_are_held_in_memory_come_back_from_another_process() -> None:
    held = HeldFrames(most=1 << 20)
    held.note_event(3)
    for step in (0, 3, 5):
        held.pack_frame(Frame(1, step, 0.0, 0.0, None, {}))
    same = pickle.loads(pickle.dumps(held))
    assert (same.steps, same.bytes, same.most) == (held.steps, held.bytes, held.most)
    found = same.frame_at(4)
    assert found is not None
    assert found.step == 3
    same.pack_frame(Frame(1, 7, 0.0, 0.0, None, {}))
    assert held.steps == (0, 3, 5)


def test_the_child_draws_what_was_ordered_and_says_how_far_it_is() -> None:
    answers = io.BytesIO()
    film_child.serve_order(io.BytesIO(pickle.dumps(order(0, 10, 40))), answers)
    lines = answers.getvalue().split(b"\n", 7)
    said = [json.loads(line) for line in lines[:7]]
    assert said[0] == {"words": "Reading step 1 of 3 …", "done": 0, "of": 3}
    assert said[3] == {"words": "Rendering frame 2 of 3 …", "done": 1, "of": 3}
    rest = answers.getvalue()
    head = rest.index(b'{"film"')
    last, content = rest[head:].split(b"\n", 1)
    told = json.loads(last)
    assert told == {"film": len(content), "words": "3 frames, steps 0 to 40"}
    assert Image.open(io.BytesIO(content)).n_frames == 3


def test_a_child_obeys_nothing_of_the_folder_where_the_user_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traps = make_trap_folder(tmp_path)
    monkeypatch.chdir(traps.folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "."]))
    monkeypatch.setattr(sys, "path", [*sys.path, "", str(traps.folder)])
    film = FilmProcess().request_film(order(0, 10, 40), lambda *told: None)
    assert traps.marks == []
    assert Image.open(io.BytesIO(film.content)).n_frames == 3


def test_what_the_child_refuses_or_fails_at_is_its_last_line() -> None:
    for given, key in ((pickle.dumps(order(0)), "refused"), (b"no order", "trace")):
        answers = io.BytesIO()
        film_child.serve_order(io.BytesIO(given), answers)
        assert json.loads(answers.getvalue().splitlines()[-1])[key]


def test_a_film_comes_back_whole_or_as_a_refusal() -> None:
    heard = []
    script = (
        'out.write(b\'{"words": "Drawing", "done": 1, "of": 2}\\n\')\n'
        'out.write(b\'{"film": 3, "words": "two pages"}\\nGIF\')\n'
    )
    made = child(script).request_film(order(0), lambda *told: heard.append(told))
    assert made == Film(b"GIF", "two pages")
    assert heard == [("Drawing", 1, 2)]
    late = child(script)
    with pytest.raises(FilmCancelledError):  # though it came: nobody wants it any more
        late.request_film(order(0), lambda *_: late.stop())
    for script, kind, value in (
        ("sys.exit(7)", "ended-early", "exit code 7"),
        ('out.write(b\'{"film": 9, "words": "cut"}\\nGIF\')', "ended-early", ANY),
        ("out.write(b'{\"wor')", "ended-early", ANY),
        ('out.write(b\'{"refused": "Too few."}\\n\')', "refused", ANY),
    ):
        with refused(kind, value=value):
            child(script).request_film(order(0), lambda *_: None)
    with pytest.raises(FilmFaultError, match="Bug") as fault:
        child('out.write(b\'{"fault": "Bug", "trace": "line 3"}\\n\')').request_film(
            order(0), lambda *_: None
        )
    assert fault.value.__notes__ == ["line 3"]
    with refused("no-process"):
        FilmProcess(lambda module: ["/no/such/program"]).request_film(order(0), lambda *_: None)


def test_a_film_that_nobody_wants_ends_with_its_process_and_its_files(tmp_path: Path) -> None:
    words = "json.dumps({'words': os.environ['TMPDIR'], 'done': 0, 'of': 1}).encode() + b'\\n'"
    script = f"import os\nout.write({words})\nout.flush()\ntime.sleep(600)"
    process, places = child(script, tmp_path), []

    def told(words: str, _done: int, _of: int) -> None:
        places.append(Path(words))
        assert places[0].is_dir()
        threading.Thread(target=process.stop).start()

    with pytest.raises(FilmCancelledError):
        process.request_film(order(0), told)
    assert places[0].parent == tmp_path
    assert not places[0].exists()
    with pytest.raises(FilmCancelledError):  # nor is another begun
        process.request_film(order(0), told)
