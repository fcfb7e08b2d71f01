"""How a plan departs from the paper's, in sentences made from the request and from what is
planned; and what was printed, beside a row or, where another network was trained, as a remark."""

from __future__ import annotations

from dgn_engine.config import OptionValue, RunConfig
from dgn_engine.experiments._experiment import Request
from dgn_engine.experiments._findings import Printed

DIGITS = "the digits that come with the package (1,437 of 8×8)"


def stands_in(request: Request, paper: str) -> tuple[str, ...]:
    """On the quick scale: what is trained on instead of the paper's data set ('MNIST')."""
    if _plain(request.data) == _plain(paper):
        return ()
    return (f"{_data(request)} for {paper}",)


def dual_words(request: Request) -> tuple[str, ...]:
    """How the quick scale of `dual_config` differs from the CNN of [DUAL]."""
    return (
        *stands_in(request, "CIFAR-10"),
        "a dense network of 4 × 64 units stands for the CNN of 4 × 128 channels",
        "Adam's step is 1e-3 instead of 3e-4",
    )


def beside(request: Request, found: Printed | None, of: str) -> tuple[Printed | None, str]:
    """What stands in the printed column, and the row's remark.

    On the quick scale, where another network was trained than the one `of` which the number was
    printed, nothing stands there and the remark tells it.
    """
    if found is None:
        return None, ""
    if not request.quick:
        return found, f"trained on {request.data}" if request.data else ""
    half = "" if found.half_width is None else f" ± {found.half_width:g}"
    return None, f"printed of {of}: {found.value:g}{half}"


def option(config: RunConfig, name: str) -> OptionValue:
    """Of the network that is trained: its 'width', 'depth', …"""
    return dict(config.net.options)[name]


def _data(request: Request) -> str:
    if request.data in ("", "digits"):
        return f"{DIGITS} stand"
    return f"'{request.data}' stands"


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
