"""dgn-viewer: reads its arguments, checks the display, then imports Qt and opens the window."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import re
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from dgn_engine import __version__
from dgn_engine.config import RunConfig
from dgn_engine.confinement.start_folder import distrust_start_folder
from dgn_engine.errors import UserError
from dgn_engine.storage.config_file import read_config
from dgn_engine.storage.program_log import program_log
from dgn_engine.storage.remote import SCHEME
from dgn_engine.storage.runs.folder_layout import find_run, runs_root
from dgn_engine.storage.user_folders import carry_everything
from dgn_engine.text.printable import complain
from dgn_viewer import system_libraries
from dgn_viewer.interruption import held_back

REFUSED = 2
INTERRUPTED = 130
STUCK = 5  # seconds after which an engine that does not end is left behind


def _size(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{3,5})x(\d{3,5})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write it as 1440x900")
    return int(found[1]), int(found[2])


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of steps, 1 or more")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed; it is a whole number, 0 or more")
    return int(text)


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="dgn-viewer", description="Train deep gated networks live and see what gates know."
    )
    result.add_argument(
        "run",
        nargs="?",
        default="",
        metavar="RUN",
        help="show this recorded run: a folder, the name of one of yours, a session (.dgn), or "
        "dgn://127.0.0.1:PORT, which 'dgn serve' serves on another machine",
    )
    result.add_argument(
        "--token-file",
        type=Path,
        metavar="F",
        help="the token of dgn://…; else DGN_TOKEN, else the window asks",
    )
    result.add_argument("--config", type=Path, metavar="RUN.toml", help="begin with this run")
    result.add_argument("--data-root", default="", metavar="DIR", help="where data sets lie")
    result.add_argument(
        "--process", action="store_true", help="run the engine in a process of its own"
    )
    result.add_argument("--no-record", action="store_true", help="write no folder for the runs")
    result.add_argument(
        "--portable",
        action="store_true",
        help="keep runs, settings and all else beside the program",
    )
    result.add_argument("--seed", type=_seed, help="instead of the configuration's")
    result.add_argument("--theme", choices=("light", "dark", "system"), default="")
    result.add_argument("--size", type=_size, metavar="WxH", help="of the window, 1440x900")
    result.add_argument(
        "--offscreen", action="store_true", help="run without a display and take a picture"
    )
    result.add_argument("--steps", type=_count, metavar="N", help="with --offscreen: stop here")
    result.add_argument(
        "--screenshot", type=Path, metavar="F.png", help="with --offscreen: F.png and F.json"
    )
    result.add_argument("--version", action="version", version=f"dgn-viewer {__version__}")
    return result


def first_run() -> RunConfig:
    """The run at start when nothing else is asked for."""
    preset = files("dgn_resources") / "presets" / "first_minute.toml"
    return RunConfig.from_toml(preset.read_text(encoding="utf-8"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the viewer; 0 when it was closed, 128 + n when the signal n closed it, 2 with one
    sentence on stderr when it cannot run."""
    if arguments is None:  # this process is the program, and nobody else's
        distrust_start_folder(restart=True)
    words = sys.argv[1:] if arguments is None else arguments
    given = parser().parse_args(words)
    if given.portable:
        carry_everything()
    with program_log("dgn-viewer", words) as log:
        code = _run(given, log)
        log.info("dgn-viewer ends with code %d.", code)
    return code


def _run(given: argparse.Namespace, log: logging.Logger) -> int:
    try:
        check_arguments(given)
        return _open(given)
    except UserError as refusal:
        log.info("refused: %s", refusal)
        complain(f"dgn-viewer: {refusal}")
        return REFUSED
    except KeyboardInterrupt:  # before the window was there to be closed by it
        return INTERRUPTED


def check_arguments(given: argparse.Namespace) -> None:
    """Raise `UserError` where they do not go together, or name no run."""
    if given.offscreen:
        if given.steps is None or given.screenshot is None:
            words = "--offscreen needs --steps N and --screenshot F.png."
            raise UserError(words, kind="missing")
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    elif given.steps is not None or given.screenshot is not None:
        raise UserError("--steps and --screenshot go with --offscreen.", kind="contradiction")
    if given.run and (given.offscreen or given.config is not None or given.seed is not None):
        words = "RUN shows a recorded run; leave out --config, --seed and --offscreen."
        raise UserError(words, kind="contradiction", value=given.run)
    if given.run.startswith(SCHEME):
        from dgn_engine.storage.remote.served_address import address_of

        address_of(given.run)
    elif given.token_file is not None:
        words = "--token-file goes with dgn://127.0.0.1:PORT."
        raise UserError(words, kind="contradiction", value=given.token_file)
    elif given.run and not find_run(given.run).exists():
        words = f"There is no run {given.run}: neither a folder nor one of your runs."
        raise UserError(words, kind="no-file", value=given.run)
    trouble = system_libraries.trouble(os.environ)
    if trouble:
        raise UserError(trouble, kind="no-display")


def _open(given: argparse.Namespace) -> int:
    config = read_config(given.config) if given.config else first_run()
    if given.seed is not None:
        config = dataclasses.replace(config, seed=given.seed)
    with held_back() as asked:
        from dgn_viewer.application import Options, build, run_to_end
        from dgn_viewer.screenshot import ScreenshotOptions, take
    if asked:
        return INTERRUPTED
    options = Options(config, given.data_root, given.theme, given.size, process=given.process)
    if given.offscreen:
        return take(options, ScreenshotOptions(given.steps, given.screenshot))
    if not given.no_record:
        options = dataclasses.replace(options, runs_root=str(runs_root()))
    if given.run.startswith(SCHEME):
        from dgn_engine.storage.remote.served_address import given_token

        token = given_token(given.token_file)
        options = dataclasses.replace(options, served=(given.run, token))
    elif given.run:
        shown = str(find_run(given.run).absolute())
        options = dataclasses.replace(options, shown=shown)
    elif given.config is None and given.seed is None:
        options = dataclasses.replace(options, start="", tour=True)
    return run_to_end(build(options), STUCK)


if __name__ == "__main__":
    sys.exit(main())
