"""How large the page of a run is, and how long it takes to open and to page through: writes record.json.

    python benchmarks/page/run.py --data ROOT [--images 1000 10000 50000]     needs chromium and chromedriver

The images are CIFAR-10's, enlarged to 64 x 64 pixels to play the part of photographs; the first one comes twice.
Categories, features and the map are drawn at random: they change nothing of what is measured. A headless Chromium opens
the page from the disk.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

sys.path.append(str(Path(__file__).parents[1]))
from record import begin, write

from newfound.data.cifar import read_cifar10
from newfound.data.collection import Collection, Pool, assemble
from newfound.data.sources import Source
from newfound.data.store import ImageStore
from newfound.files import write_json
from newfound.plan.call import Call
from newfound.plan.recipe import resolve_settings
from newfound.progress import Reporter
from newfound.report.keep import keep
from newfound.report.page import BESIDE, write_page
from newfound.runfolder import Run

RECORD = Path(__file__).parent / "record.json"
SIDE, NOVEL, DIMENSION = 64, 10, 64
TURNS = 20
TURN = """
const [done, start] = [arguments[arguments.length - 1], performance.now()];
document.querySelector("#album [title='Next page']").click();
requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
"""
OPENED = "const [entry] = performance.getEntriesByType('navigation'); return entry.loadEventEnd - entry.startTime"


def photographs(images: ImageStore, n: int) -> Collection:
    """A collection with one labelled image, and ``n`` unlabelled ones."""
    pixels = images.images[torch.arange(n + 1) % len(images)].float()
    parts = [torch.nn.functional.interpolate(some, size=SIDE, mode="bicubic") for some in pixels.split(1000)]
    enlarged = torch.cat([part.clamp(0, 255).byte() for part in parts])
    rows = np.arange(n + 1)
    names = [f"photographs/{i:06d}.png" for i in rows]
    pool = Pool(ImageStore(enlarged.numpy()), names, ["known", *[None] * n])
    return assemble(pool, labelled=rows[:1], unlabelled=rows[1:], n_novel=NOVEL, seed=0).collection


def make_page(folder: Path, collection: Collection, n: int) -> tuple[Path, float]:
    """The page of a made-up run, and the seconds that its making took."""
    rng = np.random.default_rng(0)
    source = Source(labelled="known", unlabelled="photographs", n_novel=NOVEL)
    call = Call(source, 0, "cpu", 1, "nowhere")
    run = Run.create(folder, call, resolve_settings("kmeans", "kmeans-digits", {}))
    assignments, confidence = 1 + rng.integers(0, NOVEL, n), rng.uniform(0.3, 1, n)
    names = [f"photographs/{i:06d}.png" for i in range(n)]
    novel = [f"novel-{i:02d}" for i in range(1, NOVEL + 1)]
    rows = zip(names, [novel[a - 1] for a in assignments], map("{:.6f}".format, confidence), strict=True)
    run.write_table("assignments.csv", ["image", "category", "confidence"], list(rows))
    counts = {"labelled": 1, "unlabelled": n}
    write_json(folder / "result.json", {"known": ["known"], "novel": novel, "images": counts})
    features = torch.from_numpy(rng.normal(size=(n + 1, DIMENSION))).float()
    began = time.monotonic()
    with patch("newfound.report.keep.draw_map", lambda features, *_: rng.normal(size=(len(features), 2))):
        kept = keep(run, collection, names, features, assignments, confidence, Reporter(quiet=True))
    return write_page(run, kept), time.monotonic() - began


def look(page: Path) -> dict[str, float]:
    """Milliseconds until the page is open, and until a page of the album is turned and drawn (median)."""
    from selenium import webdriver

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        raise SystemExit("chromium or chromedriver is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(word)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
    try:
        opened = []
        for _ in range(3):
            browser.get(page.as_uri())
            opened.append(float(browser.execute_script(OPENED)))
        browser.execute_script("document.querySelector('#cards').scrollIntoView()")
        time.sleep(2)
        browser.execute_script("document.querySelector('.chip.all').click()")
        turns = [float(browser.execute_async_script(TURN)) for _ in range(TURNS)]
    finally:
        browser.quit()
    return {"open_ms": round(statistics.median(opened)), "turn_ms": round(statistics.median(turns))}


def measure(images: ImageStore, n: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        page, seconds = make_page(Path(folder) / "run", photographs(images, n), n)
        beside = [path.stat().st_size for path in (page.parent / BESIDE).glob("*.jpg")]
        sizes = {"page_bytes": page.stat().st_size, "beside_bytes": sum(beside), "beside_files": len(beside)}
        return {"images": n, **sizes, "make_s": round(seconds, 1), **look(page)}


def table(record: dict[str, Any]) -> str:
    """The rows of docs/report.md."""
    lines = [
        "| images | report.html | report-pictures/ | written in | opens in | a page is turned in |",
        "|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        beside = f"{row['beside_bytes'] / 1e6:.1f} MB in {row['beside_files']} files" if row["beside_files"] else "–"
        lines.append(
            f"| {row['images']:,} | {row['page_bytes'] / 1e6:.1f} MB | {beside} | {row['make_s']:.1f} s | "
            f"{row['open_ms'] / 1e3:.2f} s | {row['turn_ms']} ms |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--images", type=int, nargs="+", default=[1000, 10_000, 50_000])
    options = parser.parse_args()
    record = begin(settings={}, seed=0)
    images = read_cifar10(options.data, 0).collection.train
    record["rows"] = []
    for n in options.images:
        record["rows"].append(measure(images, n))
        print(record["rows"][-1])
    write(RECORD, record)


if __name__ == "__main__":
    main()
