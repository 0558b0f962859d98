"""count_novel: how many novel categories a pile has, from folders, features, or what a finished run learned."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from newfound.config.mapping import whole_number
from newfound.data.cache import default_cache
from newfound.data.collection import Skipped
from newfound.data.sources import Request, Source
from newfound.errors import Interrupted, UserError
from newfound.plan.auto import PRETRAINED
from newfound.progress import Reporter
from newfound.runfolder import Run

if TYPE_CHECKING:
    from torch import Tensor

    from newfound.count.result import Count
    from newfound.data.store import ImageStore

SHOWN = 2
"""Of the files that are left out."""


def count_novel(
    labelled: str | Path | None = None,
    unlabelled: str | Path | None = None,
    *,
    mixed: bool = False,
    labels: str | Path | None = None,
    features: str | Path | None = None,
    ids: str | Path | None = None,
    run: str | Path | None = None,
    backbone: str | Path | None = None,
    backbone_arch: str | None = None,
    seed: int = 0,
    device: str = "auto",
    cache: str | Path | None = None,
    verbose: bool | None = None,
) -> Count:
    """Estimate how many novel categories there are among unlabelled images; docs/count.md says how.

    Images come from the folders ``labelled`` and ``unlabelled`` (with ``labels``, if any), as ``discover`` takes them,
    and are looked at by a pretrained network: ``backbone``, by default efficientnet-lite0. Its features are kept in
    ``cache``, where a run of ``discover`` finds them again. Or ``features`` (with ``labels`` and ``ids``) stand for the
    images; or the features are those that the finished ``run`` learned. Where these were learned from labels, they
    say little, and the statement calls the number a guess.

    ``mixed`` says that known categories may hide in the pile: images that look like these are not counted. The other
    arguments are those of ``discover``.
    """
    reporter, seed = Reporter.of(verbose), whole_number(seed, "--seed")
    if not 0 <= seed < 2**31:
        raise UserError(f"--seed {seed}: it has to be from 0 to {2**31 - 1:,}")
    with _interrupted():
        if run is not None:
            if labelled or unlabelled or mixed or labels or features or ids or backbone:
                raise UserError("--run counts among the images of that run: leave the others out")
            return _of_run(Path(run), seed, device, reporter)
        if features and backbone:
            raise UserError("--backbone looks at images, and --features stand for these: give one of them")
        if not features and not (labelled and unlabelled):
            raise UserError("give --labelled and --unlabelled folders, or --features, or the --run to count in")
        source = Source(
            labelled=str(labelled) if labelled else None,
            unlabelled=str(unlabelled) if unlabelled else None,
            labels=str(labels) if labels else None,
            features=str(features) if features else None,
            ids=str(ids) if ids else None,
            n_novel=1,
            mixed=mixed,
        ).absolute()
        place = Path(cache).absolute() if cache else default_cache()
        start = str(backbone or PRETRAINED)
        return count_source(source, start, backbone_arch, seed, device, place, reporter, alone=True)


def count_source(
    source: Source,
    backbone: str,
    architecture: str | None,
    seed: int,
    device: str,
    cache: Path,
    reporter: Reporter,
    *,
    alone: bool = False,
) -> Count:
    """The estimate for folders or features, by what the network ``backbone`` makes of images. The number of categories
    that the source asks for is of no account. Unless it is made ``alone``, a run reads the same images and says what is
    wrong with some."""
    from newfound.count.features import count_images, pretrained_features
    from newfound.engine.device import pick_device
    from newfound.nets.pretrained import find_backbone

    where = pick_device(device)
    network = None if source.features else find_backbone(backbone, cache, architecture)
    reading_reporter = reporter if alone else reporter.without_warnings()
    reading = source.read(Request(network.size if network else 1, seed, reading_reporter, cache=cache))
    collection = reading.collection
    if alone and reading.skipped:
        reporter.say(left_out(reading.skipped, "row" if source.features else "file"))

    def features_of(images: ImageStore) -> Tensor:
        return pretrained_features(images, network, where, reporter, cache)

    labels = collection.labels[: collection.n_labelled]
    return count_images(collection.train, labels, features_of, mixed=collection.mixed, seed=seed, reporter=reporter)


def left_out(skipped: Sequence[Skipped], kind: str) -> str:
    """How many files (or rows) are not among the images, with the reasons of some."""
    count = f"1 {kind} was" if len(skipped) == 1 else f"{len(skipped):,} {kind}s were"
    first = {skip.reason: skip for skip in reversed(skipped)}  # one of each reason
    some = list(first.values())[-SHOWN:][::-1]
    example = " and ".join(f"{skip.file!r} ({skip.reason})" for skip in some)
    return f"{count} left out{', such as' if len(skipped) > len(some) else ':'} {example}"


def _of_run(folder: Path, seed: int, device: str, reporter: Reporter) -> Count:
    from newfound.count.features import count_images
    from newfound.engine.device import pick_device
    from newfound.engine.features import read_features
    from newfound.methods import get_method
    from newfound.model import load_model
    from newfound.runs.discovery import read_call

    run = Run.open(folder)
    run.read_result()  # stops if the run is not finished
    model = load_model(run.model_folder())
    collection = read_call(run.call, run.settings, reporter).collection
    run.remember(collection)
    if len(collection.tasks) > 1:
        raise UserError(
            f"the run {folder} has {len(collection.tasks)} tasks, each with its own number: count takes one task"
        )
    where = pick_device(device)

    def features_of(images: ImageStore) -> Tensor:
        images = images.to(where)
        return read_features(model, images, where, reporter, title="reading features", of=model.features).cpu()

    labels, taught = collection.labels[: collection.n_labelled], get_method(run.settings.method)(run.settings).taught
    return count_images(
        collection.train, labels, features_of, mixed=collection.mixed, taught=taught, seed=seed, reporter=reporter
    )


@contextlib.contextmanager
def _interrupted() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted; features that were read are kept, so calling again takes less time") from None
