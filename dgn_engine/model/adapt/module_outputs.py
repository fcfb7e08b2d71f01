"""The logits of a module: in whatever object it returns them, and before a softmax at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

End = Literal["", "Softmax", "LogSoftmax"]

_ENDS: dict[str, End] = {"softmax": "Softmax", "log_softmax": "LogSoftmax"}


def output_tensor(output: object) -> Tensor | None:
    """Return the tensor of logits in what a module returns, or None where that leaves it open.

    It is the tensor itself, `logits` of an object (of Hugging Face, a dataclass, a named tuple),
    the value under 'logits' of a mapping, or the only item of a tuple or list.
    """
    if isinstance(output, Tensor):
        return output
    found: object = getattr(output, "logits", None)
    if found is None and isinstance(output, Mapping):
        found = output.get("logits")
    if found is None and isinstance(output, (tuple, list)) and len(output) == 1:
        found = output[0]
    return found if isinstance(found, Tensor) else None


def returned(output: object) -> str:
    """Describe what a module returns: 'float32 of shape (4, 3, 2)', 'a dict with 'a', 'b''."""
    if isinstance(output, Tensor):
        return f"{str(output.dtype).removeprefix('torch.')} of shape {tuple(output.shape)}"
    if output is None:
        return "None"
    kind = type(output).__name__
    if isinstance(output, Mapping):
        keys = ", ".join(repr(key) for key in list(output)[:5])
        return f"a {kind} with {keys}" if keys else f"an empty {kind}"
    if isinstance(output, (tuple, list)):
        return f"a {kind} of {len(output)} items"
    return f"a {kind} without a tensor 'logits'"


def left_out(end: End) -> str:
    """Return the remark on a softmax that is not counted, or ''."""
    return f"The {end} at its end is left out: logits are shown." if end else ""


def end_of(function: str, args: Sequence[Any], kwargs: Mapping[str, Any], given: Tensor) -> End:
    """Return which softmax over the classes of `given` (n, C) a call of torch is, or ''."""
    end = _ENDS.get(function, "")
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    dim = 1 if dim is None else dim  # what torch takes of two axes
    return end if given.dim() == 2 and dim in (1, -1) else ""


def apply_end(end: End, logits: Tensor) -> Tensor:
    """Compute what a module with this end returns for its logits (n, C)."""
    match end:
        case "Softmax":
            return F.softmax(logits, 1)
        case "LogSoftmax":
            return F.log_softmax(logits, 1)
    return logits


class SoftmaxInputs(TorchFunctionMode):
    """While it is active, the last softmax over classes is kept with the logits it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.end: End = ""
        self._made: Tensor | None = None
        self._given: Tensor | None = None

    def before(self, output: Tensor) -> Tensor:
        """Return the logits that the softmax was given that made `output`, and which it was in
        `end`; `output` itself where none made it."""
        if self._given is None or self._made is not output:
            self.end = ""
            return output
        return self._given

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in _ENDS:
            given = args[0] if args else kwargs.get("input")
            if isinstance(given, Tensor) and (end := end_of(name, args, kwargs, given)):
                self._made, self._given, self.end = result, given, end
        return result


def are_probabilities(outputs: Tensor) -> End:
    """Return what outputs (n, C) look like, whatever made them: 'Softmax' where each row is
    positive and adds up to one, 'LogSoftmax' where its exponentials do, '' else."""
    if outputs.shape[1] < 2 or not bool(torch.isfinite(outputs).all()):
        return ""
    ones = outputs.new_ones(len(outputs))
    tolerance = 100 * torch.finfo(outputs.dtype).eps
    if bool((outputs >= 0).all()) and torch.allclose(outputs.sum(1), ones, 0.0, tolerance):
        return "Softmax"
    if torch.allclose(outputs.exp().sum(1), ones, 0.0, tolerance):
        return "LogSoftmax"
    return ""
