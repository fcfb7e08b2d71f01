"""Describe the machine of a measurement: processor, versions, load."""

from __future__ import annotations

import datetime
import importlib.util
import os
import platform
from importlib.metadata import version
from pathlib import Path

import torch

CPUINFO = Path("/proc/cpuinfo")


def describe_processor() -> str:
    """Return the processor's name and the instruction sets that affect these figures."""
    name, flags = platform.processor() or platform.machine(), ""
    if CPUINFO.exists():
        lines = CPUINFO.read_text(encoding="utf-8").splitlines()
        fields = dict(line.split("\t:", 1) for line in lines if "\t:" in line)
        fields = {key.strip(): value.strip() for key, value in fields.items()}
        name = fields.get("model name", name)
        known = ("avx2", "avx512f", "avx512_vpopcntdq", "amx_bf16")
        flags = " ".join(flag for flag in known if flag in fields.get("flags", "").split())
    return f"{name} ({flags})" if flags else name


def read_load() -> float | None:
    """Return the load average of the last minute; other busy processes mean noisy figures."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def describe_machine(device: torch.device) -> dict[str, object]:
    """Return a description of the machine for the JSON file."""
    numba = version("numba") if importlib.util.find_spec("numba") else None
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "processor": describe_processor(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numba": numba,
        "threads": torch.get_num_threads(),
        "load": read_load(),
    }
