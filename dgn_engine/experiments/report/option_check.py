"""Whether an experiment answers to what was asked: by what it would plan, not by a list."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dgn_engine.errors import UserError
from dgn_engine.experiments import Experiment, Request


@dataclass(frozen=True)
class _Setting:
    """A field of the request: what stands there where nothing was asked, and two values that
    make two plans where they mean anything."""

    name: str
    nothing: Any
    probes: tuple[Any, Any]


_NOBODYS = "\0"  # no row's label holds it
_SETTINGS = (
    _Setting("only", "", ("", _NOBODYS)),
    _Setting("steps", (), ((0.123,), (0.321,))),
    _Setting("augmentation", "none", ("none", "davidnet")),
    _Setting("data", "", ("digits", "mnist")),
    _Setting("data_root", "", ("", "elsewhere")),
    _Setting("download", False, (False, True)),
    _Setting("epochs", 0, (1, 2)),
    _Setting("seeds", 0, (1, 2)),
    _Setting("train_limit", 0, (1, 2)),
    _Setting("test_limit", 0, (1, 2)),
    _Setting("device", "auto", ("auto", "cpu")),
)


def check_asked(name: str, experiment: Experiment, request: Request) -> None:
    """Raise `UserError` for a setting that would change nothing, with the others as they are."""
    for setting in _deaf(experiment, request):
        option = setting.name.replace("_", "-")
        one = Request(scale=request.scale, protocol=experiment.protocols[0])
        one = replace(one, **{setting.name: getattr(request, setting.name)})
        alone = setting in _deaf(experiment, one)
        here = "" if alone else " with what else was asked"
        raise UserError(f"--{option} means nothing to {name}{here}; leave it out.")


def answered(experiment: Experiment, request: Request) -> Request:
    """The request without what would change nothing."""
    deaf = {setting.name: setting.nothing for setting in _deaf(experiment, request)}
    return replace(request, **deaf)


def _deaf(experiment: Experiment, request: Request) -> Iterator[_Setting]:
    """The settings that were asked for and that the plan does not depend on."""
    if not experiment.plan(request).units:
        return  # no row is left: that is another trouble
    for setting in _SETTINGS:
        if getattr(request, setting.name) != setting.nothing:
            one, other = (
                experiment.plan(replace(request, **{setting.name: probe})).units
                for probe in setting.probes
            )
            if one == other:
                yield setting
