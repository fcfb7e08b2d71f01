"""Which device a run uses, and how many threads serve it."""

from __future__ import annotations

import os

import torch

from dgn_engine.config import Device
from dgn_engine.errors import UserError
from dgn_engine.model.architecture import Architecture, Conv


def available_devices() -> tuple[str, ...]:
    """The devices that can be asked for on this machine, 'auto' and 'cpu' among them."""
    found = ["auto", "cpu"]
    if torch.cuda.is_available():
        found.append("cuda")
    if torch.backends.mps.is_available():
        found.append("mps")
    return tuple(found)


def choose_device(device: Device) -> torch.device:
    """The torch device for a configuration; raises `UserError` for one that is not here."""
    found = available_devices()
    if device == "auto":
        return torch.device("cuda" if "cuda" in found else "mps" if "mps" in found else "cpu")
    if device not in found:
        raise UserError(
            f"Device '{device}' is not available on this machine; choose one of "
            f"{', '.join(found)}.",
            kind="no-device",
            value=device,
        )
    return torch.device(device)


def choose_float64_device(device: Device) -> Device:
    """Return where float64 of a run that was made for `device` is computed: there, or on the CPU
    where that device is not on this machine or has no float64."""
    if device == "auto":
        device = "cuda"
    return "cuda" if device == "cuda" and device in available_devices() else "cpu"


def device_name(device: torch.device) -> str:
    """As the status bar shows it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def set_threads(architecture: Architecture) -> None:
    """One intra-op thread for dense networks, all cores but one for convolutions.

    More threads for small dense layers make a busy machine 30 to 80 times slower. Numbers too
    small for a normalised float count as zero in the calling thread: once a network has fitted
    its data, gradients and moments become subnormal and a step takes several times as long
    (docs/decisions/0009).
    """
    torch.set_flush_denormal(True)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) - 1) if convolves(architecture) else 1)


def convolves(architecture: Architecture) -> bool:
    """Return whether a network has convolutions, of which steps use several threads well."""
    return any(isinstance(node, Conv) for node in architecture.nodes)
