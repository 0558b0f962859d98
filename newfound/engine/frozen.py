"""Features of a network that does not learn: computed once for each image, and kept in the cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Container, Iterable
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from newfound.data.store import ImageStore
from newfound.errors import UserError
from newfound.files import clear_unfinished, write_bytes
from newfound.progress import Progress, Reporter
from newfound.strangers import require_regular
from newfound.tensors import pack, read_tensors

FORMAT = 3
"""Goes up when features are computed or kept in another way: since 2 their files have a checksum, since 3 batch norms
are folded on a CPU."""

BATCH = 32
SHARD = 16 * BATCH
"""Images after which what has been computed is kept: an interruption loses half a minute on two cores."""


@torch.no_grad()
def frozen_features(
    network: nn.Module,
    images: ImageStore,
    device: torch.device,
    reporter: Reporter,
    *,
    of: Callable[[Tensor], Tensor],
    identity: str,
    cache: Path | None,
) -> Tensor:
    """What the function ``of`` of ``network``, in evaluation mode, gives for all images: float32 [n, D], on ``device``.

    Features are kept by the digest of an image's pixels, in a folder of the cache for each ``identity`` (a digest of
    the network), kind of device and shape of the images: an image is computed once, whichever collection it is in.
    Always in float32. After an interruption the batches that remain are those of an uninterrupted run.
    """
    digests = [row.tobytes() for row in images.digests()]
    kept = Kept(cache, identity, images.shape, device, reporter)
    known = kept.read()
    new = _first_of(digests, known)
    network.to(device).eval()
    different = len(set(digests))
    with reporter.task("reading features", different, done=different - len(new)) as task:
        for rows in new.split(SHARD) if len(new) else ():
            shard = _compute(of, images, rows, device, task).numpy()
            names = [digests[row] for row in rows.tolist()]
            kept.add(names, shard)
            known |= dict(zip(names, shard, strict=True))
    return torch.from_numpy(np.stack([known[digest] for digest in digests])).to(device)


@torch.no_grad()
def recalled_features(
    network: nn.Module, images: ImageStore, device: torch.device, kept: Kept, *, of: Callable[[Tensor], Tensor]
) -> Tensor:
    """The same as ``frozen_features``, of which those that are kept are looked up; new ones are not kept."""
    digests = [row.tobytes() for row in images.digests()]
    known = kept.find(digests)
    new = _first_of(digests, known)
    network.to(device).eval()
    if len(new):
        computed = _compute(of, images, new, device, Progress("", len(new), "images")).numpy()
        known |= dict(zip((digests[row] for row in new.tolist()), computed, strict=True))
    return torch.from_numpy(np.stack([known[digest] for digest in digests])).to(device)


def uncomputed(
    images: ImageStore, device: torch.device, reporter: Reporter, *, identity: str, cache: Path | None
) -> Tensor:
    """The rows of the images whose features ``frozen_features`` would compute: each that is not kept, once."""
    known = Kept(cache, identity, images.shape, device, reporter).read()
    return _first_of([row.tobytes() for row in images.digests()], known)


def _first_of(digests: list[bytes], known: Container[bytes]) -> Tensor:
    """Where in the list each digest that is not known comes first, int64 [n]."""
    first: dict[bytes, int] = {}
    for place, digest in enumerate(digests):
        first.setdefault(digest, place)
    return torch.tensor([place for digest, place in first.items() if digest not in known], dtype=torch.int64)


@torch.no_grad()
def seconds_per_image(
    network: nn.Module, images: ImageStore, device: torch.device, *, of: Callable[[Tensor], Tensor]
) -> float:
    """How long one image takes, by the second of two batches: the first sets things up."""
    network.to(device).eval()
    rows = torch.arange(BATCH) % len(images)
    for index, batch in images.batches([rows, rows]):
        began = time.monotonic()
        of(batch.to(device)).cpu()
        seconds = (time.monotonic() - began) / len(index)
    return seconds


def _compute(
    of: Callable[[Tensor], Tensor], images: ImageStore, rows: Tensor, device: torch.device, task: Progress
) -> Tensor:
    """Features [len(rows), D], on the CPU. All batches have one shape, the last one filled up with its last image, so
    that the same arithmetic is done for an image however many others are new."""
    features = []
    whole = torch.cat([rows, rows[-1:].expand(-len(rows) % BATCH)])
    for index, batch in images.batches(whole.split(BATCH)):
        features.append(of(batch.to(device)).float().cpu())
        task.advance(min(len(index), len(rows) - BATCH * (len(features) - 1)))
    return torch.cat(features)[: len(rows)]


class Kept:
    """The folder features-KEY/ of the cache: files with the digests [n, 16] of images and their features [n, D].

    A cache that cannot be written to, or a file in it that cannot be read, costs time and no more.
    """

    def __init__(
        self,
        cache: Path | None,
        identity: str,
        shape: tuple[int, int, int],
        device: torch.device,
        reporter: Reporter,
    ) -> None:
        key = f"{FORMAT} {identity} {device.type} {shape}"
        name = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        self.folder = cache / f"features-{name}" if cache else None
        self.reporter = reporter
        self._shard_of: dict[bytes, Path] | None = None

    def read(self) -> dict[bytes, np.ndarray]:
        """Every feature [D] that is there, by the digest of its image."""
        found: dict[bytes, np.ndarray] = {}
        for path in self._shards():
            found |= self._read_shard(path)
        return found

    def find(self, digests: Iterable[bytes]) -> dict[bytes, np.ndarray]:
        """The features [D] that are there of images with these digests; no others are in memory afterwards."""
        if self._shard_of is None:
            self._shard_of = {digest: path for path in self._shards() for digest in _digests_in(path)}
        wanted = {digest: self._shard_of[digest] for digest in digests if digest in self._shard_of}
        shards = {path: self._read_shard(path) for path in set(wanted.values())}
        return {digest: shards[path][digest] for digest, path in wanted.items() if digest in shards[path]}

    def _shards(self) -> list[Path]:
        return sorted(self.folder.glob("*.safetensors")) if self.folder else []

    def _read_shard(self, path: Path) -> dict[bytes, np.ndarray]:
        try:
            return self._check(read_tensors(path, checked=True))
        except UserError:
            raise
        except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
            self.reporter.warn(f"{path} cannot be read ({error}); its features are computed again")
            if not isinstance(error, OSError):
                with contextlib.suppress(OSError):
                    path.unlink()  # or each call would warn anew
            return {}

    def _check(self, tensors: dict[str, Tensor]) -> dict[bytes, np.ndarray]:
        digests, features = tensors["digests"], tensors["features"]
        right = digests.dtype == torch.uint8 and digests.shape == (len(features), 16)
        if not (right and features.dtype == torch.float32 and features.ndim == 2):
            raise ValueError("it holds something else")
        return dict(zip((row.tobytes() for row in digests.numpy()), features.numpy(), strict=True))

    def add(self, names: list[bytes], features: np.ndarray) -> None:
        if self.folder is None:
            return
        digests = np.frombuffer(b"".join(names), np.uint8).reshape(-1, 16).copy()
        content = pack({"digests": torch.from_numpy(digests), "features": torch.from_numpy(features)})
        path = self.folder / f"{hashlib.blake2b(digests.tobytes(), digest_size=16).hexdigest()}.safetensors"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            clear_unfinished(self.folder)
            write_bytes(path, content)
        except OSError as error:
            self.reporter.warn(f"features cannot be kept in {self.folder}: {error.strerror}")
            self.folder = None


def _digests_in(path: Path) -> list[bytes]:
    """The digests of a shard, whose features are left on disk; none of one that cannot be read."""
    try:
        require_regular(path)
        with safe_open(path, "pt") as shard:
            return [row.tobytes() for row in shard.get_tensor("digests").numpy()]
    except (OSError, SafetensorError, TypeError):  # the last of types that numpy has not
        return []
