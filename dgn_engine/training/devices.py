"""Choose the device of a run, and the number of threads for it."""

from __future__ import annotations

import os

import torch

from dgn_engine.config import Device
from dgn_engine.errors import UserError
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


def device_name(device: torch.device) -> str:
    """Return the name of a device for the status bar.

    Args:
        device: The device.

    Returns:
        Model of a CUDA card, or the device type.
    """
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


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
