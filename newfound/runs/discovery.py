"""discover and resume: from images to a finished run folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from newfound.config.mapping import brief, real_number, whole_number
from newfound.config.settings import Settings
from newfound.count.auto import choice_of, number_given, to_look_for
from newfound.data.cache import default_cache
from newfound.data.collection import Reading
from newfound.data.holdout import set_aside
from newfound.data.sources import Request, Source
from newfound.errors import Interrupted, UserError
from newfound.files import new_file
from newfound.methods import get_method
from newfound.plan.auto import PRETRAINED, choose
from newfound.plan.budget import Clock, parse_time, plan_epochs
from newfound.plan.call import MOST_THREADS, Call
from newfound.plan.recipe import backbone_changes, check_changes, resolve_settings
from newfound.plan.snapshots import parse_snapshots, wanted_snapshots
from newfound.process import is_forked
from newfound.progress import Reporter
from newfound.runfolder import Run, check_free, claimed
from newfound.runs.cache import make_room, remark
from newfound.runs.counting import count_source
from newfound.runs.figures import evaluate_run
from newfound.runs.found import Discovery
from newfound.runs.known import continued
from newfound.runs.outcome import describe, judge, names_near, write_assignments
from newfound.runs.remember import recall, remember
from newfound.runs.snapshots import complete

START = "start"
"""The folder of a run that has the model which training begins from, of runs that have one."""

P = ParamSpec("P")
T = TypeVar("T")


def with_own_torch(call: Callable[P, T]) -> Callable[P, T]:
    """The same function, after which torch's threads, random numbers and defaults are as the caller had set them."""

    @wraps(call)
    def called(*args: P.args, **options: P.kwargs) -> T:
        with contextlib.ExitStack() as stack:
            with interrupted("interrupted before the run began; call again"):
                from newfound.engine.own import own_torch

                stack.enter_context(own_torch())
            return call(*args, **options)

    return called


@with_own_torch
def discover(
    labelled: str | Path | None = None,
    unlabelled: str | Path | None = None,
    *,
    n_novel: int | str | None = None,
    mixed: bool = False,
    out: str | Path,
    dataset: str | None = None,
    data: str | Path | None = None,
    labels: str | Path | None = None,
    task: str | None = None,
    features: str | Path | None = None,
    ids: str | Path | None = None,
    hold_out: float | None = None,
    method: str = "auto",
    recipe: str | None = None,
    backbone: str | Path | None = None,
    backbone_arch: str | None = None,
    domain: str | None = None,
    settings: Mapping[str, Any] | None = None,
    time: str | float | None = None,
    snapshots: str | Iterable[int | str] | None = None,
    seed: int = 0,
    device: str = "auto",
    threads: int = 0,
    cache: str | Path | None = None,
    verbose: bool | None = None,
) -> Discovery:
    """Find ``n_novel`` categories among unlabelled images, and leave everything in the run folder ``out``.

    ``labelled`` has one folder a category (or any tree, with ``labels``, a CSV file image,label); ``unlabelled`` is any
    tree of images. Instead of both, ``dataset`` names a data set, whose files are in ``data``; ``task`` takes one of
    its tasks, such as an alphabet of OmniGlot. ``settings`` maps dotted names to values, such as {"stage1.epochs": 50},
    and goes over the ``recipe``. ``n_novel`` "auto" estimates the number from features of a pretrained network
    (docs/count.md); a data set says its own number, and can be given another. Decoded images are kept in ``cache``, by
    default the user's cache folder.

    ``backbone`` names a network that others have trained, such as "efficientnet-lite0", or a file of weights
    (of the architecture ``backbone_arch``, by default recognised), or timm:NAME. Or ``features``, an .npy file
    [N, D], stands for the images: ``ids`` names its rows (by default their numbers), and ``labels`` has the categories
    of the known ones.

    What is not given is chosen: the ``method`` and the recipe from the images, their ``domain`` ("natural" or
    "symbolic"), how many there are, and the device; the epochs from their number, or from ``time``, such as "20m" (or a
    number of seconds). What was chosen, and why, is in the result under "auto"; why it may not be trusted, under
    "warnings".

    ``mixed`` says that known categories may hide among the unlabelled images: each is then given a known or a novel
    category. Of a data set, half of the images of known categories are put there (docs/mixed.md).

    A share ``hold_out`` of the labelled images of folders (by default a twentieth, if there are 200) is not trained on:
    by them the model tells how strange an image of a category may be (docs/export.md).

    ``snapshots``, such as [1, 10, 100], are epochs at whose end the features of up to 5,000 unlabelled images are kept:
    epochs of the stage that ``time`` stretches. "stage2:1" is an epoch of another stage.

    ``verbose`` shows progress on standard error; None shows it on a terminal and in a notebook. Warnings are always
    shown.
    """
    began = monotonic()
    budget = None if time is None else parse_time(time)
    reporter = Reporter.of(verbose)
    seed, threads = whole_number(seed, "--seed"), whole_number(threads, "--threads")
    number = None if n_novel is None else number_given(n_novel)
    source = Source(
        dataset=dataset,
        data=str(data) if data else None,
        labelled=str(labelled) if labelled else None,
        unlabelled=str(unlabelled) if unlabelled else None,
        labels=str(labels) if labels else None,
        n_novel=1 if number is None and n_novel is not None else number,  # until it has been estimated
        mixed=mixed,
        task=task,
        features=str(features) if features else None,
        ids=str(ids) if ids else None,
        hold_out=None if hold_out is None else real_number(hold_out, "--hold-out"),
    ).absolute()
    counted = None
    folder = Path(out)
    images = {"--labelled": source.labelled, "--unlabelled": source.unlabelled}
    require_outside(folder, "--out", images)
    if cache:
        require_outside(Path(cache), "--cache", images | {"--out": str(folder)})
    with contextlib.ExitStack() as held:
        with interrupted("interrupted before the run began; call again"):
            import torch

            from newfound.engine.device import pick_device
            from newfound.methods.base import require_mixed

            place = Path(cache).absolute() if cache else default_cache()
            call = Call(source, seed, str(pick_device(device)), threads or torch.get_num_threads(), str(place))
            check_numbers(seed, call.threads)
            check_free(folder)
            given, start = check_changes(settings), str(backbone) if backbone else None
            chosen = choose(
                source, call.device, method=method, recipe=recipe, backbone=start, domain=domain, settings=given
            )
            if source.mixed:
                require_mixed(chosen.method)
            changes = backbone_changes(chosen.method, chosen.backbone, backbone_arch, bool(features), place)
            resolved = resolve_settings(chosen.method, chosen.recipe, changes | chosen.changes | given)
            fitting = get_method(chosen.method)(resolved)
            kept = parse_snapshots(snapshots, resolved)
            if source.mixed:
                fitting.check_mixed()
            fitting.check_weights(changes, features=bool(features), cache=place)
            held.enter_context(claimed(folder))
            if n_novel is not None and number is None:
                counted = count_source(source, start or PRETRAINED, backbone_arch, seed, call.device, place, reporter)
                call = replace(call, source=replace(source, n_novel=to_look_for(counted)))
            reading = read_call(call, resolved, reporter)
            fitting.check(reading.collection.train.shape)
            use_threads(call.threads)
            clock = Clock(budget, monotonic() - began)
            planned = plan_epochs(resolved, reading.collection, call.place, clock, given, chosen.free)
            wanted_snapshots(kept, planned.settings)  # stops where there are fewer epochs
            choices, warnings = (*chosen.choices, *planned.choices), (*chosen.warnings, *planned.warnings)
            if counted is not None:
                choices = (choice_of(counted), *choices)
            for choice in choices:
                reporter.say(str(choice))
            number_found = counted.to_mapping() if counted else None
            run = Run.create(folder, call, planned.settings, choices, warnings, number_found, snapshots=kept)
        with interrupted(f"interrupted; {how_to_go_on(run)}"):
            found = execute(run, reading, reporter, planned.advice)
    make_room(place)
    if large := remark(place):
        reporter.say(large)
    return found


@with_own_torch
def resume(folder: str | Path, *, device: str | None = None, verbose: bool | None = None) -> Discovery:
    """Go on with an interrupted run from its newest checkpoint; a finished one is given back as it is.

    ``device`` moves the run to another one than it began on; ``verbose`` is as in ``discover``.
    """
    reporter = Reporter.of(verbose)
    run = Run.open(Path(folder), to_write=True)
    if run.finished:
        reporter.say(f"the run {folder} is finished already")
        if not (run.folder / "report.html").exists():
            reporter.say(f"its page was not made: newfound report {folder}")
        return Discovery.of(run)
    with interrupted(f"interrupted; {how_to_go_on(run)}"), run.locked():
        if device is not None:
            run = _moved(run, device, reporter)
        if not run.ours:
            reporter.warn(f"the run {folder} was not made by this user here: it reads the images that it names itself")
        return execute(run, read_call(run.call, run.settings, reporter), reporter)


def _moved(run: Run, device: str, reporter: Reporter) -> Run:
    """The same run on that device."""
    from newfound.engine.device import pick_device

    here = str(pick_device(device))
    if here != run.call.device:
        remark = "the result is no longer bit for bit that of an uninterrupted run"
        reporter.say(f"the run {run.folder} began on {run.call.device} and goes on on {here}: {remark}")
    return replace(run, call=replace(run.call, device=here))


@contextlib.contextmanager
def interrupted(sentence: str) -> Iterator[None]:
    """While entered, Ctrl-C and SIGTERM end with that sentence; one that knows better keeps its own."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(sentence) from None


def how_to_go_on(run: Run) -> str:
    return f"go on with `newfound resume {run.folder}`"


def require_outside(folder: Path, option: str, others: Mapping[str, str | None]) -> None:
    """Stop if ``folder`` lies in another's place: among images what is written would be read as images the next time,
    and a run begins in an empty folder."""
    for name, root in others.items():
        if root and Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(root)):
            raise UserError(f"{option} {folder} lies inside {name} {root}: choose a place outside")


def use_threads(threads: int) -> None:
    import torch

    if threads > 1 and is_forked():
        raise UserError(
            f"--threads {threads}: this process was forked, and has one thread to compute with; start it by "
            "multiprocessing.get_context('spawn'), or take one thread"
        )
    torch.set_num_threads(threads)


def check_numbers(seed: int, threads: int) -> None:
    if not 0 <= seed < 2**31:
        raise UserError(f"--seed {brief(seed)}: it has to be from 0 to {2**31 - 1:,}")
    if not 1 <= threads <= MOST_THREADS:
        raise UserError(f"--threads {brief(threads)}: it has to be from 0 to {MOST_THREADS:,}")


def read_call(call: Call, settings: Settings, reporter: Reporter) -> Reading:
    """The images a run was called with; of folders and features, some of the labelled ones become test images."""
    reading = call.source.read(Request(settings.data.size, call.seed, reporter, cache=Path(call.cache)))
    if call.source.known:
        recall(call, get_method(settings.method)(settings), reading.collection.train.shape, reporter)
    return reading if call.source.dataset else set_aside(reading, call.source.hold_out, call.seed)


def execute(run: Run, reading: Reading, reporter: Reporter, advice: str = "") -> Discovery:
    """Train, and write everything into the run, whose lock is held; ``advice`` is what to do where training turns out
    to take long."""

    from newfound.data.vectors import VectorStore
    from newfound.engine.checkpoint import Checkpoints
    from newfound.engine.device import pick_device
    from newfound.engine.loop import Engine
    from newfound.engine.metrics import Metrics
    from newfound.engine.snapshots import SNAPSHOTS, make_snapshots
    from newfound.methods.base import run_method
    from newfound.model import load_model
    from newfound.report.sheet import contact_sheet

    began = monotonic()
    for warning in run.warnings:
        reporter.warn(warning)
    run.remember(reading.collection)
    run.write_table("skipped.csv", ["file", "reason"], ([s.file, s.reason] for s in reading.skipped))
    if reading.skipped:
        count = "1 file was" if len(reading.skipped) == 1 else f"{len(reading.skipped):,} files were"
        reporter.say(f"{count} left out: {run.folder / 'skipped.csv'} says why")
    if reading.collection.test is not None and not run.call.source.dataset:
        reporter.say(f"{len(reading.collection.test)} labelled images are not trained on, for `predict --reject`")
    use_threads(run.call.threads)
    metrics = Metrics(run.folder / "metrics.jsonl")
    names, wanted = reading.names.unlabelled, wanted_snapshots(run.snapshots, run.settings)
    folder, seed = run.folder / SNAPSHOTS, run.call.seed
    kept = make_snapshots(folder, wanted, reading.collection, names, seed) if wanted else None
    engine = Engine(
        reading.collection,
        pick_device(run.call.device),
        seed=seed,
        reporter=reporter,
        checkpoints=Checkpoints(run.folder / "checkpoint", reporter),
        metrics=metrics,
        snapshots=kept,
        log_every=run.settings.log_every,
        checkpoint_every=run.settings.checkpoint_every,
        cache=Path(run.call.cache),
        advice=advice,
    )
    try:
        start = load_model(run.folder / START) if (run.folder / START).exists() else None
        outcome = run_method(run.settings, reading.collection, engine, start)
    except Interrupted as error:
        raise Interrupted(f"{error}; {how_to_go_on(run)}") from None
    finally:
        metrics.close()
    if run.call.source.next_name:
        outcome.model.novel = continued(run.call.source.next_name, len(outcome.model.novel))
    outcome.model.save(run.folder / "model")
    remember(run, reading, outcome, get_method(run.settings.method)(run.settings))
    outcome, trust = judge(run, reading, outcome, reporter)
    write_assignments(run, reading, outcome)
    result = describe(run, reading, outcome, engine) | trust
    result["near"] = names_near(reading.collection, outcome)
    result |= evaluate_run(outcome, reading, engine)
    if "confusion" in result:
        run.write_confusion(result.pop("confusion"))
    if kept:
        complete(run, kept, reading, reporter)
    result["seconds"]["since_start"] = round(engine.earlier + monotonic() - began, 3)
    if not isinstance(reading.collection.train, VectorStore):
        sheet = contact_sheet(reading.collection, outcome.assignments, outcome.confidence)
        with new_file(run.folder / "categories.png") as file:
            sheet.save(file, format="PNG")
    run.write_json("result.json", result)
    with interrupted(f"interrupted; the run is finished, and `newfound report {run.folder}` makes its page"):
        _report(run, reading, outcome, engine)
    return Discovery.of(run)


def _report(run: Run, reading: Reading, outcome: Any, engine: Any) -> None:
    """Keep what the page shows of the images, and write the page."""
    from newfound.report.keep import keep
    from newfound.report.page import write_page

    model, features = outcome.model, outcome.features
    if features is None:
        features = engine.features(model, engine.train_images, title="reading features", of=model.features)
    collection, names = reading.collection, reading.names.unlabelled
    kept = keep(run, collection, names, features, outcome.assignments, outcome.confidence, engine.reporter)
    write_page(run, kept)
