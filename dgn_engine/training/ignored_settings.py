"""Find settings that have no effect in a configuration, and settings that contradict each other.

Contradictions are refused; settings without effect are reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from dgn_engine.config import SETTINGS, RunConfig
from dgn_engine.config.setting import Conditions, meets_condition
from dgn_engine.data import find_data_set
from dgn_engine.errors import UserError, Where
from dgn_engine.regimes import Regime, find_regime

_UNMET = {  # why a condition on the regime or the data set does not hold
    "regime.soft": "the gates of {regime} are not soft",
    "regime.own_gates": "{regime} makes its own gates, so there is no wiring",
    "regime.takes_gates": "{regime} does not use pre-trained gates",
    "regime.trains_feature": "{regime} does not train a feature network, and biases start at 0",
    "net.bias": "both networks have biases",
    "dataset.rooted": "{data} is not read from a data folder",
}


@dataclass(frozen=True)
class IgnoredSetting:
    """A setting by its key ('training.momentum'), and a sentence why it is ignored."""

    place: str
    sentence: str


@dataclass(frozen=True)
class RunFacts:
    """Facts about a run besides its configuration.

    Attributes:
        examples: Numbers of training and test examples, or None if not loaded.
        weights_given: Whether every weight comes from a file.
        live: Whether a window shows the run, in which the regime can change and no weights are
            kept.
        recorded: Whether there is a run folder.
        device: 'cuda', 'cpu' or 'mps'; '' if unknown.
    """

    examples: tuple[int, int] | None = None
    weights_given: bool = False
    live: bool = False
    recorded: bool = True
    device: str = ""


def check_contradictions(config: RunConfig) -> None:
    """Check that all settings can be met together.

    Args:
        config: Configuration of a run.

    Raises:
        UserError: Two settings contradict each other.
    """
    training = config.training
    last = training.epochs + pretrain_epochs(config)
    if training.epochs and training.keep_epochs and training.keep_epochs[-1] > last:
        epoch = training.keep_epochs[-1]
        raise UserError(
            Where("training.keep_epochs")
            + f" includes epoch {epoch}, but the run ends after epoch {last}.",
            kind="contradiction",
            value=epoch,
        )


def pretrain_epochs(config: RunConfig) -> int:
    """Return the number of epochs in which gates are learnt first.

    Args:
        config: Configuration of a run.

    Returns:
        0 without pre-training, or if no number is given.
    """
    regime, gating = find_regime(config.gating.regime), config.gating
    if not regime.takes_gates or gating.gates_from:
        return 0
    return gating.pretrain_epochs or config.training.epochs


def ignored_settings(
    config: RunConfig, facts: RunFacts, named: Collection[str] = ()
) -> tuple[IgnoredSetting, ...]:
    """Find the settings without effect that differ from their default or were written by the user.

    Args:
        config: Configuration of a run; its regime and data set must exist.
        facts: What else is known; unknown facts are assumed to give a setting an effect.
        named: Keys that the user wrote, reported even with the default value.

    Returns:
        Settings, in the order of the configuration.
    """
    ignored = []
    for place, reason in _ignored_reasons(config, facts):
        part, _, name = place.rpartition(".")
        value = getattr(getattr(config, part) if part else config, name)
        if place in named or value != SETTINGS[part][name].default:
            ignored.append(IgnoredSetting(place, reason))
    return tuple(ignored)


def _ignored_reasons(config: RunConfig, facts: RunFacts) -> Iterator[tuple[str, str]]:
    """Yield the key of each setting without effect, with a sentence."""
    reported = set()
    for place, why in (*_unmet_conditions(config, facts), *_ignored_by_facts(config, facts)):
        if place not in reported:
            reported.add(place)
            yield place, Where(place) + " has no effect: " + why + "."
    examples, batch = facts.examples, config.training.batch
    if examples is not None and batch > examples[0]:
        few = f"there are {examples[0]:,} training examples, so every step uses all of them"
        place = Where("training.batch")
        yield place, place + f" {batch:,} exceeds the data: {few}."


def _unmet_conditions(config: RunConfig, facts: RunFacts) -> Iterator[tuple[str, str]]:
    """Yield the settings whose own conditions are not met."""
    for part, settings in SETTINGS.items():
        for name, declared in settings.items():
            effect = declared.effect
            conditions = {**declared.when, **declared.shown} if effect is None else effect
            unmet = _first_unmet(conditions, config, facts)
            if unmet:
                yield f"{part}.{name}".lstrip("."), unmet


def _first_unmet(conditions: Conditions, config: RunConfig, facts: RunFacts) -> str:
    """Return why the first unmet condition is not met; '' if all are."""
    for place, wanted in conditions.items():
        subject, _, name = place.partition(".")
        if subject == "regime":
            if facts.live or any(
                meets_condition(getattr(stage, name), wanted) for stage in _regime_stages(config)
            ):
                continue
            return _describe_condition(place, wanted, config)
        value = (
            getattr(find_data_set(config.data), name)
            if subject == "dataset"
            else getattr(getattr(config, subject), name)
        )
        if not meets_condition(value, wanted):
            return _describe_condition(place, wanted, config)
    return ""


def _describe_condition(place: str, wanted: object, config: RunConfig) -> str:
    regime = find_regime(config.gating.regime).name
    if place == "regime.drawn_gates":
        if wanted:
            return f"the gates of {regime} are not drawn by a probability"
        return f"{regime} has gates for training examples only, so nothing is tested"
    if place in _UNMET:
        return _UNMET[place].format(regime=regime, data=config.data.name)
    if wanted == "":
        return Where(place) + " is given"
    options = " or ".join(map(str, wanted)) if isinstance(wanted, tuple) else wanted
    return "it only matters with " + Where(place) + f" {options}"


def _ignored_by_facts(config: RunConfig, facts: RunFacts) -> Iterator[tuple[str, str]]:
    """Yield settings without effect for reasons other than one other setting."""
    data, training = config.data, config.training
    drawn = find_data_set(config.data).is_generated
    if not (data.label_noise or data.pixels == "random" or drawn):
        yield "data.variant_seed", "no labels, pixels or examples are random"
    if facts.examples is not None:
        if config.probe_examples > facts.examples[0]:
            yield "probe_examples", f"{data.name} only has {facts.examples[0]:,} training examples"
        for name, available in zip(("train_limit", "test_limit"), facts.examples, strict=True):
            if getattr(data, name) > available:
                yield f"data.{name}", f"{data.name} has {available:,} of them"
    if training.precision == "tf32" and facts.device not in ("", "cuda"):
        yield (
            "training.precision",
            f"only CUDA cards support TF32, and the device is {facts.device}",
        )
    if all(regime.drawn_gates for regime in _regime_stages(config)) and not facts.live:
        drawn_in = find_regime(config.gating.regime).name
        yield "gating.feature_layers", f"{drawn_in} draws its gates, without a feature network"
    if facts.weights_given:
        for name in ("init", "sigma"):
            yield f"net.{name}", "every weight comes from a file"
    if facts.live:
        for name in ("keep_epochs", "keep_best"):
            yield f"training.{name}", "the viewer keeps checkpoints, not weights per epoch"
    else:
        yield "training.pace", "only the viewer limits the speed"
        if training.epochs and not facts.recorded:
            for name in ("probe_examples", "probe_set"):
                yield name, "nothing is recorded"


def _regime_stages(config: RunConfig) -> tuple[Regime, ...]:
    """Return the regimes that the run passes through."""
    target = find_regime(config.gating.regime)
    if target.takes_gates and not config.gating.gates_from:
        return find_regime(target.pretrains_as), target
    return (target,)
