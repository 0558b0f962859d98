"""Commands that find categories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from newfound.cli.app import option, to_the_end
from newfound.cli.options import (
    HOW,
    IMAGES,
    INSTEAD,
    OUTPUT,
    WHERE,
    Cache,
    DataFolder,
    Device,
    Json,
    Mixed,
    Quiet,
    RunFolder,
    Seed,
    Threads,
    app,
    number,
)
from newfound.cli.printing import print_count, print_discovery, write_json
from newfound.errors import UserError
from newfound.progress import Reporter


@app.command(example="newfound demo --method uno")
def demo(
    out: Annotated[Path | None, option(OUTPUT, "The run folder; by default a new newfound-demo here.")] = None,
    method: Annotated[str, option(HOW, "A method that `newfound methods` lists.")] = "apl",
    device: Device = "auto",
    seed: Seed = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Discover the odd digits of a data set inside scikit-learn, of which the even ones are known."""
    from newfound.runs.demo import run_demo

    table = to_the_end(lambda: run_demo(out, method=method, device=device, seed=seed, reporter=Reporter(quiet)))
    if as_json:
        write_json(table.to_mapping())
    else:
        table.print()


@app.command(example="newfound discover --labelled known/ --unlabelled pile/ --novel 12 --out run/ --time 20m")
def discover(
    *,
    labelled: Annotated[Path | None, option(IMAGES, "The images you know: one folder a category.")] = None,
    unlabelled: Annotated[Path | None, option(IMAGES, "The images to find categories in: any tree.")] = None,
    novel: Annotated[
        str | None, option(IMAGES, "How many categories to look for, or auto to estimate it.", metavar="N|auto")
    ] = None,
    mixed: Mixed = False,
    labels: Annotated[Path | None, option(IMAGES, "A CSV file image,label instead of one folder a category.")] = None,
    hold_out: Annotated[
        float | None,
        option(IMAGES, "The share of labelled images not trained on, for `predict --reject`; by default a few."),
    ] = None,
    dataset: Annotated[str | None, option(INSTEAD, "A data set that `newfound data list` lists.")] = None,
    data: DataFolder = None,
    task: Annotated[str | None, option(INSTEAD, "One task of the data set, such as an alphabet.")] = None,
    features: Annotated[Path | None, option(INSTEAD, "An .npy file (N, D) of features; needs --labels.")] = None,
    ids: Annotated[Path | None, option(INSTEAD, "The names of the rows of --features: one a line.")] = None,
    method: Annotated[
        str, option(HOW, "A method that `newfound methods` lists, or auto: what suits the images and the device.")
    ] = "auto",
    time: Annotated[str | None, option(HOW, "How long to take, such as 20m: it becomes epochs.")] = None,
    domain: Annotated[
        str | None,
        option(HOW, "What the images are: natural (photographs) or symbolic (characters); by default as they look."),
    ] = None,
    backbone: Annotated[
        str | None, option(HOW, "A pretrained network: efficientnet-lite0, timm:NAME or FILE.safetensors.")
    ] = None,
    backbone_arch: Annotated[
        str | None, option(HOW, "What network is in FILE.safetensors; by default recognised.")
    ] = None,
    recipe: Annotated[str | None, option(HOW, "A recipe's name or a YAML file.")] = None,
    settings: Annotated[
        list[str] | None, option(HOW, "A setting over the recipe, such as stage1.epochs=50; may come again.", "--set")
    ] = None,
    device: Device = "auto",
    threads: Threads = 0,
    seed: Seed = 0,
    cache: Cache = None,
    out: Annotated[Path, option(OUTPUT, "The run folder to make.")],
    snapshots: Annotated[
        str | None,
        option(
            OUTPUT,
            "Epochs at whose end features are kept, such as 1,10,100 or stage2:1: `newfound pictures` draws them.",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find the categories in a pile of images."""
    from newfound.plan.recipe import parse_changes
    from newfound.runs.discovery import discover as find

    changes = parse_changes(settings or [])
    found = to_the_end(
        lambda: find(
            labelled,
            unlabelled,
            n_novel=number(novel),
            mixed=mixed,
            out=out,
            dataset=dataset,
            data=data,
            labels=labels,
            task=task,
            features=features,
            ids=ids,
            hold_out=hold_out,
            method=method,
            recipe=recipe,
            backbone=backbone,
            backbone_arch=backbone_arch,
            domain=domain,
            settings=changes,
            time=time,
            snapshots=snapshots,
            seed=seed,
            device=device,
            threads=threads,
            cache=cache,
            verbose=not quiet,
        )
    )
    print_discovery(found, as_json)


@app.command(example="newfound count --labelled known/ --unlabelled pile/")
def count(
    *,
    labelled: Annotated[Path | None, option(IMAGES, "The images you know: one folder a category.")] = None,
    unlabelled: Annotated[Path | None, option(IMAGES, "The images to find categories in: any tree.")] = None,
    mixed: Mixed = False,
    labels: Annotated[Path | None, option(IMAGES, "A CSV file image,label instead of one folder a category.")] = None,
    features: Annotated[Path | None, option(INSTEAD, "An .npy file (N, D) of features; needs --labels.")] = None,
    ids: Annotated[Path | None, option(INSTEAD, "The names of the rows of --features: one a line.")] = None,
    run: Annotated[Path | None, option(INSTEAD, "A finished run: by the features that it learned.")] = None,
    backbone: Annotated[
        str | None, option(HOW, "A pretrained network: efficientnet-lite0, timm:NAME or FILE.safetensors.")
    ] = None,
    backbone_arch: Annotated[
        str | None, option(HOW, "What network is in FILE.safetensors; by default recognised.")
    ] = None,
    device: Device = "auto",
    seed: Seed = 0,
    cache: Cache = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Estimate how many novel categories a pile has."""
    from newfound.runs.counting import count_novel

    found = to_the_end(
        lambda: count_novel(
            labelled,
            unlabelled,
            mixed=mixed,
            labels=labels,
            features=features,
            ids=ids,
            run=run,
            backbone=backbone,
            backbone_arch=backbone_arch,
            seed=seed,
            device=device,
            cache=cache,
            verbose=not quiet,
        )
    )
    print_count(found, as_json)


@app.command(example="newfound resume run/")
def resume(
    run: RunFolder,
    device: Annotated[
        str | None, option(WHERE, "Another device to go on on: auto, cpu, cuda or cuda:N; by default the run's.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Go on with a run that was interrupted."""
    from newfound.runs.discovery import resume as go_on

    print_discovery(to_the_end(lambda: go_on(run, device=device, verbose=not quiet)), as_json)


@app.command(example="newfound grow run/ --unlabelled later/ --novel 3 --out run2/ --corrected sorted/")
def grow(
    run: RunFolder,
    *,
    unlabelled: Annotated[Path, option(IMAGES, "The later images to find categories in: any tree.")],
    novel: Annotated[
        str, option(IMAGES, "How many further categories to look for, or auto to estimate it.", metavar="N|auto")
    ],
    mixed: Mixed = False,
    corrected: Annotated[
        Path | None,
        option(
            IMAGES,
            "What you say of the run's pile: a folder of categories, as export makes it, or a CSV file image,label, "
            "such as the page saves.",
        ),
    ] = None,
    moved: Annotated[
        list[str] | None,
        option(IMAGES, "OLD=NEW: a folder of the run's images, and where it is now; may come again."),
    ] = None,
    device: Device = "auto",
    threads: Threads = 0,
    seed: Seed = 0,
    cache: Cache = None,
    out: Annotated[Path, option(OUTPUT, "The run folder to make.")],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find further categories in later images; what the run found counts as known."""
    from newfound.runs.grow import grow as find

    found = to_the_end(
        lambda: find(
            run,
            unlabelled,
            n_novel=number(novel),
            out=out,
            mixed=mixed,
            corrected=corrected,
            moved=_moves(moved or []),
            seed=seed,
            device=device,
            threads=threads,
            cache=cache,
            verbose=not quiet,
        )
    )
    print_discovery(found, as_json)


def _moves(given: list[str]) -> dict[str, str]:
    """What --moved OLD=NEW said."""
    moves = {}
    for text in given:
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise UserError(f"--moved {text}: write it as OLD=NEW, two folders")
        moves[old] = new
    return moves
