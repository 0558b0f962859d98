"""The estimate: our own way, how far it may be trusted, and the published ways beside it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from newfound.count.known import outside_known, within_known
from newfound.count.owned import Owned, by_owned
from newfound.count.published import by_accuracy, by_probes, by_shift
from newfound.count.result import GUESS, Count, Rehearsed
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
ALL = 0.95
"""The share of the pile that looks known from which nothing is new."""
LEAST_LEFT = 0.5
"""Of the categories of a mixed pile at least this share stays, in proportion to the images that stay."""


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

    Where the pile is ``mixed``, images that join known categories are left out of the count. Elsewhere none is: novel
    categories that resemble known ones would be lost. Where the labels have ``taught`` the features, known
    categories are drawn together more than novel ones, so a rehearsal on them says nothing of these. Of more than 1,000
    labelled images and 2,000 others some are drawn by the seed. UserError where an estimate makes no sense: the pile
    has fewer than ten images, or all features are the same.
    """
    _check(features, labels)
    with (reporter or Reporter(quiet=True)).task("counting categories", 4, "ways") as task:
        sample = limited(features, labels, seed)
        share = within_known(sample, seed)
        nothing_new = share is not None and share >= ALL
        task.advance(1)
        owned, looked_at, joined = _novel(sample, mixed, seed)
        most = _most(looked_at)
        task.advance(1)
        rehearsed = () if taught else _rehearse(sample, mixed, seed)
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
    interval = _interval(estimate, owned.error, rehearsed, mixed, most)
    if mixed:
        share = joined
    said = [
        *_of_known_images(share, nothing_new, mixed),
        _how_sure(sample.n_known, rehearsed, mixed, taught),
        *_of_other_numbers(estimate, interval, methods, most, mixed),
    ]
    return Count(
        estimate,
        interval,
        "; ".join(said),
        methods,
        tuple((int(n), round(float(c), 3)) for n, c in zip(owned.numbers, owned.clusters, strict=True)),
        rehearsed,
        share,
        nothing_new,
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


def _novel(sample: Sample, mixed: bool, seed: int) -> tuple[Owned, Sample, float]:
    """The number of novel categories by what known ones own, the sample that it was found in, and the share of the pile
    that joined known categories.

    Of a mixed pile all categories are counted first. With so many new clusters beside the known categories, the images
    that join these are left out, and the rest is counted. Novel images that went with them make categories smaller, and
    in a few piles the number collapses: so it is no less than half of what the images that stay would have.
    """
    owned = by_owned(sample, _most(sample), seed)
    if not mixed:
        return owned, sample, 0.0
    rest = outside_known(sample, round(owned.estimate), seed)
    left = len(rest.pile) / len(sample.pile)
    least = max(1.0, LEAST_LEFT * owned.estimate * left)
    if len(rest.pile) < FEWEST:
        return replace(owned, estimate=least), sample, 1 - left
    found = by_owned(rest, _most(rest), seed)
    return replace(found, estimate=max(found.estimate, least)), rest, 1 - left


def _rehearse(sample: Sample, mixed: bool, seed: int) -> tuple[Rehearsed, ...]:
    """Half of the known categories as known ones and the others as a pile, and the other way round; to a mixed pile
    each of the known ones gives a third of its images."""
    if sample.n_known < FEWEST_REHEARSED:
        return ()
    order = np.random.default_rng([seed, 0x4E4]).permutation(sample.n_known)
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    found = []
    for known, pile in (halves, halves[::-1]):
        task = sample.of(known, pile)
        if mixed:
            task = task.mixed(np.random.default_rng([seed, 0x317]))
        if len(task.pile) >= FEWEST:
            number = _novel(task, mixed, seed)[0].estimate
            found.append(Rehearsed(len(pile), max(1, math.ceil(number - 0.25))))
    return tuple(found)


def missed(rehearsed: tuple[Rehearsed, ...]) -> float:
    """By how much of the number a rehearsal missed, on average."""
    return float(np.mean([abs(one.found / one.true - 1) for one in rehearsed]))


def _interval(estimate: int, error: float, rehearsed: tuple[Rehearsed, ...], mixed: bool, most: int) -> tuple[int, int]:
    reach = max(LEAST, ERRORS * error, missed(rehearsed) if rehearsed and not mixed else WIDEST)
    reach = max(1.0, min(WIDEST, reach) * estimate)
    return max(1, math.ceil(estimate - reach)), min(max(most, estimate), math.floor(estimate + reach))


def _of_known_images(share: float | None, nothing_new: bool, mixed: bool) -> list[str]:
    if nothing_new:
        return ["nearly all of the pile looks like known categories: there is probably nothing new in it"]
    return [f"{share:.0%} of the pile joined known categories and was left out of the count"] if mixed else []


def _how_sure(n_known: int, rehearsed: tuple[Rehearsed, ...], mixed: bool, taught: bool) -> str:
    if taught:
        why = "these features were learned from the labels of known categories, which lie closer together in them"
        return f"{GUESS}: {why} than others do"
    if not rehearsed:
        known = "a single known category says" if n_known == 1 else f"{n_known} known categories say"
        return f"rough: {known} little about others, with too few images or categories for a rehearsal"
    miss, tries = missed(rehearsed), ", ".join(f"{one.found} for {one.true}" for one in rehearsed)
    how = "fairly sure" if miss <= 0.15 and not mixed else "rough" if miss <= 0.3 else GUESS
    return f"{how}: a rehearsal on known categories missed by {miss:.0%} ({tries})"


def _of_other_numbers(
    estimate: int, interval: tuple[int, int], methods: dict[str, int], most: int, mixed: bool
) -> list[str]:
    if estimate >= most:
        left = " that are left" if mixed else ""
        return [f"there may be more than {most}: no more are looked for than one for {EACH} images{left}"]
    others = {name: number for name, number in methods.items() if name != "owned"}
    if apart := [f"{name} {n}" for name, n in others.items() if not interval[0] <= n <= interval[1]]:
        return [f"published ways that say otherwise: {', '.join(apart)}"]
    return ["the published ways agree"] if others else []
