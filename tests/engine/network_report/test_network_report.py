"""`dgn report`: its numbers by other roads, what is usual, what is left out and written."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import dgn_engine.kernels as k
from dgn_engine.cli import main
from dgn_engine.cli.run import report_network
from dgn_engine.experiments.report.document import read_document, to_bytes
from dgn_engine.experiments.report.result_layout import RESULTS
from dgn_engine.network_report.make_report import NetworkReport
from dgn_engine.network_report.section import Quantity
from dgn_engine.network_report.sections import SECTIONS
from dgn_engine.network_report.sections.accuracy import Z, harder_classes, wilson_interval
from dgn_engine.network_report.sections.overlaps import class_means, same_and_other
from dgn_engine.network_report.sections.path_lengths import describe_bound
from dgn_engine.network_report.typical import DATA, typical_values
from tests.daily import nightly
from tests.engine.cli.saved_nets import convolutional, saved
from tests.engine.cli.typed import printed_json, refused_command_of_kind
from tests.engine.kernels.tiny import ARCHITECTURES, draw_images, make_network

QUICK = "accuracy,gates,overlaps,spectrum,tangent,alignment,path-norms"
CONCEPTS = Path(__file__).parents[3] / "docs" / "concepts"


@pytest.fixture(autouse=True)
def _read_here(no_reader_child: None) -> None:
    """Each report reads a small file or two."""


def write_numbers(report: NetworkReport, folder: Path) -> tuple[Path, ...]:
    """Write a report without its figures and pages."""
    (folder / RESULTS).write_bytes(to_bytes(report.as_document()))
    return ()


@pytest.fixture
def numbers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports whose pages nobody looks at: drawing them takes longer than the numbers."""
    monkeypatch.setattr(report_network, "write_pages", write_numbers)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short DL run on the digits."""
    folder = tmp_path_factory.mktemp("runs") / "dl"
    words = ("--data", "digits", "--regime", "DL", "--width", "12", "--depth", "4")
    assert main(["train", *words, "--epochs", "2", "--quiet", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def measured(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All numbers of that run."""
    folder = tmp_path_factory.mktemp("reports") / "dl"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(report_network, "write_pages", write_numbers)
        assert main(["report", str(run), "--only", QUICK, "--quiet", "--out", str(folder)]) == 0
    return folder


def written_pages(run: Path, folder: Path, sections: str) -> Path:
    assert main(["report", str(run), "--only", sections, "--quiet", "--out", str(folder)]) == 0
    return folder


def quantities(folder: Path, key: str) -> dict[str, dict[str, Any]]:
    found = read_document(folder).details["sections"][key]["quantities"]
    return {quantity["name"]: quantity for quantity in found}


def report_json(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    return printed_json(capsys, "report", *words, "--json", "--quiet")


def test_numbers_are_those_of_inspect(
    run: Path, measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--data", "digits", "--examples", 64, "--json")
    seen = printed_json(capsys, "inspect", run, *words)["inspection"]
    kernels, gates = seen["kernels"], quantities(measured, "gates")
    overlaps, spectrum = quantities(measured, "overlaps"), quantities(measured, "spectrum")
    pairs = [
        (quantities(measured, "accuracy")["test accuracy"]["value"], seen["accuracy"]["test"]),
        (overlaps["Λ, same class"]["value"], kernels["overlap"]["same"]),
        (overlaps["Λ, different classes"]["value"], kernels["overlap"]["other"]),
        (overlaps["S, same class"]["value"], kernels["sensitive"]["same"]),
        (overlaps["S, different classes"]["value"], kernels["sensitive"]["other"]),
        (spectrum["ν"]["value"], kernels["nu"]),
        (spectrum["effective rank"]["value"], kernels["effective_rank"]),
        (quantities(measured, "alignment")["H, not centred"]["value"], kernels["target_alignment"]),
        *(
            (gates[f"open gates, {layer['name']}"]["value"], layer["open"])
            for layer in seen["layers"]
        ),
    ]
    for ours, theirs in pairs:
        assert ours == pytest.approx(theirs, rel=1e-6)


def test_parts_of_k_are_those_of_kernels(
    run: Path, measured: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "k.npz"
    words = ("--examples", "probe", "--only", "ntk", "--dtype", "float32", "--out", str(file))
    assert main(["kernels", str(run), *words]) == 0
    capsys.readouterr()
    tangent = quantities(measured, "tangent")
    with np.load(file) as arrays:
        trace = {name: float(np.trace(arrays[name])) for name in ("ntk_value", "ntk_feature")}
    assert tangent["trace of K^V"]["value"] == pytest.approx(trace["ntk_value"], rel=1e-4)
    assert tangent["trace of K^F"]["value"] == pytest.approx(trace["ntk_feature"], rel=1e-4)


def test_means_by_class_are_sums_over_pairs() -> None:
    generator = np.random.default_rng(0)
    kernel = generator.random((7, 7))
    kernel = kernel + kernel.T
    kernel[2, 5] = kernel[5, 2] = np.nan
    labels = np.array([0, 0, 1, 1, 1, 4, 4])
    classes, means = class_means(kernel, labels)
    assert classes.tolist() == [0, 1, 4]
    by_pair: dict[bool, list[float]] = {True: [], False: []}
    for (i, a), (j, b) in product(enumerate(classes), repeat=2):
        pairs = [
            kernel[s, t]
            for s, t in product(range(7), repeat=2)
            if s != t and labels[s] == a and labels[t] == b and math.isfinite(kernel[s, t])
        ]
        by_pair[a == b] += pairs
        assert means[i, j] == pytest.approx(sum(pairs) / len(pairs))
    wanted = [sum(by_pair[same]) / len(by_pair[same]) for same in (True, False)]
    assert same_and_other(kernel, labels) == pytest.approx(tuple(wanted))


@pytest.mark.parametrize(("right", "count"), [(0, 5), (5, 5), (3, 7), (346, 360)])
def test_an_interval_ends_where_a_share_is_z_errors_away(right: int, count: int) -> None:
    for end, sign in zip(wilson_interval(right, count), (1, -1), strict=True):
        away = right / count - end
        error = math.sqrt(end * (1 - end) / count)
        assert sign * away == pytest.approx(Z * error, abs=1e-9)


def test_a_number_is_placed_among_its_nulls() -> None:
    null = (0.2, 0.3, math.nan)
    assert Quantity("", 0.4, random=null).rank.startswith("above all 2 ")
    assert Quantity("", 0.1, shuffled=null).label_rank.startswith("below all 2 ")
    assert Quantity("", 0.3, random=null).rank.startswith("within")
    assert Quantity("", math.nan, random=null).rank == ""


def test_logits_are_bounded_by_paths_only_where_gates_are_at_most_one() -> None:
    torch.manual_seed(0)
    x = torch.randn(12, 3)
    described = []
    for act in (nn.ReLU(), nn.LeakyReLU(0.2), nn.PReLU(init=3.0)):
        network = k.adapt(nn.Sequential(nn.Linear(3, 8), act, nn.Linear(8, 2)), (3,))
        norms = k.path_value_norms(k.PathWeights.from_stack(network.value))
        described.append(describe_bound(network, x, norms.l1_by_logit.numpy()))
    network = make_network(ARCHITECTURES["fc-flat"], own=True, soft=True)
    images = draw_images(network.architecture, 5)
    described.append(describe_bound(network, images, np.ones(1)))
    bounded = [sentence.startswith("No logit") for sentence in described]
    assert bounded == [True, True, False, False]


def test_typical_values_are_those_of_the_documentation() -> None:
    """A range in the second half of a cell ('start → end') is that of the trained network."""
    cells: dict[str, dict[str, list[str]]] = {}
    for page in ("gates", "overlap", "path-kernel", "tangent-kernel"):
        for line in (CONCEPTS / f"{page}.md").read_text().splitlines():
            if match := re.match(r"\| (digits|MNIST), (DL|ReLU|FR-II)[^|]*\|(.*)\|", line):
                ends = [re.split("[↗↘→]", cell)[-1].strip() for cell in match[3].split("|")]
                cells.setdefault(page, {})[f"{match[1]}, {match[2]}"] = ends
    places = {
        "open": ("gates", 0),
        "active_same": ("overlap", 0),
        "active_other": ("overlap", 1),
        "sensitive_same": ("overlap", 2),
        "sensitive_other": ("overlap", 3),
        "nu": ("path-kernel", 1),
        "effective_rank": ("path-kernel", 2),
        "feature_share": ("tangent-kernel", 2),
    }
    assert places.keys() == typical_values().keys()
    for quantity, (page, column) in places.items():
        for kind, ranges in typical_values()[quantity].items():
            for data, ends in zip(DATA, ranges, strict=False):
                assert cells[page][f"{data}, {kind}"][column] == ends, (quantity, kind, data)


def test_random_networks_are_compared_and_the_network_stays_as_it_is(measured: Path) -> None:
    gates = quantities(measured, "gates")["open gates, mean over layers"]
    assert len(gates["random_networks"]) == 20
    assert len(set(gates["random_networks"])) > 1
    assert gates["value"] not in gates["random_networks"]
    nu = quantities(measured, "spectrum")["ν/n²"]
    assert len(nu["shuffled_labels"]) == 20
    assert min(nu["shuffled_labels"]) > nu["value"], "a trained network fits its own labels"


@pytest.mark.parametrize(
    "kind",
    [
        ("--regime", "DL-linear", "--feature-layers", "parallel", "--feature-bias"),
        *nightly(*[(("--regime", name),) for name in ("DL", "ReLU", "FR-DI")]),
        *nightly((("--regime", "DL", "--tiling", "2,1"),)),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("numbers_only")
def test_gates_of_a_run_that_hardly_moves_have_not_switched_since_its_start(
    kind: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--data", "digits", *kind, "--width", "8", "--depth", "3")
    still = ("--lr", "1e-30", "--optimiser", "sgd", "--epochs", "1", "--quiet")
    assert main(["train", *words, *still, "--out", str(tmp_path / "run")]) == 0
    tree = report_json(
        capsys, tmp_path / "run", "--only", "gates,path-norms", "--out", tmp_path / "report"
    )
    named = {q["name"]: q["value"] for s in tree["sections"].values() for q in s["quantities"]}
    assert named["gates switched since the start of the run"] == 0
    assert named["cosine of v with the initial network"] == pytest.approx(1.0)


@pytest.mark.usefixtures("numbers_only")
def test_random_networks_are_drawn_as_the_run_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All weights are ±σ, so ‖v‖₂ of each is √(paths) σ^d."""
    words = ("--data", "digits", "--regime", "DL", "--width", "8", "--depth", "3")
    drawn = ("--init", "bernoulli", "--sigma", "0.1", "--epochs", "1", "--quiet")
    assert main(["train", *words, *drawn, "--out", str(tmp_path / "run")]) == 0
    tree = report_json(capsys, tmp_path / "run", "--only", "path-norms", "--out", tmp_path / "out")
    named = {q["name"]: q for q in tree["sections"]["path-norms"]["quantities"]}
    wanted = math.sqrt(64 * 8 * 8 * 10) * 0.1**3
    assert named["‖v‖₂ over all paths"]["random_networks"] == pytest.approx([wanted] * 20)


@pytest.mark.usefixtures("numbers_only")
def test_weights_that_overflow_leave_out_the_kernels_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 10))
    with torch.no_grad():
        for layer in (net[1], net[3]):
            layer.weight.mul_(1e20)
    file = saved(tmp_path / "large.pt", net)
    words = ("--data", "digits", "--only", "gates,tangent,path-norms")
    tree = report_json(capsys, file, *words, "--out", tmp_path / "report")
    assert list(tree["sections"]) == ["gates", "path-norms"]


def test_classes_are_called_harder_only_where_chance_is_ruled_out() -> None:
    generator = np.random.default_rng(0)
    equal = {label: (int(right), 1) for label, right in enumerate(generator.random(1000) < 0.9)}
    assert harder_classes(equal) == []
    assert harder_classes({0: (95, 100), 1: (60, 100), 2: (93, 100)}) == [1]


def test_what_costs_too_much_is_left_out_and_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report"
    tree = report_json(capsys, run, "--seconds", "0", "--only", QUICK, "--out", out)
    assert tree["sections"] == {}
    assert list(tree["left_out"]) == QUICK.split(",")
    assert all("--seconds" in why for why in tree["left_out"].values())
    page = (out / "report.html").read_text()
    assert all(f"Left out: {spec.title}" in page for spec in SECTIONS if spec.key in QUICK)


def test_the_cost_is_printed_first_and_nothing_is_written(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run), "--cost", "--out", str(tmp_path / "report")]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said[1:]] == [spec.key for spec in SECTIONS]
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize("sections", ["gates,path-norms", *nightly(QUICK)])
def test_a_page_has_every_section_with_its_figure_and_script(
    run: Path, tmp_path: Path, sections: str
) -> None:
    folder = written_pages(run, tmp_path / "report", sections)
    page, files = (folder / "report.html").read_text(), folder / "figures"
    assert (folder / "report.pdf").read_bytes().startswith(b"%PDF")
    for key in sections.split(","):
        assert f"<h2 id={key}>" in page
        assert {file.name for file in files.glob(f"{key}.*")} == {
            f"{key}.{kind}" for kind in ("pdf", "svg", "py", "npz")
        }
    drawn = tmp_path / "drawn.png"
    command = [sys.executable, str(files / "gates.py"), str(drawn)]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert drawn.read_bytes().startswith(b"\x89PNG")


@pytest.mark.nightly
@pytest.mark.usefixtures("numbers_only")
def test_a_report_is_the_same_when_it_is_written_again(
    run: Path, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = report_json(capsys, run, "--only", "gates,spectrum", "--out", tmp_path / "again")
    first = read_document(measured).details["sections"]
    for key in ("gates", "spectrum"):
        for name in ("quantities", "sentences"):
            assert json.dumps(tree["sections"][key][name]) == json.dumps(first[key][name])


@pytest.mark.usefixtures("numbers_only")
def test_a_foreign_network_is_reported_with_what_was_assumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    file = saved(tmp_path / "net.pt", convolutional())
    few = "accuracy,gates,tangent,path-norms"
    words = ("--data", "digits", "--examples", 12, "--only", few)
    tree = report_json(capsys, file, *words, "--out", tmp_path / "report")
    assert list(tree["sections"]) == few.split(",")
    assert tree["left_out"] == {}
    assert any("BatchNorm" in value for value in tree["network"].values())
    tangent = tree["sections"]["tangent"]["quantities"]
    assert [q["name"] for q in tangent if "trace" in q["name"]] == ["trace of K^V"]


@pytest.mark.usefixtures("numbers_only")
def test_labels_that_are_not_its_own_leave_out_the_accuracy_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 3))
    file = saved(tmp_path / "three.pt", other)
    words = ("--data", "digits", "--only", "accuracy,gates")
    tree = report_json(capsys, file, *words, "--out", tmp_path / "report")
    assert list(tree["left_out"]) == ["accuracy"]
    assert list(tree["sections"]) == ["gates"]


@pytest.mark.usefixtures("numbers_only")
def test_a_run_is_reported_on_other_data_that_are_resized(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = np.random.default_rng(0)
    for label in "0123456789":
        (tmp_path / "images" / label).mkdir(parents=True)
        for number in range(4):
            image = Image.fromarray(generator.integers(0, 256, (12, 12), np.uint8))
            image.save(tmp_path / "images" / label / f"{number}.png")
    words = ("--data", f"folder:{tmp_path / 'images'}", "--size", 8, "--only", "gates")
    tree = report_json(capsys, run, *words, "--out", tmp_path / "report")
    names = [q["name"] for q in tree["sections"]["gates"]["quantities"]]
    assert "gates switched since the start of the run" in names


def test_the_page_shows_no_markup_of_a_name(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = tmp_path / "<b>&.safetensors"
    named.write_bytes((run / "weights.safetensors").read_bytes())
    report_json(capsys, named, "--seconds", "0", "--out", tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text()
    assert "&lt;b&gt;&amp;" in page
    assert "<b>&" not in page


def test_refusals(run: Path, measured: Path, tmp_path: Path) -> None:
    tanh = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.Tanh(), nn.Linear(9, 10))
    file = saved(tmp_path / "tanh.pt", tanh)
    assert refused_command_of_kind("needs-option", "report", file).value == "--data"
    assert refused_command_of_kind("unknown-name", "report", run, "--only", "gate").value == "gate"
    config = run / "config.toml"
    words = ("--config", config, "--data", "digits")
    assert refused_command_of_kind("contradiction", "report", run, *words).value == "--data"
    refused_command_of_kind("no-gates", "report", file, "--data", "digits")
    other = tmp_path / "other"
    other.mkdir()
    tree = json.loads((measured / "results.json").read_text()) | {"name": "npf-nu"}
    (other / "results.json").write_text(json.dumps(tree))
    refused_command_of_kind("other-work", "report", run, "--only", "gates", "--out", other)
