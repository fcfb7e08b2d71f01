"""`run.json`: what a run is and where it was made; complete or absent, with its own checksum."""

from __future__ import annotations

import hashlib
import json
import platform
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dgn_engine import __version__
from dgn_engine.config import RunConfig
from dgn_engine.errors import UserError
from dgn_engine.protocol.training import RunStarted
from dgn_engine.storage.atomic_write import write_file
from dgn_engine.storage.inner_path import FilePath, inner_folder
from dgn_engine.storage.plain_data import from_plain, parse_json, to_plain
from dgn_engine.storage.regular_files import read_regular
from dgn_engine.storage.runs import folder_layout
from dgn_engine.storage.runs.run_ranges import THREADS, check_started, is_count, is_word

FORMAT = "dgn-viewer run 1"
_CHECK = "sha256"
_FRAMES = "frames"
_STACK = "stack"


class LaterVersionError(UserError):
    """A later version of this program wrote the run: nothing in it may be changed here."""


def create_info(config: RunConfig) -> dict[str, Any]:
    """Return a `run.json` with what is known before the data are loaded."""
    return {
        "format": FORMAT,
        "id": uuid.uuid4().hex,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": package_versions(),
        "platform": platform.platform(),
        "processor": processor_name(),
        "seeds": {"run": config.seed},
        "config": config.to_dict(),
    }


def created_at(info: Mapping[str, Any]) -> float | None:
    """Return when a run was started, in seconds since 1970; None if unknown."""
    try:
        return datetime.fromisoformat(str(info.get("created"))).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def recreate_info(config: RunConfig, run: str = "") -> dict[str, Any]:
    """Return a `run.json` when only configuration and id are left; its writer is unknown."""
    whole = create_info(config) | ({"id": run} if run else {})
    return {key: whole[key] for key in ("format", "id", "created", "seeds", "config")}


def add_start(
    info: Mapping[str, Any], started: RunStarted, fingerprint: str, threads: int
) -> dict[str, Any]:
    """Return a `run.json` with what is known once the run is built: device, threads and so on."""
    event = to_plain(started)
    for name in ("config", "run", "paused", "unrecorded"):
        del event[name]
    event["wiring"] = event.pop("wiring")  # the last key, as in every run.json so far
    return {
        **info,
        "device": started.device,
        "threads": threads,
        "data_fingerprint": fingerprint,
        "probe_set": started.probe_set.digest,
        "parameters_value": started.parameters_value,
        "parameters_feature": started.parameters_feature,
        "started": event,
    }


def add_stack(info: Mapping[str, Any], stack: str) -> dict[str, Any]:
    """Return a `run.json` with the name of the stack that the run is trained in."""
    return {**info, _STACK: stack}


def stack_of(info: Mapping[str, Any]) -> str:
    """Return the name of its stack; '' if it has none or does not say."""
    stack = info.get(_STACK, "")
    return stack if isinstance(stack, str) else ""


def add_frames(info: Mapping[str, Any], probes: Sequence[str], every: int) -> dict[str, Any]:
    """Return a `run.json` with the probes recorded as frames, so that this continues on resume.

    `every`: steps between frames; 0: as often as time allows.
    """
    return {**info, _FRAMES: {"probes": list(probes), "every": every}}


def frames_of(info: Mapping[str, Any]) -> tuple[tuple[str, ...], int]:
    """Return the probes and steps of `add_frames`; none if not stated."""
    match info.get(_FRAMES):
        case {"probes": [*probes], "every": int(every)} if every >= 0:
            return tuple(str(probe) for probe in probes), every
    return (), 0


def encode_info(info: Mapping[str, Any]) -> bytes:
    """Encode it for the file; 'sha256' covers everything else, as compact sorted JSON."""
    tree = to_plain({key: value for key, value in info.items() if key != _CHECK}, "word")
    whole = {**tree, _CHECK: _info_digest(tree)}
    return (json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


NO_SENSE = "no-sense"  # the kind of a `run.json` with impossible values; its value: which


def read_run_info(folder: FilePath) -> dict[str, Any]:
    """Read `run.json`; raises `UserError` if there is no run or it is damaged."""
    path = inner_folder(folder) / folder_layout.RUN
    try:
        content = read_regular(path)
    except FileNotFoundError:
        raise UserError(
            f"{folder} is not a run: it has no {folder_layout.RUN}.",
            kind="no-run",
            value=folder,
        ) from None
    except OSError as error:
        why = f"{path} cannot be read: {error.strerror}."
        raise UserError(why, kind="unreadable", value=path) from None
    try:
        tree = parse_json(content)
        sound = tree.pop(_CHECK) == _info_digest(tree)
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise UserError(
            f"{path} is damaged; 'dgn runs repair {folder}' saves what is intact.",
            kind="damaged",
            value=path,
        )
    if tree.get("format") != FORMAT:
        raise LaterVersionError(
            f"{path} was written by a later version of dgn-viewer; install that one to open it.",
            kind="later-version",
            value=path,
        )
    if wrong := [name for name, kind in _KINDS.items() if name in tree and not kind(tree[name])]:
        raise UserError(
            f"{path} has invalid values ({', '.join(wrong)}); "
            f"'dgn runs repair {folder}' saves what is intact.",
            kind=NO_SENSE,
            value=", ".join(wrong),
        )
    info: dict[str, Any] = tree
    return info


def _are_frames(value: Any) -> bool:
    match value:
        case {"probes": [*probes], "every": every}:
            return all(map(is_word, probes)) and is_count(every)
    return False


# Checks of the parts that are used directly; `config`, `started` and the inventory check
# themselves.
_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "id": is_word,
    "former_ids": lambda value: isinstance(value, list) and all(map(is_word, value)),
    "created": is_word,
    "versions": lambda value: isinstance(value, dict) and all(map(is_word, value.values())),
    "device": is_word,
    "processor": is_word,
    "data_fingerprint": is_word,
    "threads": lambda value: is_count(value, THREADS) and value > 0,
    _FRAMES: _are_frames,
    "branch": lambda value: isinstance(value, dict),
}


def write_run_info(folder: FilePath, info: Mapping[str, Any]) -> None:
    write_file(inner_folder(folder) / folder_layout.RUN, encode_info(info))


def config_of(info: Mapping[str, Any]) -> RunConfig:
    """Return the configuration; raises `UserError` if it is missing or refused."""
    if not isinstance(info.get("config"), dict):
        raise UserError(f"{folder_layout.RUN} has no configuration.")
    return RunConfig.from_dict(info["config"])


def started_of(info: Mapping[str, Any], config: RunConfig) -> RunStarted | None:
    """Return the start event of a run; None if the run was never built. Raises `UserError`."""
    started = info.get("started")
    if started is None:
        return None
    try:
        whole = {**started, "config": config, "run": 0, "paused": True}
        event: RunStarted = from_plain(RunStarted, whole)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"The run cannot be shown: its {folder_layout.RUN} lacks {error}."
        ) from None
    try:
        check_started(event)
    except ValueError as error:
        raise UserError(f"The run cannot be shown: its description is invalid ({error}).") from None
    return event


def first_regime(info: Mapping[str, Any]) -> str:
    """Return the initial regime of a run; '' if its `run.json` does not say."""
    try:
        config = config_of(info)
    except UserError:
        return ""
    try:
        started = started_of(info, config)
    except UserError:
        started = None
    return started.regime if started is not None else config.gating.regime


def package_versions() -> dict[str, str]:
    return {
        "dgn-viewer": __version__,
        "python": platform.python_version(),
        **{name: _version_of(name) for name in ("torch", "numpy", "safetensors")},
    }


def reason_not_exact(info: Mapping[str, Any], device: str, threads: int) -> str:
    """Return why resuming here may differ in the last bits; '' if it does not."""
    before, now = info.get("versions", {}), package_versions()
    reasons = [
        f"{name} was {before.get(name, 'unknown')}, is now {now[name]}"
        for name in ("dgn-viewer", "torch")
        if before.get(name) != now[name]
    ]
    if info.get("device") != device:
        reasons.append(f"the device was {info.get('device', 'unknown')}, is now {device}")
    elif device != "cpu":
        reasons.append(f"{device} does not add numbers in a fixed order")
    if info.get("threads") != threads:
        reasons.append(f"{info.get('threads', 'unknown')} threads then, {threads} now")
    if info.get("processor") != processor_name():
        reasons.append("the processor is different")
    return "; ".join(reasons)


def processor_name() -> str:
    """Return the processor's name: its instructions determine the order of sums."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
        name = next(line for line in text.splitlines() if line.startswith("model name"))
        return name.partition(":")[2].strip()
    except (OSError, StopIteration):
        return platform.processor()


def _version_of(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version  # not needed to read a run

    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _info_digest(tree: Mapping[str, Any]) -> str:
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
