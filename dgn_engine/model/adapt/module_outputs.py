"""The logits of a module: inside the object it returns, and before a softmax at its end."""

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
    """Return the tensor of logits in the output of a module.

    It is the tensor itself, the attribute `logits` of an object (Hugging Face, a dataclass, a named
    tuple), the value of 'logits' in a mapping, or the only item of a tuple or list.

    Args:
        output: The output.

    Returns:
        The tensor, or `None` if there is no such.
    """
    if isinstance(output, Tensor):
        return output
    logits: object = getattr(output, "logits", None)
    if logits is None and isinstance(output, Mapping):
        logits = output.get("logits")
    if logits is None and isinstance(output, (tuple, list)) and len(output) == 1:
        logits = output[0]
    return logits if isinstance(logits, Tensor) else None


def describe_output(output: object) -> str:
    """Describe the output of a module.

    Args:
        output: The output.

    Returns:
        For example "float32 of shape (4, 3, 2)" or "a dict with 'a', 'b'".
    """
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


def softmax_remark(end: End) -> str:
    """Return the remark on a softmax that is skipped.

    Args:
        end: The softmax, or ''.

    Returns:
        A sentence, or ''.
    """
    return f"The {end} at its end is left out: logits are shown." if end else ""


def softmax_kind(
    function: str, args: Sequence[Any], kwargs: Mapping[str, Any], given: Tensor
) -> End:
    """Identify a softmax over the classes.

    Args:
        function: Name of the torch function.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        given: Its input, `(n, C)`.

    Returns:
        Which softmax it is, or ''.
    """
    end = _ENDS.get(function, "")
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    dim = 1 if dim is None else dim  # torch's default for two axes
    return end if given.dim() == 2 and dim in (1, -1) else ""


def apply_end(end: End, logits: Tensor) -> Tensor:
    """Apply the softmax at the end of a module.

    Args:
        end: The softmax, or ''.
        logits: Logits, `(n, C)`.

    Returns:
        What the module returns, `(n, C)`.
    """
    match end:
        case "Softmax":
            return F.softmax(logits, 1)
        case "LogSoftmax":
            return F.log_softmax(logits, 1)
    return logits


class SoftmaxInputs(TorchFunctionMode):
    """Context that records the last softmax over classes with its input.

    Attributes:
        end: Which softmax it was, or ''.
    """

    def __init__(self) -> None:
        super().__init__()
        self.end: End = ""
        self._made: Tensor | None = None
        self._given: Tensor | None = None

    def logits_before(self, output: Tensor) -> Tensor:
        """Return the logits before the softmax that produced `output`, and set `end`.

        Args:
            output: Output of a module.

        Returns:
            The logits; `output` itself if no softmax produced it.
        """
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
            if isinstance(given, Tensor) and (end := softmax_kind(name, args, kwargs, given)):
                self._made, self._given, self.end = result, given, end
        return result


def are_probabilities(outputs: Tensor) -> End:
    """Recognise probabilities by their values.

    Args:
        outputs: Outputs, `(n, C)`.

    Returns:
        'Softmax' if all rows are non-negative and sum to one, 'LogSoftmax' if their exponentials
        do, else ''.
    """
    if outputs.shape[1] < 2 or not bool(torch.isfinite(outputs).all()):
        return ""
    ones = outputs.new_ones(len(outputs))
    tolerance = 100 * torch.finfo(outputs.dtype).eps
    if bool((outputs >= 0).all()) and torch.allclose(outputs.sum(1), ones, 0.0, tolerance):
        return "Softmax"
    if torch.allclose(outputs.exp().sum(1), ones, 0.0, tolerance):
        return "LogSoftmax"
    return ""
