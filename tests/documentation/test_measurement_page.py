"""The page of kept measurements: every file has its section, and a dry run is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from documentation import measurement_page
from documentation.measurement_page import KEPT, SECTIONS, generate

ROOT = Path(__file__).parents[2]


def write_measurement(root: Path, name: str, content: Any) -> None:
    (root / KEPT).mkdir(parents=True, exist_ok=True)
    (root / KEPT / name).write_text(json.dumps(content), "utf-8")


def test_every_kept_measurement_has_a_section_with_its_cases_and_machine() -> None:
    (page,) = generate(ROOT)
    assert page.path == measurement_page.PAGE
    for name, (heading, _) in SECTIONS.items():
        content = json.loads((ROOT / KEPT / name).read_text("utf-8"))
        section = page.text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        for part in content if isinstance(content, list) else [content]:
            assert part["machine"]["processor"] in section
            assert part["machine"]["date"] in section
            assert (measurement_page.TRANSCRIBED in section) == bool(part.get("transcribed"))
            for case in part.get("cases", ()):
                table = section.partition(f"\n### {case['title']}\n")[2].partition("\n### ")[0]
                assert all(f"| {method['name']} | " in table for method in case["methods"])
                assert all(f": {bar['text']}\n" in table for bar in case["bars"])


def test_the_load_is_the_range_over_the_cases(tmp_path: Path) -> None:
    (run,) = json.loads((ROOT / KEPT / "bench.json").read_text("utf-8"))
    for case, load in zip(run["cases"], (0.26, 7.5, 3.0), strict=False):
        case["load"] = load
    write_measurement(tmp_path, "bench.json", [run | {"cases": run["cases"][:3]}])
    (page,) = generate(tmp_path)
    assert ", load 0.3 to 7.5; " in page.text
    assert all(heading not in page.text for heading, _ in list(SECTIONS.values())[1:])


def test_a_file_without_a_section_and_a_dry_run_are_refused(tmp_path: Path) -> None:
    write_measurement(tmp_path, "other.json", {})
    with pytest.raises(ValueError, match=r"docs/measurements/other.json is none of bench.json, "):
        list(generate(tmp_path))
    (tmp_path / KEPT / "other.json").unlink()
    write_measurement(tmp_path, "gpu.json", {"dry": True})
    with pytest.raises(ValueError, match=r"gpu.json is of a dry run"):
        list(generate(tmp_path))
