"""`make demo`: the film of the README, grabbed from the real window while it trains.

    python -m documentation.screenshots.demo docs/images/demo.gif

Three scenes: the gates of a run on digits are replaced by random ones, then learn again; a trained
ResNet-18 is dropped on the window; a run is shown at earlier steps. The film is a time lapse.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import nn

from dgn_engine.config import RunConfig
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import FileListed, InspectFile, OpenFile, SayReading
from dgn_engine.protocol.training import Pause, Resume, SwapRegime
from documentation.screenshots.photographer import Photographer
from documentation.screenshots.shapes import CLASSES, SIDE, write_shapes

SIZE = (1024, 700)  # of the window, the smallest that it is designed for
STRIP = 44  # height of the sentence below it
PER_SECOND = 5
HOLD = 7  # pictures for which a new sentence is shown before the scene moves
INTERVAL = 0.35  # seconds of training between two pictures
COLOURS = (96, 80, 64, 48, 32)  # the most with which the file is no larger than `LARGEST`
PAST = 10  # recorded steps that are shown on the way back
RATE = 1e-3  # of the run, so that seconds are enough
RESNET_STEPS, RESNET_BATCH = 120, 32
LETTERS = 17
PATIENCE = 1.5  # seconds for the panels before a picture is grabbed
LONGEST, LARGEST = 23.0, 2_600_000  # seconds, bytes


class Film:
    """Pictures with their sentence, and how long each is shown, in hundredths of a second."""

    def __init__(self) -> None:
        self.pictures: list[Image.Image] = []
        self.durations: list[int] = []
        self.sentence = ""
        self._font = ImageFont.truetype(_font_file(), LETTERS)

    @property
    def seconds(self) -> float:
        return sum(self.durations) / 100

    def add(self, picture: Image.Image, count: int = 1) -> None:
        whole = Image.new("RGB", (SIZE[0], SIZE[1] + STRIP), "#ffffff")
        whole.paste(picture, (0, 0))
        draw = ImageDraw.Draw(whole)
        draw.rectangle((0, SIZE[1], SIZE[0], SIZE[1] + STRIP), fill="#12343b")
        draw.text(
            (SIZE[0] // 2, SIZE[1] + STRIP // 2), self.sentence, "#ffffff", self._font, anchor="mm"
        )
        self.pictures.append(whole)
        self.durations.append(round(100 * count / PER_SECOND))

    def save(self, path: Path) -> int:
        """Write the GIF, with as many colours as fit into `LARGEST`; return its bytes."""
        every = self.pictures[:: max(len(self.pictures) // 8, 1)]
        sheet = Image.new("RGB", (SIZE[0], (SIZE[1] + STRIP) * len(every)))
        for index, picture in enumerate(every):
            sheet.paste(picture, (0, index * (SIZE[1] + STRIP)))
        for colours in COLOURS:
            palette = sheet.quantize(colours, dither=Image.Dither.NONE)
            drawn = [
                picture.quantize(palette=palette, dither=Image.Dither.NONE)
                for picture in self.pictures
            ]
            drawn[0].save(
                path,
                save_all=True,
                append_images=drawn[1:],
                duration=[10 * duration for duration in self.durations],
                loop=0,
                optimize=False,
                disposal=1,
            )
            if path.stat().st_size <= LARGEST:
                break
        return path.stat().st_size


class Camera:
    """A real window without a screen, and the film that its pictures are added to."""

    def __init__(self, film: Film, folder: Path, config: RunConfig) -> None:
        from dgn_viewer.application import Options, build_viewer

        self.film, self.folder = film, folder
        self.viewer = build_viewer(
            Options(
                config,
                theme="light",
                size=SIZE,
                settings=folder / "settings.ini",
                paused=True,
                runs_root=str(folder / "runs"),
            )
        )
        self.shot = Photographer(self.viewer, folder)
        self.viewer.start()

    def grab(self, count: int = 1) -> None:
        self.viewer.window.display.draw_now()
        path = self.folder / "picture.png"
        if not self.viewer.window.grab().save(str(path), "PNG"):
            raise RuntimeError(f"cannot write {path}")
        with Image.open(path) as picture:
            self.film.add(picture.convert("RGB"), count)

    def train(self, pictures: int) -> None:
        """Take pictures of a run that trains at its own pace."""
        self.shot.send(Resume())
        for _ in range(pictures):
            self.shot.linger(INTERVAL)
            self.grab()
        self.shot.send(Pause())
        self.shot.wait(lambda: not self.viewer.window.run_state.is_running)
        self.shot.settle(PATIENCE)

    def show(self, sentence: str, hold: int = HOLD) -> None:
        self.film.sentence = sentence
        self.grab(hold)

    def swap(self, regime: str, sentence: str) -> None:
        self.shot.send(SwapRegime(regime))
        self.shot.wait(lambda: self.viewer.window.run_state.regime == regime)
        self.shot.settle(PATIENCE)
        self.show(sentence)


def film_gates(film: Film, folder: Path) -> Film:
    """Replace learnt gates by random ones, let gates learn again; return the look back."""
    from dgn_viewer.docks.panel_dock import CHART
    from dgn_viewer.shell.start_ways import first_run

    config = first_run()
    past = Film()
    camera = Camera(
        film, folder, replace(config, training=replace(config.training, learning_rate=RATE))
    )
    try:
        camera.shot.train(1)
        docks = camera.viewer.window.docks
        docks.show_panel("training")
        docks.hosts["training"].set_choice(CHART, "accuracy")
        camera.shot.settle(PATIENCE)
        camera.show("A network learns digits. Gate maps: which units are on, for each image.")
        camera.train(16)
        camera.swap("FR-II", "Its gates are replaced by random ones: accuracy falls.")
        camera.train(10)
        camera.swap("DL", "The gates learn again, and accuracy comes back.")
        camera.train(16)
        camera.film = past
        past.sentence = "Back in time: every panel at any earlier step, while training continues."
        cursor = camera.viewer.window.time.cursor
        last = cursor.last_step
        camera.shot.send(Resume())
        for index in range(PAST):
            cursor.go_to(round(last * (1 - (index + 1) / (PAST + 1))))
            camera.shot.linger(0.5)
            camera.grab(2)
        cursor.go_live()
        camera.shot.linger(1.0)
        camera.grab(HOLD)
    finally:
        camera.viewer.close()
    return past


def film_resnet(film: Film, folder: Path) -> None:
    """Drop a trained ResNet-18 on the window and look at its gates."""
    from documentation.screenshots.pictures import images_run

    config = images_run(folder)
    file = write_trained_resnet(folder)
    camera = Camera(film, folder, config)
    try:
        camera.shot.train(1)
        camera.shot.settle(PATIENCE)
        listed: list[FileListed] = []
        camera.shot.hear(FileListed, listed.append)
        camera.shot.send(OpenFile(str(file), "network"))
        camera.shot.wait(lambda: bool(listed))
        camera.shot.send(SayReading(listed[0].ticket, FileReading(geometry="torchvision")))
        camera.shot.wait(lambda: len(listed) > 1)
        camera.shot.linger(1.0)
        camera.show("A ResNet-18 is dropped on the window: read without running its code.")
        camera.shot.send(InspectFile(listed[0].ticket))
        camera.shot.wait(lambda: bool(camera.viewer.window.run_state.inspected_file))
        camera.film.sentence = "Its gates, its kernels and what they share, on your images."
        camera.shot.linger(1.0)
        for _ in range(5):
            camera.shot.linger(2.0)
            camera.grab()
        camera.shot.settle(90.0, sharp=True)
        camera.grab(HOLD)
    finally:
        camera.viewer.close()


def write_trained_resnet(folder: Path) -> Path:
    """Train torchvision's ResNet-18 on the drawn shapes for a moment; write its state dict."""
    from tests.engine.importing.torch_networks import models

    torch.manual_seed(0)
    files = sorted(write_shapes(folder / "shapes").glob("train/*/*.png"))
    names = sorted(CLASSES)  # the order in which a folder of images numbers its classes
    labels = torch.tensor([names.index(file.parent.name) for file in files])
    pixels = torch.empty(len(files), 3, SIDE, SIDE)
    for index, file in enumerate(files):
        with Image.open(file) as image:
            values = torch.frombuffer(bytearray(image.convert("RGB").tobytes()), dtype=torch.uint8)
        pixels[index] = values.view(SIDE, SIDE, 3).permute(2, 0, 1) / 255
    network = models().resnet18(weights=None, num_classes=len(CLASSES))
    optimiser = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(RESNET_STEPS):
        batch = torch.randint(len(files), (RESNET_BATCH,))
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(pixels[batch]), labels[batch]).backward()
        optimiser.step()
    path = folder / "resnet18.pth"
    torch.save(network.state_dict(), path)
    return path


def _font_file() -> str:
    from matplotlib.font_manager import findfont

    return findfont("DejaVu Sans")


def main() -> int:
    out = Path(sys.argv[1])
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    film = Film()
    with tempfile.TemporaryDirectory() as folder:
        past = film_gates(film, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        film_resnet(film, Path(folder))
    film.pictures += past.pictures
    film.durations += past.durations
    size = film.save(out)
    print(f"{out}: {film.seconds:.0f} s, {len(film.pictures)} pictures, {size / 1e6:.1f} MB")
    if film.seconds > LONGEST or size > LARGEST:
        print(f"That is more than {LONGEST:.0f} s or {LARGEST / 1e6:.1f} MB.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
