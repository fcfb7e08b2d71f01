"""The torch calls that a module may make, and what each of them becomes in a gated network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from torch import Tensor

from dgn_engine.errors import UserError
from dgn_engine.model import architecture as arch
from dgn_engine.model.adapt.module_outputs import End, softmax_kind

SUPPORTED = (
    "Linear, Conv2d, BatchNorm, ReLU, LeakyReLU, PReLU, abs, average and max pooling, flattening, "
    "additions and constant factors"
)


@dataclass(frozen=True)
class WeightCall:
    """A dense layer or convolution without its gate; `weight`, `bias` are names of parameters."""

    node: arch.Weighted
    weight: str
    bias: str | None


@dataclass(frozen=True)
class NormCall:
    """A BatchNorm with fixed statistics, γ(z − μ)/√(σ² + ε) + β per channel.

    Attributes:
        channels: Number of channels.
        mean, variance: Names of μ and σ².
        scale, shift: Names of γ and β, if it has them.
        epsilon: ε.
    """

    channels: int
    mean: str
    variance: str
    scale: str | None
    shift: str | None
    epsilon: float


@dataclass(frozen=True)
class GateCall:
    """An activation: z for z > 0, else slope·z.

    Attributes:
        slope: 0 for a ReLU, −1 for the absolute value; or the name of a PReLU's parameter.
    """

    slope: float | str


@dataclass(frozen=True)
class PoolCall:
    """A pooling; after a global one a map is a vector here, whatever axes torch keeps."""

    node: arch.Pooling


@dataclass(frozen=True)
class SumCall:
    """The first input plus `factor` times the second."""

    factor: float = 1.0


@dataclass(frozen=True)
class ScaleCall:
    """Multiplication by a constant."""

    factor: float


@dataclass(frozen=True)
class PadCall:
    """Padding on all four sides, which is merged into the convolution that follows."""

    margin: int
    circular: bool


@dataclass(frozen=True)
class ReshapeCall:
    """A change of axes; which one follows from the result."""


@dataclass(frozen=True)
class SoftmaxCall:
    """A softmax over the classes, which is only allowed at the end."""

    end: End


Operation = (
    WeightCall
    | NormCall
    | GateCall
    | PoolCall
    | SumCall
    | ScaleCall
    | PadCall
    | ReshapeCall
    | SoftmaxCall
)


def parameters_of(operation: Operation) -> tuple[str, ...]:
    """Return the names of the parameters and buffers that an operation uses.

    Args:
        operation: The operation.

    Returns:
        The names.
    """
    match operation:
        case WeightCall():
            names: tuple[str | None, ...] = (operation.weight, operation.bias)
        case NormCall():
            names = (operation.mean, operation.variance, operation.scale, operation.shift)
        case GateCall(str()):
            names = (str(operation.slope),)
        case _:
            names = ()
    return tuple(name for name in names if name is not None)


@dataclass(frozen=True)
class CallSite:
    """One call in a module's forward pass.

    Attributes:
        where: The layer, for messages.
        function: Name of the torch function.
        args, kwargs: Its arguments.
        shape: Shape of its first input, without the batch axis.
        flat: Whether that input is a vector of the network.
        names: Names of the module's parameters and buffers by `id`.
        count: Number of arguments that depend on the module's input.
    """

    where: str
    function: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    shape: tuple[int, ...]
    flat: bool
    names: Mapping[int, str]
    count: int

    def refuse(self, why: str) -> NoReturn:
        """Raise `UserError` for this call.

        Args:
            why: The rest of the sentence after the layer.

        Raises:
            UserError: Always.
        """
        raise UserError(f"{self.where} {why}", kind="not-supported", value=self.function)

    def refuse_call(self) -> NoReturn:
        """Raise `UserError` because the function is not supported.

        Raises:
            UserError: Always.
        """
        self.refuse(f"calls {self.function}, which is not supported. Supported: {SUPPORTED}.")

    def get_argument(self, position: int, name: str, default: Any = None) -> Any:
        """Return an argument of the call.

        Args:
            position: Its position.
            name: Its keyword.
            default: Value if it is missing.

        Returns:
            The argument.
        """
        return self.args[position] if position < len(self.args) else self.kwargs.get(name, default)

    def tensor_name(self, tensor: Tensor) -> str:
        """Return the name of a parameter or buffer.

        Args:
            tensor: The tensor.

        Returns:
            Its name.

        Raises:
            UserError: It is neither.
        """
        if id(tensor) not in self.names:
            self.refuse(
                f"passes a tensor to {self.function} that is computed from others (weight_norm, "
                "spectral_norm, pruning or custom code); only plain parameters are supported."
            )
        return self.names[id(tensor)]

    def optional_tensor_name(self, tensor: Tensor | None) -> str | None:
        """Return the name of a parameter or buffer, or `None`.

        Args:
            tensor: The tensor, or `None`.

        Returns:
            Its name, or `None`.

        Raises:
            UserError: It is neither.
        """
        return None if tensor is None else self.tensor_name(tensor)

    def square_size(self, value: int | Sequence[int], what: str) -> int:
        """Return the single value of a square kernel, stride or padding.

        Args:
            value: One number, or one per axis.
            what: What it is, for the message.

        Returns:
            The number.

        Raises:
            UserError: The numbers differ.
        """
        if isinstance(value, int):
            return value
        if len(set(value)) != 1:
            self.refuse(f"has {what} {tuple(value)}; only square ones are supported.")
        return int(value[0])

    def require_map(self) -> None:
        """Check that the input is a map.

        Raises:
            UserError: It is not.
        """
        if self.flat or len(self.shape) != 3:
            self.refuse(f"takes maps (channels, height, width), but its input is {self.shape}.")


def _read_linear(site: CallSite) -> Operation:
    weight = site.get_argument(1, "weight")
    weight_name = site.tensor_name(weight)
    outputs, inputs = weight.shape
    if site.shape[-1:] != (inputs,):
        arriving = site.shape[0] if len(site.shape) == 1 else site.shape
        site.refuse(f"takes {inputs} inputs, but its input has {arriving}.")
    if len(site.shape) != 1:
        site.refuse(f"is applied to each row of {site.shape}; only vectors are supported.")
    node = arch.Dense(inputs, outputs, gated=False)
    return WeightCall(node, weight_name, site.optional_tensor_name(site.get_argument(2, "bias")))


def _read_conv(site: CallSite) -> Operation:
    weight = site.get_argument(1, "weight")
    weight_name = site.tensor_name(weight)
    outputs, inputs, *sides = weight.shape
    kernel = site.square_size(tuple(sides), "kernel")
    stride = site.square_size(site.get_argument(3, "stride", 1), "stride")
    padding = site.get_argument(4, "padding", 0)
    dilation = site.get_argument(5, "dilation", 1)
    if site.get_argument(6, "groups", 1) != 1 or site.square_size(dilation, "dilation") != 1:
        site.refuse("has groups or dilation, which are not supported.")
    if padding == "same" and kernel % 2 == 0:
        site.refuse("has padding 'same' with an even kernel; only odd kernels are supported.")
    if isinstance(padding, str):
        padding = kernel // 2 if padding == "same" else 0
    site.require_map()
    if site.shape[0] != inputs:
        site.refuse(f"takes {inputs} channels, but its input is {site.shape}.")
    margin = site.square_size(padding, "padding")
    node = arch.Conv(inputs, outputs, kernel, stride, margin, gated=False)
    return WeightCall(node, weight_name, site.optional_tensor_name(site.get_argument(2, "bias")))


def _read_norm(site: CallSite) -> Operation:
    if len(site.args) > 3:  # torch.nn.functional passes these by keyword
        site.refuse("calls torch.batch_norm; use torch.nn.functional.batch_norm instead.")
    mean, variance = site.get_argument(1, "running_mean"), site.get_argument(2, "running_var")
    if site.kwargs.get("training", False) or mean is None or variance is None:
        site.refuse("couples the examples in training mode; call eval() first.")
    return NormCall(
        site.shape[0],
        site.tensor_name(mean),
        site.tensor_name(variance),
        site.optional_tensor_name(site.kwargs.get("weight")),
        site.optional_tensor_name(site.kwargs.get("bias")),
        float(site.kwargs.get("eps", 1e-5)),
    )


def _read_clamp(site: CallSite) -> Operation:
    if site.get_argument(1, "min") != 0 or site.get_argument(2, "max") is not None:
        site.refuse("clamps to other bounds than min=0, which is not supported.")
    return GateCall(0.0)


def _read_dropout(site: CallSite) -> Operation | None:
    p, training = site.get_argument(1, "p", 0.5), site.get_argument(2, "training", True)
    if training and p > 0:
        site.refuse("is random in training mode; call eval() first.")
    return None


def _read_average_pool(site: CallSite) -> Operation:
    site.require_map()
    if (
        site.get_argument(4, "ceil_mode", False)
        or site.get_argument(6, "divisor_override") is not None
    ):
        site.refuse("uses ceil_mode or divisor_override, which is not supported.")
    kernel = site.get_argument(1, "kernel_size")
    if isinstance(kernel, Sequence) and tuple(kernel) == site.shape[1:]:
        return PoolCall(arch.GlobalAveragePool())
    if site.square_size(site.get_argument(3, "padding", 0), "padding"):
        site.refuse("has padded average pooling, which is not supported.")
    stride = site.get_argument(2, "stride") or kernel
    return PoolCall(
        arch.AveragePool(site.square_size(kernel, "kernel"), site.square_size(stride, "stride"))
    )


def _read_max_pool(site: CallSite) -> Operation:
    site.require_map()
    if site.get_argument(5, "ceil_mode", False):
        site.refuse("uses ceil_mode, which is not supported.")
    if site.square_size(site.get_argument(4, "dilation", 1), "dilation") != 1:
        site.refuse("has dilation, which is not supported.")
    kernel = site.get_argument(1, "kernel_size")
    stride = site.get_argument(2, "stride") or kernel
    padding = site.square_size(site.get_argument(3, "padding", 0), "padding")
    sizes = site.square_size(kernel, "kernel"), site.square_size(stride, "stride")
    return PoolCall(arch.MaxPool(*sizes, padding))


def _read_adaptive_pool(site: CallSite) -> Operation | None:
    average = site.function == "adaptive_avg_pool2d"
    wanted = site.get_argument(1, "output_size")
    pair = (wanted, wanted) if isinstance(wanted, int) or wanted is None else tuple(wanted)
    if site.flat and pair == (1, 1):
        return None
    site.require_map()
    sides = site.shape[1:]
    sizes = tuple(side if size is None else size for size, side in zip(pair, sides, strict=True))
    if sizes == (1, 1):
        return PoolCall(arch.GlobalAveragePool() if average else arch.GlobalMaxPool())
    kernel = tuple(side // size for side, size in zip(sides, sizes, strict=True))
    if any(side % size for side, size in zip(sides, sizes, strict=True)) or len(set(kernel)) > 1:
        site.refuse(
            f"pools {sides[0]}×{sides[1]} to {sizes[0]}×{sizes[1]}; only equal square windows are "
            "supported."
        )
    if kernel == (1, 1):
        return None
    node = arch.AveragePool if average else arch.MaxPool
    return PoolCall(node(kernel[0], kernel[0]))


def _read_reduction(site: CallSite) -> Operation | None:
    dim = site.get_argument(1, "dim")
    axes = (dim,) if isinstance(dim, int) else tuple(dim or ())
    if {axis % site.args[0].dim() for axis in axes} != {2, 3}:
        site.refuse(f"takes the {site.function} over axes {axes}, which is not supported.")
    if site.flat:
        return None
    node = arch.GlobalAveragePool() if site.function == "mean" else arch.GlobalMaxPool()
    return PoolCall(node)


def _read_sum(site: CallSite) -> Operation:
    if site.count != 2:
        site.refuse("adds something that does not depend on its inputs, which is not supported.")
    factor = float(site.kwargs.get("alpha", 1))
    return SumCall(-factor if site.function in ("sub", "subtract") else factor)


def _read_scale(site: CallSite) -> Operation:
    if site.function in ("neg", "negative"):
        return ScaleCall(-1.0)
    factors = [argument for argument in site.args[:2] if not isinstance(argument, Tensor)]
    kind = site.kwargs.get("rounding_mode")
    if site.count != 1 or len(factors) != 1 or kind or not isinstance(factors[0], (int, float)):
        site.refuse("multiplies or divides by a tensor, which is not supported.")
    factor = float(factors[0])
    if site.function in ("mul", "multiply"):
        return ScaleCall(factor)
    if not isinstance(site.args[0], Tensor) or not factor:
        site.refuse("divides by its inputs or by 0, which is not supported.")
    return ScaleCall(1.0 / factor)


def _read_pad(site: CallSite) -> Operation:
    mode, value = site.get_argument(2, "mode", "constant"), site.get_argument(3, "value")
    if mode not in ("constant", "circular") or (mode == "constant" and value not in (None, 0)):
        what = f"'{mode}'" if mode != "constant" else f"with {value}"
        site.refuse(f"has padding mode {what}, which is not supported.")
    site.require_map()
    sides = tuple(site.get_argument(1, "pad"))
    if len(sides) != 4:
        site.refuse(f"pads by {sides}; only equal padding on all four sides is supported.")
    if min(sides) < 0:
        site.refuse(f"pads by {sides}; negative padding is not supported.")
    return PadCall(site.square_size(sides, "padding"), mode == "circular")


def _read_softmax(site: CallSite) -> Operation:
    end = softmax_kind(site.function, site.args, site.kwargs, site.args[0])
    if not end:
        site.refuse_call()
    return SoftmaxCall(end)


OPERATIONS: dict[str, Callable[[CallSite], Operation | None]] = {
    "linear": _read_linear,
    "conv2d": _read_conv,
    "batch_norm": _read_norm,
    "relu": lambda _: GateCall(0.0),
    "clamp": _read_clamp,
    "clamp_min": _read_clamp,
    "leaky_relu": lambda site: GateCall(float(site.get_argument(1, "negative_slope", 0.01))),
    "prelu": lambda site: GateCall(site.tensor_name(site.get_argument(1, "weight"))),
    "abs": lambda _: GateCall(-1.0),
    "absolute": lambda _: GateCall(-1.0),
    "max_pool2d": _read_max_pool,
    "avg_pool2d": _read_average_pool,
    "adaptive_avg_pool2d": _read_adaptive_pool,
    "adaptive_max_pool2d": _read_adaptive_pool,
    "mean": _read_reduction,
    "amax": _read_reduction,
    "pad": _read_pad,
    "softmax": _read_softmax,
    "log_softmax": _read_softmax,
    **dict.fromkeys(("dropout", "dropout2d", "feature_dropout", "alpha_dropout"), _read_dropout),
    **dict.fromkeys(("contiguous", "clone", "to", "double", "type_as"), lambda _: None),
    **dict.fromkeys(("add", "sub", "subtract"), _read_sum),
    **dict.fromkeys(
        ("mul", "multiply", "div", "divide", "true_divide", "neg", "negative"), _read_scale
    ),
    **dict.fromkeys(
        ("flatten", "view", "reshape", "squeeze", "unsqueeze", "getitem", "view_as", "reshape_as"),
        lambda _: ReshapeCall(),
    ),
}
