"""A time budget becomes a number of epochs, before the first step."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Container
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from newfound.config.choice import Choice
from newfound.config.mapping import brief
from newfound.config.settings import PlanSettings, Settings
from newfound.data.collection import Collection
from newfound.engine.device import fastest_kernels
from newfound.engine.loop import Engine, Training
from newfound.engine.stage import Stage
from newfound.errors import UserError
from newfound.methods import get_method
from newfound.methods.base import Method
from newfound.plan.call import Place
from newfound.progress import format_seconds

AFTER = 0.15
"""The share of the time for what follows training: features, clusters, the page."""
WARM_UP, STEPS, SECONDS = 4, 20, 3.0
"""Steps that are not timed (on a GPU they are captured then; on a CPU it is one), and how many are, or for how long."""
FEW = 20
"""Epochs below which a warning says that training is cut short."""
MAX_EPOCHS = 500
"""Epochs beyond which more time is not used."""
ADVICE = "give a time, such as 20m, to train fewer epochs, or take the method auto"
LEAST_STEPS = 200
"""Steps of training, where neither epochs nor a time are given: a few dozen images make a step or two an epoch."""

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
    """What a trial found of a stage: seconds that a step takes, steps in an epoch, its epochs, and seconds that what
    comes before an epoch takes."""

    step: float
    steps: int
    epochs: int
    before: float = 0.0

    @property
    def epoch(self) -> float:
        """Seconds that an epoch takes."""
        return self.before + self.step * self.steps


class _Measured(Exception):
    """Ends a trial when the stretched stage has been measured."""


class Trial(Engine):
    """An engine that tries the stages of a method up to the stretched one, and goes no further; nothing is kept of it.

    ``timed`` says whether steps are run to time them; otherwise they are only counted.
    """

    def __init__(self, collection: Collection, place: Place, stretched: str, timed: bool) -> None:
        super().__init__(collection, torch.device(place.device), seed=place.seed, cache=_cache(place))
        self.stretched, self.timed = stretched, timed
        self.speeds: dict[str, Speed] = {}

    def train(self, stage: Stage) -> None:
        stage.to(self.device)  # what follows may look at images with it
        speed = Speed(0.0, stage.sampler.steps, stage.plan.epochs)
        self.speeds[stage.settings_key] = self._timed(stage, speed) if self.timed else speed
        if stage.settings_key == self.stretched:
            raise _Measured
        stage.eval()

    def _timed(self, stage: Stage, speed: Speed) -> Speed:
        """The speed with its seconds, by a few steps of the stage: no more than it has."""
        most = min(WARM_UP + STEPS, speed.steps * speed.epochs)
        warm_up = WARM_UP if self.device.type == "cuda" else 1
        warm_up = warm_up if most > warm_up else 0
        with fastest_kernels():
            training = Training(self, stage)
            began = self._now()
            stage.before_epoch(0, self)
            before = self._now() - began
            stage.train()
            order = stage.sampler.epoch(self.generator("trial"))
            inputs = self.train_images if stage.inputs is None else stage.inputs
            done = 0
            while True:
                for index, images in inputs.batches(order):
                    if done == warm_up:
                        began = self._now()
                    training.step(index, images)
                    done += 1
                    if done == most or (done > warm_up and self._now() - began > SECONDS):
                        return replace(speed, step=(self._now() - began) / (done - warm_up), before=before)

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.monotonic()


def measure(method: Method, collection: Collection, place: Place, *, timed: bool = True) -> dict[str, Speed]:
    """How fast the stages of the method train, up to the stretched one, by a few steps of copies that are thrown
    away; not ``timed``, only how many steps they have."""
    trial = Trial(collection, place, method.stretched, timed)
    torch.manual_seed(place.seed)
    try:
        method.fit(collection, trial)
    except _Measured:
        return trial.speeds
    raise TypeError(f"the method {method.settings.method} trains no stage {method.stretched}")


@dataclass(frozen=True)
class Planned:
    """Settings with their epochs, what was chosen of it, and what to warn of."""

    settings: Settings
    choices: tuple[Choice, ...] = ()
    warnings: tuple[str, ...] = ()
    advice: str = ""
    """What to do where training turns out to take long; "" where the person chose how long."""


@dataclass(frozen=True)
class Clock:
    """Seconds there are, None for any number, and seconds that are gone."""

    budget: float | None
    spent: float


def plan_epochs(
    settings: Settings, collection: Collection, place: Place, clock: Clock, given: Container[str], free: bool
) -> Planned:
    """Epochs of the method's stretched plan for the clock's budget; without one for the number of images, if the
    recipe's are ``free`` to be changed. Settings whose names the person has ``given`` stay."""
    method = get_method(settings.method)(settings)
    as_given = f"{method.stretched}.epochs" in given
    if clock.budget is None:
        stays = not method.stretched or not free or as_given
        return Planned(settings) if stays else _by_amount(method, collection, place)
    left, named = clock.budget * (1 - AFTER) - clock.spent, format_seconds(clock.budget)
    if not method.stretched:
        return _read_within(left, named, method, collection, place)
    began = time.monotonic()
    speeds = measure(method, collection, place)
    left -= time.monotonic() - began
    stretched = speeds.pop(method.stretched)
    others = sum(speed.epoch * speed.epochs for speed in speeds.values())
    others += method.later_epochs(collection) * stretched.epoch
    if as_given:
        takes = others + stretched.epochs * stretched.epoch
        text = f"{stretched.epochs} epochs, as given, take about {format_seconds(takes)}"
        choice = Choice("epochs", str(stretched.epochs), f"as given; training takes about {format_seconds(takes)}")
        over = (f"{text}, more than {named} hold; they are run anyway",)
        return Planned(settings, (choice,), over if takes > left else ())
    epochs = max(1, min(int((left - others) / stretched.epoch), MAX_EPOCHS))
    why = f"what {named} hold" if epochs < MAX_EPOCHS else f"the most that are taken; {named} hold more"
    steps = f"{stretched.steps:,} {'step' if stretched.steps == 1 else 'steps'} of {stretched.step:.2g} s"
    choice = Choice("epochs", str(epochs), f"{why}: {steps} each")
    if others > left:
        text = f"the stages beside {method.stretched} alone take about {format_seconds(others)}"
        return Planned(
            _with_epochs(method, epochs), (choice,), (f"{text}, more than {named} hold; they are run anyway",)
        )
    some = f"{epochs} epoch of {method.stretched} fits" if epochs == 1 else f"{epochs} epochs of {method.stretched} fit"
    few = f"no more than {some} into {named}: training is cut short, and the result may be poor"
    return Planned(_with_epochs(method, epochs), (choice,), (few,) if epochs < FEW else ())


def _by_amount(method: Method, collection: Collection, place: Place) -> Planned:
    """The recipe's epochs, or more where they make few steps."""
    stretched = measure(method, collection, place, timed=False)[method.stretched]
    epochs, steps = min(max(stretched.epochs, -(-LEAST_STEPS // stretched.steps)), MAX_EPOCHS), stretched.steps
    if epochs == stretched.epochs:
        why = f"the recipe's; they have {steps:,} steps each"
        return Planned(method.settings, (Choice("epochs", str(epochs), why),), advice=ADVICE)
    why = f"more than the recipe's, since an epoch has {steps} of at least {LEAST_STEPS} steps"
    return Planned(_with_epochs(method, epochs), (Choice("epochs", str(epochs), why),), advice=ADVICE)


def _with_epochs(method: Method, epochs: int) -> Any:
    """The settings with that many epochs of the stretched plan, no longer a warm-up than a tenth of them, and the
    milestones at the same shares of them."""
    plan: PlanSettings = getattr(method.settings, method.stretched)
    milestones = tuple(round(milestone * epochs / plan.epochs, 2) for milestone in plan.milestones)
    changed = replace(plan, epochs=epochs, warmup_epochs=min(plan.warmup_epochs, epochs / 10), milestones=milestones)
    return replace(method.settings, **{method.stretched: changed})


def _read_within(left: float, named: str, method: Method, collection: Collection, place: Place) -> Planned:
    """Of a method whose epochs take seconds the time goes into what it does with images, whatever the budget."""
    engine = Engine(collection, torch.device(place.device), seed=place.seed, cache=_cache(place))
    what, seconds = method.seconds_to_read(collection, engine)
    takes = f"{what} takes about {format_seconds(seconds)}"
    over = (f"{takes}, more than {named} hold; it is done anyway",) if seconds > left else ()
    return Planned(method.settings, (Choice("epochs", "the recipe's", takes),), over)


def _cache(place: Place) -> Path | None:
    return Path(place.cache) if place.cache else None
