"""`dgn mirror`: a run that `dgn serve` serves, in a folder here, for as long as it is written."""

from __future__ import annotations

import argparse
import getpass
import time
from pathlib import Path

from dgn_engine.cli import Subcommand
from dgn_engine.errors import UserError
from dgn_engine.text.printable import complain, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="dgn://127.0.0.1:PORT", help="as 'dgn serve' prints it")
    parser.add_argument(
        "folder", type=Path, metavar="FOLDER", help="new, or an earlier mirror of the same run"
    )
    parser.add_argument(
        "--token-file", type=Path, metavar="F", help="the token; else DGN_TOKEN, else it is asked"
    )


def run(arguments: argparse.Namespace) -> int:
    """Mirror until the run has ended; the token is asked for where it is not given."""
    from dgn_engine.storage.remote.run_mirror import RunMirror, follow
    from dgn_engine.storage.remote.served_address import address_of, given_token

    port, folder = address_of(arguments.address), arguments.folder
    token = given_token(arguments.token_file) or getpass.getpass("Token: ")
    mirror = RunMirror(port, token.strip(), folder)

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return True

    try:
        say(f"Mirroring into {folder}; dgn-viewer {folder} follows it. Ctrl-C stops.")
        follow(mirror, lambda words, lost: complain(words), wait)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None
    finally:
        mirror.close()
    say(f"The run is not written any more; all of it is in {folder}.")
    return 0


COMMAND = Subcommand("Mirror a run that 'dgn serve' serves into a folder.", add_arguments, run)
