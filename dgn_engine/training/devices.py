"""Choose the device of a run, and the number of threads for it."""

from __future__ import annotations

import os

import torch

from dgn_engine.config import Device, Precision
from dgn_engine.errors import UserError, Where
from dgn_engine.model.architecture import Architecture, Conv


def available_devices() -> tuple[str, ...]:
    """Return the devices of this machine.

    Returns:
        Names for a configuration, 'auto' and 'cpu' included.
    """
    names = ["auto", "cpu"]
    if torch.cuda.is_available():
        names.append("cuda")
    if torch.backends.mps.is_available():
        names.append("mps")
    return tuple(names)


def choose_device(device: Device) -> torch.device:
    """Return the torch device of a configuration.

    Args:
        device: 'auto', 'cpu', 'cuda' or 'mps'.

    Returns:
        CUDA, then MPS, then the CPU for 'auto'.

    Raises:
        UserError: The device is not available.
    """
    available = available_devices()
    if device == "auto":
        return torch.device(
            "cuda" if "cuda" in available else "mps" if "mps" in available else "cpu"
        )
    if device not in available:
        raise UserError(
            f"Device '{device}' is not available on this machine; choose one of "
            f"{', '.join(available)}.",
            kind="no-device",
            value=device,
        )
    return torch.device(device)


def multiplies_bf16() -> bool:
    """Return whether this processor multiplies bf16 in hardware.

    Returns:
        True with AVX-512 BF16 or AMX; without them, steps in bf16 would be slower than in float32.
    """
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def check_precision(precision: Precision, device: torch.device) -> None:
    """Check that steps of a precision are worth taking on a device.

    Args:
        precision: 'float32', 'tf32' or 'bf16'.
        device: Device of the run.

    Raises:
        UserError: bf16 was chosen on a processor that does not multiply it in hardware.
    """
    if precision == "bf16" and device.type == "cpu" and not multiplies_bf16():
        raise UserError(
            Where("training.precision")
            + " cannot be bf16 on this processor, which has neither AVX-512 BF16 nor AMX; "
            "choose float32.",
            kind="not-supported",
            value=precision,
        )


def choose_float64_device(device: Device) -> Device:
    """Return where to compute in float64 for a run made for `device`.

    Args:
        device: Device of the configuration.

    Returns:
        'cuda' if available and asked for, else 'cpu'; MPS has no float64.
    """
    if device == "auto":
        device = "cuda"
    return "cuda" if device == "cuda" and device in available_devices() else "cpu"


def device_name(device: torch.device, precision: Precision = "float32") -> str:
    """Return the name of a device for the status bar.

    Args:
        device: The device.
        precision: Precision of the training steps.

    Returns:
        Model of a CUDA card, or the device type; with bf16 and on a card TF32, also the precision:
        'cpu, bf16'.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    words = {"bf16": "bf16", "tf32": "TF32" if device.type == "cuda" else ""}
    return f"{name}, {words[precision]}" if words.get(precision) else name


def set_threads(architecture: Architecture) -> None:
    """Use one intra-op thread for dense networks, all cores but one for convolutions.

    With more threads small dense layers are 30 to 80 times slower on a busy machine. Subnormal
    numbers are flushed to zero in the calling thread: once a network has fitted its data, gradients
    and moments become subnormal and steps take several times as long (docs/decisions/0009).

    Args:
        architecture: Architecture of the network.
    """
    torch.set_flush_denormal(True)
    torch.set_num_threads(
        max(1, (os.cpu_count() or 1) - 1) if has_convolutions(architecture) else 1
    )


def has_convolutions(architecture: Architecture) -> bool:
    """Return whether a network has convolutions, whose steps profit from several threads.

    Args:
        architecture: Architecture of the network.

    Returns:
        True with at least one convolution.
    """
    return any(isinstance(node, Conv) for node in architecture.nodes)
