"""What all executors have in common: where answers are delivered, and what follows a cancel."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from dgn_engine import kernels as k
from dgn_engine.protocol.watching import ProbeRequest
from dgn_engine.regimes import find_regime
from dgn_engine.training.probes import ProbeContext, all_probes
from dgn_engine.training.readings.executor_choice import ExecutorChoice
from dgn_engine.training.readings.process_readings import ProcessReadings
from dgn_engine.training.readings.reading_executor import InlineReadings, ReadingExecutor
from dgn_engine.training.readings.reading_jobs import (
    ExactAnswer,
    ExactJob,
    JobOver,
    JobSlice,
    RefinedJob,
    StepContexts,
)
from dgn_engine.training.readings.sliced_readings import SlicedReadings
from dgn_engine.training.readings.stream_readings import StreamReadings
from dgn_engine.training.run import Run
from tests.engine.attachment.loops import examples, normalised

Make = Callable[..., Run]
PATIENCE = 300.0  # seconds: a hang, not a slow machine
REFINING: dict[str, Callable[[], ReadingExecutor]] = {
    "sliced": lambda: SlicedReadings(time.thread_time),
    "stream": lambda: StreamReadings(torch.device("cpu")),
    "process": ProcessReadings,
}
READING: dict[str, Callable[[], ReadingExecutor]] = {
    "inline": InlineReadings,
    "stream": REFINING["stream"],
}


@pytest.fixture(scope="module")
def reading_process() -> Iterator[ProcessReadings]:
    """One for all tests: it takes a second to start."""
    made = ProcessReadings()
    yield made
    made.close()


@pytest.fixture
def executor(
    request: pytest.FixtureRequest, reading_process: ProcessReadings
) -> Iterator[ReadingExecutor]:
    if request.param is ProcessReadings:
        yield reading_process
        return
    made: ReadingExecutor = request.param()
    yield made
    made.close()


def wait_until(executor: ReadingExecutor, there: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end
        executor.deliver_answers()
        time.sleep(0.001)


class Answers(list[Any]):
    """What was delivered; fails where another thread delivers."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def deliver(self, *given: Any) -> None:
        assert threading.get_ident() == self._thread
        self.append(given[-1])


@pytest.mark.parametrize("executor", REFINING.values(), ids=REFINING, indirect=True)
def test_a_refined_reading_is_of_the_step_at_which_it_was_submitted(
    executor: ReadingExecutor, make_run: Make
) -> None:
    run, answers = make_run("DL"), Answers()
    expected = all_probes()["gates"].read(run.probed.probe_context(), {}, None)
    executor.submit(
        [RefinedJob("gates", {}, answers.deliver)], StepContexts(run.probed.probe_context(), 0)
    )
    assert executor.refines
    assert answers == []
    for _ in range(3):
        run.step()
    wait_until(executor, lambda: answers and isinstance(answers[-1], JobOver))
    assert answers[-1].trouble == ""
    last = [made for made in answers if isinstance(made, JobSlice) and made.result is not None][-1]
    assert (last.done, last.examples) == (1.0, 0)
    assert (last.result.arrays["layer_1"] == expected.arrays["layer_1"]).all()


@pytest.mark.parametrize("executor", REFINING.values(), ids=REFINING, indirect=True)
def test_nothing_is_delivered_of_a_job_that_was_cancelled(
    executor: ReadingExecutor, make_run: Make
) -> None:
    run, stopped, answers = make_run("DL"), Answers(), Answers()
    contexts = StepContexts(run.probed.probe_context(), 0)
    job = RefinedJob("npk", {}, stopped.deliver)
    executor.submit([job], contexts)
    executor.submit([RefinedJob("npk", {}, answers.deliver)], contexts)
    executor.cancel(job)
    executor.cancel(job)
    wait_until(executor, lambda: answers and isinstance(answers[-1], JobOver))
    assert stopped == []


@pytest.mark.parametrize("executor", REFINING.values(), ids=REFINING, indirect=True)
def test_an_executor_that_is_closed_says_why_and_begins_anew_with_the_next_job(
    executor: ReadingExecutor, make_run: Make
) -> None:
    contexts, ended, answers = (
        StepContexts(make_run("DL").probed.probe_context(), 0),
        Answers(),
        Answers(),
    )
    assert not executor.close("nobody is told")
    executor.submit([RefinedJob("npk", {}, ended.deliver, ticket=7)], contexts)
    assert executor.close("training needs the memory")
    assert not executor.close("once more")
    assert ended == [JobOver(7, "training needs the memory")]
    executor.submit([RefinedJob("npk", {}, answers.deliver)], contexts)
    assert executor.close()
    assert answers == []
    executor.submit([RefinedJob("npk", {}, answers.deliver)], contexts)
    wait_until(executor, lambda: answers)


def exact_job(answers: Answers) -> ExactJob:
    return ExactJob("gates", all_probes()["gates"], {}, None, 2, answers.deliver, True, 0.0, 0.0)


@pytest.mark.parametrize("executor", READING.values(), ids=READING, indirect=True)
def test_an_exact_reading_is_of_each_nth_example_of_its_step(
    executor: ReadingExecutor, make_run: Make
) -> None:
    run, answers = make_run("DL"), Answers()
    expected = all_probes()["gates"].read(run.probed.probe_context().subsample(2), {}, None)
    executor.submit([exact_job(answers)], StepContexts(run.probed.probe_context(), 4))
    assert len(answers) == (not executor.reads_aside)
    run.step()
    wait_until(executor, lambda: answers)
    (answer,) = answers
    assert isinstance(answer, ExactAnswer)
    assert (answer.error, answer.aside, answer.contexts.step) == (None, executor.reads_aside, 4)
    assert answer.result is not None
    assert (answer.result.arrays["layer_1"] == expected.arrays["layer_1"]).all()


@pytest.mark.parametrize(
    "executor", [*REFINING.values(), InlineReadings], ids=[*REFINING, "inline"], indirect=True
)
def test_a_batchnorm_is_read_with_its_statistics_of_each_step(executor: ReadingExecutor) -> None:
    """They are those at the moment of `submit`, also of the second reading by the same executor."""
    module, (x, y) = normalised().eval(), examples()
    network, probe = k.adapt(module, input_shape=(6,)), all_probes()["gates"]

    def pass_in_training(batch: torch.Tensor) -> None:
        module.train()(batch)
        module.eval()

    seen = []
    for step in range(2):
        pass_in_training(3.0 * x + 2.0 + step)
        context = ProbeContext(network, x, y, find_regime("ReLU"))
        expected = probe.read(context, {}, None).arrays["layer_0"]
        answers = Answers()
        job: ExactJob | RefinedJob = RefinedJob("gates", {}, answers.deliver)
        if not executor.refines:
            job = ExactJob("gates", probe, {}, None, 1, answers.deliver, True, 0.0, 0.0)
        executor.submit([job], StepContexts(context, step))
        pass_in_training(-5.0 * x)
        wait_until(executor, lambda: answers and not getattr(answers[-1], "done", 0.0))  # noqa: B023
        made = [one.result for one in answers if getattr(one, "result", None) is not None][-1]
        assert (made.arrays["layer_0"] == expected).all()
        seen.append(expected)
    assert (seen[0] != seen[1]).any()


@pytest.mark.parametrize("executor", REFINING.values(), ids=REFINING, indirect=True)
def test_a_probe_whose_reading_was_cancelled_is_read_again(
    executor: ReadingExecutor, make_run: Make
) -> None:
    run = make_run("DL")
    schedule = run.probe_schedule
    schedule.use_executor(executor)
    schedule.watch((ProbeRequest("npk"),))
    contexts = StepContexts(run.probed.probe_context(), 0)
    schedule.refined.begin_jobs({"npk": {}}, contexts)
    schedule.cancel("npk")
    assert not schedule.is_refining
    schedule.resume("npk")
    assert schedule.due_probes(0) == ("npk",)
    schedule.refined.begin_jobs({"npk": {}}, contexts)
    wait_until(executor, lambda: not schedule.is_refining)
    reading = schedule.readings["npk"]
    assert (reading.cancelled, reading.progress, reading.absent) == (False, 1.0, "")
    assert reading.arrays


def test_an_exact_reading_that_is_cancelled_is_waited_for_and_not_delivered(
    make_run: Make,
) -> None:
    executor, answers = StreamReadings(torch.device("cpu")), Answers()
    job = exact_job(answers)
    executor.submit([job], StepContexts(make_run("DL").probed.probe_context(), 0))
    executor.cancel(job)
    assert not executor.deliver_answers()
    assert answers == []
    executor.close()


def test_a_schedule_without_an_executor_that_refines_reads_everything_here(make_run: Make) -> None:
    run = make_run("DL")
    schedule = run.probe_schedule
    schedule.watch((ProbeRequest("npk"),))
    schedule.use_executor(InlineReadings())
    schedule.read_probes(schedule.due_probes(0), run.probed.probe_context(), 0)
    assert not schedule.is_refining
    assert schedule.readings["npk"].step == 0
    assert not schedule.refined.end_jobs("training needs the memory")


def test_a_session_keeps_its_executor_while_networks_lie_on_the_same_kind_of_device(
    make_run: Make,
) -> None:
    choice, run = ExecutorChoice(), make_run("DL")
    first = choice.executor
    choice.choose_executor(torch.device("cpu"), run.architecture)
    assert choice.executor is first
    assert isinstance(first, ProcessReadings)
    choice.executor.close()
