"""`dgn`, the engine without a window: one command a file, each with the constant COMMAND.

Packages above the engine, which it does not know, add theirs as entry points. Of all commands only
the one that is asked for is imported: `dgn runs list` waits for no other. A command's own file
declares its options and refuses what is wrong with them; what carries it out lies in `cli/run`, is
named by its module and is imported then, here, so that its imports stand at its top and yet
`dgn --help` waits for none of them.
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
from dgn_engine.cli._option_checks import BoundedNumber
from dgn_engine.confinement.start_folder import distrust_start_folder
from dgn_engine.errors import LoadingWarning, UserError, did_you_mean
from dgn_engine.plugins import plugin, plugin_names
from dgn_engine.storage.program_log import record_fault
from dgn_engine.text.printable import complain, is_utf8, printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OFFERED = "dgn.commands"  # the entry points by which other packages add commands
DAMAGED, REFUSED, FAILED, UNSAVED, INTERRUPTED = 1, 2, 3, 4, 130  # exit codes


def ended_by_signal(code: int) -> bool:
    """Whether this is the exit code 128 + n of a command that a signal stopped: it can go on."""
    return 128 < code <= 128 + 64


@dataclass(frozen=True)
class Subcommand:
    """A command of `dgn`.

    Attributes:
        about: what it does, one sentence of its help.
        add_arguments: declares its options.
        run: carries it out and returns the exit code; or returns the name 'module:function' of
            what does, whose module is only then imported. It may also be such a name itself.
    """

    about: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | str] | str

    def carry_out(self, arguments: argparse.Namespace) -> int:
        """Return the exit code; raises `UserError` for what is refused."""
        done = self.run if isinstance(self.run, str) else self.run(arguments)
        while isinstance(done, str):
            done = resolve_name(done)(arguments)
        return done


def full_speed() -> float:
    """Return the pace of a command that nobody slows down."""
    return 0.0


def main(argv: Sequence[str] | None = None, pace: Callable[[], float] = full_speed) -> int:
    """Carry out a command and return its exit code; what is refused is said on stderr.

    Args:
        argv: the words of the command, by default those of the command line.
        pace: steps a second at most, 0 for no limit, of a command that follows a pace: one whose
            arguments have a default for `pace`. It is asked before each step.
    """
    if argv is None:  # this process is the program, and nobody else's
        distrust_start_folder(restart=True)
    words = sys.argv[1:] if argv is None else argv
    program = " ".join(("dgn", *words[:1]))
    try:
        return carry_out(words, pace)
    except UserError as refusal:
        complain(f"{program}: {refusal}")
        for line in refusal.details:
            complain(line)
        return REFUSED
    except KeyboardInterrupt:
        complain(f"{program}: interrupted.")
        return INTERRUPTED
    except BrokenPipeError:  # of `dgn … | head`
        sys.stderr.close()
        return 1
    except Exception:  # a fault of ours: its traceback is printed, and kept
        record_fault(program)
        raise


def carry_out(words: Sequence[str], pace: Callable[[], float] = full_speed) -> int:
    """Carry out a command as `main` does, but raise `UserError` for what is refused."""
    commands = _asked_for(words)
    parser = _parser(commands)
    arguments = parser.parsed(words)
    if "pace" in arguments:
        arguments.pace = pace
    parser.check_bounds(arguments)
    out = getattr(arguments, "out", None)
    if out is not None and not is_utf8(str(Path(out).absolute())):
        raise UserError(
            f"Cannot write {out}: its name is not UTF-8; choose another one.", kind="no-text"
        )
    with _warnings_on_stderr(arguments.command):
        return commands[arguments.command].carry_out(arguments)


@contextmanager
def _warnings_on_stderr(command: str) -> Iterator[None]:
    """Print what Python would do to load the files that a command reads, each once."""
    said: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", LoadingWarning)
        show_others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if not issubclass(category, LoadingWarning):
                show_others(message, category, filename, lineno, file, line)
            elif str(message) not in said:
                said.add(str(message))
                complain(f"dgn {command}: warning: {message}.")

        warnings.showwarning = show
        yield


def _offered(entry: EntryPoint) -> Subcommand:
    """A command of another package; where it cannot be imported, one that says so when it is asked
    for."""
    try:
        command = entry.load()
    except ImportError as error:
        reason = f"it needs what is not installed ({error})"
    else:
        if isinstance(command, Subcommand):
            return command
        reason = f"{entry.value} is no command"

    def refuse(_: argparse.Namespace) -> int:
        raise UserError(f"{reason}.", kind="not-available", value=entry.value)

    return Subcommand(f"Not here: {reason}.", lambda _: None, refuse)


class _Parser(argparse.ArgumentParser):
    """Says what it cannot parse in one sentence, without the usage above it."""

    def parsed(self, argv: Sequence[str] | None) -> argparse.Namespace:
        """Parse; an option that the chosen command has not is refused with the nearest it has."""
        arguments, unknown = self.parse_known_args(argv)
        if unknown:
            *_, chosen = self._chosen(arguments)
            word = unknown[0].partition("=")[0]
            what = "option" if word.startswith("-") else "argument"
            nearest = did_you_mean(word, chosen._option_string_actions)
            chosen.error(f"There is no {what} {word} here.{nearest}")
        return arguments

    def check_bounds(self, arguments: argparse.Namespace) -> None:
        for parser in self._chosen(arguments):
            for action in parser._actions:
                if isinstance(action, BoundedNumber):
                    action.check(arguments)

    def _chosen(self, arguments: argparse.Namespace) -> Iterator[argparse.ArgumentParser]:
        """Yield this parser, that of the command, and that of the command's verb, if it has one."""
        parser: argparse.ArgumentParser | None = self
        while parser is not None:
            yield parser
            below = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
            action = next(below, None)
            parser = action.choices[getattr(arguments, action.dest)] if action else None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action,
                f"{value!r} is none of {', '.join(known)}.{did_you_mean(str(value), known)}",
            )

    def error(self, message: str) -> NoReturn:
        self.exit(REFUSED, f"{self.prog}: {printable(message)}\n")


def _asked_for(words: Sequence[str]) -> dict[str, Subcommand]:
    """The command that the words begin with, alone; where they begin with none, all of them."""
    named = words[0] if words else ""
    own = _own_commands()
    if named in own:
        return {named: own[named]()}
    offered = _offered_commands()
    if named in offered:
        return {named: offered[named]()}
    return {name: load() for name, load in {**own, **offered, **own}.items()}


def _own_commands() -> dict[str, Callable[[], Subcommand]]:
    """What imports each command of the engine, by the name under which it is called."""
    return {
        module.replace("_", "-"): partial(plugin, __name__, module, "COMMAND", Subcommand)
        for module in plugin_names(__name__)
    }


def _offered_commands() -> dict[str, Callable[[], Subcommand]]:
    """What imports each command of another package; to find them, every installed package is
    looked at."""
    from importlib.metadata import entry_points

    return {entry.name: partial(_offered, entry) for entry in entry_points(group=OFFERED)}


def _parser(commands: Mapping[str, Subcommand]) -> _Parser:
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
