"""Dense networks trained side by side as stacks, a process for each stack; the rest one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dgn_engine.sweep.attempt import UnitTask
from dgn_engine.sweep.executor import Told, UnitProgress
from dgn_engine.sweep.scheduler import carry_out
from dgn_engine.sweep.unit import Training, Unit
from dgn_engine.sweep.unit_update import UnitUpdate
from dgn_engine.sweep.workers.processes import Batch, ProcessWorkers


@dataclass(frozen=True)
class BatchedExecutor:
    """`workers`: at most so many stacks at a time; 0: one for each GPU, or for each core."""

    workers: int = 0

    def run(
        self,
        units: Sequence[Unit],
        root: Path,
        told: Callable[[UnitProgress], None],
        stop: Callable[[], bool],
    ) -> dict[str, Told]:
        """Carry the units out in `root`; see `Executor`."""
        crew = BatchedWorkers(root.absolute(), self.workers)
        return carry_out(crew, units, root, told, stop)


class BatchedWorkers(ProcessWorkers):
    """Hands out stacks: members of one are begun together, when all that it waits for is over."""

    def __init__(self, root: Path, workers: int) -> None:
        super().__init__(root, workers)
        self._stack_of: dict[str, frozenset[str]] = {}
        self._over: set[str] = set()
        self._alone: set[str] = set()  # whose stack failed: perhaps another's fault

    @contextmanager
    def gather(
        self, units: Sequence[Unit], tell: Callable[[UnitUpdate], None], stop: Callable[[], bool]
    ) -> Iterator[None]:
        """See `Crew`."""

        def hear(news: UnitUpdate) -> None:
            if news.word in ("done", "diverged"):
                self._over.add(news.unit)
            if news.word in ("failed", "refused"):
                self._alone.add(news.unit)
            tell(news)

        with super().gather(units, hear, stop):
            stacks = find_stacks(units, self._root, self.places)
            self._stack_of = {name: stack for stack in stacks for name in stack}
            yield

    def batches(self, ready: Sequence[UnitTask]) -> Iterator[Batch]:
        """Stacks that are complete, and units that are in none; what waits for others comes last,
        and only where nothing else is under way that could complete it.
        """
        tasks = {task.unit.id: task for task in ready}
        late: list[Batch] = []
        while tasks:
            name = next(iter(tasks))
            stack = frozenset() if name in self._alone else self._stack_of.get(name, frozenset())
            members = [one for one in tasks if one in stack and one not in self._alone] or [name]
            batch = tuple(tasks.pop(one) for one in members)
            waits = stack - self._over - self._alone - set(members)
            if waits:
                late.append(batch)
            else:
                yield batch
        if not self.busy:
            yield from late


def find_stacks(units: Sequence[Unit], root: Path, places: int) -> list[frozenset[str]]:
    """Which units train as one stack, by their ids: two or more each, enough stacks for `places`.

    A function of the units alone, so that a sweep that goes on has the stacks it had.
    """
    from dgn_engine.training.batched import packable
    from dgn_engine.training.batched.grouping import STACK, stacks_of

    stacks: list[frozenset[str]] = []
    for wave in waves(units):
        configs = [unit.resolved(root) for unit in wave]
        for pack in packable(configs).packs:
            most = max(2, min(STACK, -(-len(pack) // places)))
            for places_in_pack in stacks_of([configs[i] for i in pack], most):
                stack = frozenset(wave[pack[i]].id for i in places_in_pack)
                if len(stack) > 1:
                    stacks.append(stack)
    return stacks


def waves(units: Sequence[Unit]) -> list[list[Training]]:
    """The trainings by how many units must be done before, one after another."""
    depth: dict[str, int] = {}
    found: dict[int, list[Training]] = {}
    for unit in units:
        depth[unit.id] = 1 + max((depth[need] for need in unit.needs), default=-1)
        if isinstance(unit, Training):
            found.setdefault(depth[unit.id], []).append(unit)
    return [found[level] for level in sorted(found)]
