"""Commands that branch a run and compare networks, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dgn_engine.config import RunConfig
from dgn_engine.model.choices import ValueInput
from dgn_engine.protocol.messages import Command, Event
from dgn_engine.protocol.training import Change, LayerInfo, Measured, RunStarted, probe_digest_at
from dgn_engine.protocol.watching import ProbeScalars
from dgn_engine.text.written_numbers import number

Phase = Literal["starting", "training", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class BranchChanges:
    """What differs from the first step of a branch on; what is empty or None stays as it was.

    `seed`: of the order of the batches and of all that is drawn from there on (augmentation, the
    coins of FRG, weights that a regime draws anew). The probe examples stay those of the parent.
    `restart_value`: as in `SwapRegime`.
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
        """'regime FR-II', 'learning rate 0.01', …; nothing where all stays as it was."""
        words = [f"regime {self.regime}"] if self.regime else []
        if self.wiring:
            words.append(f"gate layers {' '.join(str(layer + 1) for layer in self.wiring)}")
        if self.rotation or self.shift:
            turns = " ".join(map(str, (*self.rotation, *self.shift)))
            words.append(f"gates rotated by {turns}")
        if self.value_input is not None:
            words.append(f"value input {self.value_input}")
        if self.learning_rate is not None:
            words.append(f"learning rate {number(self.learning_rate)}")
        if self.beta is not None:
            words.append(f"β {number(self.beta)}")
        if self.seed is not None:
            words.append(f"seed {self.seed}")
        return tuple(words)

    def name_from(self, step: int) -> str:
        """'FR-II from step 300': a branch in a few letters."""
        words = self.regime or next(iter(self.in_words()), "the same")
        return f"{words} from step {step:,}"

    def options(self) -> tuple[str, ...]:
        """The same as options of `dgn train --branch-from`."""
        found: list[str] = []
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
            # With '=', because a list of turns may begin with a minus.
            found += [f"{option}={value}"] if value else []
        if self.regime and not self.restart_value:
            found.append("--keep-value")
        return tuple(found)


@dataclass(frozen=True)
class StartBranch(Command):
    """Train a branch of the run in progress beside it, and compare with it: `BranchStatus` and
    `ComparisonOpened` follow. From this step, as the run came to it; None: from now. At the pace of
    the run, whatever that is set to later, or at `full_speed`.
    """

    title = "branch off"

    changes: BranchChanges
    step: int | None = None
    full_speed: bool = False


@dataclass(frozen=True)
class StopBranch(Command):
    """Stop training the branch; its folder stays, and can be gone on with like any other run."""

    title = "stop the branch"


@dataclass(frozen=True)
class BranchBegan(Event):
    """The run begins as a branch: until this step it is its parent, and from here on it differs.

    Written into the branch's own log, before the events of what is changed.
    """

    step: int
    parent: str  # the name of its folder
    changes: BranchChanges
    remark: str = ""  # why it may differ from its parent's machine in the last bits

    @property
    def sentence(self) -> str:
        words = ", ".join(self.changes.in_words()) or "nothing is changed"
        return f"Branch of {self.parent} from step {self.step:,}: {words}."


@dataclass(frozen=True)
class BranchStatus(Event):
    """How the branch stands that is trained beside the run in progress.

    `sharing`: what it and the run have of the processor, in words. `command`: the line that does
    the same without a window. `remark`: why it has ended, where nobody asked for that.
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
    def trains(self) -> bool:
        return self.phase in ("starting", "training")


@dataclass(frozen=True)
class ListCheckpoints(Command):
    """List from where a branch of the run in progress can begin; `CheckpointsListed` follows."""

    title = "list the checkpoints"


@dataclass(frozen=True)
class CheckpointsListed(Event):
    """Checkpoints of the run in progress, oldest first: steps, and why they were kept ('before
    FR-II', ''). `folder`: where they lie; '' where the run is not recorded. `seconds_a_step`: what
    a step takes without a pace; 0: not known."""

    run: int
    checkpoints: tuple[tuple[int, str], ...]
    folder: str = ""
    seconds_a_step: float = 0.0

    def nearest(self, step: int) -> int | None:
        """The step of the checkpoint from which a branch at `step` begins; None: at the seed."""
        return max((at for at, _ in self.checkpoints if at <= step), default=None)


@dataclass(frozen=True)
class HoldCheckpoint(Command):
    """Keep the checkpoint from which a branch at this step would begin, until another is held, or
    None, or the run is left; `CheckpointsListed` follows."""

    title = "keep a checkpoint"

    step: int | None = None


@dataclass(frozen=True)
class CompareFile(Command):
    """Compare with the network of a listed file, on the same probe examples."""

    title = "compare"

    ticket: int


@dataclass(frozen=True)
class CompareRun(Command):
    """Compare with a recorded run: its scores, and its network as last saved or at this step."""

    title = "compare with {folder}"

    folder: str
    step: int | None = None


@dataclass(frozen=True)
class CompareHeld(Command):
    """Compare with an earlier step of this run, which is not recorded: whoever sends this holds
    what was read then."""

    title = "compare with step {step}"

    step: int


@dataclass(frozen=True)
class ComparisonOpened(Event):
    """A network, or a recorded run, is compared with the current run; it is not trained.

    Its readings come with the frames, as `compared`; `scores` are what its run recorded, up to
    `at_step` where one was asked for."""

    name: str  # 'resnet18.pth', 'run 2026-11-20 digits'
    about: str  # what it is, in words: 'ReLU · 4 gate layers · 21,450 weights · step 1,200'
    regime: str
    layers: tuple[LayerInfo, ...]
    wiring: tuple[int, ...] = ()
    step: int = 0  # that its weights belong to, where that is known
    scores: tuple[Measured, ...] = ()
    remark: str = ""  # what cannot be compared, in one sentence
    config: RunConfig | None = None  # of a recorded run, as it was then
    folder: str = ""  # of the run that it belongs to; '' for a file, and for a run not recorded
    at_step: int | None = None  # that was asked for: nothing later counts; None: as it is now
    number: int = 0  # of the comparison in its session, from 1; frames say it


@dataclass(frozen=True)
class ComparedMoved(Event):
    """The network that is compared with trains elsewhere: its weights are those of `step` now, and
    these are the scores and the scalars of its readings that are new."""

    step: int
    samples: tuple[Measured | ProbeScalars, ...] = ()
    regime: str = ""
    wiring: tuple[int, ...] = ()
    config: RunConfig | None = None  # where it is another one now


@dataclass(frozen=True)
class ComparedFrames(Event):
    """The frames of the run that is compared with lie in this folder, on this machine; whoever
    shows one of its steps reads it there, as with `FramesRecorded`; '' where who has asked holds
    them (`CompareHeld`). It follows `ComparisonOpened`.

    `changes`: of what was in force in it, in order. `step`: that is to be shown; None: its
    network, which the engine reads on the examples of now.
    """

    name: str
    folder: str
    started: RunStarted
    changes: tuple[Change, ...] = ()
    step: int | None = None

    def probe_digest_at(self, step: int) -> str:
        """Of the probe set that was read then; '' where it changed at just this step."""
        return probe_digest_at(self.started, self.changes, step)


@dataclass(frozen=True)
class CloseComparison(Command):
    """Show the run alone again."""

    title = "close the comparison"


@dataclass(frozen=True)
class ComparisonClosed(Event):
    """There is no comparison any more; `reason` where the user did not ask for that."""

    reason: str = ""
