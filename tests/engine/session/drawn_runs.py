"""Runs that the run machine begins with: data, files of weights and configurations, drawn."""

import torch
from hypothesis import strategies as st

from dgn_engine.config import DataConfig, GatingConfig, NetConfig, RunConfig, TrainingConfig
from dgn_engine.data import Examples
from dgn_engine.regimes import all_regimes
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from tests.engine.slow_table import File, SlowData, row_of

REGIMES = tuple(regime.name for regime in all_regimes())
INPUTS, WIDTH, TRAIN, TEST = 4, 6, 14, 33
IMAGE, CHANNELS = (1, 2, 3), 2  # of a convolutional network; rows are no columns


def data_of(signed: bool, shape: tuple[int, ...]) -> SlowData:
    """14 examples to train on, so that the last batch is smaller, and 33 to test on: two chunks."""
    generator = torch.Generator().manual_seed(5)
    classes = 2 if signed else 3
    x = torch.randn((TRAIN + TEST, *shape), generator=generator, dtype=torch.float64)
    y = torch.randint(0, classes, (TRAIN + TEST,), generator=generator)
    y[:classes] = torch.arange(classes)
    return SlowData(x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], classes, signed)


def examples_of(data: SlowData) -> Examples:
    names = tuple(str(c) for c in range(data.classes))
    arrays = [t.numpy() for t in (data.train_x, data.train_y, data.test_x, data.test_y)]
    return Examples(*arrays, names, "of the machine", "0" * 64, data.signed)


def draw_file(
    name: str, shapes: list[tuple[int, ...]], biased: bool, head: bool, seed: int
) -> File:
    """Weights of these shapes; without a `head` the last layer has one output more."""
    generator = torch.Generator().manual_seed(seed)
    outputs, *inner = shapes[-1]
    shapes = [*shapes[:-1], (outputs + (not head), *inner)]

    def normal(*shape: int) -> torch.Tensor:
        return 0.7 * torch.randn(shape, generator=generator, dtype=torch.float64)

    weights = tuple(normal(*shape) for shape in shapes)
    return File(name, weights, tuple(normal(s[0]) for s in shapes) if biased else (), head)


def contents_of(file: File) -> CheckpointContents:
    arrays = {}
    for layer, weight in enumerate(file.weights):
        arrays[f"{layer}.weight"] = weight.numpy().copy()
        if file.biases:
            arrays[f"{layer}.bias"] = file.biases[layer].numpy().copy()
    return CheckpointContents(file.name, arrays, dict.fromkeys(arrays, "float64"))


@st.composite
def configs(draw: st.DrawFn) -> RunConfig:
    depth = draw(st.sampled_from([3, 4, 5]))
    layers, convolves = depth - 1, depth == 5
    name, options = "fc", (("depth", depth), ("width", WIDTH))
    if convolves:
        name, options = "cnn4", (("channels", CHANNELS),)
    regime = draw(st.sampled_from(REGIMES))
    optimiser = draw(st.sampled_from(["adam", "sgd", "rmsprop"]))
    from_file = row_of(regime).learnt_in and draw(st.booleans())
    return RunConfig(
        data=DataConfig("digits"),
        net=NetConfig(
            name,
            options,
            bias=draw(st.booleans()),
            feature_bias=draw(st.booleans()),
            init=draw(st.sampled_from(["kaiming", "glorot"])),  # weights ±σ would make ties
        ),
        gating=GatingConfig(
            regime,
            beta=draw(st.sampled_from([1.0, 4.0])),
            epsilon=draw(st.sampled_from([0.0, 0.1])),
            value_input=draw(st.sampled_from(["image", "ones", "random"])),
            wiring=draw(st.sampled_from([(), tuple(reversed(range(layers)))])),
            rotation=draw(st.sampled_from([(), tuple(range(1, depth))])),
            shift=draw(st.sampled_from([(), (0, 1, 2, -1)])) if convolves else (),
            tiling=draw(st.sampled_from([(), (), (2, 1, 3, 1)[:layers]])),
            feature_layers=draw(st.sampled_from(["chain", "chain", "parallel"])),
            gate_probability=draw(st.sampled_from([0.3, 0.8])),
            gates_from="gates.pt" if from_file else "",
            pretrain_epochs=draw(st.sampled_from([0, 1])),
        ),
        training=TrainingConfig(
            loss=draw(st.sampled_from(["cross-entropy", "squared"])),
            optimiser=optimiser,
            learning_rate=draw(st.sampled_from([0.003, 0.02])),
            momentum=draw(st.sampled_from([0.0, 0.9])) if optimiser == "sgd" else 0.0,
            batch=draw(st.sampled_from([4, 3])),
            epochs=draw(st.sampled_from([0, 2, 4])),
            until=draw(st.sampled_from([0.0, 0.55])),
        ),
        seed=draw(st.integers(0, 99)),
        device="cpu",
        probe_examples=3,
    )
