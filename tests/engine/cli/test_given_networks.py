"""Whatever network a command is given, a file, a run, a session or the user's own code: what one
command reads every command reads, and what none reads is refused with a way that works.
"""

from __future__ import annotations

import copy
import importlib
import json
import re
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from dgn_engine.cli import main
from dgn_engine.config import DataConfig
from dgn_engine.data import load_examples
from dgn_engine.experiments.report import document
from dgn_engine.model.adapt.from_module import adapted_stack
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from tests.daily import nightly
from tests.engine.cli.saved_nets import convolutional, dense, named
from tests.engine.cli.typed import printed_json, read_arrays, refused_command_of_kind
from tests.engine.cli.user_code import write_code
from tests.refusals import refused_command

NETS = """
import torch
from torch import nn
from torch.nn import functional as F


class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.c2 = nn.Conv2d(4, 4, 3, padding=1)
        self.fc = nn.Linear(4 * 4, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.b1(self.c1(x))), 2)
        x = F.relu(x + self.c2(x))
        return self.fc(F.max_pool2d(x, 2).flatten(1))


class Smooth(Mine):
    def forward(self, x):
        return self.fc(F.max_pool2d(F.gelu(self.c2(self.c1(x))), 4).flatten(1))


def steep():
    return nn.Sequential(nn.Linear(64, 8), nn.LeakyReLU(), nn.Linear(8, 10))


def vectors():
    return nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
"""
FEW = ["--data", "digits", "--train-limit", "64", "--test-limit", "60", "--device", "cpu"]
SHORT = ["--epochs", "1", "--seeds", "1"]
IN_LINE = ["--executor", "serial", "--quiet"]  # where what is asked is not how it is typed
SEEN = ["--data", "digits", "--examples", "10", "--scored", "60"]


class Mine(NamedTuple):
    """The user's own code in a folder, its weights in mine.pt and the whole of it in whole.pt."""

    nets: Any
    module: nn.Module
    folder: Path


@pytest.fixture(scope="module")
def saved_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mine]:
    folder = tmp_path_factory.mktemp("mine")
    (folder / "own_nets.py").write_text(NETS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        nets = importlib.import_module("own_nets")
    torch.manual_seed(0)
    module = nets.Mine()
    for _ in range(3):
        module(torch.rand(8, 1, 8, 8))  # statistics of its BatchNorm
    module.eval()
    torch.save(module.state_dict(), folder / "mine.pt")
    torch.save(module, folder / "whole.pt")
    yield Mine(nets, module, folder)
    del sys.modules["own_nets"]


@pytest.fixture
def mine(saved_module: Mine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mine:
    """The current folder; results are below `tmp_path`."""
    monkeypatch.chdir(saved_module.folder)
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(tmp_path / "results"))
    return saved_module


def asked_back(*words: object) -> str:
    """What is open in a file; readings that fit stand below it."""
    return str(refused_command(*words))


def shown(capsys: pytest.CaptureFixture[str], *asked: object) -> dict[str, Any]:
    told: dict[str, Any] = printed_json(capsys, "inspect", *asked, "--json")
    return told


def own_test_accuracy(module: nn.Module) -> float:
    examples = load_examples(DataConfig(test_limit=60, train_limit=64))
    with torch.no_grad():
        right = module(torch.from_numpy(examples.test_x)).argmax(1).numpy() == examples.test_y
    return float(np.mean(right))


def test_gates_of_the_users_own_module_are_measured_by_processes_that_never_run_it(
    mine: Mine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, out = copy.deepcopy(mine.module), tmp_path / "out"
    asked = ["gate-information", "--model", "own_nets:Mine", "--weights", "mine.pt"]
    assert main([*asked, *FEW, *SHORT, "--out", str(out)]) == 0
    made = document.read_document(out)
    assert made.state == "done"
    assert "Mine of own_nets.py" in made.title
    assert any("mine.pt" in each and "Mine of own_nets.py" in each for each in made.choices)
    assert made.details["own"]["percent"] == pytest.approx(100 * own_test_accuracy(module))
    weights, biases = adapted_stack(module.double(), (1, 8, 8)).folded_tensors()
    held = read_tensors(out / "units" / "FL-s0" / "weights.safetensors").arrays
    for place, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        expected = weight.detach().numpy()
        np.testing.assert_allclose(held[f"feature.weights.{place}"], expected, atol=1e-6)
        assert bias is not None
    capsys.readouterr()
    words = made.command
    assert [*words[:5]] == [*asked[:4], str(mine.folder / "mine.pt")]
    trained = (out / "units" / "FL-s0" / "weights.safetensors").stat().st_mtime_ns
    assert main([*words]) == 0  # the same command goes on: nothing is left to train
    assert (out / "units" / "FL-s0" / "weights.safetensors").stat().st_mtime_ns == trained
    assert repr(document.read_document(out).details) == repr(made.details)
    (stored,) = out.glob("network-*.safetensors")
    assert shown(capsys, str(stored), *SEEN)["inspection"]["accuracy"]["test"] == pytest.approx(
        shown(capsys, *asked[1:], *SEEN)["inspection"]["accuracy"]["test"]
    )
    x, of_file, of_code = (str(tmp_path / name) for name in ("x.npy", "file.npz", "code.npz"))
    np.save(x, np.random.default_rng(0).random((4, 1, 8, 8)))
    assert main(["kernels", str(stored), "--inputs", x, "--out", of_file]) == 0
    assert main(["kernels", *asked[1:], "--inputs", x, "--out", of_code]) == 0
    one, other = read_arrays(of_file), read_arrays(of_code)
    np.testing.assert_allclose(one["npk"], other["npk"], rtol=1e-6)
    np.testing.assert_array_equal(one["overlap"], other["overlap"])


def test_results_of_other_weights_are_never_gone_on_with(mine: Mine, tmp_path: Path) -> None:
    weights, here, nowhere = (tmp_path / name for name in ("w.pt", "here", "nowhere"))
    torch.save(mine.module.state_dict(), weights)
    asked = ["gate-information", "--model", "own_nets:Mine", "--weights", str(weights)]
    asked += [*FEW, *SHORT, *IN_LINE]
    assert main(asked) == 0
    assert main([*asked, "--out", str(here)]) == 0
    torch.manual_seed(1)
    torch.save(mine.nets.Mine().state_dict(), weights)
    refused_command_of_kind("other-results", *asked, "--out", here)
    refused_command_of_kind("other-results", *asked, "--out", nowhere, "--report-only")
    assert not nowhere.exists()
    assert main(asked) == 0
    assert len(list((tmp_path / "results").iterdir())) == 2


def test_a_module_that_takes_vectors_gets_images_flattened(
    mine: Mine, capsys: pytest.CaptureFixture[str]
) -> None:
    told = shown(capsys, "--model", "own_nets:vectors", *SEEN)
    assert told["inspection"]["data"]["input_shape"] == [64]
    assert told["inspection"]["network"]["assuming"] is None


@pytest.mark.parametrize(("name", "why"), [("Smooth", "gelu"), ("steep", "slope")])
def test_a_module_without_gates_is_refused_with_the_reason(
    name: str, why: str, mine: Mine, tmp_path: Path
) -> None:
    model, out = ["--model", f"own_nets:{name}"], tmp_path / "o"
    for asked in (["gate-information", *model, *FEW, "--out", out], ["inspect", *model, *SEEN]):
        refusal = refused_command_of_kind("no-gates", *asked)
        assert why in str(refusal.value)
    assert not out.exists()


def test_a_whole_module_of_ones_own_class_is_refused_with_the_options_that_read_it(
    mine: Mine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = str(tmp_path / "images.npy")
    np.save(images, np.zeros((2, 1, 8, 8)))
    doors = ["inspect", *SEEN], ["kernels", "--inputs", images], ["gate-information", *FEW]
    (sentence,) = {asked_back(door, "whole.pt", *more) for door, *more in doors}
    offered = re.search(r"--model \S+ --weights [^\s:,)]+", sentence)
    assert offered is not None
    assert offered[0] == "--model own_nets:Mine --weights whole.pt"
    told = shown(capsys, *offered[0].split(), *SEEN)
    assert told["inspection"]["network"]["gate_layers"] == 2
    assert shown(capsys, "whole.pt")["not_read_because"] == sentence
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("module", ["os", "own nets; true", "__main__", "own_nets"])
def test_a_strangers_file_does_not_choose_what_is_offered_to_be_run(
    module: str, mine: Mine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mine.nets.Mine, "__module__", module)
    monkeypatch.setitem(sys.modules, module, mine.nets)
    torch.save(mine.module, tmp_path / "a b.pt")
    offered = {"__main__": "MODULE:Mine", "own_nets": "own_nets:Mine"}.get(module, "MODULE:NAME")
    said = asked_back("inspect", tmp_path / "a b.pt", *SEEN)
    assert f"--model {offered} --weights 'a b.pt'" in said


LAYERS = "model.c1, model.b1, nn.ReLU(), model.c2, nn.ReLU(), nn.Flatten(), model.fc"
FEATURES = "model.features, nn.ReLU(), nn.Flatten(), model.head"
BLOCKS = "model.stem.conv, model.stem.bn, nn.ReLU(), model.blocks[0], nn.ReLU(), nn.Flatten(), "
LATE = "model.late.conv1, model.late.bn1, nn.ReLU(), model.late.conv2, nn.ReLU(), nn.Flatten(), "


@pytest.mark.parametrize(
    ("names", "layers"),
    [
        ("c1 b1 c2 fc", f"nn.Sequential({LAYERS})"),
        ("features.0 features.1 features.3 head", f"nn.Sequential({FEATURES})"),
        ("stem.conv stem.bn blocks.0 head", f"nn.Sequential({BLOCKS}model.head)"),
        ("late.conv1 late.bn1 late.conv2 late.fc", f"nn.Sequential({LATE}model.late.fc)"),
        ("net.0 net.1 net.3 net.6", "model.net"),
        ("encoder b1 decoder fc", None),
        ("c-1 b1 c2 fc", None),
    ],
)
def test_the_line_that_saves_a_sequential_names_the_layers_of_the_file_and_works(
    names: str, layers: str | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    network = convolutional().eval()
    state = named(network, *names.split(" "))
    if layers is not None and "late" in layers:  # all BatchNorms behind all convolutions
        state = OrderedDict(sorted(state.items(), key=lambda item: ".bn" in item[0]))
    torch.save(state, "mine.pt")
    line = None if layers is None else f'torch.save({layers}, "mine-sequential.pt")'
    assert shown(capsys, "mine.pt")["sequential"] == line
    asked_back("inspect", "mine.pt", *SEEN)
    if line is None:
        return
    exec(line, {"torch": torch, "nn": nn, "model": model_of(network, tuple(names.split(" ")))})
    inspection = shown(capsys, "mine-sequential.pt", *SEEN)["inspection"]
    with torch.no_grad():
        examples = load_examples(DataConfig())  # the 60 that are scored lie evenly in the 360
        right = network(torch.from_numpy(examples.test_x[::6])).argmax(1).numpy()
    assert inspection["accuracy"]["test"] == pytest.approx(np.mean(right == examples.test_y[::6]))


def model_of(layers: nn.Sequential, names: tuple[str, ...]) -> nn.Module:
    """A module with the layers under these names; numbers are those of a sequence that holds its
    activations, too."""
    model = nn.Module()
    weighted = [each for each in layers if any(True for _ in each.parameters())]
    for name, layer in zip(names, weighted, strict=True):
        *path, last = name.split(".")
        where: nn.Module = model
        for part in path:
            if not hasattr(where, part):
                where.add_module(part, layers if part == "net" else nn.Sequential())
            where = getattr(where, part)
        if isinstance(where, nn.Sequential) and last.isdecimal():
            while len(where) < int(last):
                where.append(nn.ReLU())
            if len(where) == int(last):
                where.append(layer)
        else:
            where.add_module(last, layer)
    return model.eval()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs/small and its session, small.dgn."""
    folder = tmp_path_factory.mktemp("trained")
    net = ["--net", "fc", "--width", "8", "--depth", "3", "--regime", "DL", "--quiet"]
    run, session = str(folder / "runs" / "small"), str(folder / "small.dgn")
    assert main(["train", *net, *FEW, "--epochs", "2", "--out", run]) == 0
    assert main(["runs", "export", run, session]) == 0
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run small among the user's, its session in the current folder."""
    monkeypatch.chdir(trained)
    monkeypatch.setenv("DGN_RUNS_ROOT", str(trained / "runs"))
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(tmp_path / "results"))
    return trained / "runs" / "small"


def test_a_run_its_step_its_name_and_its_session_are_answered_alike(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where sessions are unpacked to
    given = [str(run), f"{run}@4", "small", "small@4", "small.dgn", "small.dgn@4"]
    for more in ([], SEEN):
        told = [shown(capsys, each, *more) for each in given]
        files = [each.pop("file") for each in told]
        assert set(files) == {"small@4", "small.dgn@4"}
        assert all(each == told[0] for each in told)
    file = shown(capsys, str(run / "weights.safetensors"), *SEEN)
    assert told[0]["inspection"] == file["inspection"]
    assert {"file", *told[0]} == set(file)
    assert main(["inspect", "small.dgn@4", *SEEN]) == 0
    assert "Test accuracy" in capsys.readouterr().out
    assert main(["kernels", "small.dgn", "--examples", "4"]) == 0
    for each in ("small", "small.dgn"):  # not the folder that a session is unpacked to
        said = str(refused_command("inspect", f"{each}@3"))
        assert said.startswith(f"{each} ")
        assert "4" in said
        assert "/" not in said
    assert refused_command_of_kind("no-run", "inspect", f"{run / 'run.json'}@3").value == 3
    assert list(tmp_path.iterdir()) == []
    assert (
        refused_command_of_kind("no-effect", "inspect", "small.dgn", "--part", "ema").place
        == "--part"
    )


def test_gates_of_a_run_and_of_a_session_are_measured_as_those_of_its_file(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for place, given in enumerate((str(run / "weights.safetensors"), "small", "small.dgn")):
        out = tmp_path / f"out{place}"
        asked = ["gate-information", given, *FEW, *SHORT, *IN_LINE, "--out", str(out), "--json"]
        assert main(asked) == 0
        told.append(json.loads(capsys.readouterr().out))
    file, *others = told
    for other in others:
        assert other["own"] == file["own"]
        for kind, of in other["kinds"].items():
            assert of["last"] == file["kinds"][kind]["last"]
    made = document.read_document(tmp_path / "out1")
    assert made.command[1] == "small@4"  # a run that goes on has a newer step than this
    assert "small@4" in made.title
    assert main([*made.command, *IN_LINE]) == 0
    assert repr(document.read_document(tmp_path / "out1").details) == repr(made.details)


def normalised() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))


PARTS: dict[str, Callable[[nn.Sequential], object]] = {
    "state dicts": lambda net: net.state_dict(),
    "whole modules": lambda net: net,
}


@pytest.mark.parametrize("kind", ["state dicts", *nightly("whole modules")])
def test_gates_of_a_part_are_those_of_that_part_in_every_process(
    kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole modules as it is typed, so that value networks are trained by other processes."""
    how = IN_LINE if kind == "state dicts" else []
    monkeypatch.setenv("DGN_RESULTS_ROOT", str(folder / "results"))
    made, shape = (dense, (64,)) if kind == "state dicts" else (convolutional, (1, 8, 8))
    nets = [each.eval() for each in (made(), made(), made())]
    raw, averaged, other = map(PARTS[kind], nets)
    torch.save({"model": raw, "ema": averaged}, "both.pt")
    torch.save(averaged, "alone.pt")
    said = ["--activation", "relu"] if kind == "state dicts" else []
    asked = ["gate-information", "--part", "ema", "both.pt", *said, *FEW, *SHORT]
    assert main([*asked, *how]) == 0
    (results,) = (folder / "results").iterdir()
    found = document.read_document(results)
    assert found.state == "done"
    assert any("'ema' of" in choice for choice in found.choices)
    alone_as = ["gate-information", "alone.pt", *said, *FEW, *SHORT, *IN_LINE, "--out", "alone"]
    assert main(alone_as) == 0
    alone = document.read_document(folder / "alone")
    assert found.details["own"] == alone.details["own"]
    weights = Path("units") / "FL-s0" / "weights.safetensors"
    held, wanted = (read_tensors(where / weights).arrays for where in (results, folder / "alone"))
    taken = [name for name in wanted if name.startswith("feature.")]
    assert taken
    for name in taken:
        np.testing.assert_allclose(held[name], wanted[name], rtol=1e-6, atol=1e-7)
    own = [tensor.detach().numpy() for tensor in adapted_stack(nets[1], shape).folded_tensors()[0]]
    np.testing.assert_allclose(held["feature.weights.0"], own[0], rtol=1e-6, atol=1e-7)
    trained = (results / weights).stat().st_mtime_ns
    assert main([*found.command, *how]) == 0  # goes on: nothing is left to train
    assert (results / weights).stat().st_mtime_ns == trained
    torch.save({"model": averaged, "ema": other}, "both.pt")  # the part has changed
    refused_command_of_kind("other-results", *found.command)
    assert main([*asked, *IN_LINE]) == 0
    assert len([*(folder / "results").iterdir()]) == 2


@pytest.mark.parametrize("name", list(normalised().state_dict()))
def test_a_value_that_is_not_finite_is_told_and_no_command_computes_with_it(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In weights, biases, γ, β and both running statistics, whole or as a state dict."""
    module = normalised().eval()
    tensor = module.state_dict()[name]
    if not tensor.is_floating_point():
        return  # how many batches BatchNorm has seen
    tensor.view(-1)[-1] = torch.nan
    torch.save(module, "whole.pt")
    torch.save(module.state_dict(), "state.pt")
    write_code(
        folder,
        "from torch import nn\ndef net():\n    return nn.Sequential(nn.Linear(64, 8), "
        "nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))\n",
        "own_norms",
    )
    np.save("x.npy", np.random.default_rng(0).random((6, 64)))
    for file in ("whole.pt", "state.pt"):
        tensors = shown(capsys, file)["tensors"]
        assert [one["name"] for one in tensors if not one["finite"]] == [name]
    said = ("--activation", "relu", "--norm-eps", "1e-5")
    own = ("--model", "own_norms:net", "--weights", "state.pt")
    for words in (
        ("inspect", "whole.pt", *SEEN),
        ("kernels", "whole.pt", "--inputs", "x.npy"),
        ("kernels", "state.pt", "--inputs", "x.npy", *said),
        ("kernels", *own, "--inputs", "x.npy"),
        ("inspect", *own, *SEEN),
        ("gate-information", "whole.pt", *FEW, *SHORT, *IN_LINE, "--out", "out"),
    ):
        assert "not finite" in str(refused_command(*words)), words
    assert not Path("out").exists()
