"""Scores as the owner of a loop gives them: kept until they become one point, or left out with a
reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from dgn_engine.attachment.isolation import is_interrupt

Score = float | Tensor  # a tensor of one number
_ROUNDING = 1e-6  # by which a mean in single precision may pass 1


class GivenScores:
    """Takes what is usable of the scores of each step; what is not is told once for each name."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._told: set[str] = set()
        self._losses: list[Score] = []
        self._steps: list[int] = []  # of these losses
        self.diverged: int | None = None  # the first step whose loss was not finite, once taken
        self._accuracies: list[float] = []

    def add(
        self, loss: object, accuracy: object, unknown: Mapping[str, object], step: int = 0
    ) -> None:
        """Those of a step. A loss on a card is not waited for."""
        self.refuse(unknown)
        if loss is not None and (kept := self._kept(loss)) is not None:
            self._losses.append(kept)
            self._steps.append(step)
        if (share := self.share(accuracy)) is not None:
            self._accuracies.append(share)

    def take(self) -> tuple[float, float] | None:
        """Mean loss and accuracy since the last time, NaN where one was not given; None where
        neither was."""
        if not self._losses and not self._accuracies:
            return None
        losses, self._losses = [float(one) for one in self._losses], []
        steps, self._steps = self._steps, []
        if self.diverged is None:
            lost = (s for s, one in zip(steps, losses, strict=True) if not math.isfinite(one))
            self.diverged = next(lost, None)
        accuracies, self._accuracies = self._accuracies, []
        return _mean(losses), _mean(accuracies)

    def loss(self, given: object) -> float | None:
        """A loss as a number; it may be infinite or not a number, as a loss that diverges is."""
        kept = None if given is None else self._kept(given)
        return None if kept is None else float(kept)

    def share(self, given: object) -> float | None:
        """An accuracy, 0 to 1. None, and not a number, say that it is not known."""
        if given is None:
            return None
        number = _number(given)
        if number is None:
            self._leave_out("accuracy", f"is {_kind(given)}; it is one number from 0 to 1")
            return None
        if number != number:  # NaN
            return None
        if not 0.0 <= number <= 1.0 + _ROUNDING:
            hint = f": write {number / 100:g} for {number:g} %" if 1.0 < number <= 100.0 else ""
            self._leave_out("accuracy", f"is {number:g}; it is a share, 0 to 1{hint}")
            return None
        return min(number, 1.0)

    def refuse(self, unknown: Mapping[str, object]) -> None:
        """Scores of other names, which nothing shows."""
        for name in unknown:
            self._leave_out(name, "is no score that is recorded; these are loss and accuracy")

    def _kept(self, given: object) -> Score | None:
        """Without its graph; of a card it is read later, when the numbers are there anyway."""
        if isinstance(given, Tensor) and given.device.type != "cpu" and given.numel() == 1:
            return given.detach().clone()
        number = _number(given)
        if number is None:
            self._leave_out("loss", f"is {_kind(given)}; it is one number")
        return number

    def _leave_out(self, name: str, why: str) -> None:
        if name not in self._told:
            self._told.add(name)
            self._tell(f"{name} {why}. It is left out; all else is recorded.")


def _number(given: object) -> float | None:
    if isinstance(given, (str, bytes)):
        return None
    try:
        return float(given.item() if isinstance(given, Tensor) else given)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        if is_interrupt(error):
            raise
        return None


def _kind(given: object) -> str:
    shape = getattr(given, "shape", None)
    if shape is not None:
        return f"a {type(given).__name__} of shape {tuple(shape)}"
    return f"of type {type(given).__name__}"


def _mean(values: Sequence[float]) -> float:
    """Their mean, NaN of none; it does not overflow where it is a number itself."""
    count = len(values)
    total = sum(values)
    if math.isinf(total) and all(map(math.isfinite, values)):
        return sum(value / count for value in values)
    return total / count if values else float("nan")
