"""The uses of a file in words, for the drop zones and for the page of the file."""

from __future__ import annotations

from dgn_engine.frozen_data import dataclass
from dgn_engine.protocol.files import FileListed, FileUseCheck, Purpose


@dataclass(frozen=True)
class FileUse:
    """One use: its title, where the file goes, what happens, and its button."""

    purpose: Purpose
    title: str
    where: str
    about: str
    button: str
    icon: str


USES = (
    FileUse(
        "gates",
        "Copy its gates",
        "into the feature network (FL)",
        "Switches to FL: the gates come from the file and stay fixed while the value network "
        "learns with them.",
        "Copy gates (FL)",
        "lock",
    ),
    FileUse(
        "weights",
        "Copy its weights",
        "into the value network",
        "Training continues from the file's weights; the gates stay the same.",
        "Copy weights",
        "layers",
    ),
    FileUse(
        "compare",
        "Compare",
        "with the current run",
        "Opens as B: gates, overlap and spectra of both on the same examples. The run keeps going.",
        "Compare",
        "panels",
    ),
    FileUse(
        "network",
        "Open on its own",
        "(ends the current run)",
        "Every panel shows the file's network. Nothing is trained, and the current run ends.",
        "Open on its own",
        "search",
    ),
)


def check_file_use(listed: FileListed, purpose: Purpose) -> FileUseCheck:
    """Return whether the file can be used this way, and the layers it would go to."""
    if purpose == "gates":
        return FileUseCheck(listed.fits, listed.verdict, listed.matches, listed.with_biases)
    if purpose == "weights":
        return listed.weights
    return listed.network


def first_use(listed: FileListed) -> Purpose:
    """Return what it was opened for, else the first possible use, else 'network'."""
    if listed.purpose:
        return listed.purpose
    possible = (use.purpose for use in USES if check_file_use(listed, use.purpose).fits)
    return next(possible, "network")
