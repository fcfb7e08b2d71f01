"""The `dgn` command line: one module per command, each with a constant COMMAND.

Other packages add commands through entry points. Only the requested command is imported, so
`dgn runs list` does not wait for the rest. A command's module declares and checks its options; the
code that runs it lives in `cli/run` and is imported by name once the options are valid, so that
its imports can stay at the top of its file without slowing down `dgn --help`.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from dgn_engine import __version__
from dgn_engine.cli._option_checks import BoundedNumber, name_data_option
from dgn_engine.confinement.start_folder import distrust_start_folder
from dgn_engine.errors import LoadingWarning, UserError, did_you_mean
from dgn_engine.plugins import import_plugin, plugin_names
from dgn_engine.storage.program_log import record_fault
from dgn_engine.text.printable import is_utf8, print_error, printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OFFERED = "dgn.commands"  # entry-point group for commands of other packages
DAMAGED, REFUSED, FAILED, UNSAVED, INTERRUPTED = 1, 2, 3, 4, 130  # exit codes


def ended_by_signal(code: int) -> bool:
    """Return whether signal n stopped a command (exit code 128 + n), so that it can be resumed."""
    return 128 < code <= 128 + 64


@dataclass(frozen=True)
class Subcommand:
    """A command of `dgn`.

    Attributes:
        about: its help text, one sentence.
        add_arguments: declares its options.
        run: runs the command and returns the exit code, or returns the name 'module:function' of
            a function to import and call instead. It may also be such a name itself.
    """

    about: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | str] | str

    def carry_out(self, arguments: argparse.Namespace) -> int:
        """Run the command and return its exit code.

        Raises:
            UserError: the options are invalid or the command cannot be run.
        """
        done = self.run if isinstance(self.run, str) else self.run(arguments)
        while isinstance(done, str):
            done = resolve_name(done)(arguments)
        return done


def full_speed() -> float:
    """Return 0, the pace of a command without a speed limit."""
    return 0.0


def main(argv: Sequence[str] | None = None, pace: Callable[[], float] = full_speed) -> int:
    """Run a command and return its exit code; errors are printed to stderr.

    Args:
        argv: command-line arguments; `sys.argv[1:]` by default.
        pace: returns the maximum number of steps per second, 0 for no limit. It is called before
            each step, but only by commands whose arguments have a default for `pace`.
    """
    if argv is None:  # run as the program, not called from other code
        distrust_start_folder(restart=True)
    typed = sys.argv[1:] if argv is None else argv
    program = " ".join(("dgn", *typed[:1]))
    try:
        return carry_out(typed, pace)
    except UserError as refusal:
        print_error(f"{program}: {refusal}")
        for line in refusal.details:
            print_error(line)
        return REFUSED
    except KeyboardInterrupt:
        print_error(f"{program}: interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # e.g. `dgn … | head`
        sys.stderr.close()
        return 1
    except Exception:  # a bug: log the traceback, and print it
        record_fault(program)
        raise


def carry_out(words: Sequence[str], pace: Callable[[], float] = full_speed) -> int:
    """Run a command like `main`, but let `UserError` propagate."""
    commands = _select_commands(words)
    parser = _build_parser(commands)
    arguments = parser.parse_command_line(words)
    if "pace" in arguments:
        arguments.pace = pace
    parser.check_bounds(arguments)
    out = getattr(arguments, "out", None)
    if out is not None and not is_utf8(str(Path(out).absolute())):
        raise UserError(
            f"Cannot write {out}: its name is not valid UTF-8; choose another.", kind="no-text"
        )
    with _warnings_on_stderr(arguments.command):
        try:
            return commands[arguments.command].carry_out(arguments)
        except UserError as refusal:
            refusal.rename_places(partial(name_data_option, arguments))
            raise


@contextmanager
def _warnings_on_stderr(command: str) -> Iterator[None]:
    """Print loading warnings to stderr, each once, prefixed with the command."""
    printed: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", LoadingWarning)
        show_others = warnings.showwarning

        def show_warning(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, LoadingWarning):
                show_others(message, category, filename, lineno, file, line)
            elif str(message) not in printed:
                printed.add(str(message))
                print_error(f"dgn {command}: warning: {message}.")

        warnings.showwarning = show_warning
        yield


def _load_offered_command(entry: EntryPoint) -> Subcommand:
    """Load a command of another package.

    If it cannot be imported, return a stand-in that reports the reason when it is run.
    """
    try:
        command = entry.load()
    except ImportError as error:
        reason = f"a required package is not installed ({error})"
    else:
        if isinstance(command, Subcommand):
            return command
        reason = f"{entry.value} is not a command"

    def refuse_command(_: argparse.Namespace) -> int:
        raise UserError(f"{reason}.", kind="not-available", value=entry.value)

    return Subcommand(f"Not available: {reason}.", lambda _: None, refuse_command)


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors in one sentence, without the usage text."""

    def parse_command_line(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """Parse `argv`; for an unknown option, exit with a suggestion of the closest one."""
        arguments, unknown = self.parse_known_args(argv)
        if unknown:
            *_, chosen = self._selected_parsers(arguments)
            word = unknown[0].partition("=")[0]
            kind = "option" if word.startswith("-") else "argument"
            nearest = did_you_mean(word, chosen._option_string_actions)
            chosen.error(f"Unknown {kind} {word}.{nearest}")
        return arguments

    def check_bounds(self, arguments: argparse.Namespace) -> None:
        for parser in self._selected_parsers(arguments):
            for action in parser._actions:
                if isinstance(action, BoundedNumber):
                    action.check_within_bounds(arguments)

    def _selected_parsers(self, arguments: argparse.Namespace) -> Iterator[argparse.ArgumentParser]:
        """Yield this parser, then those of the selected command and of its verb, if any."""
        parser: argparse.ArgumentParser | None = self
        while parser is not None:
            yield parser
            below = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
            action = next(below, None)
            parser = action.choices[getattr(arguments, action.dest)] if action else None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action,
                f"{value!r} is not one of {', '.join(choices)}.{did_you_mean(str(value), choices)}",
            )

    def error(self, message: str) -> NoReturn:
        hint = f" (see {self.prog} --help)" if "required" in message else ""
        self.exit(REFUSED, f"{self.prog}: {printable(message)}{hint}\n")


def _select_commands(typed: Sequence[str]) -> dict[str, Subcommand]:
    """Load only the command that is called, or all commands if none is recognised."""
    first = typed[0] if typed else ""
    own = _own_commands()
    if first in own:
        return {first: own[first]()}
    offered = _offered_commands()
    if first in offered:
        return {first: offered[first]()}
    return {name: load() for name, load in {**own, **offered, **own}.items()}


def _own_commands() -> dict[str, Callable[[], Subcommand]]:
    """Return a loader for each of the engine's commands, by command name."""
    return {
        module.replace("_", "-"): partial(import_plugin, __name__, module, "COMMAND", Subcommand)
        for module in plugin_names(__name__)
    }


def _offered_commands() -> dict[str, Callable[[], Subcommand]]:
    """Return a loader for each command of another package; slow, as it scans all packages."""
    from importlib.metadata import entry_points

    return {
        entry.name: partial(_load_offered_command, entry) for entry in entry_points(group=OFFERED)
    }


def _build_parser(commands: Mapping[str, Subcommand]) -> _Parser:
    parser = _Parser(
        prog="dgn", description="Train deep gated networks and measure what their gates know."
    )
    parser.add_argument("--version", action="version", version=f"dgn {__version__}")
    chosen = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in commands.items():
        command.add_arguments(
            chosen.add_parser(name, help=command.about, description=command.about)
        )
    return parser
