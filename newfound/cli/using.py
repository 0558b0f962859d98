"""Commands that use a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from newfound.cli.app import option, to_the_end
from newfound.cli.options import HOW, IMAGES, OUTPUT, Device, Json, Link, Quiet, RunFolder, app
from newfound.cli.printing import (
    print_comparison,
    print_figures,
    print_folders,
    print_summary,
    print_written,
    write,
    write_data,
    write_json,
)
from newfound.errors import UserError
from newfound.progress import Reporter


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
        write_json(figures)
    else:
        print_figures(figures)


@app.command(example="newfound compare runs/ --out table.csv")
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUNS", help="Run folders, or folders of run folders.")],
    out: Annotated[Path | None, option(OUTPUT, "A CSV file to write, with a line for each run.")] = None,
    as_json: Json = False,
) -> None:
    """Put runs side by side: figures, settings that differ, means over seeds, how far they agree."""
    from newfound.runs.compare import compare as side_by_side

    found = side_by_side(runs)
    if out:
        found.write(out)
    print_comparison(found, as_json)


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
    ids: Annotated[Path | None, option(IMAGES, "Of features: the names of their rows, one a line.")] = None,
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
        if out and ids and out.resolve() == ids.resolve():
            raise UserError(f"--out {out} is the file of --ids: choose another place")
        if to:
            check_target(to, [*paths, *others, run], link)
        elif link:
            raise UserError("--link is for --to: name the folder to make")
        predictor = Predictor(run, device=device, reporter=Reporter(quiet), reject=reject, calibrate=others)
        if to and not predictor.takes_images:
            raise UserError("--to is for images, and this run was made of features: leave it out")
        found = predictor.predict(paths, ids)
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
            write_json([as_mapping(one, classes) for one in found])
        else:
            for text in as_tables(predictor.columns(probabilities), found):
                write_data(text)

    to_the_end(work)


@app.command(example="newfound export run/ --to sorted/ --link symlink")
def export(
    run: RunFolder,
    to: Annotated[
        Path, option(OUTPUT, "The folder to make, with a folder for each category; or, for the model, a FILE.onnx.")
    ],
    link: Link = None,
    min_confidence: Annotated[float, option(OUTPUT, "Images that are less sure go to the folder _doubtful.")] = 0.0,
    pile: Annotated[Path | None, option(IMAGES, "Where the pile is now, if it has moved.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Lay the pile out in folders by category, the originals staying where they are; or write the model as ONNX."""
    from newfound.model.onnx import ENDING
    from newfound.runfolder import Run
    from newfound.runs.found import Discovery

    if to.suffix.lower() == ENDING:
        given = {"--link": link, "--min-confidence": min_confidence, "--pile": pile}
        if unfitting := next((name for name, value in given.items() if value), None):
            raise UserError(f"{unfitting} is for a folder of images, and --to {to} names a model: leave it out")
        written = to_the_end(lambda: Discovery.of(Run.open(run)).export_onnx(to, verbose=not quiet))
        print_written(written, as_json)
        return

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
        write_json({"report": str(page)})
    else:
        write(f"{page}\n")


@app.command(example="newfound pictures run/ --out pictures/")
def pictures(
    run: RunFolder,
    out: Annotated[Path, option(OUTPUT, "The folder that the PNG files are written to.")],
    answers: Annotated[Path | None, option(IMAGES, "A CSV file image,label with the truth.")] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draw the features of a run's snapshots, and its confusion matrices, as PNG files."""
    from newfound.runs.pictures import draw_pictures

    made = to_the_end(lambda: draw_pictures(run, out, answers, Reporter(quiet)))
    if as_json:
        write_json({"pictures": [str(path) for path in made]})
    else:
        write("".join(f"{path}\n" for path in made))
