"""Sentences that say why a result may not be trusted."""

from __future__ import annotations

import numpy as np

from newfound.data.collection import Collection
from newfound.methods.base import Outcome
from newfound.trust.gauges import least_parted
from newfound.trust.merged import merged
from newfound.trust.rehearsal import Rehearsal

WITHIN, WITHIN_LEARNED = 0.15, 0.25
"""The share of the pile within known categories from which a warning is due, by features that no label has touched and
by learned ones: docs/trust-figures.md."""
FEW, FEW_KNOWN, STRAY = 10, 5, 2
"""Images of a category in the pile and of a known one below which, of a found one up to which, a warning is due."""
STABLE, REHEARSED, PARTED = 0.7, 0.7, 0.65
"""What gauges should reach: docs/trust-figures.md has what was found below and above."""


def doubts(
    collection: Collection, outcome: Outcome, gauges: dict[str, float], rehearsal: Rehearsal | None = None
) -> dict[str, str]:
    """Sentences that say why the categories may not be trusted, by what they are about; none where nothing speaks
    against them. Where no label has taught the network, few known images and a large category tell nothing
    (docs/trust-figures.md)."""
    names = outcome.model.classes
    sizes = np.bincount(outcome.assignments, minlength=len(names))[collection.candidates]
    known = np.bincount(collection.labels[: collection.n_labelled], minlength=len(collection.classes))
    warnings = {}
    if collection.n_unlabelled < FEW * collection.n_novel:
        few = f"{collection.n_unlabelled} images for {collection.n_novel} categories"
        warnings["few"] = f"the pile has {few}: with fewer than {FEW} a category many will be wrong"
    within = WITHIN_LEARNED if outcome.backbone_features is None else WITHIN
    if not collection.mixed and gauges.get("within", 0) >= within:
        warnings["within"] = (
            f"about {gauges['within']:.0%} of the pile lies within known categories, and all of it was given novel "
            "ones: if known categories may hide in the pile, look for them there with --mixed"
        )
    poor, learns = int((known < FEW_KNOWN).sum()), outcome.backbone_features is None
    if len(known) == 1 and outcome.taught:
        warnings["one known"] = (
            "only one category is known, and what tells categories apart is learned from two or more: label another "
            "one, or take a method that learns without labels, such as simclr"
        )
    if poor and learns and outcome.taught:
        warnings["few known"] = (
            f"{poor} of the {len(known)} known categories have fewer than {FEW_KNOWN} images: they say little of what "
            "may vary within a category"
        )
    if gauges.get("rehearsal", 1) < REHEARSED:
        warnings["rehearsal"] = (
            f"known categories that play the novel ones are found again for {gauges['rehearsal']:.0%} of their images "
            "only: the features may not suit these images"
        )
    if gauges.get("stability", 1) < STABLE:
        warnings["stability"] = (
            f"a clustering of a part of the pile agrees little (adjusted Rand index {gauges['stability']:.2f}): the "
            "categories are one way of many to part it; try another number of categories, or more images"
        )
    pair = least_parted(collection, outcome) if gauges.get("parted", 1) < PARTED else None
    if pair is not None:
        warnings["parted"] = (
            f"{names[pair[1]]} and {names[pair[2]]} run into each other: they may be one category cut in two, as "
            "happens where it is far larger than the others, or where too many categories are looked for"
        )
    if two := [names[category] for category in merged(collection, outcome, rehearsal)]:
        named = [*two[:3], f"{len(two) - 3} others"] if len(two) > 4 else two
        look = f"{two[0]} looks" if len(two) == 1 else f"{', '.join(named[:-1])} and {named[-1]} look"
        warnings["merged"] = (
            f"{look} like two categories in one, with images less alike than those of known categories: look at the "
            "images, or try more categories"
        )
    novel = sizes[collection.candidates >= len(collection.classes)]
    if (stray := int(((novel > 0) & (novel <= STRAY)).sum())) > 0:
        some = "1 category has" if stray == 1 else f"{stray} categories have"
        warnings["strays"] = f"{some} {STRAY} images or fewer: strays rather than a category"
    if (empty := int((novel == 0).sum())) > 0:
        some = "1 novel category is" if empty == 1 else f"{empty} novel categories are"
        warnings["empty"] = f"{some} empty: train longer, take another method, or look for fewer categories"
    if learns and collection.n_novel > 2 and 2 * novel.max() > collection.n_unlabelled:
        share = f"{novel.max() / collection.n_unlabelled:.0%} of the pile"
        name = names[len(collection.classes) + novel.argmax()]
        warnings["largest"] = f"{name} has {share}: it may be several categories that were not parted"
    return warnings
