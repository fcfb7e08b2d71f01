"""The only door to torchvision: imports it, also beside a CPU-only torch, and knows its lists."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from types import ModuleType

import torch

from dgn_engine.errors import UserError

# A torchvision built for CUDA cannot load its operators beside a CPU-only torch, and then its
# import fails (pytorch/vision #9085). Data sets and networks need none: naming two is enough.
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
    table = getattr(import_torchvision(), kind)
    return MnistSource(
        tuple(str(mirror) for mirror in table.mirrors),
        tuple(str(name) for name, _ in table.resources),
    )


def cifar_source(kind: str) -> CifarSource:
    """Address and checksums of torchvision's `CIFAR10` or `CIFAR100`."""
    table = getattr(import_torchvision(), kind)
    return CifarSource(
        url=str(table.url),
        folder=str(table.base_folder),
        train=tuple((str(name), str(md5)) for name, md5 in table.train_list),
        test=tuple((str(name), str(md5)) for name, md5 in table.test_list),
        meta=(str(table.meta["filename"]), str(table.meta["md5"])),
        names_key=str(table.meta["key"]),
    )


def import_torchvision() -> ModuleType:
    """Import `torchvision.datasets`, also beside a CPU-only torch."""
    prepare_torchvision()
    try:
        with warnings.catch_warnings():
            # Its image reader may be unable to load too; ours is Pillow.
            warnings.filterwarnings("ignore", message="Failed to load image Python extension")
            return import_module("torchvision.datasets")
    except ImportError as error:
        raise UserError(f"torchvision cannot be imported: {error}; install it again.") from None


def prepare_torchvision() -> None:
    """Make `import torchvision` work beside a CPU build of torch.

    A torchvision built for CUDA, as PyPI serves it, cannot load its own operators (nms, roi_align)
    beside such a torch, and its import ends in 'operator torchvision::nms does not exist'. Call
    this before the import, also before that of timm or transformers: models, data sets and
    transforms then work; an operator that is called raises torchvision's own error. Where the
    operators can be loaded, they are; torchvision itself is not imported.

    Examples:
        >>> import dgn_engine as dgn
        >>> dgn.prepare_torchvision()
        >>> import torchvision
    """
    _operators()


@cache
def _operators() -> torch.library.Library | None:
    """Load torchvision's operators, or else declare those that its import asks for.

    The library is kept because what it declares vanishes with it.
    """
    package = find_spec("torchvision")
    folders = package.submodule_search_locations if package is not None else None
    if folders is None or hasattr(torch.ops.torchvision, "nms"):
        return None
    compiled = PathFinder.find_spec("_C", folders)  # as torchvision.extension looks for it
    if compiled is not None and compiled.origin is not None:
        try:
            torch.ops.load_library(compiled.origin)  # type: ignore[no-untyped-call] # torch leaves it so
        except OSError:
            pass
        else:
            return None
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call] # torch leaves it so
    for schema in _SCHEMAS:
        library.define(schema)  # type: ignore[no-untyped-call] # torch leaves it so
    return library
