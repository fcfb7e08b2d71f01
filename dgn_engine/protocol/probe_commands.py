"""Commands about the probe set: which examples it is made of, and which there are."""

from __future__ import annotations

from dataclasses import dataclass

from dgn_engine.protocol.commands import Command, UndoPolicy


@dataclass(frozen=True)
class ChooseProbeSet(Command):
    """Make the probe set of these examples: a `ProbeChoice` as text, '' for one balanced over all
    classes. Training does not notice."""

    title = "choose the probe set"
    undo = UndoPolicy("probe set", reads=True)

    choice: str = ""


@dataclass(frozen=True)
class ChooseMisclassified(Command):
    """Make it of training examples that the network, as it is now, gets wrong."""

    title = "choose misclassified examples"
    undo = UndoPolicy("probe set", reads=True)


@dataclass(frozen=True)
class ListExamples(Command):
    """List training examples to choose from: so many from place `first` among those of class
    `label` (-1: of all classes)."""

    title = "list examples"

    label: int = -1
    first: int = 0
    count: int = 48
