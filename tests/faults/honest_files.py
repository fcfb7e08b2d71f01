"""Checkpoints as people really save them: each with the tensors that must come out of it."""

from __future__ import annotations

import argparse
import collections
import copy
import datetime
import enum
import io
import pathlib
import pickle
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from tests.faults.pickle_assembly import (
    Call,
    Name,
    Raw,
    legacy,
    storage,
    tensor,
    torch_zip,
)

Array = np.ndarray[Any, Any]
Honest = tuple[bytes, Mapping[str, Array | Tensor]]
State = dict[str, Tensor]
OLD = {"_use_new_zipfile_serialization": False}


class Net(nn.Module):
    """A network of a class that the reader cannot import."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.body = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))


class Stage(enum.Enum):
    """Part of someone's settings."""

    WARM = 1


class Smooth(nn.Module):
    """A network whose class keeps a word, a number and modules in another order than they run."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.act, self.norm = nn.Linear(5, 3), nn.Tanh(), nn.BatchNorm1d(5, eps=1e-3)
        self.body, self.again = nn.Linear(6, 5), self.act
        self.nonlinearity, self.window, self.loss = "tanh", (2, 2), nn.functional.mse_loss


@dataclass
class Settings:
    """Someone's settings."""

    rate: float = 0.1
    stage: Stage = Stage.WARM


class Attributes(dict[str, Any]):
    """A dictionary with attributes, as Lightning and others keep settings."""


def saved(thing: object, **how: Any) -> bytes:
    content = io.BytesIO()
    torch.save(thing, content, **how)
    return content.getvalue()


def chain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def state() -> State:
    return dict(chain().state_dict())


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> State:
    return {f"{prefix}{name}": t for name, t in tensors.items()}


def npz(compressed: bool = False, **arrays: Any) -> bytes:
    content = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(content, **arrays)
    return content.getvalue()


def npy(array: Array) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def _wrapped(wrap: Callable[[State], object], **how: Any) -> Callable[[], Honest]:
    def make() -> Honest:
        tensors = state()
        return saved(wrap(tensors), **how), tensors

    return make


def _training_loop() -> Honest:
    network = chain()
    optimiser = torch.optim.Adam(network.parameters())
    network(torch.ones(2, 6)).sum().backward()
    optimiser.step()
    thing = {
        "epoch": 12,
        "arch": "mlp",
        "model": network.state_dict(),
        "optimizer": optimiser.state_dict(),
        "scheduler": torch.optim.lr_scheduler.StepLR(optimiser, 3).state_dict(),
        "args": argparse.Namespace(lr=0.1, out=pathlib.Path("runs/1"), stage=Stage.WARM),
        "best": np.float64(0.93),
        "history": collections.defaultdict(list, loss=[0.5, 0.4]),
        "when": datetime.datetime(2024, 5, 1),
        "settings": Settings(),
        "rng": (torch.get_rng_state(), np.random.default_rng(0), random.getstate()),
        "counter": collections.Counter("abc"),
        "scaler": {"scale": 65536.0, "growth_factor": 2.0},
        "criterion": nn.CrossEntropyLoss(),
        "device": torch.device("cuda", 0),
        "dtype": torch.float16,
        "size": torch.Size([1, 2]),
        "names": {"a", "b"},
    }
    return saved(thing), network.state_dict()


def _lightning() -> Honest:
    tensors = prefixed("model.", state())
    thing = {
        "epoch": 9,
        "global_step": 1000,
        "pytorch-lightning_version": "2.2.0",
        "state_dict": collections.OrderedDict(tensors),
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 10}}}},
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_score": torch.tensor(0.5)}},
        "optimizer_states": [{"state": {0: {"exp_avg": torch.zeros(5, 6)}}, "param_groups": []}],
        "lr_schedulers": [],
        "hparams_name": "kwargs",
        "hyper_parameters": Attributes(lr=1e-3, path=pathlib.Path("x")),
    }
    return saved(thing), tensors


def _tied() -> Honest:
    shared = torch.randn(4, 4)
    return saved({"embed.weight": shared, "head.weight": shared}), {
        "embed.weight": shared,
        "head.weight": shared,
    }


def _views() -> Honest:
    big = torch.randn(100)
    tensors = {"a": big[:12].view(3, 4), "b": big[20:40].view(4, 5).T, "c": big[::7], "d": big[3]}
    return saved(tensors), tensors


def _module(network: nn.Module, **how: Any) -> Honest:
    return saved(network, **how), network.state_dict()


def _many() -> Honest:
    tensors = {f"block.{i}.weight": torch.full((2, 2), float(i)) for i in range(2000)}
    return saved(tensors), tensors


def _two_networks() -> Honest:
    both = {"generator": state(), "discriminator": state()}
    flat = {f"{part}.{name}": t for part, tensors in both.items() for name, t in tensors.items()}
    return saved({**both, "epoch": 3}), flat


def _target() -> Honest:
    both = {"q_net": state(), "q_net_target": state()}
    flat = {f"{part}.{name}": t for part, tensors in both.items() for name, t in tensors.items()}
    flat["log_alpha"] = torch.zeros(1)
    return saved({**both, "log_alpha": flat["log_alpha"], "args": {"hidden": [5, 3]}}), flat


def _modules_in_a_dictionary() -> Honest:
    both: dict[str, nn.Module] = {"actor": Smooth(), "critic": nn.DataParallel(chain())}
    flat = {f"{k}.{n}": t for k, module in both.items() for n, t in module.state_dict().items()}
    return saved(both), flat


def _with_class_weights() -> Honest:
    network = nn.ModuleDict({"net": chain(), "criterion": nn.CrossEntropyLoss(torch.ones(3))})
    return saved({"state_dict": network.state_dict(), "arch": "mlp"}), network.state_dict()


def _bottom_up() -> Honest:
    ones = np.ones((2, 2), np.float32)
    return torch_zip({"w": tensor()}, {"0": ones.astype(">f4").tobytes()}, byteorder=b"big"), {
        "w": ones
    }


def _of_the_gpu() -> Honest:
    store = storage("0", 4, "FloatStorage", "cuda:3")
    return torch_zip({"w": tensor(store=store)}), {"w": np.ones((2, 2))}


def _of_python_2() -> Honest:
    name = Raw(b"U\1w")  # a text of bytes
    old = Call("torch._utils", "_rebuild_tensor", (storage(), 0, (2, 2), (2, 1)))
    table = Call("collections", "OrderedDict", ([[name, old]],))
    return legacy(table), {"w": np.ones((2, 2))}


def _of_torch_0_4() -> Honest:
    store = storage("0", 4, "FloatStorage", "cpu", ("1", 2, 2))
    return legacy({"w": tensor((2,), (1,), 0, store)}), {"w": np.ones(2)}


def _detectron() -> Honest:
    arrays = {"stem.weight": np.random.default_rng(0).normal(size=(4, 3)), "b": np.arange(4)}
    content = {"model": arrays, "__author__": "someone", "matching_heuristics": True}
    return pickle.dumps(content), arrays


def _arrays(protocol: int) -> Honest:
    arrays = {"w": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "b": np.arange(3, dtype=">i2")}
    return pickle.dumps(arrays, protocol=protocol), arrays


def _parametrised() -> Honest:
    network = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(4, 3)),
        parametrizations.spectral_norm(nn.Linear(3, 2)),
    )
    return saved(network.state_dict()), network.state_dict()


def _safetensors(tensors: State, **notes: str) -> Honest:
    return safetensors.torch.save(tensors, metadata=notes or None), tensors


def _flax() -> Honest:
    arrays = {
        "params/Dense_0/kernel": np.ones((4, 3), np.float32),
        "params/Dense_0/bias": np.ones(3),
    }
    return npz(False, **arrays), arrays


def _with_text() -> Honest:
    arrays = {"w": np.eye(3), "step": np.int64(3)}
    return npz(False, settings=np.array("lr=0.1"), **arrays), {
        k: np.asarray(v) for k, v in arrays.items()
    }


def _averaged() -> Honest:
    network = chain()
    averaged = torch.optim.swa_utils.AveragedModel(network)
    return saved(averaged.state_dict()), averaged.state_dict()


def _timm() -> Honest:
    tensors = state()
    other = copy.deepcopy(tensors)
    return saved(
        {
            "state_dict": tensors,
            "state_dict_ema": other,
            "arch": "resnet26",
            "args": argparse.Namespace(opt="sgd", crop=(1, 2)),
            "version": 2,
            "metric": np.float32(71.2),
        }
    ), tensors


def _mixed() -> Honest:
    tensors = {
        "half": torch.randn(3).half(),
        "brain": torch.randn(3).bfloat16(),
        "eight": torch.arange(4.0).to(torch.float8_e4m3fn),
        "other eight": torch.arange(4.0).to(torch.float8_e5m2),
        "double": torch.randn(3, dtype=torch.float64),
        "long": torch.arange(3),
        "unsigned": torch.ones(3, dtype=torch.uint16),
        "bool": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.5),
    }
    return saved(tensors), tensors


def _compiled() -> Honest:
    network = chain()
    wrapped = prefixed("_orig_mod.module.", dict(network.state_dict()))
    return saved({"model": wrapped}), network.state_dict()


def _plain_pickle(thing: Callable[[], nn.Module | State]) -> Callable[[], Honest]:
    def make() -> Honest:
        made = thing()
        return pickle.dumps(made), made.state_dict() if isinstance(made, nn.Module) else made

    return make


def _with_extra(name: str, thing: Callable[[], object]) -> Callable[[], Honest]:
    return _wrapped(lambda tensors: {**tensors, name: thing()})


def _listed() -> Honest:
    tensors = list(state().values())
    return saved(tensors), {str(i): t for i, t in enumerate(tensors)}


def _subclassed() -> Honest:
    tensors = {"w": nn.Parameter(torch.randn(2, 2)), "b": nn.Buffer(torch.randn(2))}
    return saved(tensors), {name: t.data for name, t in tensors.items()}


def _yolo() -> Honest:
    network = Net().half()
    content = {"model": network, "ema": None, "updates": 3, "train_args": {"lr0": 0.01}}
    return saved(content), network.state_dict()


def _generator_name() -> Honest:
    return torch_zip(
        {"w": tensor(), "loss": Name("torch.nn.functional", "mse_loss")}, folder="my model (2)"
    ), {"w": np.ones((2, 2))}


KINDS: dict[str, Callable[[], Honest]] = {
    "a state dict": _wrapped(lambda tensors: tensors),
    "a state dict with _metadata": lambda: (
        saved(network := chain().state_dict()),
        network,
    ),
    "a state dict, before torch 1.6": _wrapped(lambda tensors: tensors, **OLD),
    "a state dict, protocol 4": _wrapped(lambda tensors: tensors, pickle_protocol=4),
    "a state dict, protocol 5": _wrapped(lambda tensors: tensors, pickle_protocol=5),
    "a state dict, before 1.6, protocol 4": _wrapped(
        lambda tensors: tensors, **OLD, pickle_protocol=4
    ),
    "a state dict of parameters": _wrapped(
        lambda tensors: {n: nn.Parameter(t) for n, t in tensors.items()}
    ),
    "under 'state_dict'": _wrapped(lambda tensors: {"state_dict": tensors, "epoch": 3}),
    "under 'model_state_dict'": _wrapped(lambda t: {"model_state_dict": t, "loss": 0.1}),
    "under 'model' under 'state_dict'": _wrapped(lambda t: {"model": {"state_dict": t}}),
    "under 'net', as for CIFAR": _wrapped(lambda t: {"net": t, "acc": 95.1, "epoch": 200}),
    "of DataParallel": _wrapped(lambda tensors: prefixed("module.", tensors)),
    "of torch.compile and DataParallel": _compiled,
    "of a training loop": _training_loop,
    "of Lightning": _lightning,
    "of timm": _timm,
    "of YOLO, a module in half precision": _yolo,
    "of two networks": _two_networks,
    "of an averaged model": _averaged,
    "of a network and its target network": _target,
    "of modules in a dictionary": _modules_in_a_dictionary,
    "with the class weights of a loss": _with_class_weights,
    "a whole nn.Sequential": lambda: _module(chain()),
    "a whole nn.Sequential, before 1.6": lambda: _module(chain(), **OLD),
    "a whole module of an unknown class": lambda: _module(Net()),
    "a whole module that keeps its settings": lambda: _module(Smooth()),
    "a whole module that keeps its settings, before 1.6": lambda: _module(Smooth(), **OLD),
    "a whole module in DataParallel": lambda: (
        saved(nn.DataParallel(network := Smooth())),
        network.state_dict(),
    ),
    "a whole module in a dictionary": lambda: (
        saved({"model": (network := Net()), "epoch": 1}),
        network.state_dict(),
    ),
    "a module with weight and spectral norm": _parametrised,
    "tied weights": _tied,
    "views of one storage": _views,
    "every precision": _mixed,
    "parameters and buffers": _subclassed,
    "2,000 tensors": _many,
    "a list of tensors": _listed,
    "a single tensor": lambda: (saved(one := torch.randn(3, 2)), {"tensor": one}),
    "a network of torchvision's layout": lambda: _module(
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    ),
    "with sparse tensors": _with_extra("mask", lambda: torch.eye(3).to_sparse()),
    "with quantised tensors": _with_extra(
        "q", lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    ),
    "with complex tensors": _with_extra("freqs", lambda: torch.ones(3, dtype=torch.complex64)),
    "with an optimiser": _with_extra("opt", lambda: torch.optim.SGD(chain().parameters(), 0.1)),
    "with a function": _with_extra("loss", lambda: nn.functional.mse_loss),
    "with numpy's random state": _with_extra(
        "rng", lambda: np.random.default_rng(0).bit_generator.state
    ),
    "of a GPU": _of_the_gpu,
    "of a machine with the other byte order": _bottom_up,
    "of Python 2": _of_python_2,
    "of torch 0.4": _of_torch_0_4,
    "of another folder name": _generator_name,
    "arrays in a torch file": lambda: (
        saved(arrays := {"w": np.eye(3), "b": np.arange(3)}),
        arrays,
    ),
    "arrays in a pickle, as Detectron has them": _detectron,
    "arrays in a pickle, protocol 2": lambda: _arrays(2),
    "arrays in a pickle, protocol 5": lambda: _arrays(5),
    "a state dict in a plain pickle": _plain_pickle(state),
    "a module in a plain pickle": _plain_pickle(chain),
    "safetensors": lambda: _safetensors(state()),
    "safetensors of Hugging Face": lambda: _safetensors(state(), format="pt"),
    "safetensors in bfloat16": lambda: _safetensors({"w": torch.randn(3, 2).bfloat16()}),
    "safetensors in eight bits": lambda: _safetensors(
        {
            "w": torch.arange(8.0).to(torch.float8_e4m3fn),
            "v": torch.arange(4.0).to(torch.float8_e5m2),
        }
    ),
    "safetensors of whole numbers": lambda: _safetensors(
        {"i": torch.arange(3), "b": torch.tensor([True]), "u": torch.arange(3, dtype=torch.uint8)}
    ),
    "npz": lambda: (
        npz(False, a=(one := np.eye(3)), b=(two := np.arange(3))),
        {"a": one, "b": two},
    ),
    "npz, compressed": lambda: (npz(True, a=(one := np.zeros((50, 50)))), {"a": one}),
    "npz of half precision": lambda: (
        npz(False, a=(one := np.eye(3, dtype=np.float16))),
        {"a": one},
    ),
    "npz as JAX users write it": _flax,
    "npz with text": _with_text,
    "npy": lambda: (npy(one := np.random.default_rng(1).normal(size=(3, 4))), {"array": one}),
    "npy in the order of Fortran": lambda: (
        npy(one := np.asfortranarray(np.arange(6.0).reshape(2, 3))),
        {"array": one},
    ),
    "npy in the other byte order": lambda: (npy(one := np.arange(5, dtype=">f4")), {"array": one}),
}
