"""Entry point of dgn-viewer: parses arguments, checks the display, then loads Qt and the window."""

from __future__ import annotations

import argparse
import builtins
import dataclasses
import gc
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dgn_engine import __version__
from dgn_engine.config import RunConfig
from dgn_engine.confinement.start_folder import distrust_start_folder
from dgn_engine.errors import UserError
from dgn_engine.storage.config_file import read_config
from dgn_engine.storage.program_log import program_log
from dgn_engine.storage.remote import SCHEME
from dgn_engine.storage.runs.folder_layout import find_run, runs_root
from dgn_engine.storage.user_folders import use_portable_folders
from dgn_engine.text.printable import print_error
from dgn_viewer import playground, system_libraries
from dgn_viewer.interruption import delay_interrupts

REFUSED = 2
INTERRUPTED = 130
STUCK = 5  # seconds after which an engine that does not stop is abandoned


def _parse_size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{3,5})x(\d{3,5})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it as 1440x900")
    return int(match[1]), int(match[2])


def _parse_step_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of steps")
    return int(text)


def _parse_seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a seed; use a non-negative integer")
    return int(text)


def build_parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="dgn-viewer",
        description="Train deep gated networks live and see what their gates know.",
    )
    result.add_argument(
        "run",
        nargs="?",
        default="",
        metavar="RUN",
        help="recorded run to show: a folder, the name of one of your runs, a session (.dgn), or "
        "dgn://127.0.0.1:PORT, served by 'dgn serve' on another machine; or a link to a playground "
        "(dgn-play:…)",
    )
    result.add_argument(
        "--token-file",
        type=Path,
        metavar="F",
        help="file with the token for dgn://…; default: DGN_TOKEN, otherwise the window asks",
    )
    result.add_argument(
        "--config", type=Path, metavar="RUN.toml", help="start a run with these settings"
    )
    result.add_argument("--data-root", default="", metavar="DIR", help="folder of the data sets")
    result.add_argument(
        "--process", action="store_true", help="run the engine in a separate process"
    )
    result.add_argument("--no-record", action="store_true", help="do not record runs")
    result.add_argument(
        "--portable",
        action="store_true",
        help="keep runs, settings and all other files next to the program",
    )
    result.add_argument("--seed", type=_parse_seed, help="override the seed of the configuration")
    result.add_argument("--theme", choices=("light", "dark", "system"), default="")
    result.add_argument(
        "--size", type=_parse_size, metavar="WxH", help="window size (default: 1440x900)"
    )
    result.add_argument(
        "--offscreen", action="store_true", help="run without a display and take a screenshot"
    )
    result.add_argument(
        "--steps",
        type=_parse_step_count,
        metavar="N",
        help="with --offscreen: number of training steps",
    )
    result.add_argument(
        "--screenshot", type=Path, metavar="F.png", help="with --offscreen: write F.png and F.json"
    )
    result.add_argument("--version", action="version", version=f"dgn-viewer {__version__}")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the viewer and return its exit code.

    Returns:
        0 if the window was closed, 128 + n after signal n, 2 if the viewer cannot run (the reason
        is
        printed to stderr).
    """
    if arguments is None:  # run as a program, not called from Python
        distrust_start_folder(restart=True)
    argv = sys.argv[1:] if arguments is None else arguments
    given = build_parser().parse_args(argv)
    if given.portable:
        use_portable_folders()
    with program_log("dgn-viewer", argv) as log:
        code = _run_viewer(given, log)
        log.info("dgn-viewer exits with code %d.", code)
    return code


def _run_viewer(given: argparse.Namespace, log: logging.Logger) -> int:
    try:
        check_arguments(given)
        return _open_viewer(given)
    except UserError as refusal:
        log.info("refused: %s", refusal)
        print_error(f"dgn-viewer: {refusal}")
        return REFUSED
    except KeyboardInterrupt:  # before there was a window to close
        return INTERRUPTED


def check_arguments(given: argparse.Namespace) -> None:
    """Check that the arguments are consistent and that a run and a display exist.

    Raises:
        UserError: They are not.
    """
    if given.offscreen:
        if given.steps is None or given.screenshot is None:
            message = "--offscreen needs --steps N and --screenshot F.png."
            raise UserError(message, kind="missing")
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    elif given.steps is not None or given.screenshot is not None:
        raise UserError("--steps and --screenshot need --offscreen.", kind="contradiction")
    if given.run and (given.offscreen or given.config is not None or given.seed is not None):
        message = "RUN shows a recorded run; remove --config, --seed and --offscreen."
        raise UserError(message, kind="contradiction", value=given.run)
    if given.run.startswith(playground.SCHEME):
        _linked_run(given.run)
    elif given.run.startswith(SCHEME):
        from dgn_engine.storage.remote.served_address import address_of

        address_of(given.run)
    elif given.token_file is not None:
        message = "--token-file needs an address, dgn://127.0.0.1:PORT."
        raise UserError(message, kind="contradiction", value=given.token_file)
    elif given.run and not find_run(given.run).exists():
        message = f"There is no run {given.run}; give a folder or the name of one of your runs."
        raise UserError(message, kind="no-file", value=given.run)
    reason = system_libraries.reason_no_window(os.environ)
    if reason:
        raise UserError(reason, kind="no-display")


def _linked_run(link: str) -> RunConfig:
    from dgn_engine.data import data_sets

    plane = [name for name, entry in data_sets().items() if entry.plane]
    return playground.parse_link(link, plane).run_config()


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Import modules without collecting garbage, which takes a tenth of the time and finds none."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # nor are they looked at later
        gc.enable()


def load_qt() -> None:
    """Import PySide6, and take its hook out of `import` again.

    For the sake of `from __feature__ import …`, which we do not use, the hook looks for 'PySide6'
    in the source of each module imported later, torch's included, and `linecache` keeps all lines.
    """
    import PySide6.QtCore  # noqa: F401

    builtins.__import__ = getattr(builtins, "__orig_import__", builtins.__import__)


def _open_viewer(given: argparse.Namespace) -> int:
    with delay_interrupts() as asked, without_garbage_collection():
        load_qt()
        from dgn_viewer.application import Options, build_viewer, run_to_end
        from dgn_viewer.screenshot import ScreenshotOptions, take_screenshot
        from dgn_viewer.shell.start_ways import first_run
    if asked:
        return INTERRUPTED
    config = read_config(given.config) if given.config else first_run()
    if given.seed is not None:
        config = dataclasses.replace(config, seed=given.seed)
    options = Options(config, given.data_root, given.theme, given.size, process=given.process)
    if given.offscreen:
        return take_screenshot(options, ScreenshotOptions(given.steps, given.screenshot))
    if not given.no_record:
        options = dataclasses.replace(options, runs_root=str(runs_root()))
    if given.run.startswith(playground.SCHEME):
        options = dataclasses.replace(options, config=_linked_run(given.run), start="playground")
    elif given.run.startswith(SCHEME):
        from dgn_engine.storage.remote.served_address import given_token

        token = given_token(given.token_file)
        options = dataclasses.replace(options, served=(given.run, token))
    elif given.run:
        shown = str(find_run(given.run).absolute())
        options = dataclasses.replace(options, shown=shown)
    elif given.config is None and given.seed is None:
        options = dataclasses.replace(options, start="", tour=True)
    return run_to_end(build_viewer(options), STUCK)


if __name__ == "__main__":
    sys.exit(main())
