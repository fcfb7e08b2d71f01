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


# Rows of docs/how-fast.md that say what is kept: a file, its case, and how its figures are written.
FIGURES = (
    ("bench.json", "train_step_fc", "{bar} ", "… against hand-tuned eager PyTorch"),
    ("bench.json", "packed_sweep", "{bar} ", "48 × fc 16×5 in stacks, against one by one"),
    ("bench.json", "cnn_small", "{bar} ", "tangent kernel of a small CNN"),
    ("bench.json", "fc_mean", "{ms:.1f} ms, {bar} ", "tangent kernel of fc 128×5, 200 examples"),
    ("bench.json", "fc_full", "{ms:.1f} ms, {bar} ", "… all pairs of logits"),
    ("bench.json", "dgn", "{ms:.1f} ms, {bar} ", "… path kernel and both tangent kernels"),
    ("bench.json", "npk_cnn", "{s:.1f} s, {bar} ", "path kernel of a CNN, 64 examples"),
    ("bench.json", "npk_fc_large", "{s:.1f} s, {bar} ", "path kernel of fc 128×5, 10,000"),
    ("peers.json", "fc_full", ", {bar} ", "tangent kernel of fc 128×5 against neural-tangents"),
    ("peers.json", "cntk", "{bar} ", "convolutional limit kernel (CNTK)"),
    ("gpu.json", "fc_graphs", "{bar} ", "training fc 128×5 on a card"),
    ("gpu.json", "packed", "{bar} ", "48 × fc 128×5 in a stack on a card"),
)


@pytest.mark.parametrize(("file", "name", "written", "row"), FIGURES)
def test_the_figures_of_how_fast_are_those_that_are_kept(
    file: str, name: str, written: str, row: str
) -> None:
    content = json.loads((ROOT / KEPT / file).read_text("utf-8"))
    parts = content if isinstance(content, list) else [content]
    (case,) = (case for part in parts for case in part["cases"] if case["name"] == name)
    seconds, bar = case["methods"][0]["median_seconds"], case["bars"][0]
    figures = written.format(s=seconds, ms=1000 * seconds, bar=" ".join(bar["text"].split()[:1]))
    text = (ROOT / "docs" / "how-fast.md").read_text("utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith(f"| {row}"))
    cells = line.split(" | ")
    assert figures.strip() in cells[1]
    assert ("missed" in cells[2]) == (bar["verdict"] == "missed")
