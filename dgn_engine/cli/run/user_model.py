"""A module created by the user's code (--model): import it as a network or compute its kernels."""

from __future__ import annotations

import argparse
import contextlib
import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from dgn_engine.cli.run.given_network import (
    IF_NOT,
    check_expected,
    network_settings,
    read_listing,
    with_reading,
)
from dgn_engine.cli.run.kernel_inputs import check_labels, normalised_inputs
from dgn_engine.cli.run.user_code import (
    MadeModel,
    allow_user_imports,
    convert_errors,
    exception_as_user_error,
    make_model,
)
from dgn_engine.errors import UserError, Where
from dgn_engine.importing.adapted_network import AdaptedNetwork, as_listing
from dgn_engine.importing.from_file import module_in
from dgn_engine.kernels.empirical import UNIT
from dgn_engine.kernels.jacobian_rows import EVAL_FIRST, EVAL_OR_LEAVE, EVALUATED, logits_of
from dgn_engine.kernels.kernel_plan import plan_tangent_kernel
from dgn_engine.kernels.kernel_report import KernelSettings, kernel_arrays, module_arrays
from dgn_engine.kernels.quantities import QUANTITIES_OF_K
from dgn_engine.kernels.trained_weights import trained_weights
from dgn_engine.model.adapt.from_module import adapt_module, copy_stack
from dgn_engine.protocol.file_reading import activation_in_words
from dgn_engine.protocol.frames import Array
from dgn_engine.storage.checkpoints.checkpoint_reader import read_tensors
from dgn_engine.storage.checkpoints.contents import PREFIXES, CheckpointContents
from dgn_engine.text.byte_counts import binary_size_in_words
from dgn_engine.text.written_numbers import format_percent
from dgn_engine.training.devices import choose_device
from dgn_engine.training.steps.losses import count_correct

FOLLOWED = (
    "adapt traced the module and verified its copy in float64 (outputs and gradients): all kernels "
    "are those of the module."
)
ALONE = "Only K is computed (empirical_ntk); there are no gates, Λ, S or NPK"
_NAMED = 3  # maximum number of names in an error message
_ENDS = 50  # maximum number of the module's names to match against names in a file
_BATCH = 100  # examples per forward pass
# Words in torch's error messages about a wrong dtype.
_OF_TYPE = re.compile(r"\b(dtype|scalar types?|Double|Float|Long|double|float|long|\w+Tensor)\b")


@dataclass(frozen=True)
class ModelKernels:
    """The kernels of a model, with their settings and notes for the user."""

    arrays: dict[str, Array]
    settings: dict[str, Any]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FollowedModel:
    """A module of the user's code in the form of a checkpoint, and notes for the user."""

    listing: CheckpointContents
    notes: list[str]


def follow_model(arguments: argparse.Namespace, x: Tensor) -> FollowedModel:
    """Run the user's code and trace the module that it returns.

    Args:
        arguments: command line with `model` and `weights` (see `add_model`).
        x: examples (n, C, H, W) or (n, d); flattened if the module takes vectors.

    Raises:
        UserError: the module cannot be created, takes other inputs, or uses an unsupported
            operation.
    """
    listing = _read_weights(arguments)
    with allow_user_imports(arguments.model):
        model, remark = _make_loaded_model(arguments, listing, torch.device("cpu"), torch.float64)
        module = model.module
        inputs = _examples_that_fit(model, x.double())
        try:
            copied = copy_stack(module, tuple(inputs.shape[1:]))
        except UserError as refusal:
            raise UserError(
                f"{model.title} has no gates of a supported kind. {refusal}",
                kind="no-gates",
                value=refusal,
            ) from None
    title = f"{model.title} {_state_in_words(arguments)}"
    norms = any(
        isinstance(child, torch.nn.modules.batchnorm._BatchNorm) for child in module.modules()
    )
    network = AdaptedNetwork(copied.stack.double(), title, norms)
    followed = (
        "The module was traced and its copy verified in float64 (outputs and gradients): the gates "
        "are those of the module."
    )
    notes = [*filter(None, (remark, copied.remark)), followed]
    return FollowedModel(as_listing(network, model.title), notes)


def _examples_that_fit(made: MadeModel, x: Tensor) -> Tensor:
    """Return a few examples in a shape that the module accepts: unchanged, else flattened."""
    try:
        return _inputs_that_fit(made, x[:2], torch.float64)[0]
    except UserError:
        if x.ndim > 2:
            with contextlib.suppress(UserError):
                return _inputs_that_fit(made, x[:2].flatten(1), torch.float64)[0]
        raise


def kernel_settings(arguments: argparse.Namespace) -> KernelSettings:
    """Return the kernel settings of the command line."""
    memory = int(arguments.memory * 2**30)
    return KernelSettings(
        arguments.logits, arguments.scale, memory, arguments.folded, arguments.only
    )


def model_kernels(arguments: argparse.Namespace) -> ModelKernels:
    """Run the user's code and compute the kernels of its module; raises `UserError`."""
    x, labels = normalised_inputs(arguments)
    listing = _read_weights(arguments)
    device, dtype = choose_device(arguments.device), getattr(torch, arguments.dtype)
    with allow_user_imports(arguments.model):
        model, remark = _make_loaded_model(arguments, listing, device, dtype)
        inputs, classes = _inputs_that_fit(model, torch.from_numpy(x).to(device), dtype)
        kernels, accuracy = _with_accuracy(model, inputs, labels, classes, arguments)
    count, state = _count_real_numbers(model.module.parameters()), _state_in_words(arguments)
    title = f"It is {model.title}, {count:,} parameters, in evaluation mode, {state}."
    notes = [title, *filter(None, [remark]), *kernels.notes]
    if accuracy is not None:
        notes.append(f"Accuracy: {format_percent(accuracy)} on the {len(x):,} inputs.")
    parameters = list(model.module.parameters())
    settings = {
        "module": model.title,
        "parameters": count,
        "trained_parameters": _count_real_numbers(p for p in parameters if p.requires_grad),
    } | kernels.settings
    return ModelKernels(
        kernels.arrays, settings | ({} if accuracy is None else {"accuracy": accuracy}), notes
    )


def file_kernels(arguments: argparse.Namespace, refusal: UserError) -> ModelKernels:
    """Compute the kernels of a file whose known layers have no ReLU gates.

    Args:
        arguments: the command line.
        refusal: why it has no gates; raised if an option asks for gates.

    Raises:
        UserError: `refusal`, or the file cannot be read.
    """
    gates = ("gates", "beta", "permute")
    if any(getattr(arguments, name) is not None for name in gates) or arguments.eps:
        raise refusal
    listing = with_reading(read_listing(arguments.network, arguments.part or ""), arguments)
    x, labels = normalised_inputs(arguments)
    device, dtype = choose_device(arguments.device), getattr(torch, arguments.dtype)
    stated = module_in(listing, tuple(x.shape[1:]))
    model = MadeModel(stated.module.to(device, dtype), arguments.network.name)
    inputs = torch.from_numpy(x).to(device, dtype).reshape(len(x), *stated.input_shape)
    with torch.no_grad(), convert_errors(model.title, " on the inputs"):
        classes = model.module(inputs[:1]).shape[1]
    kernels, accuracy = _with_accuracy(model, inputs, labels, classes, arguments)
    options, assuming = (
        listing.reading.command_options,
        activation_in_words(listing.reading.activation),
    )
    notes = [f"{model.title} is read with {options}." if options else "The file states its layers."]
    computed = [note for note in kernels.notes if note != FOLLOWED]
    notes += [*stated.remarks, *computed, "All its parameters are treated as trained."]
    settings = kernels.settings | {"assuming": assuming or None}
    if accuracy is not None:
        doubt = f" {IF_NOT}" if options else ""
        notes.append(f"Accuracy: {format_percent(accuracy)} on the {len(x):,} inputs.{doubt}")
        settings |= {"accuracy": accuracy}
    return ModelKernels(kernels.arrays, settings, notes)


def _with_accuracy(
    made: MadeModel,
    inputs: Tensor,
    labels: Array | None,
    classes: int,
    arguments: argparse.Namespace,
) -> tuple[ModelKernels, float | None]:
    """Compute the kernels and the accuracy (0…1) of a model on the inputs."""
    check_labels(labels, classes)
    targets = None if labels is None else torch.from_numpy(labels).to(inputs.device)
    accuracy = _model_accuracy(made, inputs, targets, arguments)
    return _compute_model_kernels(
        made, inputs, targets, classes, kernel_settings(arguments)
    ), accuracy


def _read_weights(arguments: argparse.Namespace) -> CheckpointContents | None:
    return None if arguments.weights is None else read_tensors(arguments.weights, as_saved=True)


def _make_loaded_model(
    arguments: argparse.Namespace,
    listing: CheckpointContents | None,
    device: torch.device,
    dtype: torch.dtype,
) -> tuple[MadeModel, str]:
    """Create the module and load its weights; return it with a remark on ignored tensors."""
    model = _unwrap_model(make_model(arguments.model))
    torch.set_grad_enabled(True)  # the user's code may have switched it off
    module = _move_module(model, device, dtype)
    remark = _load_weights(model, listing) if listing is not None else ""
    _check_finite(model)
    module.eval()
    return model, remark


def _finite_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors that must be finite: parameters and BatchNorm statistics.

    Other buffers, such as attention masks, may be infinite.
    """
    tensors: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
    for where, layer in module.named_modules(remove_duplicate=False):
        if isinstance(layer, torch.nn.modules.batchnorm._NormBase):
            own = layer.named_buffers(where, recurse=False)
            tensors |= {name.lstrip("."): buffer for name, buffer in own}
    return tensors


def _check_finite(made: MadeModel) -> None:
    for name, tensor in _finite_tensors(made.module).items():
        if not is_lazy(tensor) and not bool(torch.isfinite(tensor).all()):
            raise UserError(
                f"'{name}' of {made.title} contains values that are not finite.",
                kind="not-finite",
                value=name,
            )


def _unwrap_model(made: MadeModel) -> MadeModel:
    """Remove DataParallel and torch.compile wrappers."""
    module, wrappers = made.module, []
    while True:
        inner = getattr(module, "_orig_mod", None)
        if isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
            inner = module.module
        if not isinstance(inner, nn.Module):
            break
        wrappers.append("torch.compile" if hasattr(module, "_orig_mod") else type(module).__name__)
        module = inner
    if not wrappers:
        return made
    file = made.title.partition(" of ")[2]
    return MadeModel(
        module, f"{type(module).__name__} of {file} (without its {', '.join(wrappers)})"
    )


def _move_module(made: MadeModel, device: torch.device, dtype: torch.dtype) -> nn.Module:
    for name, tensor in (*made.module.named_parameters(), *made.module.named_buffers()):
        if tensor.is_meta:
            raise UserError(
                f"The parameter {name} of {made.title} is on the meta device and has no values; "
                "create the module on the CPU.",
                kind="no-values",
                value=name,
            )
    with convert_errors(made.title, " when it was moved to the requested device and dtype"):
        if not any(t.is_complex() for t in (*made.module.parameters(), *made.module.buffers())):
            return made.module.to(device, dtype)

        def convert_tensor(tensor: Tensor) -> Tensor:
            if tensor.is_complex():  # Module.to would drop the imaginary part
                return tensor.to(device, dtype.to_complex())
            return tensor.to(device, dtype if tensor.is_floating_point() else tensor.dtype)

        made.module._apply(convert_tensor)  # type: ignore[no-untyped-call] # untyped in torch
        return made.module


def _load_weights(made: MadeModel, listing: CheckpointContents) -> str:
    """Load all weights of a file into the module; return a remark on ignored tensors, or ''."""
    file, module = listing.file_name, made.module
    own = {
        name: tensor
        for name, tensor in module.state_dict(keep_vars=True).items()
        if isinstance(tensor, torch.Tensor)
    }
    lead = _common_prefix(own)
    prefix = _file_prefix([name.removeprefix(lead) for name in own], listing)
    given = {
        f"{lead}{name.removeprefix(prefix)}": array
        for name, array in listing.arrays.items()
        if name.startswith(prefix)
    }
    finite = _finite_tensors(module)
    for name, array in given.items():
        if name in finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise UserError(
                f"'{name}' of {file} contains values that are not finite.",
                kind="not-finite",
                value=name,
            )
    shapes = {
        name: (_format_shape(given[name].shape), _format_shape(tensor.shape))
        for name, tensor in own.items()
        if name in given and not is_lazy(tensor) and given[name].shape != tuple(tensor.shape)
    }
    if shapes:
        mismatches = [
            f"'{n}' is {in_file} in the file but {wanted} in the module"
            for n, (in_file, wanted) in shapes.items()
        ]
        raise UserError(
            f"{file} does not fit {made.title}: {_join_first(mismatches)}.",
            kind="wrong-shape",
            value=shapes,
        )
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in given.items()}
    with convert_errors(made.title, f" when {file} was loaded"):
        result = module.load_state_dict(tensors, strict=False)
    _check_loaded(made, listing, own, tensors, result)
    others = len(listing.arrays) - len(given)
    if not prefix:
        return ""
    left = f"; {others:,} tensor{'s' * (others > 1)} without it ignored" if others else ""
    return f"The prefix '{prefix}' of the names in {file} was removed{left}."


def _check_loaded(
    made: MadeModel,
    listing: CheckpointContents,
    own: dict[str, Tensor],
    tensors: dict[str, Tensor],
    result: Any,
) -> None:
    """Raise `UserError` for missing or unexpected names, or two values of a tied parameter."""
    file = listing.file_name
    tied: dict[int, list[str]] = {}
    for name, tensor in own.items():
        tied.setdefault(id(tensor), []).append(name)
    for names in tied.values():
        first, *others = [name for name in names if name in tensors] or [""]
        for other in others:
            if not torch.equal(tensors[first], tensors[other]):
                raise UserError(
                    f"{file} has different values for '{first}' and '{other}', which are the same "
                    f"parameter in {made.title}.",
                    kind="contradiction",
                    value=(first, other),
                )
    covered = {
        name for names in tied.values() if any(n in tensors for n in names) for name in names
    }
    unread = {text.partition(" (")[0]: text for text in listing.ignored}
    missing = [unread.get(name, f"'{name}'") for name in result.missing_keys if name not in covered]
    unexpected = [f"'{name}'" for name in result.unexpected_keys]
    parts = [f"{_join_first(missing)} missing from the file"] if missing else []
    parts += [f"{_join_first(unexpected)} not in the module"] if unexpected else []
    if parts:
        raise UserError(
            f"{file} does not fit {made.title}: {', and '.join(parts)}.",
            kind="other-names",
            value=(missing, unexpected),
        )


def _common_prefix(own: Iterable[str]) -> str:
    """Return the prefix of all the module's names that the checkpoint reader strips."""
    lead, names = "", list(own)
    while names and (
        prefix := next((p for p in PREFIXES if all(n.startswith(p) for n in names)), "")
    ):
        lead, names = lead + prefix, [name.removeprefix(prefix) for name in names]
    return lead


def _file_prefix(own: list[str], listing: CheckpointContents) -> str:
    """Return the prefix of the module's names in the file: '', or 'net.' in Lightning.

    Raises:
        UserError: the file has the whole module under several prefixes.
    """
    names = set(listing.arrays)
    if set(own) <= names or not own:
        return ""
    ends = {own_name: f".{own_name}" for own_name in own[:_ENDS]}
    prefixes = sorted(
        {
            n.removesuffix(own_name)
            for n in names
            for own_name, end in ends.items()
            if n.endswith(end)
        }
    )
    counts = {prefix: sum(f"{prefix}{name}" in names for name in own) for prefix in ("", *prefixes)}
    complete = [prefix for prefix in prefixes if counts[prefix] == len(own)]
    if len(complete) > 1:
        raise UserError(
            f"{listing.file_name} has the module {len(complete)} times, under "
            f"{_join_first([repr(prefix) for prefix in complete])}; save only one of them.",
            kind="ambiguous",
            value=complete,
        )
    return max(counts, key=lambda prefix: counts[prefix])


def _inputs_that_fit(made: MadeModel, x: Tensor, dtype: torch.dtype) -> tuple[Tensor, int]:
    """Return the inputs in a dtype that the module accepts, and its number of logits.

    They are passed as `dtype` first, then, if all are integers, as int64 (token ids).

    Raises:
        UserError: the module accepts neither. The reported error is that of the attempt which
            produced an output, else one that is not only about the dtype.
    """

    def count_logits(inputs: Tensor) -> int:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            output = made.module(inputs[:2])
        return logits_of(output, len(inputs[:2])).shape[1]

    errors: list[Exception] = []
    for inputs in (x.to(dtype), *([x.long()] if bool((x == x.round()).all()) else [])):
        try:
            return inputs, count_logits(inputs)
        except Exception as error:  # the user's code may raise anything
            errors.append(error)
    others = [error for error in errors if not _OF_TYPE.search(str(error))]
    verdicts = (error for error in errors if isinstance(error, UserError))
    telling = next(verdicts, (others or errors)[0])
    raise _explain_input_refusal(made, telling, x, dtype) from None


def _explain_input_refusal(
    made: MadeModel, error: Exception, x: Tensor, dtype: torch.dtype
) -> UserError:
    """Explain why the module rejects the inputs, suggesting float32 if that works."""
    if isinstance(error, UserError):
        return _reword_eval_refusal(error)
    refusal = exception_as_user_error(
        error, made.title, f" on inputs of shape {tuple(x.shape[1:])}"
    )
    if dtype != torch.float64:
        return refusal
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            copy.deepcopy(made.module).float()(x[:2].float())
    except Exception:  # not a matter of dtype
        return refusal
    return UserError(
        f"{refusal} Use --dtype float32, which works.",
        kind=refusal.kind,
        value=refusal.value,
        way_out="--dtype float32",
    )


def _reword_eval_refusal(refusal: UserError) -> UserError:
    """Reword errors of `empirical_ntk` that suggest eval(), which was called already."""
    return refusal.rename_places(
        lambda part: EVALUATED if part in (EVAL_FIRST, EVAL_OR_LEAVE) else part
    )


def _model_accuracy(
    made: MadeModel, x: Tensor, labels: Tensor | None, arguments: argparse.Namespace
) -> float | None:
    if labels is None:
        return None
    right = 0
    with convert_errors(made.title, " on the inputs"), torch.no_grad():
        for start in range(0, len(x), _BATCH):
            part = slice(start, start + _BATCH)
            right += int(count_correct(logits_of(made.module(x[part]), len(x[part])), labels[part]))
    share = right / len(x)
    check_expected(arguments.model, share, arguments.expect_accuracy, f"the {len(x):,} inputs")
    return share


def _compute_model_kernels(
    made: MadeModel, x: Tensor, labels: Tensor | None, classes: int, chosen: KernelSettings
) -> ModelKernels:
    """Compute all kernels if `adapt` can trace the module, else only K."""
    try:
        if not x.is_floating_point():
            raise UserError("Its inputs are integers, such as tokens, but paths need real inputs.")
        followed = adapt_module(made.module, tuple(x.shape[1:]))
        network = followed.network
        if not network.architecture.gated_nodes:
            raise UserError("It has no layer that could be followed by gates.")
    except UserError as refusal:
        return _compute_tangent_kernel_only(made, x, labels, classes, chosen, str(refusal))
    plan = chosen.make_plan(network, x, labels)
    arrays = kernel_arrays(network, x, labels, chosen, plan)
    over = trained_weights(network, chosen.folded)
    settings = {"computed_by": "adapt", "tangent_kernel_alone": None} | plan.settings
    settings |= network_settings(network, chosen.folded)
    notes = [*filter(None, [followed.remark]), FOLLOWED, over, *plan.notes]
    return ModelKernels(arrays, settings, notes)


def _compute_tangent_kernel_only(
    made: MadeModel,
    x: Tensor,
    labels: Tensor | None,
    classes: int,
    chosen: KernelSettings,
    why: str,
) -> ModelKernels:
    reason = f"{ALONE}: {why}"
    for option, is_given in (("--folded", chosen.folded), ("--scale", chosen.normalise != "none")):
        if is_given:
            raise UserError(
                Where(option) + f" has no effect on this model. {reason}", kind="no-effect"
            )
    for name in chosen.only or ():
        if name not in QUANTITIES_OF_K:
            raise UserError(
                Where("--only") + f" {name} has no effect on this model. {reason}",
                kind="no-effect",
                value=name,
            )
    labelled = labels is not None
    plan = plan_tangent_kernel(
        made.module, len(x), classes, chosen.memory_bytes, chosen.logits, chosen.only, labelled
    )
    try:
        arrays, remarks = module_arrays(made.module, x, labels, classes, chosen, plan)
    except UserError as refusal:
        if refusal.place == "budget_bytes":  # name the option instead
            budget = binary_size_in_words(chosen.memory_bytes)
            names = {"budget_bytes": "--memory", f"{refusal.value:,}": budget, UNIT: " bytes"}
            raise refusal.rename_places(names.__getitem__) from None
        raise _reword_eval_refusal(refusal) from None
    except Exception as error:  # the user's code may raise anything
        raise exception_as_user_error(error, made.title, " while K was computed") from None
    over = _describe_parameters(made.module)
    settings = {
        "computed_by": "empirical_ntk",
        "tangent_kernel_alone": why,
        "tangent_kernel": over,
    }
    notes = [reason, over, *remarks, *plan.notes]
    return ModelKernels(arrays, settings | plan.settings, notes)


def _describe_parameters(module: nn.Module) -> str:
    parameters = list(module.parameters())
    trained = [p for p in parameters if p.requires_grad]
    numbers = _count_real_numbers(trained)
    if len(trained) == len(parameters):
        return f"K is over all {len(trained):,} parameters, {numbers:,} numbers."
    return (
        f"K is over the {len(trained):,} of {len(parameters):,} parameters with requires_grad, "
        f"{numbers:,} numbers."
    )


def _state_in_words(arguments: argparse.Namespace) -> str:
    if arguments.weights is not None:
        return f"with the weights of {arguments.weights.name}"
    return "with its initial weights (torch seed 0)"


def _count_real_numbers(parameters: Iterable[Tensor]) -> int:
    """Count the real numbers in parameters; a complex number counts as two."""
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in parameters)


def _join_first(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _format_shape(shape: tuple[int, ...]) -> str:
    return "×".join(str(side) for side in shape) or "a scalar"
