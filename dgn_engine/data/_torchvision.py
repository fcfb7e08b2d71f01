"""The only module that imports torchvision, even beside a CPU-only torch."""

from __future__ import annotations

import warnings
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


def import_torchvision() -> ModuleType:
    """Import `torchvision.datasets`, even beside a CPU-only torch."""
    prepare_torchvision()
    try:
        with warnings.catch_warnings():
            # Its image reader may fail to load too; ours is Pillow.
            warnings.filterwarnings("ignore", message="Failed to load image Python extension")
            return import_module("torchvision.datasets")
    except ImportError as error:
        raise UserError(
            f"torchvision cannot be imported: {error}; reinstall it.", kind="not-installed"
        ) from None


def prepare_torchvision() -> None:
    """Make `import torchvision` work beside a CPU build of torch.

    A torchvision built for CUDA, as on PyPI, cannot load its own operators (nms, roi_align) beside
    such a torch, and its import ends in 'operator torchvision::nms does not exist'. Call this
    before importing it, timm or transformers: models, data sets and transforms then work; calling
    an operator raises torchvision's own error. If the operators can be loaded, they are;
    torchvision itself is not imported.

    Examples:
        >>> import dgn_engine as dgn
        >>> dgn.prepare_torchvision()
        >>> import torchvision
    """
    _load_operators()


@cache
def _load_operators() -> torch.library.Library | None:
    """Load torchvision's operators, or else declare those that its import needs.

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
