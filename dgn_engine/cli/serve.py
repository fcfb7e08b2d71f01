"""`dgn serve`: a run of this machine for a window on another one, through `ssh -L`."""

from __future__ import annotations

import argparse
import sys

from dgn_engine.cli import Subcommand
from dgn_engine.storage.runs.folder_layout import find_run
from dgn_engine.text.printable import complain, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or the name of one of yours")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="else one that is free")


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from dgn_engine.storage.remote.run_server import RunServer

    def report(count: int) -> None:
        connections = "connection" if count == 1 else "connections"
        complain(f"Refused so far: {count:,} {connections} without the token.")

    with RunServer(find_run(arguments.run), arguments.port, report) as server:
        port = server.port
        say(f"Serving {server.folder.name}, read only, on 127.0.0.1:{port}. On the other machine:")
        say(f"  ssh -L {port}:127.0.0.1:{port} THIS_MACHINE")
        say(f"  dgn-viewer dgn://127.0.0.1:{port}")
        say(f"Token, which it asks for: {server.token}")
        sys.stdout.flush()  # also into a file: nothing else is said until the end
        server.serve_forever()
    return 0


COMMAND = Subcommand(
    "Serve a run, read only, for a window on another machine (through ssh -L).", add_arguments, run
)
