"""What holds for every command of `dgn`; and `dgn docs`, `dgn doctor`, which compute nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from importlib.metadata import EntryPoint, version
from pathlib import Path
from pkgutil import resolve_name

import pytest

from dgn_engine import cli
from dgn_engine.cli import Subcommand, docs, main, runs
from dgn_engine.cli.run.examine_health import HealthFinding, check_health, report_findings
from dgn_engine.cli.run.list_experiments import print_wrapped_table
from dgn_engine.config import RunConfig
from dgn_engine.plugins import discover_plugins
from dgn_engine.storage.runs.run_folder import RunFolder
from dgn_engine.text import documents
from tests.engine.cli.typed import one_line_error, printed_json, refused_command_of_kind
from tests.hostile_names import HOSTILE, hidden_characters
from tests.plugins import each
from tests.refusals import refused_command

COMMANDS = {
    name.replace("_", "-"): command
    for name, command in discover_plugins("dgn_engine.cli", "COMMAND", Subcommand).items()
}
REFUSED = {  # one refusal of each command, as it is typed
    "train": "train --momentum -1",
    "sweep": "sweep gone.toml",
    "reproduce": "reproduce nothing",
    "gate-information": "gate-information",
    "inspect": "inspect gone.pt",
    "kernels": "kernels gone.pt --inputs gone.npy",
    "report": "report gone.pt --data digits",
    "runs": "runs show gone",
    "figure": "figure gone --panel training",
    "serve": "serve gone",
    "mirror": "mirror nowhere copy",
    "docs": "docs gone",
    "doctor": "doctor --nothing",
}


@pytest.mark.parametrize("name", each(COMMANDS))
def test_a_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([name, "--help"])
    assert left.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(f"usage: dgn {name}")
    assert " ".join(COMMANDS[name].about.split()) in said


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_one_line_on_stderr_that_begins_with_the_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert one_line_error(capsys, *REFUSED[name].split()).startswith(f"dgn {name}: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.discovery
def test_dgn_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in said] == []


@pytest.mark.parametrize("typed", ["", "runs", "figure"])
def test_what_is_missing_is_refused_with_the_way_to_the_help(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = one_line_error(capsys, *typed.split())
    assert said.rstrip().endswith(f"(see {' '.join(('dgn', *typed.split()))} --help)")


@pytest.mark.discovery
def test_what_carries_out_a_command_is_there() -> None:
    parser = ArgumentParser()
    runs.add_arguments(parser)
    (verbs,) = (action for action in parser._actions if action.dest == "verb")
    named = [command.run for command in COMMANDS.values() if isinstance(command.run, str)]
    named += [runs.run(Namespace(verb=verb)) for verb in verbs.choices or ()]
    assert len(named) > 10
    assert all(callable(resolve_name(name)) for name in named)


def test_a_command_hands_over_to_what_it_names() -> None:
    def first(arguments: Namespace) -> str:
        arguments.steps = ["first"]
        return f"{__name__}:second"

    arguments = Namespace()
    assert Subcommand("", lambda _: None, first).carry_out(arguments) == 7
    assert arguments.steps == ["first", "second"]


def second(arguments: Namespace) -> int:
    arguments.steps.append("second")
    return 7


# Commands of other packages.


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is installed there are only these."""
    offers = [
        EntryPoint("paint", "dgn_engine.cli.docs:COMMAND", cli.OFFERED),
        EntryPoint("gone", "no_such_package:COMMAND", cli.OFFERED),
        EntryPoint("wrong", "dgn_engine.cli.figure:FORMATS", cli.OFFERED),
        EntryPoint("figure", "no_such_package:COMMAND", cli.OFFERED),
        EntryPoint("stop", f"{__name__}:STOPPED", cli.OFFERED),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: offers)


def test_a_command_of_another_package_is_found_by_its_entry_point(
    offered: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["paint", "--list"]) == 0
    assert "how-to/figure" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert COMMANDS["docs"].about.split(",")[0] in " ".join(said.split("paint", 1)[1].split())


def test_a_command_that_cannot_be_imported_says_so_and_hides_none_of_ours(offered: None) -> None:
    assert "No module named" in str(refused_command_of_kind("not-available", "gone"))
    assert (
        refused_command_of_kind("not-available", "wrong").value == "dgn_engine.cli.figure:FORMATS"
    )
    with pytest.raises(SystemExit) as left:  # ours: of the parser, which wants a panel
        main(["figure", "run"])
    assert left.value.code == 2


def test_without_matplotlib_a_figure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "dgn_engine.cli.run.draw_figure", raising=False)
    monkeypatch.setitem(sys.modules, "dgn_engine.figures.save_figure", None)
    refusal = refused_command_of_kind("not-available", "figure", "run", "--panel", "training")
    assert refusal.value == "dgn_engine.figures.save_figure"


def interrupt(_arguments: Namespace) -> int:
    raise KeyboardInterrupt


STOPPED = Subcommand("It is stopped.", lambda _: None, interrupt)


def test_ctrl_c_where_nobody_waits_for_it_is_one_line_and_130(
    offered: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stop"]) == 130
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("dgn stop: ")


def test_who_reads_no_further_gets_no_traceback() -> None:
    """`dgn docs guide | head -1`."""
    command = [sys.executable, "-m", "dgn_engine.cli", "docs", "guide"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 1


# What they import.

COMPUTING = {"torch", "torchvision", "sklearn", "scipy", "matplotlib", "numba"}
DRAWING = {"PySide6", "pyqtgraph"}
_CHILD = """
import contextlib, io, json, sys
from dgn_engine.cli import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            code = main(words)
        except SystemExit as left:
            code = left.code
    print(json.dumps([code, sorted(sys.modules)]))
"""


@pytest.mark.discovery
def test_a_command_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """All in one process, those that need least first."""
    run = tmp_path / "runs" / "one"
    few = ["--width", "4", "--depth", "3", "--epochs", "1", "--train-limit", "40"]
    assert main(["train", *few, "--quiet", "--out", str(run)]) == 0
    helps = [[name, "--help"] for name in COMMANDS]
    commands = [
        *(["runs", "list", str(run.parent)], ["runs", "show", str(run)]),
        *(["--version"], ["--help"], *helps, ["runs", "verify", str(run)]),
        *(["reproduce", "--list"], ["train", "--print-config"], ["doctor"]),
        ["figure", str(run), "--panel", "training", "--out", str(tmp_path / "a.csv")],
    ]
    child = [sys.executable, "-c", _CHILD, json.dumps(commands)]
    done = subprocess.run(child, capture_output=True, text=True, check=True)
    loaded = {}
    for words, line in zip(commands, done.stdout.splitlines(), strict=True):
        code, modules = json.loads(line)
        assert code == 0 or words == ["doctor"], words
        loaded[" ".join(words[:2])] = set(modules)
    ours = {f"dgn_engine.cli.{name.replace('-', '_')}" for name in COMMANDS}
    assert loaded["runs list"] & ours == {"dgn_engine.cli.runs"}
    assert "importlib.metadata" not in loaded["runs list"]  # it lists every installed package
    before: set[str] = set()
    for words, modules in loaded.items():
        more = modules - before
        before |= modules
        if not words.startswith("figure"):
            assert more.isdisjoint({*COMPUTING, *DRAWING}), words
        if words.endswith(("list", "show", "--help")):
            assert more.isdisjoint({"numpy", "safetensors"}), words
        if words.endswith("--help"):
            assert [name for name in more if name.startswith(("rich", "dgn_engine.cli.run."))] == []
    assert before.isdisjoint(DRAWING)


# dgn docs


def test_a_topic_is_printed_as_it_is_where_no_terminal_reads_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["docs", "how-to/figure"]) == 0
    text = (documents.documents_folder() / "how-to" / "figure.md").read_text("utf-8")
    assert capsys.readouterr().out.rstrip() == text.rstrip()
    assert main(["docs", "settings.md"]) == 0
    assert capsys.readouterr().out.startswith("# Settings")


def test_an_unknown_topic_is_refused_with_the_nearest() -> None:
    refusal = refused_command_of_kind("unknown-name", "docs", "setings")
    assert refusal.value == "setings"
    assert str(refusal).endswith("'settings'?")
    assert refused_command("docs", "../pyproject").value == "../pyproject"


def test_topics_have_titles_and_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "User guide" in listed
    assert "start/first-ten-minutes" in listed
    assert main(["docs", "--where"]) == 0
    assert Path(capsys.readouterr().out.strip()).exists()


def test_the_site_is_opened_where_it_was_built_and_a_browser_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, opened = tmp_path / "index.html", []
    asked = Namespace(topic=None, list=False, where=False)
    assert docs.run(asked, lambda: page, lambda address: not opened.append(address)) == 0  # type: ignore[func-returns-value]
    assert opened == [page.as_uri()]
    assert capsys.readouterr().out.strip() == str(page)
    for site, taken in ((page, False), (None, True)):
        assert docs.run(asked, lambda site=site: site, lambda _, taken=taken: taken) == 0
        assert capsys.readouterr().out.startswith("# User guide")


# dgn doctor

SUBJECTS = ("versions", "device", "confinement", "folders", "data sets")


def found(subject: str, **given: object) -> dict[str, HealthFinding]:
    findings = check_health(**given)  # type: ignore[arg-type]
    return {one.name: one for one in findings if one.subject == subject}


def test_a_screen_and_its_json_name_versions_device_confinement_folders_and_data(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 60
    for subject in SUBJECTS:
        assert any(line[2:].startswith(subject) for line in lines)
    assert lines[-1].startswith("no faults (✗), ")
    tree = printed_json(capsys, "doctor", "--json")
    assert tree["works"] is True
    assert set(SUBJECTS) <= {one["subject"] for one in tree["findings"]}
    assert {"subject", "name", "state", "about"} == set(tree["findings"][0])
    assert len(tree["findings"]) == len(lines) - 1


def test_versions_are_those_that_are_installed_and_what_is_missing_is_a_fault(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert found("versions")["torch"].about == version("torch")
    findings = check_health(packages=("no-such-package",))
    assert report_findings(findings) == 1
    said = capsys.readouterr().out
    assert "✗              no-such-package " in said
    assert "1 fault (✗)" in said
    assert report_findings(findings, as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["works"] is False


def test_a_folder_that_others_can_write_is_a_warning_and_one_of_nobody_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs_of_user = tmp_path / "runs"
    runs_of_user.mkdir(mode=0o700)
    (tmp_path / "file").touch()

    def of_runs(folder: Path) -> HealthFinding:
        monkeypatch.setenv("DGN_RUNS_ROOT", str(folder))
        return found("folders", packages=())["runs"]

    assert of_runs(runs_of_user).state == "ok"
    runs_of_user.chmod(0o777)
    here, below = of_runs(runs_of_user), of_runs(runs_of_user / "later")
    assert (here.state, below.state) == ("note", "note")
    assert "everyone" in here.about
    assert str(runs_of_user) in below.about.partition(": ")[2]
    assert of_runs(tmp_path / "file").state == "fault"
    monkeypatch.setattr("os.access", lambda *_: False)
    assert found("folders")["cache"].state == "fault"


def test_a_hostile_folder_is_named_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DGN_RUNS_ROOT", str(tmp_path / HOSTILE))
    report_findings(check_health(packages=()))
    assert hidden_characters(capsys.readouterr().out) == {"\n"}


def no_display(_environment: object) -> str:
    return "There is no display."


def test_what_a_window_lacks_is_a_warning() -> None:
    checks = [EntryPoint("display", f"{__name__}:no_display", "dgn.checks")]
    checks.append(EntryPoint("gone", "no_such_package:check", "dgn.checks"))
    checks.append(EntryPoint("stale", f"{__name__}:no_such_check", "dgn.checks"))
    display, gone, stale = found("window", checks=checks).values()
    assert (display.state, display.about) == ("note", no_display({}))
    assert (gone.state, "no_such_package" in gone.about) == ("note", True)
    assert (stale.state, "pip install" in stale.about) == ("note", True)


# What they print.


def test_columns_stand_side_by_side_and_the_last_is_folded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = " ".join(["word"] * 40)
    rows = [("a", "10", "short"), ("bcdefg", "1", long), ("x\x1b", "", "")]
    print_wrapped_table(("name", "n", "what"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["name    n   what", "a       10  short"]
    assert lines[2].startswith("bcdefg  1   word word")
    assert lines[3].startswith(" " * 12 + "word")
    assert max(map(len, lines)) <= 160
    assert lines[4] == "x\\x1b"


def test_gate_layers_are_counted_as_in_the_window(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.create(tmp_path / "run", RunConfig())
    folder.write_note("Rewired", {"step": 3, "order": [2, 1, 0], "rotation": [], "shift": []})
    folder.close()
    assert main(["runs", "show", str(folder.path)]) == 0
    assert "G3 G2 G1 at step 3" in capsys.readouterr().out
