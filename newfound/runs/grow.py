"""grow: discover again on top of what a run knows and has found."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from newfound.config.choice import Choice
from newfound.config.mapping import cut, whole_number
from newfound.count.auto import choice_of, number_given, to_look_for
from newfound.count.result import Count
from newfound.data.cache import default_cache
from newfound.data.sources import Source
from newfound.errors import UserError
from newfound.methods import get_method
from newfound.methods.base import Method, require_mixed, settings_for_mixed
from newfound.model import Model, load_model
from newfound.plan.auto import PRETRAINED
from newfound.plan.call import Call
from newfound.progress import Reporter
from newfound.runfolder import Run, check_free, claimed
from newfound.runs.cache import make_room
from newfound.runs.counting import count_source
from newfound.runs.discovery import (
    START,
    check_numbers,
    execute,
    how_to_go_on,
    interrupted,
    read_call,
    require_outside,
    use_threads,
    with_own_torch,
)
from newfound.runs.found import Discovery
from newfound.runs.known import KNOWN, Gathered, gather, next_name
from newfound.runs.remember import GONE, hand_on

CALIBRATE = "`predict --reject` with the new run needs --calibrate"


@with_own_torch
def grow(
    run: str | Path,
    unlabelled: str | Path,
    *,
    n_novel: int | str,
    out: str | Path,
    mixed: bool = False,
    corrected: str | Path | None = None,
    moved: Mapping[str, str] | None = None,
    seed: int = 0,
    device: str = "auto",
    threads: int = 0,
    cache: str | Path | None = None,
    verbose: bool | None = None,
) -> Discovery:
    """Find ``n_novel`` further categories among later images, beside those that a finished ``run`` knows and found.

    What the run found counts as labelled now, beside its labelled images; ``unlabelled`` is any tree of later images,
    and ``out`` the new run folder. The method and its settings are those of the run. Categories keep their names, and
    new ones continue the numbering. An ``n_novel`` of "auto" is estimated (docs/count.md).

    ``mixed`` says that categories which the run knows or found may be among the later images, too: each of these is
    then given one of them or a new one (docs/mixed.md).

    ``corrected`` is what you say of the run's pile, and goes before what it found: a folder made by ``export`` whose
    images you moved and whose folders you renamed, or a CSV file image,label. Images in ``_doubtful``, and those with
    an empty label, are left out.

    ``moved`` maps folders of the run's images to where they are now. A run with a pretrained network that stays as it
    is keeps the features of its images and can be grown without these; other methods need them.

    ``seed``, ``device``, ``threads``, ``cache`` and ``verbose`` are as in ``discover``.
    """
    reporter, later, folder = Reporter.of(verbose), Path(unlabelled), Path(out)
    seed, threads = whole_number(seed, "--seed"), whole_number(threads, "--threads")
    number = number_given(n_novel)
    if number is not None and number < 1:
        raise UserError(f"--novel {number}: there has to be at least one category to look for")
    old = Run.open(Path(run))
    _require_folders(old)
    if not old.ours:
        reporter.warn(f"the run {run} was not made by this user here: grow reads the images that it names itself")
    images = {
        "--unlabelled": str(later),
        "--corrected": str(corrected) if corrected else None,
        "the labelled images": old.call.source.labelled,
        "the pile": old.call.source.unlabelled,
        "the run": str(run),
    }
    require_outside(folder, "--out", images)
    place = Path(cache).absolute() if cache else default_cache()
    if cache:
        require_outside(place, "--cache", images | {"--out": str(folder)})
    with contextlib.ExitStack() as held:
        with interrupted("interrupted before the run began; call again"):
            import torch

            from newfound.engine.device import pick_device

            threads = threads or torch.get_num_threads()
            check_numbers(seed, threads)
            check_free(folder)
            method, model = get_method(old.settings.method)(old.settings), load_model(old.model_folder())
            _require_fitting(old, method, model)
            if mixed:
                require_mixed(old.settings.method)
            settings = settings_for_mixed(old.settings) if mixed else old.settings
            method.check_weights({}, features=False, cache=place)
            gathered = gather(old, model, Path(corrected) if corrected else None, dict(moved or {}))
            source = Source(
                unlabelled=str(later),
                n_novel=number or 1,  # until it has been estimated
                hold_out=0.0 if gathered.rows else old.call.source.hold_out,
                grown_from=str(run),
                known=str(folder / KNOWN),
                next_name=next_name(old, gathered.known.labels),
                mixed=mixed,
            ).absolute()
            call = Call(source, seed, str(pick_device(device)), threads, str(place))
            held.enter_context(claimed(folder))
            with _withdrawn(folder):
                gathered.known.save(folder / KNOWN)
                if gathered.remembered and gathered.rows:
                    hand_on(gathered.remembered, gathered.rows, folder)
                reading = read_call(call, settings, reporter)
                method.check(reading.collection.train.shape)
                use_threads(threads)
                counted, choices = None, _choices(gathered, old)
                if settings != old.settings:
                    why = "in a mixed pile it takes the place of spectral clustering"
                    choices += (Choice("clustering", "kmeans", why),)
                if number is None:  # features of images that are gone have just been put where the estimate looks
                    counted = _count(method, call, reporter)
                    call = replace(call, source=replace(source, n_novel=to_look_for(counted)))
                    reading = read_call(call, settings, reporter.without_warnings())
                    choices = (choice_of(counted), *choices)
                for choice in choices:
                    reporter.say(str(choice))
                if method.goes_on:
                    model.save(folder / START)
                how = counted.to_mapping() if counted else None
                new = Run.create(folder, call, settings, choices, _warnings(gathered, old), how, begun=True)
        with interrupted(f"interrupted; {how_to_go_on(new)}"):
            found = execute(new, reading, reporter)
    make_room(place)
    return found


def _count(method: Method, call: Call, reporter: Reporter) -> Count:
    """The estimate for the later pile, by the run's own network if it is a pretrained one that stays as it is, of which
    features are kept; by the default one otherwise."""
    chosen: Any = method.settings
    if method.kept_as():
        backbone, architecture = chosen.weights or chosen.network, chosen.network if chosen.weights else None
    else:
        backbone, architecture = PRETRAINED, None
    return count_source(call.source, backbone, architecture, call.seed, call.device, Path(call.cache), reporter)


def _require_folders(run: Run) -> None:
    """Stop unless the run is finished and was made of folders."""
    run.read_result()
    source = run.call.source
    if source.dataset:
        raise UserError(
            f"the run {run.folder} was made of the data set {source.dataset}, whose pile is all there is: grow goes on "
            "from runs of folders of images"
        )
    if source.features:
        raise UserError(
            f"the run {run.folder} was made of features, and grow goes on from runs of folders of images: put the "
            "features of all images into one file, with what was found among --labels, and call `newfound discover`"
        )


def _require_fitting(run: Run, method: Method, model: Model) -> None:
    """Stop unless a run's settings are those that its model was made with."""
    said = f"the settings of the run {run.folder}"
    remedy = "one of them was changed; grow the run as it was, or start a new one"
    if model.method != run.settings.method:
        raise UserError(f"{said} are of {run.settings.method}, and its model was made by {model.method}: {remedy}")
    encoder = model.encoder
    found = {"network": encoder.network, "data.size": encoder.size, "dimension": encoder.dimension}
    for name, value in method.encoder_settings().items():
        if value != found[name]:
            wanted = f"{name}={cut(str(value))}"
            raise UserError(f"{said} have {wanted}, and its model was made with {name}={found[name]}: {remedy}")


@contextlib.contextmanager
def _withdrawn(folder: Path) -> Iterator[None]:
    """If what follows fails, what was written for a run that has not begun is removed."""
    try:
        yield
    except BaseException:
        for name in (KNOWN, GONE, f"{START}/model.json", f"{START}/model.safetensors"):
            (folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (folder / START).rmdir()
        raise


def _choices(gathered: Gathered, old: Run) -> tuple[Choice, ...]:
    """Where the labelled images come from, for the page."""
    why = f"{gathered.labelled:,} that {old.folder} had labelled, {gathered.found:,} of its pile"
    why += f"; {gathered.left_out:,} of the pile are left out" if gathered.left_out else ""
    return (Choice("labelled images", f"{gathered.labelled + gathered.found:,}", why),)


def _warnings(gathered: Gathered, old: Run) -> tuple[str, ...]:
    if not gathered.rows:
        return ()
    n = len(gathered.rows)
    gone = f"{n:,} of the {gathered.labelled + gathered.found:,} images of {old.folder} are gone"
    return (f"{gone}: the features that it kept stand for them. No labelled image is held out: {CALIBRATE}",)
