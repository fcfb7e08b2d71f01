"""Every sentence by which the program refuses something, collected from its sources by family."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from documentation.generated_page import GeneratedPage

PAGE = "reference/refusals.md"
# What carries a sentence to the user: errors, and verdicts on files.
REFUSING = (
    "UserError",
    "ArgumentError",
    "LockHeldError",
    "UnnamedNetwork",
    "UnknownGates",
    "UnreadableFile",
    "UnreadableArchive",
    "UnreadableImage",
    "Forbidden",
    "NotRegular",
)
# Family → (where its sentences are raised, what helps). The first that fits has the sentence.
FAMILIES: dict[str, tuple[tuple[str, ...], str]] = {
    "Settings and options": (
        ("dgn_engine/config", "dgn_engine/cli/_options.py",
         "dgn_engine/storage/config_file.py", "dgn_engine/regimes"),
        "A key, an option or its value is not as it must be. The sentence names it and what is "
        "accepted; [Settings](../settings.md) has every key with its default. "
        "`dgn train … --print-config` shows what would be run.",
    ),
    "Data": (
        ("dgn_engine/data",),
        "The data are not there, are damaged, or do not fit. `--data-root DIR` says where they "
        "lie, `--download` fetches them, `dgn doctor` lists those that are there.",
    ),
    "Networks": (
        ("dgn_engine/importing", "dgn_engine/model"),
        "A network cannot be built or read. `dgn inspect FILE` lists what a file holds; a model "
        "that a file of weights cannot describe is named by its code: "
        "[Bring your own network](../own-network.md). If a file 'does not say' something, specify "
        "it: [What a file does not say](../guide/files.md#what-a-file-does-not-say).",
    ),
    "Checkpoints and other files": (
        ("dgn_engine/storage/checkpoints", "dgn_engine/storage/images", "dgn_engine/confinement",
         "dgn_engine/storage/regular_files.py"),
        "A file is damaged, too large, or holds what is never opened. Nothing in it was run. Save "
        "the weights again as `.safetensors`, or as a plain `state_dict()`.",
    ),
    "Runs and sessions": (
        ("dgn_engine/storage", "dgn_engine/cli/run/change_runs.py"),
        "A run folder is in use, incomplete, of another version or has no room. `dgn runs verify "
        "RUN` says what is wrong, `dgn runs repair RUN` repairs what can be repaired. "
        "See [Runs on disk](../runs.md).",
    ),
    "Training": (
        ("dgn_engine/training", "dgn_engine/session"),
        "Something does not fit the run: a batch the memory, a file the layers, a command the "
        "regime. What was recorded is kept; `dgn train --resume RUN` continues.",
    ),
    "Kernels": (
        ("dgn_engine/kernels", "dgn_engine/cli/kernels.py", "dgn_engine/cli/inspect.py",
         "dgn_engine/cli/_network_options.py", "dgn_engine/cli/run/compute_kernels.py",
         "dgn_engine/cli/run/given_network.py", "dgn_engine/cli/run/inspect_file.py",
         "dgn_engine/cli/run/kernel_inputs.py", "dgn_engine/cli/run/show_inspection.py",
         "dgn_engine/cli/run/user_code.py", "dgn_engine/cli/run/user_model.py"),
        "Inputs, labels and network do not belong together, or the kernel is too large. Fewer "
        "examples, `--seconds`, `--memory` or an estimate (`--kernels estimate`) help.",
    ),
    "Sweeps and clusters": (
        ("dgn_engine/sweep", "dgn_engine/cli/run/run_sweep.py", "dgn_engine/cli/run/execution.py"),
        "The grid names what does not exist, or the workers cannot be had. `dgn sweep FILE --list` "
        "prints the runs and starts nothing. See [Sweeps and clusters](../scale.md).",
    ),
    "Experiments": (
        ("dgn_engine/experiments", "dgn_engine/cli/reproduce.py",
         "dgn_engine/cli/gate_information.py", "dgn_engine/cli/run/measure_gates.py",
         "dgn_engine/cli/run/reproduce_papers.py"),
        "An option does not exist for this experiment, or results of other settings lie in the "
        "folder. `dgn reproduce --list` has the names, `--rows` the rows.",
    ),
    "Figures": (
        ("dgn_engine/figures", "dgn_engine/cli/run/draw_figure.py", "dgn_engine/scene",
         "app/dgn_viewer/shell"),
        "A panel or a step was not recorded, or the size or the name of the file does not do. "
        "`dgn train --record gates,overlap,npk,ntk` records what panels need.",
    ),
    "The programs themselves": (
        ("dgn_engine", "app"),
        "An option contradicts another one, or something is missing on this machine. "
        "`dgn doctor` says whether the program can work here.",
    ),
}  # fmt: skip


def generate(root: Path) -> Iterator[GeneratedPage]:
    sentences: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for path in sorted([*(root / "dgn_engine").rglob("*.py"), *(root / "app").rglob("*.py")]):
        place = path.relative_to(root).as_posix()
        family = _family(place)
        sentences[family] = list(dict.fromkeys([*sentences[family], *_said(path)]))
    yield GeneratedPage(PAGE, "\n".join(_page(sentences)))


def _family(place: str) -> str:
    fits = [
        (len(start), family)
        for family, (starts, _) in FAMILIES.items()
        for start in starts
        if place == start or place.startswith(f"{start}/")
    ]
    return max(fits)[1]


def _page(sentences: dict[str, list[str]]) -> Iterator[str]:
    yield "# When the program says no\n"
    yield (
        "The program refuses what it cannot do with one sentence: what is wrong, where, and what "
        "to do. A command then ends with exit code 2, and nothing was changed; in the window the "
        "sentence is shown in the status bar. Here are all of them, collected "
        "from the sources, by family. … stands for what the sentence names in your case: a file, a "
        "number, the nearest known name.\n"
    )
    for family, (_, advice) in FAMILIES.items():
        found = sorted(sentences[family])
        yield f"\n## {family}\n"
        yield f"{advice}\n"
        yield f'??? note "The sentences ({len(found)})"\n'
        yield from (f"    - {each}" for each in found)


def _said(path: Path) -> Iterator[str]:
    source = path.read_text("utf-8")
    if not any(f"{name}(" in source for name in (*REFUSING, "refused_value")):
        return
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="refused_value"), args=[_, _, way_out, *_]):
                yield _escaped(f"… is …; {_text(way_out)}.")
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in REFUSING:
                text = " ".join(_text(first).split())
                if len(text.strip("… .:(),")) > 12:
                    yield _escaped(f"(a file) {text}" if text[0].islower() else text)


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str() as value):
            return value
        case ast.JoinedStr(values=values):
            parts = [_text(v) if isinstance(v, ast.Constant) else "…" for v in values]
            return "".join(parts).replace("……", "…")
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"{_text(left)}{_text(right)}"
        case ast.Call(func=ast.Name(id="Where" | "Hint"), args=[part]):
            return _text(part)
        case ast.IfExp(body=body):
            return _text(body)
    return "…"


def _escaped(text: str) -> str:
    """The sentence as Markdown shows it letter by letter."""
    for letter in "\\`*_<>[]$":
        text = text.replace(
            letter, f"\\{letter}" if letter not in "<>" else {"<": "&lt;", ">": "&gt;"}[letter]
        )
    return text
