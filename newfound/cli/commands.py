"""The commands. Results go to standard output, progress to standard error; heavy imports happen inside commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from newfound._version import __version__
from newfound.cli.app import App, option, to_the_end
from newfound.cli.printing import (
    print_cache,
    print_discovery,
    print_figures,
    print_folders,
    print_methods,
    print_summary,
    write,
)
from newfound.errors import UserError
from newfound.progress import Reporter

app = App(
    name="newfound",
    help="Find the categories nobody labelled.",
    add_completion=False,
    pretty_exceptions_enable=False,
)

data_app = App(help="List, download or check data sets.")
app.add_typer(data_app, name="data")

IMAGES, INSTEAD, HOW, WHERE, OUTPUT = "Images", "Instead of folders", "Method", "Running", "Output"
"""The groups of options."""

Device = Annotated[str, option(WHERE, "The device: auto, cpu, cuda or cuda:N.")]
Seed = Annotated[int, option(WHERE, "The seed that everything random follows from.", min=0, max=2**31 - 1)]
Cache = Annotated[
    Path | None, option(WHERE, "The folder that decoded images are kept in; by default the user's cache folder.")
]
Quiet = Annotated[bool, option(OUTPUT, "Show no progress and no remarks.", "--quiet", "-q")]
Json = Annotated[bool, option(OUTPUT, "Print the result as JSON.", "--json")]
Link = Annotated[str | None, option(OUTPUT, "Make links of the kind symlink or hard instead of copies.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
DataName = Annotated[str, typer.Argument(metavar="NAME", help="A data set that `newfound data list` lists.")]
DataFolder = Annotated[Path | None, option(INSTEAD, "The folder that the data set's files are in.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"newfound {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


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
        print(json.dumps(table.to_mapping()))
    else:
        table.print()


@app.command(example="newfound discover --labelled known/ --unlabelled pile/ --novel 12 --out run/ --time 20m")
def discover(
    *,
    labelled: Annotated[Path | None, option(IMAGES, "The images you know: one folder a category.")] = None,
    unlabelled: Annotated[Path | None, option(IMAGES, "The images to find categories in: any tree.")] = None,
    novel: Annotated[int | None, option(IMAGES, "How many categories to look for.")] = None,
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
    threads: Annotated[int, option(WHERE, "CPU threads; 0 takes what there are.", min=0, max=1024)] = 0,
    seed: Seed = 0,
    cache: Cache = None,
    out: Annotated[Path, option(OUTPUT, "The run folder to make.")],
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
            n_novel=novel,
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
            seed=seed,
            device=device,
            threads=threads,
            cache=cache,
            verbose=not quiet,
        )
    )
    print_discovery(found, as_json)


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


@app.command(example="newfound evaluate run/ --answers truth.csv")
def evaluate(
    run: RunFolder,
    answers: Annotated[Path | None, option(IMAGES, "A CSV file image,label with the truth.")] = None,
    device: Device = "auto",
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare a finished run with the true categories; the figures are written into the run too."""
    from newfound.runs.assess import assess

    figures = assess(run, answers, device=device, reporter=Reporter(quiet))
    if as_json:
        print(json.dumps(figures))
    else:
        print_figures(figures)


@app.command(example="newfound predict run/ new-images/ --to sorted/ --reject 0.05")
def predict(
    run: RunFolder,
    images: Annotated[list[Path], typer.Argument(help="Images, folders of images, or - for a list on standard input.")],
    reject: Annotated[
        float | None,
        option(HOW, "Flag images that fit no category; the share of fitting ones that may be flagged: 0.05."),
    ] = None,
    calibrate: Annotated[
        list[Path] | None,
        option(HOW, "For --reject: images of the run's categories that it was not trained on."),
    ] = None,
    device: Device = "auto",
    out: Annotated[Path | None, option(OUTPUT, "A CSV file to write, instead of standard output.")] = None,
    probabilities: Annotated[bool, option(OUTPUT, "A column for every category.", "--probabilities")] = False,
    to: Annotated[
        Path | None, option(OUTPUT, "A folder to make: copies of the images, in a folder for each category.")
    ] = None,
    link: Link = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Name the category, old or new, of images the run has never seen."""
    from newfound.runs.export import check_target, export_predictions
    from newfound.runs.predict import Predictor, as_mapping, as_tables, read_paths, write_table

    def work() -> None:
        paths, others = read_paths(images), read_paths(calibrate or ())
        if out and out.resolve().is_relative_to(run.resolve()):
            raise UserError(f"--out {out} lies in the run, whose files are its own: choose another place")
        if to:
            check_target(to, [*paths, *others, run], link)
        elif link:
            raise UserError("--link is for --to: name the folder to make")
        predictor = Predictor(run, device=device, reporter=Reporter(quiet), reject=reject, calibrate=others)
        if to and not predictor.takes_images:
            raise UserError("--to is for images, and this run was made of features: leave it out")
        found = predictor.predict(paths)
        if to:
            made = list(found)
            folders = export_predictions(made, [*paths, *others, run], to, link=link, reporter=Reporter(quiet))
            if not out:
                print_folders(to, folders, as_json)
                return
            found = iter(made)
        if out:
            summary = write_table(out, [*paths, *others], found, predictor.columns(probabilities))
            print_summary(summary, as_json)
        elif as_json:
            classes = predictor.model.classes if probabilities else None
            print(json.dumps([as_mapping(one, classes) for one in found]))
        else:
            for text in as_tables(predictor.columns(probabilities), found):
                write(text)

    to_the_end(work)


@app.command(example="newfound export run/ --to sorted/ --link symlink")
def export(
    run: RunFolder,
    to: Annotated[Path, option(OUTPUT, "The folder to make, with a folder for each category.")],
    link: Link = None,
    min_confidence: Annotated[float, option(OUTPUT, "Images that are less sure go to the folder _doubtful.")] = 0.0,
    pile: Annotated[Path | None, option(IMAGES, "Where the pile is now, if it has moved.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Lay the pile out in folders by category; the originals stay where they are."""
    from newfound.runfolder import Run
    from newfound.runs.found import Discovery

    def work() -> dict[str, int]:
        found = Discovery.of(Run.open(run))
        return found.export(to, link=link, min_confidence=min_confidence, pile=pile, verbose=not quiet)

    print_folders(to, to_the_end(work), as_json)


@app.command(example="newfound report run/")
def report(run: RunFolder, device: Device = "auto", quiet: Quiet = False, as_json: Json = False) -> None:
    """Make the page of a finished run again: RUN/report.html."""
    from newfound.runs.again import report as make

    page = to_the_end(lambda: make(run, device=device, reporter=Reporter(quiet)))
    if as_json:
        print(json.dumps({"report": str(page)}))
    else:
        write(f"{page}\n")


@app.command(example="newfound methods uno")
def methods(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One method, in full.")] = None,
    as_json: Json = False,
) -> None:
    """List the methods there are: whose they are, what they need, their accuracy on record, their recipes."""
    from newfound.methods import method_names, recorded, said, summary
    from newfound.plan.recipe import load_recipe, recipe_names

    recipes: dict[str, list[str]] = {known: [] for known in ([name] if name else method_names())}
    found = {one: {"summary": summary(one), **said(one), "recorded": recorded(one)} for one in recipes}
    for recipe in recipe_names():
        recipes.get(load_recipe(recipe)["method"], []).append(recipe)
    found = {one: {**about, "recipes": recipes[one]} for one, about in found.items()}
    if as_json:
        print(json.dumps(found))
    else:
        print_methods(found, in_full=name is not None)


@app.command(example="newfound doctor --json")
def doctor(cache: Cache = None, as_json: Json = False) -> None:
    """Say what is installed, which device and cache are used, and what would be chosen: for bug reports."""
    from newfound.data.cache import default_cache
    from newfound.runs.doctor import describe, examine

    found = examine(cache or default_cache())
    write(f"{json.dumps(found)}\n" if as_json else describe(found))


@app.command(example="newfound cache --clear --days 30")
def cache(
    clear: Annotated[bool, option("Clearing", "Remove what is kept; other files stay.", "--clear")] = False,
    days: Annotated[float | None, option("Clearing", "Remove only what is older, in days.", min=0)] = None,
    cache: Cache = None,
    as_json: Json = False,
) -> None:
    """Say what the cache folder holds, or clear it. No run may be going on meanwhile."""
    from newfound.data.cache import default_cache
    from newfound.runs.cache import clear_cache, list_cache

    if days is not None and not clear:
        raise UserError("--days says what to clear: give --clear too")
    place = cache or default_cache()
    print_cache(place, clear_cache(place, days or 0) if clear else list_cache(place), clear, as_json)


@data_app.command("list", example="newfound data list")
def data_list(as_json: Json = False) -> None:
    """List the data sets there are."""
    from newfound.data.sources import DATASETS

    if as_json:
        print(json.dumps({name: {"summary": known.summary, "get": known.get} for name, known in DATASETS.items()}))
        return
    for name, known in DATASETS.items():
        print(f"{name}: {known.summary}")


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
        print(json.dumps(found))
        return
    for part in ("labelled", "unlabelled", "test"):
        print(f"{part}: {found[part]['images']:,} images of {found[part]['classes']:,} classes")
    print(f"channel means over the training images: {' '.join(f'{mean:.4f}' for mean in found['means'])}")
    print(f"{name} is whole; reading it took {found['seconds']:.2f} s")


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
    counts = to_the_end(lambda: write_sample(name, data, to, each=each, seed=seed, reporter=reporter, cache=place))
    if as_json:
        print(json.dumps({"to": str(to), "images": counts}))
        return
    for part, images in counts.items():
        write(f"{to / part}  {images:,} images\n")
