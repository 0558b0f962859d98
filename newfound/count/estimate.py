"""The estimate: our own way, how far it may be trusted, and the published ways beside it."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from newfound.count.known import within_known
from newfound.count.owned import by_owned
from newfound.count.published import by_accuracy, by_probes, by_shift
from newfound.count.result import Count, Rehearsed
from newfound.count.sample import Sample, limited
from newfound.errors import UserError
from newfound.progress import Reporter

FEWEST = 10
"""Images of the pile."""
MOST, EACH = 300, 4
"""Novel categories at the most, and images of the pile for each."""
LEAST, WIDEST = 0.1, 0.3
"""How far the interval reaches to either side, as a share of the estimate."""
ERRORS = 2.0
"""Standard errors that the interval reaches."""
FEWEST_REHEARSED = 4
"""Known categories for a rehearsal."""
COMPARED = 1000
"""Images of the pile that the published ways look at."""
SOME, ALL = 0.1, 0.8
"""Shares of a mixed pile from which images that look known are left out, and of any pile from which nothing is new."""


@torch.no_grad()
def count(
    features: Tensor,
    labels: Tensor,
    *,
    mixed: bool = False,
    taught: bool = False,
    seed: int = 0,
    reporter: Reporter | None = None,
) -> Count:
    """How many novel categories there are among features [N, D], of which the first have labels [n] from 0.

    Where the pile is ``mixed``, images that look like known categories are left out of the count. Elsewhere none is:
    novel categories that resemble known ones would be lost. Where the labels have ``taught`` the features, known
    categories are drawn together more than novel ones, so a rehearsal on them says nothing of these. Of more than 1,000
    labelled images and 2,000 others some are drawn by the seed. UserError where an estimate makes no sense: the pile
    has fewer than ten images, or all features are the same.
    """
    _check(features, labels)
    with (reporter or Reporter(quiet=True)).task("counting categories", 4, "ways") as task:
        sample = limited(features, labels, seed)
        within = within_known(sample, seed)
        task.advance(1)
        looked_at = sample
        if mixed and within and within.share >= SOME and len(within.outside) >= FEWEST:
            n = len(sample.labels)
            kept = torch.cat([torch.arange(n), n + within.outside])
            looked_at = Sample(sample.features[kept], sample.labels)
        most = _most(looked_at)
        owned = by_owned(looked_at, most, seed)
        task.advance(1)
        rehearsed = () if taught else _rehearse(sample, seed)
        task.advance(1)
        estimate = max(1, math.ceil(owned.estimate - 0.25))
        some = looked_at.thinned(max(2, COMPARED // (2 * sample.n_known)), COMPARED, np.random.default_rng(seed))
        published = {
            "dtc": by_probes(some, _most(some), seed),
            "gcd": by_accuracy(some, _most(some), seed),
            "shift": by_shift(some, _most(some), seed),
        }
        task.advance(1)
    methods = {"owned": estimate} | {name: found for name, found in published.items() if found is not None}
    interval = _interval(estimate, owned.error, rehearsed, most)
    share = within.share if within else None
    return Count(
        estimate,
        interval,
        _statement(sample, estimate, interval, methods, rehearsed, share, looked_at is not sample, most, taught),
        methods,
        tuple((int(n), round(float(c), 3)) for n, c in zip(owned.numbers, owned.clusters, strict=True)),
        rehearsed,
        share,
        share is not None and share >= ALL,
        (len(sample.labels), len(sample.pile)),
    )


def _check(features: Tensor, labels: Tensor) -> None:
    pile = len(features) - len(labels)
    if pile < FEWEST:
        images = "1 image" if pile == 1 else f"{pile} images"
        raise UserError(f"the pile has {images}, too few to estimate how many categories it has: say how many")
    low, high = features.amin(0), features.amax(0)
    if bool((high - low <= 1e-6 * torch.maximum(high.abs(), low.abs())).all()):
        raise UserError("the features of all images are the same: they do not say how many categories there are")


def _most(sample: Sample) -> int:
    return max(2, min(MOST, len(sample.pile) // EACH))


def _rehearse(sample: Sample, seed: int) -> tuple[Rehearsed, ...]:
    """Half of the known categories as known ones and the others as a pile, and the other way round."""
    if sample.n_known < FEWEST_REHEARSED:
        return ()
    order = np.random.default_rng([seed, 0x4E4]).permutation(sample.n_known)
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    found = []
    for known, pile in (halves, halves[::-1]):
        task = sample.of(known, pile)
        if len(task.pile) >= FEWEST:
            number = by_owned(task, _most(task), seed).estimate
            found.append(Rehearsed(len(pile), max(1, math.ceil(number - 0.25))))
    return tuple(found)


def missed(rehearsed: tuple[Rehearsed, ...]) -> float:
    """By how much of the number a rehearsal missed, on average."""
    return float(np.mean([abs(one.found / one.true - 1) for one in rehearsed]))


def _interval(estimate: int, error: float, rehearsed: tuple[Rehearsed, ...], most: int) -> tuple[int, int]:
    reach = max(LEAST, ERRORS * error, missed(rehearsed) if rehearsed else WIDEST)
    reach = max(1.0, min(WIDEST, reach) * estimate)
    return max(1, math.ceil(estimate - reach)), min(max(most, estimate), math.floor(estimate + reach))


def _statement(
    sample: Sample,
    estimate: int,
    interval: tuple[int, int],
    methods: dict[str, int],
    rehearsed: tuple[Rehearsed, ...],
    share: float | None,
    left_out: bool,
    most: int,
    taught: bool,
) -> str:
    """How sure the estimate is."""
    said = []
    if share is not None and share >= ALL:
        said.append(f"{share:.0%} of the pile look like known categories: there is probably nothing new in it")
    elif left_out:
        said.append(
            f"{share:.0%} of the pile look like known categories; images within these were left out of the count"
        )
    if taught:
        said.append(
            "hardly more than a guess: these features were learned from the labels of known categories, which lie "
            "closer together in them than others do"
        )
    elif rehearsed:
        miss, tries = missed(rehearsed), ", ".join(f"{one.found} for {one.true}" for one in rehearsed)
        how = "fairly sure" if miss <= 0.15 else "rough" if miss <= 0.3 else "hardly more than a guess"
        said.append(f"{how}: a rehearsal on known categories missed by {miss:.0%} ({tries})")
    else:
        known = "a single known category says" if sample.n_known == 1 else f"{sample.n_known} known categories say"
        said.append(f"rough: {known} little about others, with too few images or categories for a rehearsal")
    if estimate >= most:
        said.append(f"there may be more than {most}: no more are looked for than one for {EACH} images")
        return "; ".join(said)
    others = {name: number for name, number in methods.items() if name != "owned"}
    apart = [f"{name} {n}" for name, n in others.items() if not interval[0] <= n <= interval[1]]
    if apart:
        said.append(f"published ways that say otherwise: {', '.join(apart)}")
    elif others:
        said.append("the published ways agree")
    return "; ".join(said)
