"""Discovery: what a finished run found, for Python."""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from newfound.config.mapping import brief
from newfound.errors import UserError
from newfound.progress import Reporter
from newfound.report.near import read_near
from newfound.runfolder import Run

if TYPE_CHECKING:
    import pandas as pd

    from newfound.estimator.discoverer import Discoverer
    from newfound.model.onnx import Written

MOST_ROWS = 50
"""Of the table of categories in a notebook."""


@dataclass(frozen=True, repr=False)
class Discovery:
    """What a finished run found: a category and a confidence for every unlabelled image."""

    folder: Path
    images: tuple[str, ...]
    categories: tuple[str, ...]
    confidence: tuple[float, ...]
    result: dict[str, Any]
    """Every figure of the run, as in result.json."""

    @classmethod
    def of(cls, run: Run) -> Discovery:
        """The discovery that a finished run folder holds."""
        result, rows = run.read_result(), run.read_assignments()
        images, categories = tuple(r["image"] for r in rows), tuple(r["category"] for r in rows)
        try:
            confidence = tuple(float(r["confidence"]) for r in rows)
        except ValueError as error:
            raise UserError(f"{run.folder / 'assignments.csv'} cannot be read: {error}") from None
        return cls(run.folder, images, categories, confidence, result)

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"Discovery({str(self.folder)!r}: {len(self):,} images in {len(self.sizes()):,} categories)"

    def _repr_html_(self) -> str:
        """A table of the categories, the largest first, for notebooks."""
        largest = sorted(self.sizes().items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_ROWS]
        near = [", ".join(self.near(name)) for name, _ in largest]
        columns = ["category", "images", *(["near to"] if any(near) else [])]
        cells = [(name, f"{size:,}", known)[: len(columns)] for (name, size), known in zip(largest, near, strict=True)]
        rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in cells)
        more = len(self.sizes()) - len(largest)
        rest = f"<p>and {more:,} smaller categories</p>" if more else ""
        head = f"<tr>{''.join(f'<th>{name}</th>' for name in columns)}</tr>"
        return f"<p>{html.escape(repr(self))}</p><table>{head}{rows}</table>{rest}"

    def sizes(self) -> dict[str, int]:
        """How many images each discovered category has, empty ones included."""
        return {name: 0 for name in self.result["novel"]} | dict(sorted(Counter(self.categories).items()))

    def images_of(self, category: str) -> list[str]:
        """The images of a category, the surest first."""
        if category not in self.sizes():
            raise UserError(f"there is no category {category}; there are: {', '.join(self.sizes())}")
        rows = [
            (-c, i)
            for i, name, c in zip(self.images, self.categories, self.confidence, strict=True)
            if name == category
        ]
        return [image for _, image in sorted(rows)]

    def near(self, category: str) -> list[str]:
        """The known categories that a category is near, nearest first; often none (docs/report.md has the rule)."""
        return read_near(self.result).get(category, [])

    def to_frame(self) -> pd.DataFrame:
        """A pandas DataFrame with the columns image, category, confidence."""
        try:
            import pandas as pd
        except ImportError:
            raise UserError('to_frame needs pandas: pip install "newfound[pandas]"') from None
        return pd.DataFrame({"image": self.images, "category": self.categories, "confidence": self.confidence})

    def export(
        self,
        to: str | Path,
        *,
        link: str | None = None,
        min_confidence: float = 0.0,
        pile: str | Path | None = None,
        verbose: bool | None = None,
    ) -> dict[str, int]:
        """Lay the unlabelled images out in the new folder ``to``, a folder for each category: copies, or links of the
        kind "symlink" or "hard". Gives the number of images in each folder.

        Those of less confidence go to _doubtful. ``pile`` says where the unlabelled images are, if they have moved.
        ``verbose`` is as in ``newfound.discover``.
        """
        from newfound.runs.export import export

        where, reporter = Path(pile) if pile else None, Reporter.of(verbose)
        return export(self, Path(to), link=link, min_confidence=min_confidence, pile=where, reporter=reporter)

    def export_onnx(self, to: str | Path, *, verbose: bool | None = None) -> Written:
        """Write the classifier over old and new categories to the ONNX file ``to``, for programs without newfound.

        Before, its graph is compared with PyTorch on images of the run, where they still are; what is given back says
        how far it was at the most. docs/export.md says what goes in and comes out.
        """
        from newfound.runs.portable import export_onnx

        return export_onnx(self.folder, Path(to), reporter=Reporter.of(verbose))

    def grow(
        self,
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
        """Find ``n_novel`` further categories among later images, beside those known and found here: ``newfound.grow``
        with this run. "auto" estimates how many."""
        from newfound.runs.grow import grow

        return grow(
            self.folder,
            unlabelled,
            n_novel=n_novel,
            out=out,
            mixed=mixed,
            corrected=corrected,
            moved=moved,
            seed=seed,
            device=device,
            threads=threads,
            cache=cache,
            verbose=verbose,
        )

    def evaluate(
        self, answers: str | Path | None = None, *, device: str = "auto", verbose: bool | None = None
    ) -> dict[str, Any]:
        """Compare what was found with the true categories, and give the figures, as ``newfound evaluate`` does.

        ``answers`` is a CSV file image,label; without it, a data set's own answers are taken. Shares of images are from
        0 to 1, and docs/evaluation.md says what they mean. They become part of ``result``, and of the run's
        result.json, confusion.csv and page.
        """
        from newfound.engine.own import own_torch
        from newfound.runs.assess import assess

        table = None if answers is None else _as_path(answers, "answers are a CSV file, named by its path,")
        with own_torch():
            figures = assess(self.folder, table, device=device, reporter=Reporter.of(verbose))
        self.result.update(figures)
        return figures

    def model(self) -> Discoverer:
        """The classifier over old and new categories, as a fitted Discoverer."""
        from newfound.estimator.saved import load

        return load(self.folder)


def open_run(folder: str | Path) -> Discovery:
    """What a finished run found, read from its folder. Nothing is computed or written."""
    return Discovery.of(Run.open(_as_path(folder, "a run is opened by its folder,")))


def _as_path(given: object, what: str) -> Path:
    """The path given; a UserError says ``what`` it should be, where the system can have none of that name."""
    try:
        path = Path(given)  # type: ignore[arg-type]  # what Python's callers give may be anything
        encoded = os.fsencode(path)
    except (TypeError, UnicodeEncodeError):
        raise UserError(f"{what} not by {brief(given)}") from None
    if b"\0" in encoded:
        raise UserError(f"{what} not by {brief(given)}: no path has a NUL in it")
    return path
