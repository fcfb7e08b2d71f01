"""The run shown in the pictures of the site: digits, half a minute on one core."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from dgn_engine.cli import main
from dgn_engine.scene.panel_spec import all_panels

STEPS_BETWEEN = 90  # two epochs of 1,437 digits in batches of 32
OPTIONS = (
    "--data", "digits", "--net", "fc", "--width", "32", "--depth", "5", "--regime", "DL",
    "--lr", "0.003", "--epochs", "20", "--seed", "0",
)  # fmt: skip
COMPARING = "agreement"  # read only while a comparison is there


def sample_run(folder: Path) -> Path:
    """Train the run with what every panel needs, or use an existing one."""
    probes = sorted({probe for spec in all_panels().values() for probe in spec.probes})
    probes = [probe for probe in probes if probe != COMPARING]
    named = hashlib.sha256(" ".join([*OPTIONS, *probes]).encode()).hexdigest()[:12]
    place = folder / f"run-{named}"
    if not (place / "weights.safetensors").exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder)) / "run"
        watching = ("--record", ",".join(probes), "--record-every", str(STEPS_BETWEEN))
        code = main(["train", *OPTIONS, *watching, "--quiet", "--out", str(unfinished)])
        if code != 0:
            raise RuntimeError(f"dgn train ended with {code}")
        unfinished.rename(place)
    return place
