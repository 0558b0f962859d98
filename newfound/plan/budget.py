"""A time budget becomes a number of epochs, before the first step."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Container
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch

from newfound.config.mapping import brief
from newfound.config.settings import APLSettings, FeatureSettings, KMeansSettings, Settings
from newfound.data.collection import Collection
from newfound.engine.device import fastest_kernels
from newfound.engine.loop import Engine, Training
from newfound.engine.sampler import labelled_sampler, mixed_sampler
from newfound.engine.stage import Stage
from newfound.errors import UserError
from newfound.methods import get_method
from newfound.plan.auto import Choice
from newfound.plan.call import Call
from newfound.progress import format_seconds

AFTER = 0.15
"""The share of the time for what follows training: features, clusters, the page."""
WARM_UP, STEPS, SECONDS = 4, 20, 3.0
"""Steps that are not timed (on a GPU they are captured then), and how many are, or for how long."""
FEW = 20
"""Epochs of stage I below which a warning says that training is cut short."""
MOST = 500
"""Epochs beyond which more time is not used."""
LEAST = 200
"""Steps of stage I, where neither epochs nor a time are given: a few dozen images make a step or two an epoch."""

Trained = TypeVar("Trained", bound=KMeansSettings | APLSettings)
"""Settings of a method that trains its network."""

_UNITS = {"h": 3600, "m": 60, "s": 1}


def parse_time(given: str | float) -> float:
    """Seconds, from 20m, 1h30m or 90s, or a number of seconds."""
    if isinstance(given, str):
        match = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", given.strip())
        amounts = zip(match.groups(), _UNITS.values(), strict=True) if match else ()
        seconds = float(sum(int(amount) * unit for amount, unit in amounts if amount))
    else:
        seconds = float(given)
    if not 0 < seconds < math.inf:
        raise UserError(f"--time {brief(given)}: write it as 20m, 1h30m or 90s")
    return seconds


@dataclass(frozen=True)
class Speed:
    """What a trial found: seconds that a step takes, and steps in an epoch."""

    step: float
    steps: int


class _Timed(Exception):
    def __init__(self, speed: Speed) -> None:
        super().__init__()
        self.speed = speed


class Trial(Engine):
    """An engine that times the first stage it is given and goes no further; nothing is kept of it."""

    def train(self, stage: Stage) -> None:
        stage.to(self.device)
        with fastest_kernels():
            training = Training(self, stage)
            stage.before_epoch(0)
            stage.train()
            order = stage.sampler.epoch(self.generator("trial"))
            inputs = self.train_images if stage.inputs is None else stage.inputs
            done, began = 0, 0.0
            while done < WARM_UP + STEPS:
                for index, images in inputs.batches(order):
                    if done == WARM_UP:
                        began = self._now()
                    training.step(index, images)
                    done += 1
                    if done == WARM_UP + STEPS or (done > WARM_UP and self._now() - began > SECONDS):
                        raise _Timed(Speed((self._now() - began) / (done - WARM_UP), stage.sampler.steps))

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.monotonic()


def measure(settings: KMeansSettings | APLSettings, trial: Trial) -> Speed:
    """How fast the first stage of the method trains, by a few steps of a copy that is thrown away."""
    settings = _with_epochs(settings, max(settings.stage1.epochs, WARM_UP + STEPS))  # schedules as long as the trial
    try:
        get_method(settings.method).load()(settings).fit(trial.collection, trial)
    except _Timed as timed:
        return timed.speed
    raise TypeError(f"the method {settings.method} trains no stage")


@dataclass(frozen=True)
class Planned:
    """Settings with their epochs, what was chosen of it, and what to warn of."""

    settings: Settings
    choices: tuple[Choice, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Clock:
    """Seconds there are, None for any number, and seconds that are gone."""

    budget: float | None
    spent: float


def plan_epochs(
    settings: Settings, collection: Collection, call: Call, clock: Clock, given: Container[str], free: bool
) -> Planned:
    """Epochs of stage I for the clock's budget; without one for the number of images, if the recipe's are ``free`` to
    be changed; and of the refinement in proportion. Settings whose names the person has ``given`` stay."""
    budget, stretch = clock.budget, "refinement.epochs" not in given
    if budget is None:
        chosen = free and "stage1.epochs" not in given
        return _by_amount(settings, collection, stretch) if chosen else Planned(settings)
    trial = Trial(collection, torch.device(call.device), seed=call.seed, cache=Path(call.cache))
    left, named = budget * (1 - AFTER) - clock.spent, format_seconds(budget)
    if isinstance(settings, FeatureSettings):
        return _read_within(left, named, settings, trial)
    assert isinstance(settings, KMeansSettings | APLSettings)
    began = time.monotonic()
    speed = measure(settings, trial)
    left -= time.monotonic() - began
    epoch = speed.step * speed.steps
    if "stage1.epochs" in given:
        later = _later_epochs(settings)
        epochs, takes = settings.stage1.epochs, format_seconds((settings.stage1.epochs + later) * epoch)
        over = (f"{epochs} epochs, as given, take about {takes}, more than {named} hold; they are run anyway",)
        choice = Choice("epochs", str(epochs), f"as given; training takes about {takes}")
        return Planned(settings, (choice,), over if (epochs + later) * epoch > left else ())
    share = _refined_share(settings) if stretch else 0.0
    fitting = (left / epoch - _later_epochs(settings) + share * settings.stage1.epochs) / (1 + share)
    epochs = max(1, min(int(fitting), MOST))
    choice = Choice("epochs", str(epochs), f"what {named} hold: {speed.steps} steps of {speed.step:.2g} s each")
    few = (
        f"no more than {epochs} of stage I's epochs fit into {named}: training is cut short, and the result may be poor"
    )
    return Planned(_with_epochs(settings, epochs, stretch), (choice,), (few,) if epochs < FEW else ())


def _later_epochs(settings: Settings) -> int:
    """Epochs that follow stage I; they are shorter than its own, so to count them as such is on the safe side."""
    if not isinstance(settings, APLSettings):
        return 0
    return settings.selftraining.iterations * settings.stage2.epochs + settings.refinement.epochs


def _refined_share(settings: Settings) -> float:
    """Epochs of the refinement for each of stage I."""
    return settings.refinement.epochs / settings.stage1.epochs if isinstance(settings, APLSettings) else 0.0


def _by_amount(settings: Settings, collection: Collection, stretch: bool) -> Planned:
    """The recipe's epochs, or more where they make few steps."""
    assert isinstance(settings, KMeansSettings | APLSettings)
    if isinstance(settings, APLSettings):
        steps = mixed_sampler(collection, settings.stage1.batch, settings.labelled_share).steps
    else:
        steps = labelled_sampler(collection.labelled, settings.stage1.batch).steps
    epochs = min(max(settings.stage1.epochs, -(-LEAST // steps)), MOST)
    if epochs == settings.stage1.epochs:
        return Planned(settings, (Choice("epochs", str(epochs), f"the recipe's; they have {steps:,} steps each"),))
    why = f"more than the recipe's, since an epoch has {steps} of at least {LEAST} steps"
    return Planned(_with_epochs(settings, epochs, stretch), (Choice("epochs", str(epochs), why),))


def _with_epochs(settings: Trained, epochs: int, stretch: bool = False) -> Trained:
    """The settings with that many epochs of stage I, no longer a warm-up than a tenth of them, and the refinement, if
    it is to ``stretch`` and there is one, longer or shorter in proportion."""
    plan = settings.stage1
    warmup = min(plan.warmup_epochs, epochs / 10)
    changed = replace(settings, stage1=replace(plan, epochs=epochs, warmup_epochs=warmup))
    if stretch and isinstance(changed, APLSettings) and changed.refinement.epochs:
        refined = max(1, round(epochs * _refined_share(settings)))
        warmup = min(changed.refinement.warmup_epochs, refined / 10)
        changed = replace(changed, refinement=replace(changed.refinement, epochs=refined, warmup_epochs=warmup))
    return changed


def _read_within(left: float, named: str, settings: FeatureSettings, trial: Trial) -> Planned:
    """Of a pretrained network the time goes into features, which have to be read whatever the budget, and into tuning,
    which is done where it was asked for."""
    from newfound.methods.apl_features.method import FeatureAPL

    takes = FeatureAPL(settings).seconds_to_read(trial.collection, trial)
    what = "reading features and tuning" if settings.tune.blocks else "reading features"
    why = f"the recipe's, which take seconds; {what} takes about {format_seconds(takes)}"
    choice = Choice("epochs", str(settings.stage2.epochs), why)
    over = f"{what} takes about {format_seconds(takes)}, more than {named} hold; it is done anyway"
    return Planned(settings, (choice,), (over,) if takes > left else ())
