"""Comparing a finished run with the true categories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from newfound.data.answers import read_answers
from newfound.engine.device import pick_device
from newfound.engine.loop import Engine
from newfound.errors import UserError
from newfound.evaluate.confusion import count_pairs
from newfound.evaluate.protocol import evaluate_unlabelled
from newfound.methods.base import Outcome
from newfound.model import load_model
from newfound.progress import Reporter
from newfound.report.keep import read_kept
from newfound.report.page import write_page
from newfound.runfolder import Run
from newfound.runs.discovery import read_call
from newfound.runs.figures import compare_mixed, evaluate_run


def assess(folder: Path, answers: Path | None, *, device: str, reporter: Reporter) -> dict[str, Any]:
    """The figures of a finished run against ``answers`` (CSV: image,label), or against its data set's own answers.

    They become part of the run's result.json, confusion.csv and page.
    """
    run = Run.open(folder, to_write=True)
    with run.locked():
        figures = _assess(run, answers, device, reporter)
    reporter.say(f"the figures are now in {run.folder}: result.json, confusion.csv and the page")
    return figures


def _assess(run: Run, answers: Path | None, device: str, reporter: Reporter) -> dict[str, Any]:
    result = run.read_result()
    if answers and "tasks" in result.get("unlabelled", {}):
        raise UserError(f"the run {run.folder} has several tasks, which are judged one by one: leave --answers out")
    figures = _against_file(run, answers, reporter) if answers else _against_data_set(run, device, reporter)
    confusion = figures.pop("confusion")
    with run.together() as changed:
        changed.write_json("result.json", result | figures)
        changed.write_confusion(confusion)
        if (run.folder / "report.html").exists():
            write_page(changed, read_kept(changed))
    return figures


def _against_file(run: Run, answers: Path, reporter: Reporter) -> dict[str, Any]:
    rows = run.read_assignments()
    truth = read_answers(answers, tuple(row["image"] for row in rows), reporter)
    found = [row["category"] for row in rows]
    known, mixed = run.read_result()["known"], run.call.source.mixed
    if mixed:
        _tell_unseen(known, truth, answers, reporter)

    def compare(found: list[str]) -> dict[str, Any]:
        return evaluate_unlabelled(found, truth) | compare_mixed(mixed, found, truth, known)

    figures: dict[str, Any] = {"unlabelled": compare(found)}
    if all(row.get("plain") for row in rows):
        figures["earlier"] = {"plain": compare([row["plain"] for row in rows])}
    return figures | {"confusion": {"unlabelled": count_pairs(found, truth)}}


def _tell_unseen(known: Sequence[str], truth: Sequence[str | None], answers: Path, reporter: Reporter) -> None:
    """Old images are those whose true category is a known one, by its name: say so where names may be others."""
    unseen = [name for name in known if name not in truth]
    some = ", ".join(map(repr, unseen[:3])) + (" and others" if len(unseen) > 3 else "")
    table = repr(str(answers))
    if unseen and len(unseen) == len(known):
        reporter.warn(
            f"{table} has none of the known categories ({some}), so every image counts as novel: write known "
            "categories in it as they are called in the run"
        )
    elif unseen:
        reporter.say(
            f"{table} has no image of the known categories {some}: if it calls them otherwise, their images count as "
            "novel"
        )


def _against_data_set(run: Run, device: str, reporter: Reporter) -> dict[str, Any]:
    if run.call.source.dataset is None:
        raise UserError(f"nobody told the run {run.folder} the truth: give it with --answers truth.csv (image,label)")
    reading = read_call(run.call, run.settings, reporter)
    model = load_model(run.folder / "model")
    assignments, confidence = map(np.array, run.read_assigned(reading.names.unlabelled, model.classes))
    engine = Engine(reading.collection, pick_device(device), seed=run.call.seed, reporter=reporter)
    return evaluate_run(Outcome(model, assignments, confidence), reading, engine)
