"""The only door to torchvision: imports it, also beside a CPU-only torch, and knows its lists."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType

import torch

from dgn_engine.errors import UserError

# A torchvision built for CUDA cannot load its operators beside a CPU-only torch, and then its
# import fails (pytorch/vision #9085). Data sets need none of them: naming two is enough.
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


@dataclass(frozen=True)
class MnistSource:
    """Where the four files of an MNIST-like set come from, and their names."""

    mirrors: tuple[str, ...]
    resources: tuple[str, ...]


@dataclass(frozen=True)
class CifarSource:
    """One archive, and the md5 of each file in its folder."""

    url: str
    folder: str
    train: tuple[tuple[str, str], ...]
    test: tuple[tuple[str, str], ...]
    meta: tuple[str, str]
    names_key: str  # of the class names, in the meta file


def mnist_source(kind: str) -> MnistSource:
    """Mirrors and files of torchvision's `MNIST` or `FashionMNIST`."""
    table = getattr(_datasets(), kind)
    return MnistSource(
        tuple(str(mirror) for mirror in table.mirrors),
        tuple(str(name) for name, _ in table.resources),
    )


def cifar_source(kind: str) -> CifarSource:
    """Address and checksums of torchvision's `CIFAR10` or `CIFAR100`."""
    table = getattr(_datasets(), kind)
    return CifarSource(
        url=str(table.url),
        folder=str(table.base_folder),
        train=tuple((str(name), str(md5)) for name, md5 in table.train_list),
        test=tuple((str(name), str(md5)) for name, md5 in table.test_list),
        meta=(str(table.meta["filename"]), str(table.meta["md5"])),
        names_key=str(table.meta["key"]),
    )


def _datasets() -> ModuleType:
    return import_torchvision()[0]


@cache
def import_torchvision() -> tuple[ModuleType, torch.library.Library | None]:
    """`torchvision.datasets`, and the library of declared operators where it had to be made.

    The library is kept because its operators vanish with it.
    """
    try:
        return _import_quietly(), None
    except ImportError as error:
        raise UserError(f"torchvision cannot be imported: {error}; install it again.") from None
    except RuntimeError as error:
        if "operator torchvision::" not in str(error):
            raise
    for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call] # torch leaves it so
    for schema in _SCHEMAS:
        library.define(schema)  # type: ignore[no-untyped-call] # torch leaves it so
    return _import_quietly(), library


def _import_quietly() -> ModuleType:
    with warnings.catch_warnings():
        # Its image reader may be unable to load too; ours is Pillow.
        warnings.filterwarnings("ignore", message="Failed to load image Python extension")
        return import_module("torchvision.datasets")
