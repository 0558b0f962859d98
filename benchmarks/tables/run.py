"""The queue of the tables: runs the rows of rows.yaml that have no record yet, the most important first.

    python benchmarks/tables/run.py --data ROOT --minutes 9                 as many rows as fit, a record each
    python benchmarks/tables/run.py --data ROOT --minutes 9 --keep FOLDER   rows that take longer too, in several calls
    python benchmarks/tables/run.py --data ROOT --list                      what is done, what is next, what cannot run
    python benchmarks/tables/page.py                                        docs/results.md from the records

ROOT has the data sets' files (`newfound data get`); rows of a data set that is not there are left out, and so are rows
whose method does not exist yet. A run is what `newfound discover` does, in a process of its own, so that one that
fails stops no other. They train one after the other: two at a time on one H200 showed no gain (docs/log/results.md). On
a GPU the next one begins while the page of the one before is still drawn, on one core.

No run begins that is not expected to end in time, one that does not end in time is cut off without a record, and what
has no record is run the next time. With --keep a run begins whether or not it can end in time: what was cut off stays
in FOLDER, and the next call with that FOLDER resumes it before anything else. The real split is run with settings that
were chosen elsewhere (docs/method.md says where), and what came out is what is shown.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

sys.path.append(str(Path(__file__).parents[1]))
from record import commit_of_newfound, write
from rows import Job, Records, Tables, estimate, matches, minutes_of, read_records, read_tables

HERE = Path(__file__).parent
ONE = HERE / "one.py"
ENDING = 20.0
"""Seconds before the end in which what still runs is cut off."""
LOOK = 0.2
"""Seconds between two looks at the runs under way."""
EARLIER = "seconds"
"""The file of a kept run that has the seconds which it took in earlier calls."""


@dataclass
class Running:
    """A run in a process of its own."""

    job: Job
    process: subprocess.Popen[bytes]
    folder: Path
    log: TextIO
    began: float


class Queue:
    """The jobs that have no record yet, and how to run them."""

    def __init__(self, tables: Tables, records: Records, options: argparse.Namespace) -> None:
        self.tables, self.records, self.options = tables, records, options
        self.began, self.hardware = time.monotonic(), _hardware(options.device)
        self.waiting: list[Job] = []
        for job in tables.jobs:
            if self.wanted(job) and not self.state(job):
                self.waiting.append(job)
        self.waiting.sort(key=lambda job: not self.kept(job))  # stable: those that were begun come first

    def wanted(self, job: Job) -> bool:
        return not self.options.only or matches(job, self.options.only)

    def state(self, job: Job) -> str:
        """Why the job is not run: it is done, its data set is not at ROOT, or its method does not exist; "" if it is
        to be run."""
        from one import why_not

        if job.name in self.records:
            return "done"
        folders = self.tables.datasets[job.row.dataset].folders
        if absent := [name for name in folders if not self.options.data or not (self.options.data / name).is_dir()]:
            return f"no data: {absent[0]} is not at ROOT"
        why = why_not(self.tables, job)
        return f"missing: {why}" if why else ""

    def minutes(self, job: Job) -> float:
        return estimate(job.row, self.tables, self.records, self.hardware)

    def left(self) -> float:
        """Seconds in which runs may still be under way."""
        return 60 * self.options.minutes - ENDING - (time.monotonic() - self.began)

    def kept(self, job: Job) -> bool:
        """Whether an earlier call began the job and was cut off."""
        return bool(self.options.keep) and (self.options.keep / job.name).is_dir()

    def next(self) -> Job | None:
        """The first job that is expected to end in time, or, where unfinished runs are kept, the first; it no longer
        waits."""
        for job in self.waiting:
            if self.left() > (0 if self.options.keep else 60 * self.minutes(job)):
                self.waiting.remove(job)
                return job
        return None

    def run(self) -> int:
        """Run what fits; the number of runs that failed or were cut off."""
        failed = 0
        under_way: list[Running] = []
        with tempfile.TemporaryDirectory() as folder:
            try:
                while True:
                    failed += self.finish_ended(under_way)
                    if not any(map(self.needs_all, under_way)) and (job := self.next()):
                        under_way.append(self.start(job, (self.options.keep or Path(folder)) / job.name))
                    elif not under_way or self.left() <= 0:
                        break
                    time.sleep(LOOK)
                while under_way:
                    failed += not self.cut_off(under_way.pop())
            finally:  # of what interrupts the queue
                for one in under_way:
                    self.stop(one)
        for job in self.waiting:
            tell(job, f"left for the next time: takes about {self.minutes(job):.1f} min")
        return failed

    def needs_all(self, one: Running) -> bool:
        """Whether no other run may begin yet. On a GPU one may as soon as the result is there: what follows takes one
        core, for the page; but for rows of which features are read once more, for a count or for maps."""
        after = one.job.row.count or one.job.row.snapshots
        result = one.folder / "run" / "result.json"
        return bool(self.hardware.startswith("cpu") or after or not result.exists())

    def finish_ended(self, under_way: list[Running]) -> int:
        """Take those that have ended from the list and write their records; the number of those that failed."""
        ended = [one for one in under_way if one.process.poll() is not None]
        for one in ended:
            under_way.remove(one)
            end(one)
        return sum(not self.finish(one) for one in ended)

    def start(self, job: Job, folder: Path) -> Running:
        folder.mkdir(parents=True, exist_ok=True)
        log = (folder / "log").open("a")
        words = ["--rows", self.options.rows, "--run", job.name, "--folder", folder / "run"]
        words += ["--out", folder / "record.json"]
        words += ["--device", self.options.device, *(["--data", self.options.data] if self.options.data else [])]
        command = [sys.executable, ONE, *words]
        process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT)
        return Running(job, process, folder, log, time.monotonic())

    def finish(self, one: Running) -> bool:
        """Write the record of a run that has ended, or say how it failed."""
        log = (one.folder / "log").read_text(errors="replace").strip().splitlines() or ["no output"]
        try:
            record: dict[str, Any] = json.loads((one.folder / "record.json").read_text())
        except FileNotFoundError:
            tell(one.job, f"FAILED with status {one.process.returncode} after {self.took(one):.1f} min: {log[-1]}")
            print("\n".join(f"    {line}" for line in log[-20:]), file=sys.stderr, flush=True)
            return False
        record["seconds"]["process"] = round(60 * self.took(one), 3)
        self.records[one.job.name] = record
        write(self.options.records / f"{one.job.name}.json", record)
        if (beside := one.folder / "record.csv").exists():
            shutil.copy(beside, self.options.records / f"{one.job.name}.csv")
        shutil.rmtree(one.folder)
        tell(one.job, summary(record))
        if status := one.process.returncode:
            tell(one.job, f"recorded, but what follows the run FAILED with status {status}: {log[-1]}")
        return not status

    def cut_off(self, one: Running) -> bool:
        """End a run that would not end in time; whether the next call can go on with it. What it has found by then is
        recorded where the next call cannot."""
        ended = one.process.poll() == 0
        self.stop(one)
        if (ended or not self.options.keep) and (one.folder / "record.json").exists():
            return self.finish(one)
        kept = "the next call goes on with it" if self.options.keep else "give rows.yaml a better guess"
        tell(one.job, f"cut off after {self.took(one):.1f} min: {kept}")
        return bool(self.options.keep)

    def stop(self, one: Running) -> None:
        """End a run that is under way, and note how long it took so far."""
        end(one)
        took = self.took(one)
        (one.folder / EARLIER).write_text(str(60 * took))
        one.began = time.monotonic()

    def took(self, one: Running) -> float:
        """Minutes of the run so far, those of earlier calls included."""
        earlier = one.folder / EARLIER
        before = float(earlier.read_text()) if earlier.exists() else 0.0
        return (before + time.monotonic() - one.began) / 60


def end(one: Running) -> None:
    """End a run that is still under way."""
    if one.process.poll() is None:
        one.process.terminate()
        try:
            one.process.wait(0.8 * ENDING)
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()
    one.log.close()


def tell(job: Job, text: str) -> None:
    print(f"{job.name}: {text}", flush=True)


def summary(record: dict[str, Any]) -> str:
    """A record in a line."""
    figures = [f"unlabelled {record['unlabelled']['accuracy']:.1%}"]
    figures += [f"{name} {found['accuracy']:.1%}" for name, found in (record["earlier"] or {}).items()]
    if record["test"]:
        strict = record["test"]["strict"]
        figures += ["test " + " / ".join(f"{strict[part]:.1%}" for part in ("old", "new", "all"))]
    return f"{', '.join(figures)}; {minutes_of(record):.1f} min on {record['hardware']}"


def _hardware(device: str) -> str:
    from newfound.engine.device import describe_device, pick_device

    return describe_device(pick_device(device))


def main() -> int:
    """The exit status: 1 if a run failed or was cut off."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="ROOT, the folder with the data sets' files.")
    parser.add_argument("--minutes", type=float, default=1e6, help="When to be over, at the latest.")
    parser.add_argument("--only", action="append", default=[], help="Rows by name, such as 'cifar10-*'; repeatable.")
    parser.add_argument("--records", type=Path, help="The folder for new records; those beside rows.yaml count too.")
    parser.add_argument("--keep", type=Path, help="The folder for runs that are cut off, to go on with them later.")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--rows", type=Path, default=HERE / "rows.yaml", help="Another list of rows.")
    options = parser.parse_args()
    options.records = options.records or options.rows.parent
    tables = read_tables(options.rows)
    queue = Queue(tables, read_records(options.rows.parent, options.records), options)
    if options.list:
        for job in filter(queue.wanted, tables.jobs):
            tell(job, queue.state(job) or f"to run, about {queue.minutes(job):.1f} min")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended too
    commit_of_newfound()  # stops where it is unknown, before hours of work
    return 1 if queue.run() else 0


if __name__ == "__main__":
    raise SystemExit(main())
