"""Of which epochs a run keeps snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from newfound.config.mapping import brief, cut, values_of
from newfound.config.settings import PlanSettings, Settings
from newfound.errors import UserError
from newfound.methods import get_method

MOST = 100
"""Snapshots of a run; each takes some MB."""


def parse_snapshots(given: str | Iterable[int | str] | None, settings: Settings) -> tuple[str, ...]:
    """Plans and epochs as STAGE:EPOCH, from "1,10,stage2:1" or a list of such numbers and words.

    A number alone is an epoch of the plan that the method's time budget stretches. Stops at a plan that the settings
    leave out.
    """
    words = given.split(",") if isinstance(given, str) else [] if given is None else given
    try:
        found = dict.fromkeys(_parse(word, settings) for word in words)
    except TypeError:  # what is no list
        raise UserError(f"--snapshots {brief(given)}: write it as 1,10,100") from None
    if given is not None and not 1 <= len(found) <= MOST:
        raise UserError(f"--snapshots {brief(given)}: give 1 to {MOST} epochs, such as 1,10,100")
    left_out = settings.left_out()
    for plan, epoch in found:
        if plan in left_out:
            raise UserError(
                f"--snapshots {plan}:{epoch}: {settings.method} does not train the stage {plan} where "
                f"{left_out[plan]}; change that setting, or leave this epoch out"
            )
    return tuple(f"{plan}:{epoch}" for plan, epoch in found)


def _parse(word: Any, settings: Settings) -> tuple[str, int]:
    plan, colon, epoch = str(word).strip().rpartition(":")
    number = int(epoch) if epoch.isascii() and epoch.isdigit() and len(epoch) < 10 else 0
    if number < 1 or (colon and not plan):
        raise UserError(
            f"--snapshots {brief(word)}: an epoch is a whole number from 1, or that of a stage, as stage2:1"
        )
    plans = values_of(settings, PlanSettings)
    trained = [name for name in plans if name not in settings.left_out()]
    if not colon:
        plan = get_method(settings.method).stretched
        if not plan:
            raise UserError(f"--snapshots {number}: say of which stage of {settings.method}: {_list(trained, number)}")
    if plan not in plans:
        raise UserError(
            f"--snapshots {cut(str(word))}: {settings.method} has no stage {cut(plan)}; write {_list(trained, number)}"
        )
    return plan, number


def _list(plans: Iterable[str], epoch: int) -> str:
    return " or ".join(f"{plan}:{epoch}" for plan in plans)


def wanted_snapshots(snapshots: Iterable[str], settings: Settings) -> list[tuple[str, int]]:
    """The plan and the epoch of each. Stops where a plan has fewer epochs."""
    found, plans = [_parse(word, settings) for word in snapshots], values_of(settings, PlanSettings)
    for plan, epoch in found:
        if epoch > plans[plan].epochs:
            raise UserError(
                f"--snapshots {plan}:{epoch}: {plan} has {plans[plan].epochs:,} epochs here; name none beyond"
            )
    return found
