"""Commands that branch a run or compare networks, and their events."""

from __future__ import annotations

from typing import Literal

from dgn_engine.config import RunConfig
from dgn_engine.frozen_data import dataclass
from dgn_engine.model.choices import ValueInput
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.training import Change, LayerInfo, Measured, RunStarted, probe_digest_at
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.text.written_numbers import format_number

Phase = Literal["starting", "training", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class BranchChanges:
    """The changes at the first step of a branch; empty values and None keep the parent's.

    `seed` is for the order of the batches and for everything drawn from there on (augmentation, the
    gates of FRG, weights that a regime redraws). The probe examples stay those of the parent.
    `restart_value` is as in `SwapRegime`.
    """

    regime: str = ""
    restart_value: bool = True
    wiring: tuple[int, ...] = ()
    rotation: tuple[int, ...] = ()
    shift: tuple[int, ...] = ()
    value_input: ValueInput | None = None
    learning_rate: float | None = None
    beta: float | None = None
    seed: int | None = None

    def in_words(self) -> tuple[str, ...]:
        """Return 'regime FR-II', 'learning rate 0.01', …; empty if nothing changes."""
        words = [f"regime {self.regime}"] if self.regime else []
        if self.wiring:
            words.append(f"gate layers {' '.join(str(layer + 1) for layer in self.wiring)}")
        if self.rotation or self.shift:
            turns = " ".join(map(str, (*self.rotation, *self.shift)))
            words.append(f"gates rotated by {turns}")
        if self.value_input is not None:
            words.append(f"value input {self.value_input}")
        if self.learning_rate is not None:
            words.append(f"learning rate {format_number(self.learning_rate)}")
        if self.beta is not None:
            words.append(f"β {format_number(self.beta)}")
        if self.seed is not None:
            words.append(f"seed {self.seed}")
        return tuple(words)

    def name_from(self, step: int) -> str:
        """Return a short name of a branch: 'FR-II from step 300'."""
        words = self.regime or next(iter(self.in_words()), "unchanged")
        return f"{words} from step {step:,}"

    def command_options(self) -> tuple[str, ...]:
        """Return the equivalent options of `dgn train --branch-from`."""
        arguments: list[str] = []
        for option, value in (
            ("--regime", self.regime),
            ("--wiring", ",".join(map(str, self.wiring))),
            ("--rotation", ",".join(map(str, self.rotation))),
            ("--shift", ",".join(map(str, self.shift))),
            ("--value-input", self.value_input or ""),
            ("--lr", "" if self.learning_rate is None else repr(self.learning_rate)),
            ("--beta", "" if self.beta is None else repr(self.beta)),
            ("--seed", "" if self.seed is None else str(self.seed)),
        ):
            # With '=', because a list of rotations may start with a minus.
            arguments += [f"{option}={value}"] if value else []
        if self.regime and not self.restart_value:
            arguments.append("--keep-value")
        return tuple(arguments)


@dataclass(frozen=True)
class StartBranch(Command):
    """Train a branch of the current run alongside it, and compare the two.

    `BranchStatus` and `ComparisonOpened` follow. The branch starts from the run as it was at
    `step`, or as it is now (None). It trains at the run's pace, which may change later, or at
    `full_speed`.
    """

    title = "branch off"

    changes: BranchChanges
    step: int | None = None
    full_speed: bool = False


@dataclass(frozen=True)
class StopBranch(Command):
    """Stop training the branch; its folder is kept and can be resumed like any other run."""

    title = "stop the branch"


@dataclass(frozen=True)
class BranchBegan(Event):
    """The run is a branch: until this step it equals its parent, and from here on it differs.

    Written to the branch's own log, before the events of its changes.
    """

    step: int
    parent: str  # the name of its folder
    changes: BranchChanges
    remark: str = ""  # why its last bits may differ, as on another machine than its parent's

    @property
    def sentence(self) -> str:
        words = ", ".join(self.changes.in_words()) or "no changes"
        return f"Branch of {self.parent} from step {self.step:,}: {words}."


@dataclass(frozen=True)
class BranchStatus(Event):
    """The state of the branch that trains alongside the current run.

    `sharing` describes how it shares the processor with the run. `command` is the command line that
    does the same without a window. `remark` says why it ended, if the user did not ask for that.
    """

    phase: Phase
    name: str
    folder: str
    parent: str
    from_step: int
    changes: BranchChanges
    step: int = 0
    sharing: str = ""
    command: str = ""
    remark: str = ""

    @property
    def is_training(self) -> bool:
        return self.phase in ("starting", "training")


@dataclass(frozen=True)
class ListCheckpoints(Command):
    """List the steps at which a branch of the current run can start; `CheckpointsListed`
    follows."""

    title = "list the checkpoints"


@dataclass(frozen=True)
class CheckpointsListed(Event):
    """The checkpoints of the current run, oldest first: step, and why it was kept ('before FR-II',
    '').

    `folder` is the run folder, '' if the run is not recorded. `seconds_a_step` is the time of a
    step without a pace, 0 if unknown.
    """

    run: int
    checkpoints: tuple[tuple[int, str], ...]
    folder: str = ""
    seconds_a_step: float = 0.0

    def nearest_step(self, step: int) -> int | None:
        """Return the step of the checkpoint from which a branch at `step` starts; None for the
        seed."""
        return max((at for at, _ in self.checkpoints if at <= step), default=None)


@dataclass(frozen=True)
class HoldCheckpoint(Command):
    """Keep the checkpoint from which a branch at this step would start; `CheckpointsListed`
    follows.

    It is kept until another one (or None) is requested, or the run ends.
    """

    title = "keep a checkpoint"

    step: int | None = None


@dataclass(frozen=True)
class CompareFile(Command):
    """Compare with the network of an opened file, on the same probe examples."""

    title = "compare"

    ticket: int


@dataclass(frozen=True)
class CompareRun(Command):
    """Compare with a recorded run: its scores, and its network as last saved or at `step`."""

    title = "compare with {folder}"

    folder: str
    step: int | None = None


@dataclass(frozen=True)
class CompareHeld(Command):
    """Compare with an earlier step of this unrecorded run; the sender has that step's frame."""

    title = "compare with step {step}"

    step: int


@dataclass(frozen=True)
class ComparisonOpened(Event):
    """A network or a recorded run is being compared with the current run; it is not trained.

    Its readings arrive in frames, as `compared`. `scores` are those that its run recorded, up to
    `at_step` if that is given.
    """

    name: str  # 'resnet18.pth', 'run 2026-11-20 digits'
    about: str  # a description: 'ReLU · 4 gate layers · 21,450 weights · step 1,200'
    regime: str
    layers: tuple[LayerInfo, ...]
    wiring: tuple[int, ...] = ()
    step: int = 0  # of its weights, if known
    scores: tuple[Measured, ...] = ()
    remark: str = ""  # what cannot be compared, one sentence
    config: RunConfig | None = None  # of a recorded run, at that step
    folder: str = ""  # of its run; '' for a file or an unrecorded run
    at_step: int | None = None  # the requested step: nothing later is used; None: as it is now
    number: int = 0  # of the comparison in its session, from 1; frames refer to it

    @property
    def subject(self) -> tuple[str, str, int | None]:
        """Identifies what the run is compared with; the same after it was reopened."""
        return self.folder, self.name, self.at_step


@dataclass(frozen=True)
class ComparedMoved(Event):
    """The compared network trains elsewhere and is now at `step`; `samples` are its new scores and
    scalars."""

    step: int
    samples: tuple[Measured | ProbeScalars, ...] = ()
    regime: str = ""
    wiring: tuple[int, ...] = ()
    config: RunConfig | None = None  # if it has changed


@dataclass(frozen=True)
class ComparedFrames(Event):
    """The frames of the compared run are in this folder, on this machine; it follows
    `ComparisonOpened`.

    Whoever shows a step reads its frame there, as with `FramesRecorded`. The folder is '' if the
    sender of `CompareHeld` has the frames. `changes` are the run's changes, in order. `step` is the
    step to show; None shows its network, which the engine reads on the current examples.
    """

    name: str
    folder: str
    started: RunStarted
    changes: tuple[Change, ...] = ()
    step: int | None = None

    def probe_digest_at(self, step: int) -> str:
        """Return the digest of the probe set at a step; '' if it changed at just that step."""
        return probe_digest_at(self.started, self.changes, step)


@dataclass(frozen=True)
class CloseComparison(Command):
    """Show only the run again."""

    title = "close the comparison"


@dataclass(frozen=True)
class ComparisonClosed(Event):
    """The comparison has ended; `reason` says why, if the user did not ask for that."""

    reason: str = ""
