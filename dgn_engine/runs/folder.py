"""The folder of a run: its configuration, a log line per measurement, and its weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from dgn_engine.protocol.events import Diverged, Event, Measured, RegimeSwapped, RunStarted
from dgn_engine.refusal import Refusal

LOGGED = (Measured, RegimeSwapped, Diverged)


class RunFolder:
    """Writes `config.toml`, `run.json`, `log.jsonl` (flushed line by line).

    Raises `Refusal` where the folder holds a run already or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise Refusal(f"{path} is not empty; choose another folder with --out.")
            self._log: TextIO = (path / "log.jsonl").open("x", encoding="utf-8")
        except OSError as error:
            raise Refusal(f"Cannot write the run to {path}: {error.strerror}.") from None

    @property
    def weights(self) -> Path:
        """Where the weights go."""
        return self.path / "weights.safetensors"

    def begin(self, started: RunStarted, versions: Mapping[str, str], fingerprint: str) -> None:
        """Write what will not change."""
        (self.path / "config.toml").write_text(started.config.to_toml(), encoding="utf-8")
        about = {
            "versions": dict(versions),
            "device": started.device,
            "data_fingerprint": fingerprint,
            "probe_set": started.probe_set.digest,
            "parameters_value": started.parameters_value,
            "parameters_feature": started.parameters_feature,
            "config": started.config.to_dict(),
        }
        (self.path / "run.json").write_text(_json(about, indent=2) + "\n", encoding="utf-8")

    def record(self, event: Event) -> None:
        """One line for what belongs into the log; other events are passed over."""
        if isinstance(event, LOGGED):
            line = {"event": type(event).__name__, **asdict(event)}
            self._log.write(_json(line) + "\n")
            self._log.flush()

    def close(self) -> None:
        """Close the log."""
        self._log.close()


def _json(tree: Any, indent: int | None = None) -> str:
    return json.dumps(tree, indent=indent, ensure_ascii=False)
