"""Make the runs whose pages the site shows: build/gallery/NAME.html.

python tools/gallery.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

GALLERY = Path(__file__).parents[1] / "build" / "gallery"
SAMPLE = "newfound discover --labelled digits/known --unlabelled digits/pile"

PAGES = {
    "demo": (
        "The demonstration",
        "newfound demo",
        "Five digits are known and five are found, by APL. The answers are known too, so the page has the accuracy and "
        "a matrix of what was taken for what.",
    ),
    "folder": (
        "A small folder",
        f"{SAMPLE} --novel 5 --out run",
        "300 images, by a pretrained network. Nobody told the run the answers: the page has a calibrated confidence, "
        "and doubtful images to look at first.",
    ),
    "warned": (
        "A warning",
        f"{SAMPLE} --novel 3 --out run",
        "The same folder, where three categories are looked for and there are five. A warning stands at the top, and "
        "the categories have more than one digit.",
    ),
}
"""Of each page its title, the command that makes it, and what is to be seen."""


def contents() -> str:
    """The page of the gallery, as Markdown."""
    entries = (
        f"## {title}\n\n{text}\n\n```sh\n{command}\n```\n\n[Open the page]({name}.html){{target=_blank}}\n"
        for name, (title, command, text) in PAGES.items()
    )
    return (
        "# Gallery\n\nPages of runs, as newfound writes them. Each is one file that loads nothing. The images are "
        "scikit-learn's handwritten digits.\n\n" + "\n".join(entries)
    )


def main() -> None:
    shutil.rmtree(GALLERY, ignore_errors=True)
    GALLERY.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        call("newfound data sample digits --to digits", place)
        for name, (_, command, _) in PAGES.items():
            call(f"{command.removesuffix('--out run')} --out {name}", place)
            shutil.copy(Path(place) / name / "report.html", GALLERY / f"{name}.html")


def call(command: str, place: str) -> None:
    program, *words = command.split()
    subprocess.run([sys.executable, "-m", program, *words, "--quiet"], check=True, cwd=place, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
