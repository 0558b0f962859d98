"""Images that another run knew or found as labelled ones, and a pile to find further categories in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from newfound.data.alike import warn_of_like_names
from newfound.data.cache import decode_cached
from newfound.data.collection import Pool, Reading, Skipped, assemble
from newfound.data.duplicates import leave_out_known
from newfound.data.folder import Listing, list_images, names_in_pile, require_a_readable_image, require_folder
from newfound.data.remembered import RememberedStore
from newfound.errors import UserError
from newfound.files import write_json
from newfound.progress import Reporter
from newfound.strangers import parse_json, read_small


@dataclass(frozen=True)
class Known:
    """Images whose category is known, row by row: the path, the label and, of an image that is gone, the digest of its
    pixels in hexadecimal digits ("" of one that is there)."""

    paths: tuple[str, ...]
    labels: tuple[str, ...]
    digests: tuple[str, ...]

    def save(self, path: Path) -> None:
        write_json(path, {"images": self.paths, "labels": self.labels, "digests": self.digests})

    @classmethod
    def load(cls, path: Path) -> Known:
        """What ``save`` wrote, checked."""
        try:
            content = parse_json(read_small(path).decode("utf-8", errors="surrogateescape"))
            columns = [tuple(content[name]) for name in ("images", "labels", "digests")]
            if not all(isinstance(value, str) for column in columns for value in column):
                raise ValueError("it holds what is no text")
            if len({len(column) for column in columns}) > 1 or not all(columns[1]):
                raise ValueError("images, labels and digests do not fit together")
            known = cls(*columns)
            known.gone_digests()
        except FileNotFoundError:
            raise UserError(f"{path} is missing, which lists the labelled images of the run") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f"{path} does not list the labelled images of the run: {error}") from None
        return known

    @property
    def gone(self) -> list[int]:
        """Rows of the images that are gone."""
        return [row for row, digest in enumerate(self.digests) if digest]

    def gone_digests(self) -> np.ndarray:
        """Digests of the images that are gone, uint8 [n, 16]."""
        digests = [bytes.fromhex(self.digests[row]) for row in self.gone]
        if any(len(digest) != 16 for digest in digests):
            raise ValueError("a digest has not 16 bytes")
        return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 16).copy()


def read_grown(
    known: Known,
    unlabelled: Path,
    *,
    n_novel: int,
    size: int,
    seed: int,
    mixed: bool = False,
    reporter: Reporter | None = None,
    cache: Path | None = None,
    workers: int | None = None,
    listing: Listing = list_images,
) -> Reading:
    """The images [3, size, size] that are known and those of the pile ``unlabelled``.

    Known images that are gone have digests, but no pixels. Names of known images are their paths, those of the pile are
    relative to it.
    """
    require_folder(unlabelled, "unlabelled")
    pile, gone = names_in_pile(unlabelled, listing), known.gone
    there = [row for row, digest in enumerate(known.digests) if not digest]
    paths = [Path(known.paths[row]) for row in there] + [unlabelled / name for name in pile]
    reporter = reporter or Reporter(quiet=True)
    images, kept, unread = decode_cached(paths, size, cache=cache, reporter=reporter, workers=workers)
    require_a_readable_image(unlabelled, pile, {skip.file: skip.reason for skip in unread})
    if gone:
        images = RememberedStore.beside(images, known.gone_digests())
    sources = [*(there[place] if place < len(there) else None for place in kept.tolist()), *gone]
    names = [*(known.paths[row] for row in there), *pile]
    pool = Pool(
        images=images,
        names=[*(names[place] for place in kept.tolist()), *(known.paths[row] for row in gone)],
        categories=[None if row is None else known.labels[row] for row in sources],
    )
    # In the order of the list, whether an image is there or gone: what is learned is the same.
    labelled = np.array(sorted((i for i, row in enumerate(sources) if row is not None), key=lambda i: sources[i] or 0))
    if lost := sorted(set(known.labels) - {str(pool.categories[row]) for row in labelled.tolist()}):
        raise UserError(f"no image of the category {lost[0]!r} can be read: put its images back, or start a new run")
    warn_of_like_names(known.labels, reporter)
    in_pile = np.array([i for i, row in enumerate(sources) if row is None], dtype=np.int64)
    rest, same = leave_out_known(pool, labelled, in_pile, reporter)
    twice = [
        Skipped(str(unlabelled / pool.names[one]), f"the same image as {pool.names[other]!r}")
        for one, other in same.items()
    ]
    return assemble(
        pool,
        labelled=labelled,
        unlabelled=rest,
        n_novel=n_novel,
        seed=seed,
        mixed=mixed,
        skipped=tuple(sorted((*unread, *twice), key=lambda skip: skip.file)),
    )
