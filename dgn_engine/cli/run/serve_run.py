"""Serve a run read-only on the loopback interface."""

from __future__ import annotations

import argparse
import sys

from dgn_engine.storage.remote.run_server import RunServer
from dgn_engine.storage.runs.folder_layout import find_run
from dgn_engine.text.printable import print_error, print_line


def serve_run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""

    def report_refusals(count: int) -> None:
        connections = "connection" if count == 1 else "connections"
        print_error(f"Refused {count:,} {connections} without the token so far.")

    with RunServer(find_run(arguments.run), arguments.port, report_refusals) as server:
        port = server.port
        print_line(
            f"Serving {server.folder.name} read-only on 127.0.0.1:{port}. On the other machine:"
        )
        print_line(f"  ssh -L {port}:127.0.0.1:{port} THIS_MACHINE")
        print_line(f"  dgn-viewer dgn://127.0.0.1:{port}")
        print_line(f"Token (it will ask for it): {server.token}")
        sys.stdout.flush()  # nothing else is printed until the end
        server.serve_forever()
    return 0
