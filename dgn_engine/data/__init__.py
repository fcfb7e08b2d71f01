"""Data sets: one module each with its `DATA`; here they are found, loaded and cut to size."""

from __future__ import annotations

from dataclasses import replace

from dgn_engine.config import DataConfig
from dgn_engine.config.setting import fill_options
from dgn_engine.data._dataset import DataSet, DataSizes, Examples, Report
from dgn_engine.data._normalisation import normalise_examples, parse_normalisation
from dgn_engine.data._sizes import sizes_after_limits
from dgn_engine.data._split import resplit_examples, split_in_words
from dgn_engine.data._variants import (
    noisy_labels,
    only_first,
    only_pair,
    random_pixels,
)
from dgn_engine.errors import UserError, did_you_mean
from dgn_engine.plugins import OptionValue, discover_plugins

__all__ = [
    "DataSet",
    "DataSizes",
    "Examples",
    "Report",
    "data_sets",
    "find_data_set",
    "ignore_progress",
    "known_sizes",
    "load_examples",
    "options_of",
    "split_of",
]


def ignore_progress(_what: str, _fraction: float | None) -> None:
    """Ignore progress reports."""


def data_sets() -> dict[str, DataSet]:
    """Return all data sets by the name that a configuration uses ('fashion-mnist', …)."""
    discovered = discover_plugins("dgn_engine.data", "DATA", DataSet)
    return {module.replace("_", "-"): entry for module, entry in discovered.items()}


def find_data_set(config: DataConfig) -> DataSet:
    """Return the data set that a configuration names, with or without a path ('folder:PATH').

    Raises:
        UserError: There is none, or one that takes no path was given one.
    """
    known = data_sets()
    name, colon, _ = config.name.partition(":")
    if name not in known or (colon and not known[name].takes_path):
        paths = ", ".join(f"{name}:PATH" for name, entry in known.items() if entry.takes_path)
        raise UserError(
            f"There is no data set '{config.name}'; choose one of {', '.join(known)} ({paths})."
            f"{did_you_mean(name, known)}",
            kind="unknown-name",
        )
    return known[name]


def options_of(config: DataConfig) -> dict[str, OptionValue]:
    """Return all options of the data set, defaults included; raises `UserError`."""
    name = config.name.partition(":")[0]
    known = find_data_set(config).options
    return fill_options(f"Data set '{name}'", "data.options", known, config.options)


def known_sizes(config: DataConfig, *, balanced: bool = False) -> DataSizes | None:
    """Return the sizes of what a configuration names, without loading it.

    Args:
        balanced: Assume that all classes have the same number of examples, if two are selected.

    Returns:
        None if the data have to be read to know them: files, or a pair of classes.

    Raises:
        UserError: There is no such data set or option, or it cannot be generated.
    """
    entry, options = find_data_set(config), options_of(config)
    if entry.sizes is None:
        return None
    config = replace(config, options=tuple(options.items()))
    return sizes_after_limits(entry.sizes(config), config, balanced)


def load_examples(config: DataConfig, report: Report = ignore_progress) -> Examples:
    """Load the data set of a configuration, cut it to size, and apply its variant.

    'folder:PATH' is the data set `folder` with a path. With `binary`, labels are 0 and 1 in the
    order of the pair. Test examples stay unmodified in every variant.

    Raises:
        UserError: Something is missing or invalid; one sentence.
    """
    entry = find_data_set(config)
    options = options_of(config)
    config = replace(config, options=tuple(options.items()))
    if entry.takes_path and config.test_indices:
        raise UserError(
            "A folder of images defines its own test part: put test images into test/.",
            kind="contradiction",
        )
    parse_normalisation(config.normalise)  # check it before anything is loaded
    examples = entry.load(config, report)
    if not entry.splits:
        examples = resplit_examples(examples, config)
    if config.binary is not None:
        examples = only_pair(examples, config.binary)
    if config.train_limit:
        examples = only_first(examples, config.train_limit, "train")
    if config.test_limit:
        examples = only_first(examples, config.test_limit, "test")
    examples = _prepare_examples(examples, config)
    if config.pixels == "random":
        examples = random_pixels(examples, config.variant_seed)
    return noisy_labels(examples, config.label_noise, config.variant_seed)


def _prepare_examples(examples: Examples, config: DataConfig) -> Examples:
    """Convert channels, normalise and resize, in this order."""
    if not (config.image_size or config.image_channels):
        return normalise_examples(examples, config.normalise)
    from dgn_engine.data._preprocessing import (
        convert_channels,
        resize_examples,
    )  # torch: only where it is used

    examples = normalise_examples(
        convert_channels(examples, config.image_channels), config.normalise
    )
    return resize_examples(examples, config.image_size)


def split_of(config: DataConfig, examples: Examples) -> str:
    """Describe which examples are test examples."""
    return split_in_words(config, examples, find_data_set(config).splits)
