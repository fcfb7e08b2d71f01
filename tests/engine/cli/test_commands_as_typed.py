"""Every command of `dgn` as a stranger types it: with its defaults, in a process of its own.

Other tests give options that make a command quicker (`--executor serial`, `--epochs 1`,
`--seeds 1`, `--quiet`, `--out`). Here none is given: the data and the networks are small instead.
The quicker options must then give the same numbers.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dgn_engine.cli import _own_commands, main
from dgn_engine.cli.gate_information import EPOCHS, PATIENCE, SEEDS
from dgn_engine.config import RunConfig
from dgn_engine.experiments.report import document
from dgn_engine.experiments.report.document import Document
from dgn_engine.storage.config_file import read_config
from dgn_engine.storage.runs.manifest import find_damage
from dgn_engine.storage.runs.run_reader import RunReader
from tests.architecture.examples import examples
from tests.daily import nightly
from tests.engine.cli.saved_nets import pooled, saved
from tests.engine.cli.stranger import Stranger, save_numbered

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="terminals and homes of POSIX"),
]
FEW = ("--train-limit", "60", "--test-limit", "30")
FEWER = ("--train-limit", "32", "--test-limit", "30")  # one batch: ten networks may train long
QUICKLY = ("--executor", "serial", "--quiet")  # as other tests do it, in their own process
# A network in a stack rounds otherwise than alone: the bound of test_train_stack.py.
STACKED = 3e-3


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    """One for all tests: what matplotlib keeps in a home takes seconds to make."""
    return Stranger(tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def run(stranger: Stranger) -> Path:
    """The run of `dgn train`."""
    done = stranger.types("train")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    (folder,) = stranger.home.rglob("runs/*-DL-fc-digits")
    assert f"Recorded in {folder}." in done.stderr
    return folder


def a_file(stranger: Stranger) -> tuple[str | Path, ...]:
    """A state dict of dense layers of unequal widths, by their numbers, and what it leaves open."""
    return (save_numbered(stranger.folder / "numbered.pt"), "--activation", "relu")


def a_module(stranger: Stranger) -> tuple[str | Path, ...]:
    """A file of a whole module with convolutions, BatchNorm and pooling."""
    torch.manual_seed(0)
    return (saved(stranger.folder / "module.pt", pooled()),)


def a_run(stranger: Stranger) -> tuple[str | Path, ...]:
    """The folder of a run of ours, with what probes saw."""
    relu = stranger.folder / "relu"
    if not relu.exists():
        few = [*FEW, "--regime", "ReLU", "--width", "12", "--depth", "3", "--out", str(relu)]
        assert main(["train", *few, "--record", "gates,overlap,npk,ntk", "--quiet"]) == 0
    return ("relu",)


def weights_of_a_run(stranger: Stranger) -> tuple[str | Path, ...]:
    """So narrow a network that its value networks are trained as a stack."""
    return (stranger.folder.joinpath(*a_run(stranger), "weights.safetensors"),)


MINE = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, 8), nn.Linear(8, 8), nn.Linear(8, 10)

    def forward(self, x):
        x = self.a(x.flatten(1)).relu()
        return self.c(x + self.b(x).relu())
"""


def own_code(stranger: Stranger) -> tuple[str | Path, ...]:
    """A residual network of a class of the user's."""
    (stranger.folder / "mine.py").write_text(MINE, "utf-8")
    return ("--model", "mine:Net")


def test_train_takes_all_of_its_defaults(run: Path) -> None:
    reader = RunReader(run)
    usual = RunConfig()
    assert (reader.status, reader.outcome) == ("finished", "finished")
    assert reader.config.training == usual.training
    assert reader.config.net == usual.net
    assert reader.log.summary.step == usual.training.epochs * 45
    scores = [one.test_accuracy for one in reader.measured_events if one.test_accuracy is not None]
    assert max(scores) > 0.9
    assert find_damage(run) == []


def test_a_terminal_shows_a_bar_and_then_the_result_alone(stranger: Stranger) -> None:
    code, shown = stranger.types_on_a_terminal("train", *FEW)
    assert code == 0, shown
    assert "steps/s" in shown
    assert "40 steps, best test accuracy" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    "given",
    [
        a_file,  # its value networks are trained in processes
        *nightly(weights_of_a_run, a_run),
        # Half a minute for both: test_given_networks.py has these roads on smaller networks.
        *(pytest.param(one, marks=pytest.mark.faults) for one in (a_module, own_code)),
    ],
)
def test_gate_information_with_all_defaults(
    given: Callable[[Stranger], tuple[str | Path, ...]], stranger: Stranger, tmp_path: Path
) -> None:
    network = given(stranger)
    before = set(stranger.results())
    done = stranger.types("gate-information", *network, *FEWER)
    assert done.returncode == 0, done.stderr
    (folder,) = set(stranger.results()) - before
    made = document.read_document(folder)
    assert (made.state, len(made.units)) == ("done", 2 * SEEDS + 1)
    assert done.stdout.startswith(made.answer[0][:40])
    assert "11/11" in done.stderr, "each run is a line of the progress"
    training = read_config(folder / "config.toml").training
    assert (training.epochs, training.patience) == (EPOCHS, PATIENCE)
    if given not in (a_file, weights_of_a_run):
        return
    out = str(tmp_path / "out")
    assert main(["gate-information", *map(str, network), *FEWER, *QUICKLY, "--out", out]) == 0
    one, two, stacked = scores(made), scores(document.read_document(Path(out))), given is not a_file
    assert one.keys() == two.keys()
    for name, values in one.items():
        assert values == (pytest.approx(two[name], abs=STACKED) if stacked else two[name]), name


def scores(made: Document) -> dict[str, tuple[float, ...]]:
    return {row.label: row.values for row in made.rows}


SWEEP = """
[base]
[base.data]
train_limit = 60
test_limit = 30
[[list]]
net.name = "file:FILE"
net.options.activation = "relu"
[[list]]
net.options.width = 8
[grid]
seed = [0, 1]
"""


@pytest.mark.nightly
def test_a_sweep_of_files_and_of_networks_by_name_with_all_defaults(stranger: Stranger) -> None:
    """Those of a file are trained in processes, the narrow ones in a stack."""
    path = stranger.folder / "sweep.toml"
    path.write_text(SWEEP.replace("FILE", str(a_file(stranger)[0])), "utf-8")
    done = stranger.types("sweep", path)
    assert done.returncode == 0, done.stderr
    assert "4/4" in done.stderr
    found = trained(stranger.result_of("sweep-sweep"))
    assert len(found) == 4
    out = stranger.folder / "sweep-serial"
    assert main(["sweep", str(path), *QUICKLY, "--out", str(out)]) == 0
    other = trained(out)
    assert found.keys() == other.keys()
    for name, one in found.items():
        in_stack = name.startswith("width=8")
        assert one == (pytest.approx(other[name], abs=STACKED) if in_stack else other[name]), name


def trained(folder: Path) -> dict[str, tuple[float, float]]:
    tree = json.loads((folder / "results.json").read_text("utf-8"))
    assert {run["state"] for run in tree["runs"]} == {"done"}
    return {run["id"]: (run["best"], run["last"]) for run in tree["runs"]}


@pytest.mark.nightly
def test_an_experiment_of_the_papers_with_all_defaults(stranger: Stranger) -> None:
    """Runs and calculations, to the report with its figures."""
    done = stranger.types("reproduce", "npf-nu")
    assert done.returncode == 0, done.stderr
    folder = stranger.result_of("npf-nu-quick")
    made = document.read_document(folder)
    assert (made.state, made.scale) == ("done", "quick")
    assert f"{len(made.units)}/{len(made.units)}" in done.stderr
    for name in ("report.html", "report.md", "results.json"):
        assert (folder / name).stat().st_size > 1000
    assert [*(folder / "figures").glob("*.svg")]
    out = stranger.folder / "npf-nu-serial"
    assert main(["reproduce", "npf-nu", *QUICKLY, "--out", str(out)]) == 0
    one, two = scores(made), scores(document.read_document(out))
    assert one.keys() == two.keys()
    for name, values in one.items():
        assert values == pytest.approx(two[name], rel=1e-3), name
    listed = stranger.types("reproduce", "--list")
    (line,) = [line for line in listed.stdout.splitlines() if line.startswith("npf-nu ")]
    assert "done" in line


def test_inspect_lists_a_network_and_shows_it_on_data(
    stranger: Stranger, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", *map(str, a_file(stranger))]) == 0
    assert capsys.readouterr().out.startswith("numbered.pt")
    shown = stranger.types("inspect", run.name, "--data", "digits")
    assert shown.returncode == 0, shown.stderr
    assert re.search(r"\b50 .* of digits\b", shown.stdout)
    assert "Test accuracy" in shown.stdout


@pytest.mark.nightly
def test_a_report_of_a_run_with_all_defaults(stranger: Stranger, run: Path) -> None:
    before = set(stranger.results())
    done = stranger.types("report", run.name)
    assert done.returncode == 0, done.stderr
    made = set(stranger.results()) - before  # also the gate information that it measured
    (folder,) = [folder for folder in made if folder.name.startswith("report-")]
    assert document.read_document(folder).state == "done"
    for name in ("report.html", "report.pdf", "figures/spectrum.svg"):
        assert (folder / name).stat().st_size > 1000


def test_kernels_of_a_run(stranger: Stranger, run: Path) -> None:
    done = stranger.types("kernels", run.name, "--examples", "probe")
    assert done.returncode == 0, done.stderr
    assert all(f"│ {name} " in done.stdout for name in ("npk", "ntk_feature"))


def test_each_verb_of_runs(
    stranger: Stranger,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first and the last in a process of their own."""
    monkeypatch.setenv("DGN_RUNS_ROOT", str(run.parent))
    monkeypatch.chdir(tmp_path)

    def verb(*words: str | Path) -> str:
        capsys.readouterr()
        assert main(["runs", *map(str, words)]) == 0
        return capsys.readouterr().out

    assert run.name in stranger.types("runs", "list").stdout
    assert "step 900 of 900" in verb("show", run.name)
    for check in ("verify", "repair"):
        assert "intact" in verb(check, run.name)
    assert "kept" in verb("keep", run.name)
    verb("export", run.name, "run.dgn")
    verb("export", run.name, "run.csv")
    assert Path("run.csv").read_text("utf-8").count("\n") > 100
    imported = Path(verb("import", "run.dgn").strip())
    assert find_damage(imported) == []
    assert RunReader(imported).measured_events == RunReader(run).measured_events
    assert imported != Path(verb("import", "run.dgn").strip())  # a second one beside it
    assert "all runs" in verb("limits")
    assert "nothing to thin out" in verb("thin")
    refusal = stranger.types("runs", "delete", imported.name)
    assert (refusal.returncode, "--yes" in refusal.stderr) == (2, True)
    assert imported.exists()
    assert stranger.types("runs", "delete", imported.name, "--yes").returncode == 0
    assert not imported.exists()


def test_a_run_is_served_and_mirrored_and_the_token_is_asked_for(
    stranger: Stranger, run: Path
) -> None:
    with stranger.starts("serve", run.name) as server:
        assert server.stdout is not None
        lines = [server.stdout.readline() for _ in range(4)]
        (address,) = [word for word in " ".join(lines).split() if word.startswith("dgn://")]
        token = lines[-1].split()[-1]
        code, shown = stranger.types_on_a_terminal(
            "mirror", address, "mirrored", asked="Token: ", answer=token
        )
    assert code == 0, shown
    assert token not in shown
    mirrored = stranger.folder / "mirrored"
    assert (mirrored / "log.jsonl").read_bytes() == (run / "log.jsonl").read_bytes()
    assert RunReader(mirrored).status == "finished"


def test_figure_draws_a_panel_of_a_run_into_the_current_folder(stranger: Stranger) -> None:
    (recorded,) = a_run(stranger)
    done = stranger.types("figure", recorded, "--panel", "overlap")
    assert done.returncode == 0, done.stderr
    assert (stranger.folder / "overlap-step40.pdf").read_bytes().startswith(b"%PDF")


def test_doctor_finds_no_fault_and_docs_opens_the_site_or_prints_the_guide(
    stranger: Stranger,
) -> None:
    done = stranger.types("doctor", "--devices")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("no faults")
    opened = stranger.types("docs")
    assert opened.returncode == 0, opened.stderr
    assert opened.stdout.strip()


def test_every_command_is_typed_here() -> None:
    """What is added later has its defaults tried too; the examples of docs/adding.md are apart."""
    tree = ast.parse(Path(__file__).read_text("utf-8"))
    typed = {
        call.args[0].value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("types", "starts", "types_on_a_terminal")
        and isinstance(call.args[0], ast.Constant)
    }
    assert set(_own_commands()) - {one.name for one in examples()} == typed
