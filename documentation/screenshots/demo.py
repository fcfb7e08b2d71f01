"""`make demo`: the film of the README, grabbed from the real window while it trains.

    python -m documentation.screenshots.demo docs/images/demo.gif

The window trains the first run on digits, its gates are exchanged for random ones and learnt anew,
and the bar of time goes back to where they were lost. Below each picture stands one sentence.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SIZE = (1024, 700)  # of the window, the smallest that it is designed for
STRIP = 44  # of the sentence below it
PER_SECOND = 4
HOLD = 10  # pictures for which a sentence stands still before the scene: two and a half seconds
COLOURS = (64, 48, 40, 32, 24)  # the most with which the file is no larger than it may be
LOOKS = 12  # recorded steps that the bar of time passes
RATE = 5e-4  # of the run: what takes minutes in the first run takes half a minute here
LETTERS = 17
PATIENCE = 1.0  # seconds for the panels before a picture is grabbed
LONGEST, LARGEST = 60.0, 4_000_000  # seconds, bytes


class Film:
    """Pictures with their sentence and how long each stands, in hundredths of a second."""

    def __init__(self) -> None:
        self.pictures: list[Image.Image] = []
        self.lasts: list[int] = []
        self.sentence = ""
        self._font = ImageFont.truetype(_font_file(), LETTERS)

    @property
    def seconds(self) -> float:
        return sum(self.lasts) / 100

    def add(self, picture: Image.Image, count: int = 1) -> None:
        whole = Image.new("RGB", (SIZE[0], SIZE[1] + STRIP), "#ffffff")
        whole.paste(picture, (0, 0))
        draw = ImageDraw.Draw(whole)
        draw.rectangle((0, SIZE[1], SIZE[0], SIZE[1] + STRIP), fill="#12343b")
        draw.text(
            (SIZE[0] // 2, SIZE[1] + STRIP // 2), self.sentence, "#ffffff", self._font, anchor="mm"
        )
        self.pictures.append(whole)
        self.lasts.append(round(100 * count / PER_SECOND))

    def save(self, path: Path) -> int:
        """Write the GIF, with as many colours as fit into `LARGEST`; its bytes."""
        every = self.pictures[:: max(len(self.pictures) // 8, 1)]
        sheet = Image.new("RGB", (SIZE[0], (SIZE[1] + STRIP) * len(every)))
        for place, picture in enumerate(every):
            sheet.paste(picture, (0, place * (SIZE[1] + STRIP)))
        for colours in COLOURS:
            palette = sheet.quantize(colours, dither=Image.Dither.NONE)
            drawn = [
                one.quantize(palette=palette, dither=Image.Dither.NONE) for one in self.pictures
            ]
            drawn[0].save(
                path,
                save_all=True,
                append_images=drawn[1:],
                duration=[10 * each for each in self.lasts],
                loop=0,
                optimize=False,
                disposal=1,
            )
            if path.stat().st_size <= LARGEST:
                break
        return path.stat().st_size


def film(folder: Path) -> Film:
    """Play the scenes in a real window, without a screen."""
    from dgn_engine.protocol.training import Pause, Resume, SwapRegime
    from dgn_viewer.application import Options, build_viewer
    from dgn_viewer.shell.start_ways import first_run
    from documentation.screenshots.photographer import Photographer

    made = Film()
    config = first_run()
    training = replace(config.training, learning_rate=RATE)
    viewer = build_viewer(
        Options(
            replace(config, training=training),
            theme="light",
            size=SIZE,
            settings=folder / "settings.ini",
            paused=True,
            runs_root=str(folder / "runs"),
        )
    )
    shot = Photographer(viewer, folder)

    def grab(count: int = 1) -> None:
        viewer.window.display.draw_now()
        path = folder / "picture.png"
        if not viewer.window.grab().save(str(path), "PNG"):
            raise RuntimeError(f"cannot write {path}")
        with Image.open(path) as picture:
            made.add(picture.convert("RGB"), count)

    def train(pictures: int) -> None:
        """So many pictures of a run that goes on at its own pace."""
        shot.send(Resume())
        for _ in range(pictures):
            shot.linger(1 / PER_SECOND)
            grab()
        shot.send(Pause())
        shot.wait(lambda: not viewer.window.run_state.is_running)
        shot.settle(PATIENCE)

    def scene(sentence: str) -> None:
        made.sentence = sentence
        grab(HOLD)

    def swap(regime: str, sentence: str) -> None:
        shot.send(SwapRegime(regime))
        shot.wait(lambda: viewer.window.run_state.regime == regime)
        shot.settle(PATIENCE)
        scene(sentence)

    try:
        viewer.start()
        shot.train(1)
        viewer.window.docks.show_panel("training")
        shot.settle(PATIENCE)
        scene("A network learns handwritten digits. Gate maps: which units are on, for each digit.")
        train(36)
        swap("FR-II", "Now its gates are replaced by random ones. Accuracy falls.")
        train(18)
        scene("The weights learn to live with random gates, but accuracy comes back only in part.")
        swap("DL", "Gates that learn again: stripes return, and so does the rest of the accuracy.")
        train(26)
        made.sentence = "Look back at any recorded step, while training goes on."
        cursor = viewer.window.time.cursor
        last = cursor.last_step
        shot.send(Resume())
        for place in range(LOOKS):
            wanted = round(last * (1 - (place + 1) / (LOOKS + 1)))
            cursor.go_to(wanted)
            shot.linger(0.4)
            grab()
        grab(HOLD)
        cursor.go_live()
        shot.linger(0.5)
        scene("dgn-viewer: what does a network know by its gates, and what by its weights?")
    finally:
        viewer.close()
    return made


def _font_file() -> str:
    from matplotlib.font_manager import findfont

    return findfont("DejaVu Sans")


def main() -> int:
    out = Path(sys.argv[1])
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    with tempfile.TemporaryDirectory() as folder:
        made = film(Path(folder))
    size = made.save(out)
    print(f"{out}: {made.seconds:.0f} s, {len(made.pictures)} pictures, {size / 1e6:.1f} MB")
    if made.seconds > LONGEST or size > LARGEST:
        print(f"That is more than {LONGEST:.0f} s or {LARGEST / 1e6:.0f} MB.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
