"""What lies in the folder of a result."""

from __future__ import annotations

RESULTS = "results.json"
PROGRESS = "progress.json"
PLAN = "plan.json"  # every unit, so that another plan is not mixed with this one
REPORT = "report"  # .html and .md
FIGURES = "figures"


def folder_name(
    name: str,
    scale: str,
    protocol: str,
    data: str = "",
    epochs: int = 0,
    augmentation: str = "none",
    train_limit: int = 0,
    test_limit: int = 0,
) -> str:
    """NAME-SCALE, with what else decides its runs; without torch, so that the viewer knows it."""
    parts = [name, scale]
    if protocol != "as-published":
        parts.append(protocol)
    if data:
        parts.append("".join(c if c.isalnum() else "_" for c in data))
    if epochs:
        parts.append(f"{epochs}_epochs")
    if augmentation != "none":
        parts.append("augmented")
    limits = ((train_limit, "training"), (test_limit, "test"))
    parts += [f"{number}_{part}" for number, part in limits if number]
    return "-".join(parts)
