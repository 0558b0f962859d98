"""One run of a row, as `newfound discover` does it, becomes a record. benchmarks/tables/run.py calls this for each.

Of a row with ``snapshots`` the record has confusion matrices, too, and a table beside it the maps of the features. Of a
row with ``count`` it has how many novel categories are counted in the features that the run learned. A row that is
``unsaid`` has a data set of its own: the mixed pile, and nobody tells the run that it is mixed.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import yaml

sys.path.append(str(Path(__file__).parents[1]))
sys.path.append(str(Path(__file__).parents[1] / "mixed"))
from record import begin, write
from rows import Job, Tables, read_tables
from unsaid import unsaid

from newfound import UserError, count_novel, discover, resume
from newfound.data.sources import DATASETS, DataSet
from newfound.methods.base import require_mixed
from newfound.plan.recipe import default_recipe, resolve_settings
from newfound.progress import Reporter
from newfound.report.pictures import within_unit
from newfound.runfolder import Run
from newfound.runs.figures import compare_mixed
from newfound.runs.pictures import confusions, feature_maps

KEPT = ("images", "figures", "seconds", "unlabelled", "earlier", "neighbours", "test")
"""Of result.json."""


def why_not(tables: Tables, job: Job) -> str | None:
    """Why the row cannot be run: its data set, method, recipe or a setting does not exist, or the method takes no mixed
    pile; None if it can be."""
    name, row = tables.dataset_of(job), job.row
    if name not in DATASETS:
        return f"there is no data set {name}"
    try:
        recipe = row.recipe or default_recipe(row.method, name, DATASETS[name].recipe)
        resolve_settings(row.method, recipe, row.settings)
        if tables.datasets[row.dataset].mixed:
            require_mixed(row.method)
    except UserError as error:
        return str(error)
    return None


def without_mixed(dataset: DataSet) -> DataSet:
    """The data set whose pile is the mixed one of that, for a run that takes all of it for novel images."""
    return replace(dataset, read=lambda request: unsaid(dataset.read(replace(request, mixed=True))), mixed=False)


def old_and_new(run: Run, known: list[str]) -> dict[str, Any]:
    """The shares of right images among those of known and of novel categories in the pile of a run."""
    rows = run.read_table("confusion.csv", ("part", "found", "truth", "images"))
    pairs = [(row["found"], row["truth"], int(row["images"])) for row in rows if row["part"] == "unlabelled"]
    found = [found for found, _, images in pairs for _ in range(images)]
    return compare_mixed(True, found, [truth for _, truth, images in pairs for _ in range(images)], known)


def run(tables: Tables, job: Job, data: Path | None, device: str, out: Path) -> dict[str, Any]:
    """The record of one run, in the folder ``out``, where it may have been begun; no path of the machine is in it."""
    name, row = tables.dataset_of(job), job.row
    if row.unsaid:
        DATASETS[f"{name}-unsaid"] = without_mixed(DATASETS[name])
        name = f"{name}-unsaid"
    if (out / "settings.yaml").exists():
        found = resume(out, verbose=True)
    else:
        found = discover(
            dataset=name,
            data=data if DATASETS[name].get else None,
            out=out,
            method=row.method,
            recipe=row.recipe,
            settings=row.settings,
            snapshots=row.snapshots or None,
            backbone=row.backbone,
            mixed=tables.datasets[row.dataset].mixed and not row.unsaid,
            seed=job.seed,
            device=device,
            verbose=True,
        )
    content = yaml.safe_load((out / "settings.yaml").read_text())
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    drawn = {"confusion": confusions(Run.open(out))} if row.snapshots else {}
    if row.unsaid:
        found.result["unlabelled"] |= old_and_new(Run.open(out), found.result["known"])
    return {
        "row": row.name,
        "method": row.method,
        "data": name,
        **begin(settings=content["settings"], seed=job.seed, device=content["call"]["device"]),
        **{part: found.result.get(part) for part in KEPT},
        "last": {line["stage"]: line for line in lines},
        **drawn,
    }


def maps_of(out: Path) -> str:
    """The t-SNE of each snapshot of a run, as a table: where each image lies, in thousandths, and its category."""
    lines = ["map,x,y,category"]
    for one in feature_maps(Run.open(out), None, Reporter(quiet=True)):
        places = (999 * within_unit(one.positions)).round().astype(int)
        rows = zip(places.tolist(), one.categories, strict=True)
        lines += [f"{one.title},{x},{y},{category}" for (x, y), category in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--run", required=True, help="ROW-SEED")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, required=True, help="Of the run; it goes on if it is there.")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    tables = read_tables(options.rows)
    (job,) = [job for job in tables.jobs if job.name == options.run]
    try:
        record = run(tables, job, options.data, options.device, options.folder)
        write(options.out, record)  # so that nothing of what follows costs the run
        if job.row.snapshots:
            began = monotonic()
            options.out.with_suffix(".csv").write_text(maps_of(options.folder))
            record["seconds"]["maps"] = round(monotonic() - began, 3)
        if job.row.count:
            began = monotonic()
            found = count_novel(run=options.folder, seed=job.seed, device=options.device, verbose=True)
            record["counted"] = found.to_mapping()
            record["seconds"]["count"] = round(monotonic() - began, 3)
        write(options.out, record)
    except UserError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
