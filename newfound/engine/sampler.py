"""Which images make up each batch of an epoch: fixed numbers from fixed streams, so that shapes never change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from newfound.data.collection import Collection


@dataclass(frozen=True)
class Stream:
    """Images (indices into the training store) of which every batch takes ``per_batch``."""

    index: np.ndarray
    per_batch: int

    @property
    def batches(self) -> int:
        """How many batches show its images once; what is left over is not shown."""
        return len(self.index) // self.per_batch

    def order(self, generator: torch.Generator, steps: int) -> Tensor:
        """The images of ``steps`` batches, int64 [steps, per_batch]: a random order, then another one."""
        return torch.from_numpy(self.index)[_rounds(generator, len(self.index), steps * self.per_batch)].view(steps, -1)


@dataclass(frozen=True)
class GroupStream(Stream):
    """Images of which each batch takes those of one group: what is compared in pairs has to be of one task."""

    groups: tuple[np.ndarray, ...]

    @property
    def batches(self) -> int:
        """How many batches show every image; some come again where a group is no multiple of a batch."""
        return sum(-(-len(group) // self.per_batch) for group in self.groups)

    def order(self, generator: torch.Generator, steps: int) -> Tensor:
        """Every group has as many batches as it takes to show each of its images, and the batches are shuffled."""
        found: list[Tensor] = []
        while len(found) < steps:
            batches = [batch for group in self.groups for batch in self._batches(generator, group)]
            found += [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]
        return torch.stack(found[:steps])

    def _batches(self, generator: torch.Generator, group: np.ndarray) -> Tensor:
        count = -(-len(group) // self.per_batch)
        return Stream(group, self.per_batch).order(generator, count)


@dataclass(frozen=True)
class ClassStream(Stream):
    """Images of which each batch takes ``per_class`` of every one of some random categories, category by category.

    ``labels`` [len(index)] has the category of each image. ``per_batch`` is the number of categories in a batch times
    ``per_class``. A category with fewer images than ``per_class`` shows some of them twice.
    """

    labels: np.ndarray
    per_class: int

    def order(self, generator: torch.Generator, steps: int) -> Tensor:
        members = [torch.from_numpy(self.index[self.labels == label]) for label in np.unique(self.labels)]
        chosen = self.per_batch // self.per_class
        batches = []
        for _ in range(steps):
            classes = torch.randperm(len(members), generator=generator)[:chosen].tolist()
            own = [members[c][_rounds(generator, len(members[c]), self.per_class)] for c in classes]
            batches.append(torch.cat(own))
        return torch.stack(batches)


def _rounds(generator: torch.Generator, n: int, needed: int) -> Tensor:
    """``needed`` of the numbers below ``n``: each once in a random order, then again in another one."""
    return torch.cat([torch.randperm(n, generator=generator) for _ in range(-(-needed // n))])[:needed]


class Sampler:
    """Batches that hold ``per_batch`` images of each stream, in the streams' order.

    An epoch is one pass over the largest share (the stream that lasts longest); streams that end sooner start again, in
    a new order. The last, incomplete batch is dropped: within an epoch no image of the longest stream comes twice, but
    in batches of one group or by categories.
    The first ``n_known`` images of a batch are labelled.
    """

    def __init__(self, streams: Sequence[Stream], *, n_known: int) -> None:
        self.n_known = n_known
        self.streams = [stream for stream in streams if stream.per_batch > 0]
        if not self.streams or any(len(stream.index) == 0 for stream in self.streams):
            raise ValueError("every stream needs an image, and a batch needs a stream")
        self.batch = sum(stream.per_batch for stream in self.streams)
        self.steps = max(1, *(stream.batches for stream in self.streams))

    def epoch(self, generator: torch.Generator) -> Tensor:
        """The indices of every batch of one epoch, int64 [steps, batch], on the CPU."""
        return torch.cat([stream.order(generator, self.steps) for stream in self.streams], dim=1)


def mixed_sampler(
    collection: Collection, batch: int, labelled_share: float = 0.0, *, one_task: bool = False
) -> Sampler:
    """Batches of labelled images, then unlabelled ones, in fixed numbers: by ``labelled_share``, or the natural share.

    A collection smaller than a batch gives one batch an epoch. With ``one_task`` the unlabelled images of a batch are
    of one task.
    """
    total = len(collection.labels)
    batch = min(batch, total)
    known = round(batch * (labelled_share or collection.n_labelled / total))
    known = min(max(known, 1), batch - 1)
    unlabelled = _unlabelled(collection, batch - known, one_task)
    return Sampler([Stream(collection.labelled, known), unlabelled], n_known=known)


def unlabelled_sampler(collection: Collection, batch: int, *, one_task: bool = False) -> Sampler:
    """Batches of unlabelled images alone, with ``one_task`` each of one task."""
    return Sampler([_unlabelled(collection, min(batch, collection.n_unlabelled), one_task)], n_known=0)


def class_sampler(collection: Collection, classes: int, per_class: int) -> Sampler:
    """Batches of ``per_class`` labelled images of each of ``classes`` random categories, or of all if there are fewer;
    an epoch has as many images as are labelled."""
    per_batch = min(classes, len(collection.classes)) * per_class
    labels = collection.labels[: collection.n_labelled]
    return Sampler([ClassStream(collection.labelled, per_batch, labels, per_class)], n_known=per_batch)


def _unlabelled(collection: Collection, per_batch: int, one_task: bool) -> Stream:
    tasks = tuple(task.rows for task in collection.tasks)
    if len(tasks) == 1 or not one_task:
        return Stream(collection.unlabelled, per_batch)
    return GroupStream(collection.unlabelled, min(per_batch, max(map(len, tasks))), tasks)


def labelled_sampler(labelled: np.ndarray, batch: int) -> Sampler:
    """Batches of labelled images alone; a collection smaller than a batch gives one batch an epoch."""
    batch = min(batch, len(labelled))
    return Sampler([Stream(labelled, batch)], n_known=batch)
