"""Which images make up each batch of an epoch: fixed numbers from fixed pools, so that shapes never change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from newfound.data.collection import Collection


@dataclass(frozen=True)
class Pool:
    """Images (indices into the training store) of which every batch takes ``per_batch``."""

    index: np.ndarray
    per_batch: int


class Sampler:
    """Batches that hold ``per_batch`` images of each pool, in the pools' order.

    An epoch is one pass over the largest share (the pool that lasts longest); pools that end sooner start again, in
    a new order. The last, incomplete batch is dropped: within an epoch no image of the longest pool comes twice.
    """

    def __init__(self, pools: Sequence[Pool]) -> None:
        self.pools = [pool for pool in pools if pool.per_batch > 0]
        if not self.pools or any(len(pool.index) == 0 for pool in self.pools):
            raise ValueError("every pool needs an image, and a batch needs a pool")
        self.batch = sum(pool.per_batch for pool in self.pools)
        self.steps = max(1, *(len(pool.index) // pool.per_batch for pool in self.pools))

    def epoch(self, generator: torch.Generator) -> Tensor:
        """The indices of every batch of one epoch, int64 [steps, batch], on the CPU."""
        columns = []
        for pool in self.pools:
            needed = self.steps * pool.per_batch
            rounds = [
                torch.randperm(len(pool.index), generator=generator) for _ in range(-(-needed // len(pool.index)))
            ]
            order = torch.cat(rounds)[:needed].view(self.steps, pool.per_batch)
            columns.append(torch.from_numpy(pool.index)[order])
        return torch.cat(columns, dim=1)


def mixed_sampler(collection: Collection, batch: int, labelled_share: float = 0.0) -> Sampler:
    """Batches of labelled images, then unlabelled ones, in fixed numbers: by ``labelled_share``, or the natural share.

    A collection smaller than a batch gives one batch an epoch.
    """
    total = len(collection.labels)
    batch = min(batch, total)
    known = round(batch * (labelled_share or collection.n_labelled / total))
    known = min(max(known, 1), batch - 1)
    return Sampler([Pool(collection.labelled, known), Pool(collection.unlabelled, batch - known)])


def labelled_sampler(labelled: np.ndarray, batch: int) -> Sampler:
    """Batches of labelled images alone; a collection smaller than a batch gives one batch an epoch."""
    return Sampler([Pool(labelled, min(batch, len(labelled)))])
