"""The probe examples of a run read from disk: from the data that lie here, if it was those."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dgn_engine.config import RunConfig
from dgn_engine.data import data_sets, load_examples
from dgn_engine.data._normalisation import normalisation
from dgn_engine.errors import UserError
from dgn_engine.protocol.events import ProbeSetChanged
from dgn_engine.protocol.probe_choice import ProbeChoice
from dgn_engine.protocol.probe_examples import ProbeExamples
from dgn_engine.storage.session_file.loaded_run import LoadedRun
from dgn_engine.training.device_data import choose_probe_set, drawn_inputs
from dgn_engine.training.probe_pictures import pictures_of


def recorded_examples(loaded: LoadedRun) -> ProbeExamples:
    """The pictures of the probe set that the run was read on last, or why there are none.

    Nothing is downloaded, and no folder is read that a file from elsewhere names.
    """
    config, digest = loaded.config, loaded.started.probe_set.digest
    for event in loaded.events.events:
        digest = event.digest if isinstance(event, ProbeSetChanged) else digest
    why = _why_not_read(config, loaded.session is not None)
    if not why:
        try:
            examples = load_examples(config.data)
            choice = ProbeChoice.parse(config.probe_set)
            chosen = choose_probe_set(examples, config.probe_examples, config.seed, choice)
            if chosen.digest == digest:
                rows = list(chosen.indices[: len(chosen.indices) - chosen.drawn])
                own, how = drawn_inputs(choice, examples.train_x.shape[1:]), config.data.normalise
                made = normalisation(how)
                own = own if made is None else made(own)
                x = examples.train_x[rows]
                return pictures_of(chosen, np.concatenate([x, own]) if len(own) else x, how)
            why = f"the examples of {config.data.name} here are others than those of the run"
        except UserError as refusal:
            why = str(refusal).rstrip(".")
    known = loaded.started.probe_set
    return ProbeExamples(known, missing=f"No pictures of the examples: {why}.")


def _why_not_read(config: RunConfig, foreign: bool) -> str:
    name = config.data.name.partition(":")[0]
    entry = data_sets().get(name)
    if entry is None:
        return f"there is no data set '{config.data.name}' here"
    if foreign and (entry.takes_path or config.data.root):
        return "a session file does not say where data are read; Run reads them"
    root = Path(config.data.root) if config.data.root else None
    return "" if entry.available(root) else f"{config.data.name} is not on this machine"
