"""The scores that a training loop reports: validated, and averaged into points of the curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from dgn_engine.attachment.isolation import is_interrupt

Score = float | Tensor  # a tensor of one number
_ROUNDING = 1e-6  # a mean in single precision may exceed 1 by this


class GivenScores:
    """The losses and accuracies reported since the last point of the curves.

    A score that cannot be used is left out, with one warning for each name.

    Args:
        tell: Called with the sentence of each warning.

    Attributes:
        diverged: The first step whose loss was not finite, once that is known; else None.
    """

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._told: set[str] = set()
        self._losses: list[Score] = []
        self._steps: list[int] = []  # of these losses
        self.diverged: int | None = None
        self._accuracies: list[float] = []

    def add_scores(
        self, loss: object, accuracy: object, unknown: Mapping[str, object], step: int = 0
    ) -> None:
        """Add the scores of one step. A loss on a GPU is not waited for.

        Args:
            loss: The mean loss of the batch: a number or a tensor of one element; None if not
                reported.
            accuracy: The accuracy of the batch, 0 to 1, likewise.
            unknown: Scores under other names, which cause a warning.
            step: The number of the step.
        """
        self.warn_of_unknown(unknown)
        if loss is not None and (score := self._detach_loss(loss)) is not None:
            self._losses.append(score)
            self._steps.append(step)
        if (value := self.parse_accuracy(accuracy)) is not None:
            self._accuracies.append(value)

    def take_means(self) -> tuple[float, float] | None:
        """Return the mean loss and accuracy since the last call, and start over.

        Returns:
            Both means, NaN for one that was never reported; None if neither was.
        """
        if not self._losses and not self._accuracies:
            return None
        losses, self._losses = [float(loss) for loss in self._losses], []
        steps, self._steps = self._steps, []
        if self.diverged is None:
            non_finite = (
                s for s, loss in zip(steps, losses, strict=True) if not math.isfinite(loss)
            )
            self.diverged = next(non_finite, None)
        accuracies, self._accuracies = self._accuracies, []
        return _stable_mean(losses), _stable_mean(accuracies)

    def parse_loss(self, given: object) -> float | None:
        """Return a loss as a float.

        Args:
            given: What the caller passed; None if nothing.

        Returns:
            The loss, which may be infinite or NaN if training diverges; None if it is not a number.
        """
        score = None if given is None else self._detach_loss(given)
        return None if score is None else float(score)

    def parse_accuracy(self, given: object) -> float | None:
        """Return an accuracy as a float from 0 to 1.

        Args:
            given: What the caller passed; None if nothing.

        Returns:
            The accuracy; None if it is missing, NaN, or not between 0 and 1.
        """
        if given is None:
            return None
        number = _as_number(given)
        if number is None:
            self._warn_once("accuracy", f"is {_describe_type(given)}; pass one number from 0 to 1")
            return None
        if number != number:  # NaN
            return None
        if not 0.0 <= number <= 1.0 + _ROUNDING:
            hint = f": write {number / 100:g} for {number:g} %" if 1.0 < number <= 100.0 else ""
            self._warn_once("accuracy", f"is {number:g}; pass a fraction from 0 to 1{hint}")
            return None
        return min(number, 1.0)

    def warn_of_unknown(self, unknown: Mapping[str, object]) -> None:
        """Warn of scores under names that are not recorded.

        Args:
            unknown: The scores by name.
        """
        for name in unknown:
            self._warn_once(name, "is not a known score; the scores are loss and accuracy")

    def _detach_loss(self, given: object) -> Score | None:
        """Detach a loss from its graph; one on a GPU is copied there and read later, without a
        sync."""
        if isinstance(given, Tensor) and given.device.type != "cpu" and given.numel() == 1:
            return given.detach().clone()
        number = _as_number(given)
        if number is None:
            self._warn_once("loss", f"is {_describe_type(given)}; pass one number")
        return number

    def _warn_once(self, name: str, why: str) -> None:
        if name not in self._told:
            self._told.add(name)
            self._tell(f"{name} {why}. It is left out; everything else is recorded.")


def _as_number(given: object) -> float | None:
    if isinstance(given, (str, bytes)):
        return None
    try:
        return float(given.item() if isinstance(given, Tensor) else given)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        if is_interrupt(error):
            raise
        return None


def _describe_type(given: object) -> str:
    shape = getattr(given, "shape", None)
    if shape is not None:
        return f"a {type(given).__name__} of shape {tuple(shape)}"
    return f"of type {type(given).__name__}"


def _stable_mean(values: Sequence[float]) -> float:
    """Return the mean, NaN of nothing; the sum may overflow, a finite mean does not."""
    count = len(values)
    total = sum(values)
    if math.isinf(total) and all(map(math.isfinite, values)):
        return sum(value / count for value in values)
    return total / count if values else float("nan")
