"""What can be done with a file, in words: on the zones of a drop and on the page of the file."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.protocol.files import FileListed, FileUseCheck, Purpose


@dataclass(frozen=True)
class FileUse:
    """One use: what it is called, where the file goes, what will happen, and its button."""

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
        "The regime becomes FL: the gates are those of the file and stand still, the value "
        "network learns with them.",
        "Copy gates (FL)",
        "lock",
    ),
    FileUse(
        "weights",
        "Copy its weights",
        "into the value network",
        "Training goes on from the weights of the file; the gates stay as they are.",
        "Copy weights",
        "layers",
    ),
    FileUse(
        "compare",
        "Compare",
        "beside the current run",
        "Opened as B: gates, overlap and spectra of both on the same examples. The run goes on.",
        "Compare",
        "panels",
    ),
    FileUse(
        "network",
        "Open as a network",
        "in the place of the run",
        "Every panel shows the network of the file as it is. Nothing is trained; the current "
        "run ends.",
        "Open as a network",
        "search",
    ),
)


def offer_of(listed: FileListed, purpose: Purpose) -> FileUseCheck:
    """Whether the file can be used so, and the layers that it would go to."""
    if purpose == "gates":
        return FileUseCheck(listed.fits, listed.verdict, listed.matches, listed.with_biases)
    if purpose == "weights":
        return listed.weights
    return listed.network


def first_use(listed: FileListed) -> Purpose:
    """What it was opened for, else the first use that is possible, else one with other data."""
    if listed.purpose:
        return listed.purpose
    possible = (use.purpose for use in USES if offer_of(listed, use.purpose).fits)
    return next(possible, "network")
