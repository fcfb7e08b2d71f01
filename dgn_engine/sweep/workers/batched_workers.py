"""Train dense networks as batched stacks, one process per stack, and other units one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dgn_engine.sweep.scheduler import Executor
from dgn_engine.sweep.unit import OnUpdate, Stopped, Training, Unit, UnitTask, UnitUpdate
from dgn_engine.sweep.unit_results import state_of
from dgn_engine.sweep.workers.places import Place
from dgn_engine.sweep.workers.processes import Batch, ProcessWorkers, list_places

NO_OTHER = "No other run shares their shape, data and training settings."


@dataclass(frozen=True)
class BatchedExecutor(Executor):
    """An executor that trains stacks of dense networks.

    Attributes:
        limit: maximum number of stacks at a time; 0: one per GPU or core.
        devices: see `ProcessExecutor`.
        gaining: on a CPU, only use stacks that are faster than single runs.
    """

    limit: int = 0
    devices: tuple[str, ...] = ()
    gaining: bool = False

    def workers_in(self, root: Path) -> BatchedWorkers:
        return BatchedWorkers(root, self.limit, self.devices, self.gaining)

    def explain_stacks(self, units: Sequence[Unit]) -> str:
        """Return how many runs are trained in stacks, how many one by one, and why.

        Args:
            units: the units to execute.

        Returns:
            A few sentences; '' without runs.
        """
        from dgn_engine.training.steps.choice import StepCase, choose_way

        places = list_places(units, self.limit, self.devices)
        on_cpu = not any(place.visible for place in places)
        possible = find_stacks(units, Path(), len(places))
        chosen = find_stacks(units, Path(), len(places), gaining=self.gaining and on_cpu)
        stacked = frozenset[str]().union(*chosen)
        size = {name: len(stack) for stack in possible for name in stack}
        counts: Counter[str] = Counter()
        for unit in units:
            if isinstance(unit, Training):
                members = size.get(unit.id, 1) if on_cpu else None
                case = StepCase.from_config(unit.resolve_paths(Path()), members)
                row = choose_way("networks", case)
                why = row.reason_for(case)
                if unit.id in stacked:
                    way = "in stacks" if row.way == "stack" else "in stacks, as requested"
                else:
                    way, why = "one by one", NO_OTHER if row.way == "stack" else why
                counts[f"{way}. {why}"] += 1
        return " ".join(
            f"{count:,} run{'s' * (count > 1)} {words}" for words, count in counts.items()
        )


class BatchedWorkers(ProcessWorkers):
    """Processes that train stacks, whose members start together once all their needs are over."""

    def __init__(
        self, root: Path, limit: int, devices: Sequence[str] = (), gaining: bool = False
    ) -> None:
        super().__init__(root, limit, devices)
        self._gaining = gaining
        self._stack_of: dict[str, frozenset[str]] = {}
        self._over: set[str] = set()
        self._alone: set[str] = set()  # their stack failed, perhaps because of another member
        self._halved: set[str] = set()  # their stack was halved; an update is still to come

    @contextmanager
    def start(self, units: Sequence[Unit], on_update: OnUpdate, stopped: Stopped) -> Iterator[None]:
        def note_update(update: UnitUpdate) -> None:
            if update.state in ("done", "diverged"):
                self._over.add(update.unit)
            if update.state in ("failed", "refused"):
                self._alone.add(update.unit)
            on_update(update)

        with super().start(units, note_update, stopped):
            gaining = self._gaining and not self.on_cards
            stacks = find_stacks(units, self._root, self.place_count, gaining)
            self._stack_of = {name: stack for stack in stacks for name in stack}
            self._over |= {
                unit.id
                for unit in units
                if unit.id in self._stack_of and state_of(unit, self._root) in ("done", "diverged")
            }
            yield

    def _retry_elsewhere(self, update: UnitUpdate, place: Place) -> UnitUpdate:
        """Retry a stack that ran out of memory as two of half its size."""
        stack = self._stack_of.get(update.unit, frozenset())
        if update.state != "failed" or len(stack) < 2:
            return super()._retry_elsewhere(update, place)
        if update.unit not in self._halved:
            left = sorted(stack - self._over - self._alone)
            for half in (left[: len(left) // 2], left[len(left) // 2 :]):
                self._stack_of.update(dict.fromkeys(half, frozenset(half)))
            self._halved.update(left)
        self._halved.discard(update.unit)
        return replace(update, state="crowded")

    def batches(self, ready: Sequence[UnitTask]) -> Iterator[Batch]:
        """Yield complete stacks, and units that belong to none.

        Incomplete stacks come last, and only if no running unit could complete them.
        """
        tasks = {task.unit.id: task for task in ready}
        late: list[Batch] = []
        while tasks:
            name = next(iter(tasks))
            stack = frozenset() if name in self._alone else self._stack_of.get(name, frozenset())
            members = [
                unit_id for unit_id in tasks if unit_id in stack and unit_id not in self._alone
            ] or [name]
            batch = tuple(tasks.pop(unit_id) for unit_id in members)
            waits = stack - self._over - self._alone - set(members)
            if waits:
                late.append(batch)
            else:
                yield batch
        if not self.is_busy:
            yield from late


def find_stacks(
    units: Sequence[Unit], root: Path, places: int, gaining: bool = False
) -> list[frozenset[str]]:
    """Find units that can be trained as a stack.

    The result depends only on the units, so that a resumed sweep has the same stacks.

    Args:
        units: the units of the sweep.
        root: its folder.
        places: number of processes among which to divide the units.
        gaining: only stacks that are faster than single runs on a CPU.

    Returns:
        The ids of each stack, two or more.
    """
    from dgn_engine.training.batched import group_into_packs, reason_not_packed
    from dgn_engine.training.batched.stack_groups import STACK, group_into_stacks

    stacks: list[frozenset[str]] = []
    for wave in dependency_levels(units):
        configs = [unit.resolve_paths(root) for unit in wave]
        for pack in group_into_packs(configs).packs:
            most = max(2, min(STACK, -(-len(pack) // places)))
            for places_in_pack in group_into_stacks([configs[i] for i in pack], most):
                stack = [wave[pack[i]] for i in places_in_pack]
                members = len(stack) if gaining else None
                if len(stack) > 1 and not reason_not_packed(
                    configs[pack[places_in_pack[0]]], members
                ):
                    stacks.append(frozenset(unit.id for unit in stack))
    return stacks


def dependency_levels(units: Sequence[Unit]) -> list[list[Training]]:
    """Group the trainings by the length of the chain of units that must be done before."""
    depth: dict[str, int] = {}
    levels: dict[int, list[Training]] = {}
    for unit in units:
        depth[unit.id] = 1 + max((depth[need] for need in unit.needs), default=-1)
        if isinstance(unit, Training):
            levels.setdefault(depth[unit.id], []).append(unit)
    return [levels[level] for level in sorted(levels)]
