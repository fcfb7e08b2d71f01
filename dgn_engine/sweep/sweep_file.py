"""A sweep's TOML file: a base configuration and the fields to vary as a grid, a list, or both.

base = "base.toml"                 # or a table [base]; defaults if missing
[grid]                             # all combinations
"gating.regime" = ["FR-II", "DL"]
seed = [0, 1, 2]
[[list]]                           # combined with each of these
"training.optimiser" = "sgd"
"training.learning_rate" = 0.1
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.storage.config_file import read_config, read_toml
from dgn_engine.sweep.unit import Training

MOST = 100_000  # runs; more is probably a mistake
KEYS = ("base", "grid", "list")
_LONGEST = 120  # characters of a folder name
Settings = dict[str, Any]  # dotted field → value


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep and its values of the varied fields."""

    unit: Training
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Sweep:
    """All runs in the order of the file, and the varied fields."""

    runs: tuple[SweepRun, ...]
    fields: tuple[str, ...]


def read_sweep(path: Path) -> Sweep:
    """Read a sweep file; raises `UserError` with the file's name."""
    tree = read_toml(path, "sweep")
    try:
        return sweep_of(tree, path.parent)
    except UserError as refusal:
        raise UserError(f"{path}: {refusal}", kind=refusal.kind, value=refusal.value) from None


def sweep_of(tree: Mapping[str, Any], folder: Path) -> Sweep:
    """Return the runs of a parsed sweep file; `folder` is where its base file is found."""
    for key in tree:
        if key not in KEYS:
            raise UserError(
                f"Unknown key '{key}'; a sweep has base, [grid] and [[list]]."
                f"{did_you_mean(key, KEYS)}",
                kind="unknown-key",
                value=key,
            )
    base = _read_base(tree.get("base", {}), folder).to_dict()
    grid, entries = _read_grid(tree.get("grid", {})), _read_entries(tree.get("list", [{}]))
    if not grid and not any(entries):
        raise UserError("Nothing is varied; add a [grid] or [[list]].", kind="empty")
    for field in grid:
        if any(field in entry for entry in entries):
            raise UserError(
                f"'{field}' is in both [grid] and [[list]]; remove one.",
                kind="contradiction",
                value=field,
            )
    count = len(entries) * prod(len(values) for values in grid.values())
    if count > MOST:
        raise UserError(
            f"The sweep has {count:,} runs; at most {MOST:,} are allowed.",
            kind="too-large",
            value=count,
        )
    fields = tuple(dict.fromkeys([*(f for entry in entries for f in entry), *grid]))
    runs: dict[str, SweepRun] = {}
    ids_by_config: dict[RunConfig, str] = {}
    for entry in entries:
        for combination in product(*grid.values()):
            settings = {**entry, **dict(zip(grid, combination, strict=True))}
            run = _make_run(base, settings, fields)
            same = ids_by_config.setdefault(run.unit.config, run.unit.id)
            if run.unit.id in runs or same != run.unit.id:
                raise UserError(
                    f"Two runs are identical: '{same}' and '{run.unit.id}'.",
                    kind="named-twice",
                    value=run.unit.id,
                )
            runs[run.unit.id] = run
    return Sweep(tuple(runs.values()), fields)


def _read_base(value: object, folder: Path) -> RunConfig:
    if isinstance(value, str):
        return read_config(folder / value)
    if not isinstance(value, Mapping):
        raise UserError(
            "base must be the path of a configuration file, or a table.",
            kind="wrong-type",
            value=value,
        )
    return RunConfig.from_dict(value)


def _read_grid(value: object) -> dict[str, list[Any]]:
    if not isinstance(value, Mapping):
        raise UserError(
            "[grid] must be a table of fields with lists of values.",
            kind="wrong-type",
            value=value,
        )
    grid = dict(_flatten_fields(value, ""))
    for field, values in grid.items():
        if not isinstance(values, list) or not values:
            raise UserError(
                f"[grid] {field} is {values!r}; it must be a list of values.",
                kind="wrong-type",
                value=values,
            )
    return grid


def _read_entries(value: object) -> list[Settings]:
    if (
        not isinstance(value, list)
        or not all(isinstance(entry, Mapping) for entry in value)
        or not value
    ):
        raise UserError(
            "[[list]] must contain tables of fields and values.", kind="wrong-type", value=value
        )
    return [dict(_flatten_fields(entry, "")) for entry in value]


def _flatten_fields(tree: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Yield dotted fields and values; a nested table equals a dotted key."""
    for key, value in tree.items():
        field = f"{where}.{key}" if where else key
        if isinstance(value, Mapping):
            yield from _flatten_fields(value, field)
        else:
            yield field, value


def _make_run(base: Mapping[str, Any], settings: Settings, fields: tuple[str, ...]) -> SweepRun:
    tree = {key: dict(value) if isinstance(value, dict) else value for key, value in base.items()}
    for field, value in settings.items():
        _set_field(tree, field.split("."), value, field)
    name = _run_name(settings, fields)
    try:
        config = RunConfig.from_dict(tree)
    except UserError as refusal:
        raise UserError(
            f"The run {name} is invalid: {refusal}", kind=refusal.kind, value=refusal.value
        ) from None
    return SweepRun(Training(name, config), settings)


def _set_field(tree: dict[str, Any], path: list[str], value: object, field: str) -> None:
    """Set a dotted field, copying nested tables first, because all runs share the base."""
    for part in path[:-1]:
        inner = tree.get(part, {})
        if not isinstance(inner, dict):
            raise UserError(
                f"A configuration has no field '{field}'.", kind="unknown-key", value=field
            )
        tree[part] = dict(inner)
        tree = tree[part]
    tree[path[-1]] = value


def _run_name(settings: Settings, fields: tuple[str, ...]) -> str:
    """Return a folder name such as 'regime=DL+seed=0'."""
    lasts = [field.rpartition(".")[2] for field in fields]
    parts = []
    for field, value in settings.items():
        last = field.rpartition(".")[2]
        short = last if lasts.count(last) == 1 else field
        parts.append(f"{short}={_value_in_name(value)}")
    name = "+".join(parts)
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return name


def _value_in_name(value: object) -> str:
    if isinstance(value, list):
        return ".".join(_value_in_name(item) for item in value) or "none"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", text)
    if plain == text:
        return plain
    return f"{plain[:40]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
