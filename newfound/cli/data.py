"""Commands for data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from newfound.cli.app import option, to_the_end
from newfound.cli.options import IMAGES, OUTPUT, Cache, DataFolder, DataName, Json, Quiet, Seed, data_app
from newfound.cli.printing import write, write_json
from newfound.progress import Reporter


@data_app.command("list", example="newfound data list")
def data_list(as_json: Json = False) -> None:
    """List the data sets there are."""
    from newfound.data.sources import DATASETS

    if as_json:
        write_json({name: {"summary": known.summary, "get": known.get} for name, known in DATASETS.items()})
        return
    for name, known in DATASETS.items():
        write(f"{name}: {known.summary}\n")


@data_app.command("get", example="newfound data get cifar10 --to ROOT")
def data_get(
    name: DataName,
    to: Annotated[Path, option(OUTPUT, "The folder to put the data set's files in.")],
    quiet: Quiet = False,
) -> None:
    """Download a data set from its publishers, check it, and unpack it."""
    from newfound.data.download import get_data

    for path in to_the_end(lambda: get_data(name, to, reporter=Reporter(quiet))):
        write(f"{path}\n")


@data_app.command("check", example="newfound data check cifar10 --data ROOT")
def data_check(
    name: DataName,
    data: DataFolder = None,
    size: Annotated[int, option(IMAGES, "Pixels for data sets of no fixed size.", min=8, max=1024)] = 32,
    cache: Cache = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Say what is there of a data set, and whether it is whole."""
    from newfound.data.cache import default_cache
    from newfound.data.check import check_data

    found = check_data(name, data, size=size, reporter=Reporter(quiet), cache=cache or default_cache())
    if as_json:
        write_json(found)
        return
    for part in ("labelled", "unlabelled", "test"):
        write(f"{part}: {found[part]['images']:,} images of {found[part]['classes']:,} classes\n")
    write(f"channel means over the training images: {' '.join(f'{mean:.4f}' for mean in found['means'])}\n")
    write(f"{name} is whole; reading it took {found['seconds']:.2f} s\n")


@data_app.command("sample", example="newfound data sample digits --to digits")
def data_sample(
    name: DataName,
    to: Annotated[Path, option(OUTPUT, "The folder to make, with known/, pile/, new/ and truth.csv.")],
    data: DataFolder = None,
    each: Annotated[int, option(IMAGES, "Images of each category.", min=1, max=10_000)] = 60,
    seed: Seed = 0,
    cache: Cache = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a few images of a data set as folders of PNG files, to try newfound on."""
    from newfound.data.cache import default_cache
    from newfound.runs.sample import write_sample

    place, reporter = cache or default_cache(), Reporter(quiet)
    counts, novel = to_the_end(
        lambda: write_sample(name, data, to, each=each, seed=seed, reporter=reporter, cache=place)
    )
    if as_json:
        write_json({"to": str(to), "images": counts, "novel": novel})
        return
    for part, images in counts.items():
        of = f" of {novel} categories: --novel {novel}" if part == "pile" else ""
        write(f"{to / part}  {images:,} images{of}\n")
