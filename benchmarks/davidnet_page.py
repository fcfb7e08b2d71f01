"""Write the page of DavidNet's training on a card from its results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.report import format_duration, format_machine
from dgn_engine.experiments.composite_davidnet import INPUTS

HEAD = "| regime | x^v | epochs | train | test | best | seconds | images/s | limit | reached | |"


def format_page(content: Mapping[str, Any]) -> str:
    """Return the page for the JSON of `benchmarks.gpu_davidnet`."""
    if content["dry"]:
        head = "# Dry run: DavidNet\n\n**Dry: on a CPU, a few images and epochs. No figure means "
        return f"{head}anything.**\n{format_results(content)}"
    return f"# DavidNet in the regimes of [COMP]\n{format_results(content)}"


def format_results(content: Mapping[str, Any]) -> str:
    """Return machine, method and the table of the runs."""
    about = f"\n{format_machine(content['machine'])}.\n"
    if why := content.get("skipped"):
        return f"{about}\nDavidNet was not trained: {why}.\n"
    lines = [
        about,
        f"{content['data']}; width {content['width']}, SGD with step 0.5, batch 256, no "
        f"augmentation, {content['precision']}, seed 0. 'Train' and 'test' are accuracies of the "
        "last epoch, 'best' is the best test accuracy. Seconds include the tests after each epoch "
        "but not the time to read the images; the limit is for the same steps.",
        "",
        HEAD,
        "|" + " --- |" * (HEAD.count("|") - 1),
    ]
    mark = "dry: " if content["dry"] else ""
    lines += [f"| {mark}{' | '.join(_format_cells(row))} |" for row in content["runs"]]
    return "\n".join([*lines, ""])


def _format_cells(row: Mapping[str, Any]) -> list[str]:
    def percent(name: str) -> str:
        value = row.get(name)
        return "" if value is None else f"{value:.2%}"

    known = "seconds" in row
    has_floor = "floor_seconds" in row
    state = ", ".join(part for part in (row["state"], row["why"]) if part)
    return [
        row["regime"],
        INPUTS[row["value_input"]],
        f"{row.get('epochs', 0):g} of {row['epochs_wanted']}",
        percent("train_accuracy"),
        percent("test_accuracy"),
        percent("best_test_accuracy"),
        format_duration(row["seconds"]) if known else "",
        f"{row['images_per_second']:,.0f}" if known else "",
        format_duration(row["floor_seconds"]) if has_floor else "",
        f"{row['floor_seconds'] / row['seconds']:.2g}" if has_floor else "",
        state,
    ]
