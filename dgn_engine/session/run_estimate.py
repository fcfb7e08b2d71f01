"""What a configuration would take, said before it is begun: weights, memory, time of a step."""

from __future__ import annotations

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import DataSizes, known_sizes
from dgn_engine.errors import UserError
from dgn_engine.importing.from_file import architecture_for
from dgn_engine.protocol.training import RunEstimated
from dgn_engine.training.devices import choose_device
from dgn_engine.training.memory_needed import NUMBER, RunUse, check_memory, memory_needed
from dgn_engine.training.run import Run
from dgn_engine.training.step_cost import seconds_a_step


def estimate_run(
    config: RunConfig, run: Run | None, recorded: bool, seconds: float | None
) -> RunEstimated:
    """Compute what a run takes; nothing is allocated, and no data are read that are not at hand.

    Args:
        config: The run.
        run: The one in progress, whose memory it would have; None where there is none.
        recorded: Checkpoints of it would be written.
        seconds: What a step of `run` takes; None where that is not known.

    Returns:
        Zeros where its data are not known yet; the refusal where it cannot be carried out.
    """
    try:
        sizes = _sizes(config.data, run)
        if sizes is None:
            return RunEstimated(config=config)
        device = choose_device(config.device)
        architecture = architecture_for(config.net, sizes.shape, sizes.classes)
        use = RunUse(live=True, recorded=recorded, card=device.type == "cuda")
        needed = memory_needed(config, architecture, sizes, use)
        at_hand = None if run is None else run.examples_for(config.data)
        reclaimed = 0 if run is None else run.memory.lasting
        loaded = 0 if at_hand is None else needed.data
        check_memory(config, architecture, sizes, device, use, loaded, reclaimed)
    except UserError as refusal:
        return RunEstimated(refusal=str(refusal), config=config)
    measured = seconds is not None and run is not None and config.same_run(run.config)
    if not measured:
        seconds = (
            seconds_a_step(config, architecture, sizes.train) if device.type == "cpu" else None
        )
    return RunEstimated(needed.weights // NUMBER, needed.total, seconds, measured, config=config)


def _sizes(data: DataConfig, run: Run | None) -> DataSizes | None:
    """Return the sizes of the run in progress where its data are alike, or those that follow from
    the options; None where data would have to be read."""
    if run is not None and data.without_variant() == run.config.data.without_variant():
        return DataSizes(*run.examples, run.image_shape, run.architecture.classes)
    return known_sizes(data, balanced=True)
