"""Settings that change nothing in the configuration they stand in, and what contradicts itself.

What contradicts is refused; what has no effect is said, never passed over in silence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from dgn_engine.config import SETTINGS, RunConfig
from dgn_engine.config.setting import Conditions, meets
from dgn_engine.data import find_data_set
from dgn_engine.errors import UserError, Where
from dgn_engine.regimes import Regime, find_regime

_UNMET = {  # why a condition on the regime or the data set does not hold
    "regime.soft": "the gates of {regime} are not soft",
    "regime.own_gates": "{regime} makes its own gates, and there are none to wire",
    "regime.takes_gates": "{regime} takes no gates that were learnt before",
    "dataset.rooted": "{data} does not lie in a folder of data sets",
}


@dataclass(frozen=True)
class IgnoredSetting:
    """A setting by its place ('training.momentum') and the sentence that says why it is ignored."""

    place: str
    sentence: str


@dataclass(frozen=True)
class RunFacts:
    """What decides besides the configuration.

    `examples`: of the training and of the test set, where they are loaded. `weights_given`: every
    weight comes from a file. `live`: in a window, where another regime may follow and no weights
    are kept; `recorded`: there is a folder. `device`: 'cuda', 'cpu'; '' where it is not known.
    """

    examples: tuple[int, int] | None = None
    weights_given: bool = False
    live: bool = False
    recorded: bool = True
    device: str = ""


def check_contradictions(config: RunConfig) -> None:
    """Raise `UserError` where two settings cannot both be met."""
    training = config.training
    last = training.epochs + pretrain_epochs(config)
    if training.epochs and training.keep_epochs and training.keep_epochs[-1] > last:
        epoch = training.keep_epochs[-1]
        raise UserError(
            Where("training.keep_epochs")
            + f" names epoch {epoch}, and the run ends after epoch {last}.",
            kind="contradiction",
            value=epoch,
        )


def pretrain_epochs(config: RunConfig) -> int:
    """Epochs in which gates are learnt first; 0 where none are, or where nothing says how many."""
    regime, gating = find_regime(config.gating.regime), config.gating
    if not regime.takes_gates or gating.gates_from:
        return 0
    return gating.pretrain_epochs or config.training.epochs


def ignored_settings(
    config: RunConfig, facts: RunFacts, named: Collection[str] = ()
) -> tuple[IgnoredSetting, ...]:
    """Every setting without effect that has another value than its default, or is `named`.

    Args:
        config: of a run; its regime and its data set must exist.
        facts: what is known besides; what is not known is taken to have an effect.
        named: places that the user wrote, also where the value is the default.
    """
    found = []
    for place, reason in _reasons(config, facts):
        part, _, name = place.rpartition(".")
        value = getattr(getattr(config, part) if part else config, name)
        if place in named or value != SETTINGS[part][name].default:
            found.append(IgnoredSetting(place, reason))
    return tuple(found)


def _reasons(config: RunConfig, facts: RunFacts) -> Iterator[tuple[str, str]]:
    """Yield the place of each setting that has no effect, with the sentence."""
    seen = set()
    for place, why in (*_unmet(config, facts), *_by_facts(config, facts)):
        if place not in seen:
            seen.add(place)
            yield place, Where(place) + " has no effect: " + why + "."
    examples, batch = facts.examples, config.training.batch
    if examples is not None and batch > examples[0]:
        few = f"there are {examples[0]:,} training examples, and each step takes all of them"
        place = Where("training.batch")
        yield place, place + f" {batch:,} is more than the data: {few}."


def _unmet(config: RunConfig, facts: RunFacts) -> Iterator[tuple[str, str]]:
    """Yield the settings whose own conditions do not hold."""
    for part, settings in SETTINGS.items():
        for name, declared in settings.items():
            effect = declared.effect
            conditions = {**declared.when, **declared.shown} if effect is None else effect
            unmet = _first_unmet(conditions, config, facts)
            if unmet:
                yield f"{part}.{name}".lstrip("."), unmet


def _first_unmet(conditions: Conditions, config: RunConfig, facts: RunFacts) -> str:
    """Return why the first condition that does not hold does not; '' where all hold."""
    for place, wanted in conditions.items():
        subject, _, name = place.partition(".")
        if subject == "regime":
            if facts.live or any(meets(getattr(stage, name), wanted) for stage in _stages(config)):
                continue
            return _words(place, wanted, config)
        value = (
            getattr(find_data_set(config.data), name)
            if subject == "dataset"
            else getattr(getattr(config, subject), name)
        )
        if not meets(value, wanted):
            return _words(place, wanted, config)
    return ""


def _words(place: str, wanted: object, config: RunConfig) -> str:
    regime = find_regime(config.gating.regime).name
    if place == "regime.drawn_gates":
        if wanted:
            return f"the gates of {regime} are not drawn by a probability"
        return f"{regime} has gates for training examples only, so that nothing is tested"
    if place in _UNMET:
        return _UNMET[place].format(regime=regime, data=config.data.name)
    if wanted == "":
        return Where(place) + " is given"
    words = " or ".join(map(str, wanted)) if isinstance(wanted, tuple) else wanted
    return "it counts only with " + Where(place) + f" {words}"


def _by_facts(config: RunConfig, facts: RunFacts) -> Iterator[tuple[str, str]]:
    """Yield what no condition on one other setting says."""
    data, training = config.data, config.training
    drawn = find_data_set(config.data).drawn
    if not (data.label_noise or data.pixels == "random" or drawn):
        yield "data.variant_seed", "no labels, pixels or examples are drawn by it"
    if facts.examples is not None:
        if config.probe_examples > facts.examples[0]:
            yield "probe_examples", f"{data.name} has {facts.examples[0]:,} training examples"
        for name, there in zip(("train_limit", "test_limit"), facts.examples, strict=True):
            if getattr(data, name) > there:
                yield f"data.{name}", f"{data.name} has {there:,} of them"
    if training.precision == "tf32" and facts.device not in ("", "cuda"):
        yield "training.precision", f"only CUDA cards multiply in TF32, and this is {facts.device}"
    if facts.weights_given:
        for name in ("init", "sigma"):
            yield f"net.{name}", "every weight comes from a file"
    if facts.live:
        for name in ("keep_epochs", "keep_best"):
            yield f"training.{name}", "a window keeps checkpoints, not the weights of epochs"
    else:
        yield "training.pace", "only a window keeps a pace"
        if training.epochs and not facts.recorded:
            for name in ("probe_examples", "probe_set"):
                yield name, "nothing is recorded"


def _stages(config: RunConfig) -> tuple[Regime, ...]:
    """The regimes that the run goes through, in turn."""
    target = find_regime(config.gating.regime)
    if target.takes_gates and not config.gating.gates_from:
        return find_regime(target.pretrains_as), target
    return (target,)
