"""Random sequences through the reader of files: equal to autograd, asked, or refused; never wrong.

All 2,000, with a table of what they come to:
`python -m tests.engine.importing.test_differential`.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dgn_engine.errors import UserError
from dgn_engine.importing.fitting_readings import fitting_readings
from dgn_engine.importing.from_file import module_in
from dgn_engine.importing.open_questions import OpenQuestions
from dgn_engine.protocol.file_reading import FileReading
from dgn_engine.storage.checkpoints.contents import CheckpointContents
from tests.daily import nightly
from tests.engine.importing.autograd_comparison import Truth, list_file
from tests.engine.importing.random_sequences import NORMS, WEIGHTED, draw, flat, said_of
from tests.engine.importing.torch_networks import with_trained_statistics

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
CASES = 2000
IN_SUITE = 25  # of these, and as many at night; the others take minutes: `make faults`


def numbered(network: nn.Sequential, coin: random.Random) -> dict[str, Tensor]:
    return dict(network.state_dict())


def prefixed(network: nn.Sequential, coin: random.Random) -> dict[str, Tensor]:
    prefix = coin.choice(("net.", "model.", "module.backbone.", "policy.net."))
    return {f"{prefix}{name}": value for name, value in network.state_dict().items()}


def halved(network: nn.Sequential, coin: random.Random) -> dict[str, Tensor]:
    """As 'features' and 'classifier', cut at the first Flatten."""
    layers = flat(network)
    cut = next((p for p, layer in enumerate(layers) if isinstance(layer, nn.Flatten)), 0)
    skips = bool(cut) and coin.random() < 0.5
    halves = {"features": layers[:cut], "classifier": layers[cut + skips :]}
    parts = nn.ModuleDict({name: nn.Sequential(*half) for name, half in halves.items()})
    return dict(parts.state_dict())


def renamed(network: nn.Sequential, coin: random.Random) -> dict[str, Tensor]:
    """As attributes conv1, bn1, fc1 of a class of one's own."""
    counts: Counter[str] = Counter()
    of_layer = coin.random() < 0.5  # bn2 behind conv2, or the second one
    parts: dict[str, nn.Module] = {}
    for layer in flat(network):
        if isinstance(layer, WEIGHTED):
            word = "conv" if isinstance(layer, nn.Conv2d) else "fc"
            counts["layers"] += 1
        elif isinstance(layer, NORMS):
            word = "bn"
        elif layer.state_dict():
            word = "act"
        else:
            continue
        counts[word] += 1
        number = counts["layers"] if word == "bn" and of_layer else counts[word]
        parts[f"{word}{number}" if f"{word}{number}" not in parts else f"{word}{number}b"] = layer
    if coin.random() < 0.2:  # convolutions registered first, then the rest
        parts = dict(sorted(parts.items(), key=lambda item: not item[0].startswith("c")))
    if coin.random() < 0.1:  # safetensors
        parts = dict(sorted(parts.items()))
    return dict(nn.ModuleDict(parts).state_dict())


def strays(coin: random.Random) -> dict[str, Tensor]:
    """Tensors that may or may not be a part of what the network computes."""
    inputs = coin.choice((1, 3, 4))
    kinds: list[dict[str, Tensor]] = [
        {"mean": torch.randn(inputs), "std": torch.rand(inputs) + 0.5},
        {"normalise.mean": torch.randn(1, inputs, 1, 1), "normalise.std": torch.rand(1, 3, 1, 1)},
        {"temperature": torch.tensor(1.5)},
        {"logit_scale": torch.ones(1)},
        {"mask": torch.rand(4) > 0.5},
        {"mask": torch.rand(4, 4) > 0.5},
        {"class_weights": torch.rand(4)},
        {"epoch": torch.tensor(7)},
    ]
    return coin.choice(kinds)


KEYS = (numbered, prefixed, halved, renamed)


def cases(seed: int, folder: Path | None = None) -> Mapping[tuple[str, str, str], str]:
    """What one sequence comes to in each of its files: (file, what was said, whole) → verdict."""
    network, shape = draw(seed)
    if not list(network.parameters()):
        return {}
    coin = random.Random(seed)
    truth = Truth(network, shape)
    in_process = folder if seed % 100 == 0 else None
    found = {("whole module", "nothing", ""): truth.of(list_file(network, in_process))}
    keys = KEYS[seed % len(KEYS)]
    arrays = keys(network, coin)
    stray = strays(coin) if coin.random() < 0.2 else {}
    kind = keys.__name__ + (", stray tensors" if stray else "")
    saved = {**stray, **arrays} if coin.random() < 0.5 else {**arrays, **stray}
    listing = list_file(saved, in_process)
    found[kind, "nothing", ""] = truth.of(listing)
    flat_numbers = keys in (numbered, prefixed) and not any(
        isinstance(part, nn.Sequential) for part in network
    )
    names = [name for name in listing.arrays if name in stray]
    saying = said_of(flat(network), coin, flat_numbers, names)
    if saying is None:
        return found
    if stray:
        without = replace(saying.reading, ignored=())
        found[kind, "all but the stray", ""] = truth.of(replace(listing, reading=without))
    verdict = truth.of(replace(listing, reading=saying.reading))
    if verdict in ("asked", "refused"):  # then the user says where everything stands
        more = said_of(flat(network), coin, flat_numbers, names, whole=True)
        assert more is not None
        said = replace(listing, reading=more.reading)
        if "order" in asked_about(said, shape):
            said = replace(said, reading=replace(more.reading, order=order_in(network, arrays)))
        verdict = truth.of(said)
    found[kind, "truth", "expressible" if saying.whole else "in part"] = verdict
    return found


def check(seeds: Iterable[int], folder: Path) -> Counter[tuple[str, ...]]:
    """Count what the files of these sequences come to; fails where one is wrong, or where words
    that say all are not enough."""
    counts: Counter[tuple[str, ...]] = Counter()
    faults = []
    for seed in seeds:
        for kind, verdict in cases(seed, folder).items():
            counts[*kind, verdict] += 1
            if verdict == "wrong" or ("expressible" in kind and verdict != "equal"):
                faults.append((seed, *kind, verdict))
    assert not faults
    return counts


@pytest.mark.parametrize("start", [0, *nightly(IN_SUITE)])
def test_random_sequences_are_equal_to_autograd_or_asked_or_refused(
    start: int, tmp_path: Path
) -> None:
    counts = check(range(start, start + IN_SUITE), tmp_path)
    verdicts = Counter(equal=0, asked=0, refused=0)
    for kind, count in counts.items():
        verdicts[kind[-1]] += count
    assert min(verdicts.values()) > IN_SUITE // 6  # each of them is tried


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("start", range(2 * IN_SUITE, CASES, 75))
def test_more_random_sequences_are_equal_to_autograd_or_asked_or_refused(
    start: int, tmp_path: Path
) -> None:
    check(range(start, start + 75), tmp_path)


def test_readings_that_fit_give_logits_of_every_file() -> None:
    listed_readings = 0
    for seed in range(2, 32, 3):
        network, shape = draw(seed)
        truth = Truth(network, shape)
        if not list(network.parameters()) or truth.logits.ndim != 2:
            continue
        listing = list_file(numbered(network, random.Random(seed)))
        x, classes = truth.x.float(), truth.logits.shape[1]
        y = torch.arange(len(x)) % classes
        for fitting in fitting_readings(listing, shape, x, y):
            listed_readings += 1
            made = module_in(replace(listing, reading=fitting.reading), shape)
            logits = made.module(truth.x.reshape(len(x), *made.input_shape))
            assert logits.shape == truth.logits.shape
            assert torch.isfinite(logits).all()
            if classes > 1:
                right = (logits.argmax(1) == y).double().mean()
                assert fitting.accuracy == pytest.approx(float(right), abs=1e-6)
    assert listed_readings > 8


def by_hand(reading: FileReading, weights: Sequence[Tensor], x: Tensor) -> Tensor:
    """Logits of convolutions and one dense layer, as a reading in plain words has them."""
    act = {"relu": functional.relu, "tanh": torch.tanh}[reading.activation]
    rest = list(weights)
    for word in reading.geometry.split(","):
        numbers = dict(re.findall(r"([a-z]+)(\d+)", word))
        if "adaptiveavg" in numbers:
            x = functional.adaptive_avg_pool2d(x, int(numbers["adaptiveavg"]))
        elif "adaptivemax" in numbers:
            x = functional.adaptive_max_pool2d(x, int(numbers["adaptivemax"]))
        elif "max" in numbers or "avg" in numbers:
            kernel = int(numbers.get("max", numbers.get("avg", "")))
            sides = int(numbers.get("s", kernel)), int(numbers.get("p", 0))
            pool = functional.max_pool2d if "max" in numbers else functional.avg_pool2d
            x = pool(x, kernel, *sides)
        elif word not in ("skip", "dense"):
            stride, padding = (int(numbers.get(key, usual)) for key, usual in (("s", 1), ("p", 0)))
            x = act(functional.conv2d(x, rest.pop(0), rest.pop(0), stride, padding))
    return functional.linear(x.flatten(1), *rest)


def test_the_accuracy_of_a_reading_is_that_of_the_network_built_by_hand() -> None:
    network = with_trained_statistics(
        nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(24, 3),
        )
    )
    x = torch.randn(60, 1, 8, 8)
    with torch.no_grad():
        network[-1].bias -= network(x.double()).mean(0)  # type: ignore[index]  # every class occurs
    y = network(x.double()).argmax(1)
    listing = list_file({f"net.{name}": each for name, each in network.state_dict().items()})
    weights = [each.float() for each in network.state_dict().values()]
    known = [
        f
        for f in fitting_readings(listing, (1, 8, 8), x, y)
        if f.reading.activation in ("relu", "tanh")
    ]
    for fitting in known:
        right = (by_hand(fitting.reading, weights, x).argmax(1) == y).float().mean()
        assert fitting.accuracy == pytest.approx(float(right), abs=1e-6)
        assert fitting.examples == len(x)
    assert (known[0].reading.geometry, known[0].accuracy) == ("p1,max2,p1,max2", 1.0)
    assert len({fitting.reading for fitting in known}) == len(known) > 1


def asked_about(listing: CheckpointContents, shape: tuple[int, ...]) -> set[str]:
    try:
        module_in(listing, shape)
    except OpenQuestions as refusal:
        return {question.about for question in refusal.questions}
    except UserError:
        return set()
    return set()


def order_in(network: nn.Sequential, arrays: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The names of the weights of a sequence, in the order in which they compute."""
    names = {value.data_ptr(): name.removeprefix("module.") for name, value in arrays.items()}
    weights = [layer.weight for layer in flat(network) if isinstance(layer, WEIGHTED)]
    return tuple(names[weight.data_ptr()] for weight in weights)


if __name__ == "__main__":  # the table of all of them
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for kind, count in sorted(check(range(CASES), Path(folder)).items()):
            print(f"{count:6,}", *kind, sep="\t")
