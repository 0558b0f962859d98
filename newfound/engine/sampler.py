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


class Sampler:
    """Batches that hold ``per_batch`` images of each stream, in the streams' order.

    An epoch is one pass over the largest share (the stream that lasts longest); streams that end sooner start again, in
    a new order. The last, incomplete batch is dropped: within an epoch no image of the longest stream comes twice.
    The first ``n_known`` images of a batch are labelled.
    """

    def __init__(self, streams: Sequence[Stream], *, n_known: int) -> None:
        self.n_known = n_known
        self.streams = [stream for stream in streams if stream.per_batch > 0]
        if not self.streams or any(len(stream.index) == 0 for stream in self.streams):
            raise ValueError("every stream needs an image, and a batch needs a stream")
        self.batch = sum(stream.per_batch for stream in self.streams)
        self.steps = max(1, *(len(stream.index) // stream.per_batch for stream in self.streams))

    def epoch(self, generator: torch.Generator) -> Tensor:
        """The indices of every batch of one epoch, int64 [steps, batch], on the CPU."""
        columns = []
        for stream in self.streams:
            needed = self.steps * stream.per_batch
            rounds = [
                torch.randperm(len(stream.index), generator=generator) for _ in range(-(-needed // len(stream.index)))
            ]
            order = torch.cat(rounds)[:needed].view(self.steps, stream.per_batch)
            columns.append(torch.from_numpy(stream.index)[order])
        return torch.cat(columns, dim=1)


def mixed_sampler(collection: Collection, batch: int, labelled_share: float = 0.0) -> Sampler:
    """Batches of labelled images, then unlabelled ones, in fixed numbers: by ``labelled_share``, or the natural share.

    A collection smaller than a batch gives one batch an epoch.
    """
    total = len(collection.labels)
    batch = min(batch, total)
    known = round(batch * (labelled_share or collection.n_labelled / total))
    known = min(max(known, 1), batch - 1)
    return Sampler([Stream(collection.labelled, known), Stream(collection.unlabelled, batch - known)], n_known=known)


def labelled_sampler(labelled: np.ndarray, batch: int) -> Sampler:
    """Batches of labelled images alone; a collection smaller than a batch gives one batch an epoch."""
    batch = min(batch, len(labelled))
    return Sampler([Stream(labelled, batch)], n_known=batch)
