"""Which pictures there are, and what a user does before each is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog
from torch import nn

from dgn_engine.config import DataConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import load_examples
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.protocol.files import FileListed, InspectFile, OpenFile, ReadingsFound, SayReading
from dgn_engine.protocol.training import Rewire, SwapRegime
from dgn_viewer.playground import playground_run
from dgn_viewer.shell.start_ways import first_run
from documentation.screenshots.photographer import Photographer
from documentation.screenshots.shapes import write_shapes
from tests.engine.importing.torch_networks import models


@dataclass(frozen=True)
class Picture:
    """`docs/images/NAME.png`: a run in a window, and what is done before it is taken."""

    shows: str
    take: Callable[[Photographer], None]
    config: Callable[[Path], RunConfig] = lambda _folder: first_run()
    theme: str = "light"
    size: tuple[int, int] = (1440, 900)
    scale: int = 1
    start: str = "default"


def _trained(shot: Photographer) -> None:
    for _ in range(5):  # a step is recorded whenever it stops: the traces have their points
        shot.train(100)


def _start(shot: Photographer) -> None:
    """What a new user sees, before anything runs."""
    shot.live = False
    shot.wait(lambda: shot.window.start_card.isVisible())
    shot.linger(3.0)


def _changed(shot: Photographer) -> None:
    """A run with a past: gates exchanged, another regime, and the first one again."""
    shot.train(300)
    shot.send(Rewire((1, 0, 2, 3)))
    shot.train(200)
    shot.send(SwapRegime("FR-II"))
    shot.train(300)
    shot.send(SwapRegime("DL"))
    shot.train(400)


def images_run(folder: Path) -> RunConfig:
    """A convolutional network on images of 32×32."""
    return RunConfig(
        data=DataConfig(name=f"folder:{write_shapes(folder / 'shapes')}"),
        net=NetConfig("cnn4", (("channels", 16),)),
        training=TrainingConfig(learning_rate=1e-3, batch=32),
        device="cpu",
    )


def _cnn(shot: Photographer) -> None:
    shot.train(100)


def _experiment(shot: Photographer) -> None:
    shot.train(300)
    shot.trigger("experiment.npf-table2")


def _runs(shot: Photographer) -> None:
    """Three recorded runs, listed beside a fourth."""
    for regime in ("ReLU", "FR-II", "DL"):
        config = first_run()
        gating = replace(config.gating, regime=regime)
        shot.begin(without_pace(replace(config, gating=gating)))
        shot.train(400)
    shot.trigger("file.open_run")
    rail = shot.window.runs.rail
    shot.wait(lambda: len(rail.runs.runs) == 4)  # the one at the start, too
    for run in rail.runs.shown[1:3]:
        rail.table.choose_run(run.folder)
        rail.table.toggle_current_tick()
    shot.linger(2.0)


def _export(shot: Photographer) -> None:
    """The NTK panel on its way into a paper."""
    _changed(shot)
    shot.settle(20.0)
    shot.window.docks.set_front_panel("ntk")
    shot.trigger("file.export_panel")
    shot.wait(lambda: bool(shot.window.findChildren(QDialog)))
    shot.linger(4.0)
    shot.of = shot.window.findChildren(QDialog)[0]


def _file(shot: Photographer) -> None:
    """A state dict dropped on the first run, digits: what it leaves open, and what fits."""
    shot.train(300)
    found: list[ReadingsFound] = []
    shot.hear(ReadingsFound, found.append)
    shot.send(OpenFile(str(_digits_file(shot.folder)), "network"))
    shot.wait(lambda: bool(found))
    shot.linger(2.0)


def _digits_file(folder: Path) -> Path:
    """A convolutional network that has learnt the digits, as its state dict."""
    torch.manual_seed(0)
    examples = load_examples(DataConfig())
    x, y = torch.from_numpy(examples.train_x), torch.from_numpy(examples.train_y)
    network = nn.Sequential(
        *(nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)),
    )
    optimiser = torch.optim.Adam(network.parameters(), 1e-3)
    for _ in range(600):
        batch = torch.randint(len(x), (64,))
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(x[batch].float()), y[batch]).backward()
        optimiser.step()
    file = folder / "digits.pt"
    torch.save(network.state_dict(), file)
    return file


def _resnet_file(folder: Path) -> Path:
    torch.manual_seed(0)
    file = folder / "resnet18.pth"
    torch.save(models().resnet18(weights=None, num_classes=4).state_dict(), file)
    return file


def _resnet(shot: Photographer) -> None:
    """torchvision's ResNet-18 as it begins, from a file, on the images of the run."""
    file = _resnet_file(shot.folder)
    shot.train(1)
    listed: list[FileListed] = []
    shot.hear(FileListed, listed.append)
    shot.send(OpenFile(str(file), "network"))
    shot.wait(lambda: bool(listed))
    shot.send(SayReading(listed[0].ticket, FileReading(geometry="torchvision")))
    shot.wait(lambda: len(listed) > 1)
    shot.send(InspectFile(listed[0].ticket))
    shot.wait(lambda: bool(shot.window.run_state.inspected_file))


def _past(shot: Photographer) -> None:
    """A run with a past, shown as it was before the gates were swapped."""
    shot.window.docks.show_panel("training")
    _changed(shot)
    shot.settle(20.0)
    shot.live = False
    shot.window.time.cursor.go_to(480)
    shot.linger(3.0)


def _examples(shot: Photographer) -> None:
    """Two digits of different classes, pinned in the overlap: their gates and what they share."""
    shot.window.docks.show_panel("overlap")
    _trained(shot)
    shot.settle(20.0)
    panel = shot.window.docks.hosts["overlap"]
    for key, count in ((Qt.Key.Key_Down, 20), (Qt.Key.Key_Right, 8), (Qt.Key.Key_Return, 1)):
        for _ in range(count):
            QTest.keyClick(panel, key)
    shot.linger(1.0)


def _compare(shot: Photographer) -> None:
    """The run after 900 steps beside itself before its gates were replaced by random ones."""
    for _ in range(10):  # a step is recorded whenever it stops
        shot.train(50)
    shot.send(SwapRegime("FR-II"))
    shot.train(400)
    shot.window.docks.arrangement.arrange_preset("compare")
    shot.settle(20.0)
    shot.window.time.cursor.go_to(450)
    shot.linger(2.0)
    shot.trigger("time.compare")
    shot.wait(lambda: shot.window.run_state.comparison is not None)
    shot.window.time.cursor.go_live()
    shot.linger(4.0)


def _plane(_folder: Path) -> RunConfig:
    """The playground: few units, points of the plane."""
    return replace(playground_run("moons"), device="cpu")


def _teach(shot: Photographer) -> None:
    shot.window.docks.arrangement.arrange_preset("teach")
    shot.train(300)
    shot.linger(1.5)  # the bar of time follows within a second


def _hidden(shot: Photographer) -> None:
    """What each layer of a convolutional network makes of one image, alone in the window."""
    shot.window.docks.show_panel("hidden_outputs")
    shot.window.docks.toggle_maximised("hidden_outputs")
    shot.train(150)


PICTURES = {
    "window": Picture("The window after 500 steps on digits in the regime DL", _trained),
    "start": Picture("The start card, 1280 × 800", _start, size=(1280, 800), start=""),
    "window-small": Picture("The same run at 1024 × 700", _trained, size=(1024, 700)),
    "changes": Picture("Gates exchanged and regimes swapped while training", _changed),
    "past": Picture("The bar of time: the run as it was at an earlier step", _past),
    "examples": Picture(
        "Two examples of the overlap, pinned: pictures, gates, shared paths", _examples
    ),
    "compare": Picture("A run beside itself at an earlier step, in the layout Compare", _compare),
    "teach": Picture("The playground in the layout Teach: regions and paths", _teach, _plane),
    "hidden": Picture(
        "Hidden outputs of cnn4, as they are, with gates reversed, on ones", _hidden, images_run
    ),
    "cnn4": Picture("cnn4 in training on images of 32 × 32", _cnn, images_run),
    "resnet18": Picture("torchvision's ResNet-18 from a file", _resnet, images_run),
    "file": Picture("The page of a dropped file, 1280 × 800", _file, size=(1280, 800)),
    "runs": Picture("Recorded runs, two of them drawn over the current one", _runs),
    "export": Picture("The export dialog", _export),
    "experiment": Picture("The page of an experiment, 1280 × 800", _experiment, size=(1280, 800)),
}


def without_pace(config: RunConfig) -> RunConfig:
    return replace(config, training=replace(config.training, pace=0.0))
