"""What a configuration would take, said before it is begun: weights, memory, time of a step."""

from __future__ import annotations

from dataclasses import replace

from dgn_engine.config import DataConfig, RunConfig
from dgn_engine.data import DataSizes, find_data_set
from dgn_engine.errors import UserError
from dgn_engine.experiments.report.data_sizes import sizes_of
from dgn_engine.model.importing.from_file import architecture_for
from dgn_engine.protocol.engine_events import RunEstimated
from dgn_engine.session.network_fit import shape_shown
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
        known = run is not None and run.config.data == config.data
        reclaimed = 0 if run is None else run.memory.lasting
        loaded = needed.data if known else 0
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
    """Those of the run in progress, those published, or counted in data that are made at once;
    None where files would have to be read."""
    alike = replace(data, label_noise=0.0, pixels="true", variant_seed=0)
    if run is not None and alike == replace(
        run.config.data, label_noise=0.0, pixels="true", variant_seed=0
    ):
        return DataSizes(*run.examples, run.image_shape, run.architecture.classes)
    entry = find_data_set(data)
    if entry.published is not None:
        sizes = entry.published
        return DataSizes(
            min(sizes.train, data.train_limit or sizes.train),
            min(sizes.test, data.test_limit or sizes.test),
            shape_shown(data, sizes.shape),
            1 if data.binary else sizes.classes,
        )
    if entry.rooted or entry.takes_path:
        return None
    return sizes_of(data)
