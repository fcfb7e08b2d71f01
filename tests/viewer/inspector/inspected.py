"""What pages of the inspector are tested with: a catalogue, a run, a listed file; clicks."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QToolButton, QWidget

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.protocol.catalogue import Catalogue, DataEntry, NetEntry, RegimeEntry, Setting
from dgn_engine.protocol.files import FileListed, LayerMatch, TensorInfo
from dgn_engine.protocol.messages import Event
from dgn_engine.protocol.training import LayerInfo, RunStarted
from dgn_engine.protocol.watching import ProbeSet
from dgn_engine.scene.elements import Empty
from dgn_engine.scene.panel_spec import About, PanelSpec
from dgn_viewer.inspector.inspector_column import Inspector

LEFT = Qt.MouseButton.LeftButton
CATALOGUE = Catalogue(
    regimes=(
        RegimeEntry("DL", "DL", "", own_gates=False, soft=True, trains_feature=True),
        RegimeEntry(
            "FL",
            "FL",
            "",
            own_gates=False,
            soft=False,
            trains_feature=False,
            group="Fixed gates",
            takes_gates=True,
        ),
        RegimeEntry("ReLU", "ReLU", "", own_gates=True, soft=False, trains_feature=False),
    ),
    nets=(
        NetEntry(
            "cnn4",
            "four convolutions",
            (
                Setting("channels", "channels", 128, 1, 4096),
                Setting("scale", "scale", 0.5, 0.1, 2.0),
                Setting("pool", "pool", "average", choices=("average", "flatten")),
                Setting("wrap", "wrap around", True),
                Setting("note", "note", ""),
            ),
        ),
        NetEntry("fc", "fc", (Setting("width", "width", 128, 1, 65536),)),
    ),
    data=(
        DataEntry("digits", "digits", True, ""),
        DataEntry("mnist", "MNIST", False, "Not here; tick download."),
        DataEntry("folder", "folder of images", True, "", takes_path=True),
    ),
    probes=("gates",),
    devices=("auto", "cpu"),
)
CONFIG = RunConfig(
    data=DataConfig("digits", binary=(4, 7), train_limit=500),
    net=NetConfig("fc", (("width", 64),), bias=True, init="bernoulli", sigma=0.25),
    gating=GatingConfig("DL", beta=6.0, epsilon=0.1, value_input="ones"),
    training=TrainingConfig("squared", "sgd", 0.05, momentum=0.9, batch=16, epochs=0, pace=200),
    seed=3,
    device="cpu",
    probe_examples=32,
)
STARTED = RunStarted(
    run=1,
    config=CONFIG,
    regime="DL",
    device="cpu",
    layers=tuple(LayerInfo(i, f"dense {i + 1}", "dense", (64,)) for i in range(3)),
    wiring=(0, 1, 2),
    parameters_value=1,
    parameters_feature=1,
    train_examples=10,
    test_examples=10,
    classes=2,
    steps_per_epoch=5,
    total_steps=0,
    probe_set=ProbeSet((), (), (), ""),
    paused=False,
)
LISTED = FileListed(
    ticket=7,
    path="/somewhere/<b>bold</b>.pt",
    file_name="<b>bold</b>.pt",
    tensors=(TensorInfo("<i>net.0</i>.weight", (64, 64), "float32"), TensorInfo("n", (), "int64")),
    matches=(
        LayerMatch("layer 1", (64, 64), "<i>net.0</i>.weight", (64, 64), True),
        LayerMatch("layer 2", (64, 64), "", None, True),
    ),
    fits=True,
    verdict="Its <u>gates</u> fit.",
)
SPEC = PanelSpec(
    "Overlap", (), lambda view: Empty("nothing"), About("Words with $K^V$.", (r"$\Lambda$",), "§3")
)


def send_event(inspector: Inspector, event: Event) -> None:
    """What the window does with an event."""
    inspector.on_event(event, inspector.state.after(event))


def click(button: QWidget) -> None:
    QTest.mouseClick(button, LEFT)


def close_button(inspector: Inspector) -> QToolButton:
    return inspector.findChild(QToolButton, options=Qt.FindChildOption.FindDirectChildrenOnly)
